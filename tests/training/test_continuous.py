"""Training with continuous actions: binned and Gaussian, from the loop to the command line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import xlvin
from xlvin.cli import main
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.latent.world import WorldModel
from xlvin.training.config import Budget, ImaginationConfig
from xlvin.training.episode import play
from xlvin.training.imagination.imagination import FIND, LONG, RETURN_SIZE
from xlvin.training.presets import preset
from xlvin.training.replay import Seen
from xlvin.training.run import run
from xlvin.training.trainer import Trainer

from ..environments import AIM, AIM_2D

SMALL_MODEL = ImaginationConfig(last_iterations=1, branches=10, hidden=8)
SMALL = ["--ppo.epochs", "1", "--evaluation-episodes", "2", "--network.hidden", "8", "--network.latent", "6"]


@pytest.mark.parametrize("agent", ["ppo-gaussian", "ppo"])
def test_it_learns_to_aim(agent: str) -> None:
    result = xlvin.train(
        AIM,
        agent,
        transitions=4096,
        seeds=2,
        per_round=32,
        environments=16,
        epochs=6,
        learning_rate=3e-3,
        reward_scale=1.0,
        entropy_coef=0.0,
        discount=0.0,
    )
    assert (result.scores > -0.05).all()  # the middle scores -0.33, the nearest bin -0.003


def test_the_trainer_finds_bins_and_bounds() -> None:
    trainer = Trainer(replace(preset(AIM_2D, "ppo"), budget=Budget(total=2, per_round=2)))
    network = trainer.config.network
    assert (network.actions, network.bins) == (25, (5, 5))
    assert (network.low, network.high) == ((-2.0, 0.0), (6.0, 1.0))
    config = preset(AIM_2D, "ppo")
    trainer = Trainer(replace(config, network=replace(config.network, bins=(3, 2))))
    assert trainer.config.network.actions == 6


@pytest.mark.parametrize("agent", ["ppo-gaussian", "xlvin-r"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, agent: str) -> None:
    config = preset("Pendulum-v1", agent)
    config = replace(
        config,
        budget=Budget("transitions", 3 * 2 * 8, 8, environments=2),
        ppo=replace(config.ppo, epochs=1),
        network=replace(config.network, hidden=8, latent=6),
        evaluation_episodes=1,
        seeds=2,
    )
    whole, parts = Trainer(config), Trainer(config)
    for _ in range(3):
        whole.train_round()
    parts.train_round()
    resumed = Trainer(config)
    resumed.restore(parts.state())
    for _ in range(2):
        resumed.train_round()
    expected, found = whole.state(), resumed.state()
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert found["actors.action"].dtype == (torch.float32 if agent == "ppo-gaussian" else torch.int64)
    broken = {**parts.state(), "actors.action": parts.state()["actors.action"][:0]}
    with pytest.raises(XLVINError, match="make no sense"):
        Trainer(config).restore(broken)
    assert run(config, tmp_path / "run").returns.shape == (2, 1)


def call(*arguments: str) -> int:
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize("agent", ["xlvin-imagine", "ppo-gaussian"])
def test_pendulum_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str
) -> None:
    folder = str(tmp_path / "run")
    command = ["train", "Pendulum-v1", "--agent", agent, "--trajectories", "1", "--folder", folder, "--json"]
    assert call(*command, *SMALL) == 0
    trained = json.loads(capsys.readouterr().out)
    assert call("evaluate", folder, "--episodes", "2", "--json") == 0
    beside = {"trained_on": "Pendulum-v1", "round": 1, "rounds": 1}
    assert json.loads(capsys.readouterr().out) == trained | beside
    loaded = xlvin.load(folder)
    action, _ = loaded.predict(np.zeros(3, np.float32))
    assert action.shape == (1,)
    assert call("video", folder, "--steps", "2", "--json") == 0
    assert call("show", folder, "--steps", "2") == (2 if agent == "ppo-gaussian" else 0)
    assert ("xlvin video" in capsys.readouterr().err) == (agent == "ppo-gaussian")


def test_bins_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    start = ["train", AIM_2D, "--agent", "ppo", "--trajectories", "2", "--folder", str(folder), *SMALL]
    assert call(*start, "--network.bins", "3", "4") == 0
    assert xlvin.load(folder).config.bins == (3, 4)
    assert call(*start, "--network.bins", "3", "4", "5") == 2
    assert call(*start, "--network.low", "3", "4") == 2
    assert "decided by the environment" in capsys.readouterr().err


def test_what_the_agent_shows_is_what_it_did() -> None:
    config = preset(AIM_2D, "xlvin-r")
    config = replace(config, network=replace(config.network, hidden=8, latent=6, bins=(3, 2)))
    agent = Trainer(config).members()[0]
    episode = play(agent, AIM_2D, 3, 5)
    moment = episode.moments[0]
    assert len(episode.actions) == 6
    assert len(moment.policy) == 6
    environment = Environment(AIM_2D, bins=None)
    environment.reset(3)
    vector, _ = agent.predict(environment.given)
    assert environment.step(vector.tolist())[1] == moment.reward


@pytest.mark.parametrize(
    ("agent", "settings", "told"),
    [
        ("ppo-gaussian", {"imagination": ImaginationConfig(last_iterations=1)}, "can be counted"),
        ("ppo", {"bins": (2, 3, 4)}, "3 numbers of bins"),
    ],
)
def test_what_cannot_be_trained_is_refused(agent: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        xlvin.train(AIM_2D, agent, trajectories=1, **settings)


def test_a_model_that_knows_coordinates_compares_actions() -> None:
    torch.manual_seed(0)
    coordinates = torch.tensor([[-1.0], [0.0], [1.0]])
    model = WorldModel(2, 3, members=2, hidden=4, coordinates=coordinates)
    with torch.no_grad():
        for name, weight in model.dynamics.named_parameters():
            weight.zero_()
            if name == "skip.weight":
                weight[:, 2] = 5.0  # the action's coordinate moves both features
    model.low.fill_(-9.0)
    model.high.fill_(9.0)
    state, uniform = torch.zeros(2, 3, 2), torch.full((2, 3, 2), 0.9)
    moved = model(state, torch.arange(3).expand(2, 3), uniform).observation
    assert torch.equal(moved, (5.0 * coordinates).expand(2, 3, 2))
    assert "coordinates" not in model.state_dict()
    assert torch.equal(WorldModel(2, 3).read(torch.arange(3)), torch.eye(3))


def seen(reward: list[float], action: list[int], terminated: list[float] | None = None) -> Seen:
    count = len(reward)
    first = torch.zeros(count, dtype=torch.bool)
    first[0] = True
    states = torch.randn(count, 2)
    ends = torch.tensor(terminated or [0.0] * count)
    return Seen(states, torch.tensor(action), torch.tensor(reward), states, ends, first)


@pytest.mark.parametrize(
    ("reward", "action", "terminated", "no_state_pays", "only_actions_cost"),
    [
        ([-1.0, -1.0, -1.0], [0, 1, 0], None, True, False),
        ([-1.0, -1.0, 9.0], [0, 1, 0], [0.0, 0.0, 1.0], True, False),
        ([-0.1, 0.0, -0.1], [0, 2, 0], None, True, True),
        ([-0.1, 0.0, 99.9], [0, 2, 0], [0.0, 0.0, 1.0], True, True),
        ([-0.1, 0.0, -0.2], [0, 2, 0], None, False, False),
        ([5.0], [1], [1.0], True, False),
    ],
)
def test_the_unknown_is_worth_a_visit_where_no_state_pays(
    reward: list[float],
    action: list[int],
    terminated: list[float] | None,
    no_state_pays: bool,
    only_actions_cost: bool,
) -> None:
    found = seen(reward, action, terminated)
    assert (found.no_state_pays, found.only_actions_cost) == (no_state_pays, only_actions_cost)


def test_a_find_outweighs_what_actions_cost_and_a_prize_sets_the_scale() -> None:
    trainer = Trainer(replace(preset("Pendulum-v1", "ppo-imagine"), imagination=SMALL_MODEL))
    imagination = trainer.imagination
    assert imagination is not None
    imagination.discount = 0.9
    imagination.replay.seeds[0] = seen([-0.1, 0.0, -0.1], [0, 2, 0])
    hoped = imagination.units()
    assert float(hoped.best) == pytest.approx(RETURN_SIZE)
    assert float(hoped.reward) == pytest.approx(RETURN_SIZE / (FIND * LONG * 0.1))
    assert hoped.highest >= hoped.best  # or values could not say so
    ends = [0.0] * 40 + [1.0]
    imagination.replay.seeds[0] = seen([-0.1, 0.0] * 20 + [50.0], [0, 2] * 20 + [0], ends)
    found = imagination.units()
    assert float(found.best) == pytest.approx(RETURN_SIZE)
    assert float(found.reward) == pytest.approx(RETURN_SIZE / 50.0)
    # Where states pay as well, their usual pay sets the scale.
    imagination.replay.seeds[0] = seen([-0.1, -0.3] * 20 + [50.0], [0] * 41, ends)
    assert float(imagination.units().reward) == pytest.approx(RETURN_SIZE / 10 / (58.0 / 41))
