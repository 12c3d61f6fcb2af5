import pytest
import torch

from xlvin.agents.base import Batch
from xlvin.agents.mazes import LEARNED, MAZE_AGENTS, PAPER, GridAgent, make_maze_agent
from xlvin.agents.networks import XLVINAgent
from xlvin.envs.maze_world import observe, scenes
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor
from xlvin.mdp.mazes import generate

MAZES = generate(5, 8, 0)
PLACE = MAZES.starts(2)[:4]
IMAGES = observe(scenes(MAZES), PLACE)
SMALL = {"hidden": 8, "latent": 6, "depth": 2}


@pytest.mark.parametrize("name", MAZE_AGENTS)
def test_every_agent_answers_images(name: str) -> None:
    fields = SMALL if name in LEARNED else {}
    agent, again = (make_maze_agent(name, (8, 8), 3, **fields) for _ in range(2))
    output = agent(IMAGES)
    assert output.logits.shape == (4, 8)
    assert output.value.shape == (4,)
    assert torch.equal(again(IMAGES).logits, output.logits)
    batch = Batch(
        IMAGES, torch.zeros(4, dtype=torch.int64), torch.zeros(4), IMAGES, torch.tensor([1, 2, 3, 0])
    )
    losses = agent.auxiliary_losses(output, batch)
    assert set(losses) == ({"transe"} if name.startswith("xlvin") else set())


def test_grid_agents_hand_over_map_and_position() -> None:
    agent = make_maze_agent("vin", (8, 8))
    assert isinstance(agent, GridAgent)
    expected = agent.planner(MAZES.maps()[PLACE // 64], PLACE % 64)
    assert torch.equal(agent(IMAGES).logits, expected.logits)
    assert torch.equal(agent(IMAGES).value, expected.value)


def test_the_paper_version_is_the_one_of_the_appendix() -> None:
    agent = make_maze_agent("xlvin", (8, 8), version="paper", depth=1)
    assert isinstance(agent, XLVINAgent)
    assert (PAPER["depth"], agent.config.latent, agent.config.hidden) == (4, 10, 128)
    assert isinstance(agent.planner.norm, torch.nn.LayerNorm)
    shipped = load_executor("random-deterministic").processor.state_dict()
    for name, weight in agent.planner.processor.state_dict().items():
        assert torch.equal(weight, shipped[name])
        assert not agent.planner.processor.get_parameter(name).requires_grad


def test_layer_normalisation_follows_every_step_on_full_and_sparse_trees() -> None:
    agent = make_maze_agent("xlvin", (8, 8), **SMALL)
    assert isinstance(agent, XLVINAgent)
    torch.nn.init.normal_(agent.planner.norm.weight)
    embedding = agent.embed(IMAGES)
    executed = agent.planner(embedding)
    torch.testing.assert_close(executed, agent.planner.tree(embedding).levels[0].executed[:, 0])
    wide = make_maze_agent("xlvin-sparse", (8, 8), beam=64, **SMALL)
    assert isinstance(wide, XLVINAgent)
    wide.load_state_dict(agent.state_dict())
    torch.testing.assert_close(wide.planner(embedding), executed)
    # Without the affine part every executed embedding has mean 0 and variance 1.
    plain = make_maze_agent("xlvin", (8, 8), **SMALL)
    assert isinstance(plain, XLVINAgent)
    found = plain.planner(embedding)
    torch.testing.assert_close(found.mean(1), torch.zeros(4), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(found.var(1, correction=0), torch.ones(4), atol=1e-3, rtol=0.0)


def test_unknown_agents_are_named() -> None:
    with pytest.raises(XLVINError, match='Did you mean "vin"'):
        make_maze_agent("vinn", (8, 8))
