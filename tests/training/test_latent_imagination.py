"""Imagination in XLVIN's own latent model: what it learns, what stays as it is, and that runs resume."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import AgentConfig
from xlvin.agents.networks import ModelBasedAgent
from xlvin.agents.registry import named
from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.latent.latent_world import Stretches
from xlvin.training.config import Budget, ImaginationConfig, PPOConfig, TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.imagination.imagination import Imagination
from xlvin.training.imagination.latent_learner import LatentLearner
from xlvin.training.imagination.latent_worlds import AGENT_NORM, LatentWorlds, move, remaining, stretches
from xlvin.training.imagination.worlds import Worlds
from xlvin.training.presets import preset
from xlvin.training.replay import Seen
from xlvin.training.run import run
from xlvin.training.trainer import Trainer

from ..environments import CORRIDOR
from ..resuming import assert_goes_on_as

SMALL = ImaginationConfig(
    iterations=2,
    last_iterations=3,
    branches=10,
    horizon=6,
    hidden=16,
    first_model_steps=30,
    model_steps=20,
    model="latent",
)


def configure(agent: str = "xlvin-r", imagination: ImaginationConfig = SMALL, **fields: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=16, latent=8, inputs="symlog")
    ppo = PPOConfig(epochs=2, minibatches=2)
    config = TrainConfig(CORRIDOR, agent, network, Budget(total=9, per_round=3), ppo, evaluation_episodes=2)
    return replace(config, imagination=imagination, **fields)


def imagination_of(trainer: Trainer) -> tuple[Imagination, LatentWorlds]:
    assert trainer.imagination is not None
    assert isinstance(trainer.imagination.worlds, LatentWorlds)
    return trainer.imagination, trainer.imagination.worlds


def trained(config: TrainConfig, rounds: int | None = None) -> Trainer:
    trainer = Trainer(config)
    for _ in range(config.budget.rounds if rounds is None else rounds):
        trainer.train_round()
    return trainer


def test_stretches_never_leave_their_episode() -> None:
    first = torch.tensor([True, False, False, True, False, True])
    number = torch.arange(6)
    states = number.float().unsqueeze(1)
    seen = Seen(states, number, number.float(), states + 0.5, torch.zeros(6), first)
    rest = remaining(seen)
    assert rest.tolist() == [3, 2, 1, 2, 1, 1]
    found = stretches(seen, rest, torch.tensor([1, 5]))
    assert found.weight.tolist() == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert found.observation.flatten().tolist() == [1.0, 5.0]
    assert found.action[0, :2].tolist() == [1, 2]
    assert found.next_observation[0, :2, 0].tolist() == [1.5, 2.5]


@pytest.fixture(scope="module")
def fitted() -> tuple[Imagination, LatentWorlds]:
    """A model of the corridor, from 60 random episodes."""
    config = replace(SMALL, hidden=32, first_model_steps=600)
    trainer = Trainer(configure(imagination=config, budget=Budget(total=60, per_round=60)))
    imagination, worlds = imagination_of(trainer)
    imagination.replay.add(trainer._collect()[0])
    worlds.fit(imagination.replay, 0)
    return imagination, worlds


def test_the_model_learns_where_a_corridor_leads(fitted: tuple[Imagination, LatentWorlds]) -> None:
    """Two imagined steps end nearest to the state that two real ones lead to."""
    _, worlds = fitted
    places = torch.tensor([1.0, 2.0, 3.0])
    start = torch.stack((places, torch.zeros(3)), 1).unsqueeze(0)
    right, left = torch.full((1, 3), 2), torch.zeros(1, 3, dtype=torch.int64)
    here = worlds.place(start)
    unit = torch.cdist(here, here)[0, 0, 1]
    for action in (right, left):
        here = worlds.agents.call(move, here, action)
    there = torch.stack((places, torch.full((3,), 2.0)), 1).unsqueeze(0)
    off = torch.cdist(here, worlds.place(there))[0]
    assert (off.diagonal()[:2] < 0.5 * unit).all()  # from 3 the first step ends the episode
    assert off.argmin(1)[:2].tolist() == [0, 1]


def test_the_model_learns_what_a_corridor_pays_and_ends(fitted: tuple[Imagination, LatentWorlds]) -> None:
    _, worlds = fitted
    places, action = torch.tensor([1.0, 2.0, 3.0, 3.0, 1.0]), torch.tensor([[1, 2, 0, 2, 0]])
    state = worlds.place(torch.stack((places, torch.ones(5)), 1).unsqueeze(0))
    imagined = worlds.imagine(state, action, torch.full((1, 5, 2), 0.5))
    assert imagined.terminated[0].tolist() == [False, False, False, True, True]
    assert imagined.reward[0, 3].item() == pytest.approx(1.0, abs=0.3)
    assert imagined.reward[0, 0].item() == pytest.approx(-0.1, abs=0.1)


def test_landmarks_are_near_and_elsewhere_is_far(fitted: tuple[Imagination, LatentWorlds]) -> None:
    imagination, worlds = fitted
    landmarks, unit = worlds.landmarks(imagination.replay, 0, 0)
    seen = worlds.place(imagination.replay.seeds[0].observation[:50].unsqueeze(0))
    action = torch.zeros(1, 50, dtype=torch.int64)
    assert worlds.distance(seen, action, seen, landmarks, unit).mean() < 3.0
    assert (worlds.distance(seen, action, seen + 100.0, landmarks, unit) > 10.0).all()


def test_a_strange_stretch_does_not_throw_the_encoder_off(fitted: tuple[Imagination, LatentWorlds]) -> None:
    imagination, worlds = fitted
    seen = imagination.replay.seeds[0]
    found = stretches(seen, remaining(seen), torch.arange(8))
    strange = found._replace(next_observation=1e4 * found.next_observation)
    of_agents, _, _ = worlds._gradient(Stretches(*(part.unsqueeze(0) for part in strange)))
    assert of_agents.norm().item() == pytest.approx(AGENT_NORM, rel=1e-3)


def test_imagined_steps_leave_the_model_as_it_is_and_fitting_leaves_the_policy() -> None:
    trainer = Trainer(configure())
    imagination, worlds = imagination_of(trainer)
    imagination.replay.add(trainer._collect()[0])
    agent = trainer.agent
    assert isinstance(agent, ModelBasedAgent)
    ids = {id(weight) for part in (agent.encoder, agent.transition) for weight in part.parameters()}
    model = {name for name, weight in agent.named_parameters() if id(weight) in ids}

    def changed(before: dict[str, torch.Tensor]) -> set[str]:
        after = trainer.stack.trainable
        return {name for name, weight in before.items() if not torch.equal(weight, after[name])}

    def copy() -> dict[str, torch.Tensor]:
        return {name: weight.detach().clone() for name, weight in trainer.stack.trainable.items()}

    before = copy()
    worlds.fit(imagination.replay, 0)
    assert changed(before) == model
    before = copy()
    steps, ended, strayed = imagination._imagine(0, 0, last=True)
    experience, targets = imagination._experience(
        steps, ended, strayed, imagination.units(), imagination.units().worst
    )
    imagination._improve(experience, targets, 0, 0, 0)
    assert changed(before)
    assert not changed(before) & model


def test_branches_start_at_embeddings_of_seen_states() -> None:
    imagination, worlds = imagination_of(trained(configure(seeds=2), 1))
    steps, _, _ = imagination._imagine(1, 0, last=False)
    for index, seen in enumerate(imagination.replay.seeds):
        both = torch.stack([seen.observation] * 2)
        known = worlds.place(both)[index]
        nearest = torch.cdist(steps.observation[index, :, 0], known).amin(1)
        assert (nearest < 1e-3).all()


def test_an_agent_learns_inside_its_own_model() -> None:
    """From 12 random episodes, none of which the policy has learned from."""
    imagination = replace(
        SMALL, last_iterations=25, hidden=32, horizon=10, branches=40, first_model_steps=400, real=False
    )
    imagination = replace(imagination, learning_rate=3e-3)
    trainer = trained(configure(imagination=imagination, budget=Budget(total=12, per_round=12)))
    scores = evaluate(trainer.members(), CORRIDOR, (0,), 20).mean(1)
    assert scores[0] > 0.7  # the right end is at most three steps away


def test_a_seed_does_not_notice_its_companions() -> None:
    """Up to rounding, which drawn actions would magnify: so the model, and the first imagined steps."""
    found = []
    for config in (configure(first_seed=1), configure(seeds=2)):
        trainer = Trainer(config)
        imagination, worlds = imagination_of(trainer)
        imagination.replay.add(trainer._collect()[0])
        worlds.fit(imagination.replay, 0)
        found.append((trainer.stack.member(-1), worlds.heads.member(-1), imagination._imagine(0, 0, True)[0]))
    (agent, heads, steps), (other_agent, other_heads, other_steps) = found
    for ours, theirs in ((agent, other_agent), (heads, other_heads)):
        for name, weight in ours.items():
            assert torch.allclose(weight, theirs[name], atol=1e-4), name
    assert torch.equal(steps.action[0, :, 0], other_steps.action[1, :, 0])
    assert torch.allclose(steps.successor[0, :, 0], other_steps.successor[1, :, 0], atol=1e-3)


@pytest.mark.parametrize("agent", ["xlvin-latent-imagine", "xlvin-aligned-imagine"])
def test_a_resumed_run_ends_with_the_same_bits(agent: str) -> None:
    model = preset(CORRIDOR, agent).imagination.model
    brief = replace(SMALL, model=model, iterations=1, last_iterations=1)
    config = configure(agent, brief, seeds=2, budget=Budget(total=4, per_round=2))
    assert_goes_on_as(trained(config), trained(config, 1))


def test_a_run_stops_and_goes_on_from_its_folder(tmp_path: Path) -> None:
    config = configure("xlvin-latent-imagine")
    first, second = run(config, tmp_path), run(config, tmp_path)
    assert np.array_equal(first.scores, second.scores)


def test_the_command_line_knows_the_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = [
        "--trajectories",
        "2",
        "--ppo.epochs",
        "1",
        "--evaluation-episodes",
        "2",
        "--network.latent",
        "6",
    ]
    folder = ["--folder", str(tmp_path)]
    assert main(["train", CORRIDOR, "--agent", "xlvin-latent-imagine", *small, *folder]) == 0
    assert "xlvin-latent-imagine on" in capsys.readouterr().out
    refused = ["train", CORRIDOR, "--agent", "ppo-imagine", *small, "--imagination.model", "latent"]
    assert main([*refused, "--folder", str(tmp_path / "other")]) == 2
    assert "choose xlvin-latent-imagine" in capsys.readouterr().err


@pytest.mark.parametrize("agent", ["ppo", "xlvin-stochastic"])
def test_who_has_no_such_model_is_told(agent: str) -> None:
    with pytest.raises(XLVINError, match="choose xlvin-latent-imagine"):
        Trainer(configure(agent))


def test_the_model_of_observations_is_the_default() -> None:
    assert ImaginationConfig().model == "observation"
    for agent in ("xlvin-imagine", "xlvin-aligned-imagine"):
        trainer = Trainer(configure(agent, replace(SMALL, model=preset(CORRIDOR, agent).imagination.model)))
        assert trainer.imagination is not None
        assert isinstance(trainer.imagination.worlds, Worlds)
        assert trainer.imagination.learner is trainer.learner  # the same optimiser as for real data
        assert not isinstance(trainer.learner, LatentLearner)
    with pytest.raises(XLVINError, match="observation"):
        ImaginationConfig(model="dream")  # type: ignore[arg-type]


def test_the_latent_agent_spends_the_same_data_in_more_rounds() -> None:
    ours, theirs = preset("CartPole-v0", "xlvin-latent-imagine"), preset("CartPole-v0", "xlvin-imagine")
    assert ours.imagination == replace(
        theirs.imagination,
        model="latent",
        branches=4 * theirs.imagination.branches,
        horizon=theirs.imagination.horizon // 4,
    )
    assert ours.budget.total == theirs.budget.total
    assert ours.budget.rounds == 5
    assert preset("Acrobot-v1", "xlvin-latent-imagine").budget == preset("Acrobot-v1", "xlvin-imagine").budget


@pytest.mark.parametrize("seeds", [1, 2])
def test_steps_in_the_latent_model_are_recorded(seeds: int) -> None:
    """Otherwise they take several times as long."""
    imagination, worlds = imagination_of(trained(configure(seeds=seeds), 2))
    assert imagination._recorded_step.recording is not None
    assert worlds._recorded_gradient.recording is not None
    assert imagination.learner._recorded_gradient.recording is not None
