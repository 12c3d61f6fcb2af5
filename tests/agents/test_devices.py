"""Networks stay on the device they are on: torch's "meta" device refuses whatever comes from another."""

import pytest
import torch

from xlvin.agents.base import Batch
from xlvin.agents.mazes import MAZE_AGENTS, make_maze_agent
from xlvin.agents.registry import AGENTS, make_agent
from xlvin.experiments.planning_arms import ABLATIONS, ARMS, Sizes

ELSEWHERE = torch.device("meta")


def transitions(observation: tuple[int, ...], actions: int, count: int = 6) -> Batch:
    states = (torch.zeros(count, *observation, device=ELSEWHERE) for _ in range(2))
    action, negative = (torch.zeros(count, dtype=torch.int64, device=ELSEWHERE) for _ in range(2))
    here, there = states
    return Batch(here, action % actions, torch.zeros(count, device=ELSEWHERE), there, negative)


TREES = [(name, {"beam": 4}) for name, fields in AGENTS.items() if fields["kind"] == "xlvin"]


@pytest.mark.parametrize(("name", "fields"), [*((name, {}) for name in AGENTS), *TREES])
def test_agents_act_and_learn_where_they_are(name: str, fields: dict[str, int]) -> None:
    agent = make_agent(name, observation=(5,), actions=3, depth=2, **fields).to(ELSEWHERE)
    batch = transitions((5,), 3)
    if name == "ppo-gaussian":
        batch = batch._replace(action=torch.zeros(6, 3, device=ELSEWHERE))
    output = agent(batch.observation)
    losses = agent.auxiliary_losses(output, batch).values()
    sum((loss.mean() for loss in losses), output.value.mean() + output.logits.mean()).backward()
    assert output.logits.device == output.value.device == ELSEWHERE


@pytest.mark.parametrize("name", MAZE_AGENTS)
def test_agents_of_mazes_do_so_too(name: str) -> None:
    learned = {"depth": 2} if name.startswith("xlvin") else {}
    agent = make_maze_agent(name, (8, 8), **learned).to(ELSEWHERE)
    batch = transitions((3, 8, 8), 8)
    output = agent(batch.observation)
    losses = agent.auxiliary_losses(output, batch).values()
    sum((loss.mean() for loss in losses), output.value.mean() + output.logits.mean()).backward()
    assert output.logits.device == ELSEWHERE


# Two ablations pretrain an executor first; their network is that of "aligned-pretrained".
QUICK = [name for name in ARMS | ABLATIONS if not name.startswith("executor-of-")]


@pytest.mark.parametrize("name", QUICK)
def test_arms_of_the_planning_bed_do_so_too(name: str) -> None:
    sizes = Sizes(observation=5, actions=3, discount=0.9, depth=2, latent=4, hidden=6, sharpness=5.0)
    learner = (ARMS | ABLATIONS)[name].build(sizes).to(ELSEWHERE)
    logits = learner.logits(learner.encoder(torch.zeros(6, 5, device=ELSEWHERE)))
    logits.mean().backward()
    assert logits.device == ELSEWHERE
