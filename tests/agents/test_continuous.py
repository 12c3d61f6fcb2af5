"""Continuous actions: what binned agents and the Gaussian one promise, from the head to the file."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.base import BEAM, Agent
from xlvin.agents.distributions import Categorical, FactoredLinear, Gaussian
from xlvin.agents.registry import make_agent
from xlvin.binning import centres
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, PPOConfig
from xlvin.training.presets import preset
from xlvin.training.run import make_trainer

from ..environments import AIM_2D

TWO: dict[str, Any] = {
    "observation": (2,),
    "actions": 6,
    "bins": (3, 2),
    "low": (-2.0, 0.0),
    "high": (6.0, 1.0),
    "hidden": 8,
    "latent": 6,
}
_TRAINED: dict[str, Agent] = {}


@pytest.fixture(params=["xlvin-r", "xlvin-aligned", "ppo", "atreec", "dqn", "xlvin-imagine", "ppo-gaussian"])
def agent(request: pytest.FixtureRequest) -> Agent:
    """Every kind of agent after a round of training on an environment with vectors for actions."""
    if request.param not in _TRAINED:
        config = preset(AIM_2D, request.param)
        network = replace(config.network, hidden=8, latent=6)
        trainer = make_trainer(
            replace(
                config,
                network=network,
                values=replace(config.values, updates=2, batch=16),
                budget=Budget(total=4, per_round=4),
                ppo=PPOConfig(epochs=1, minibatches=2),
            )
        )
        trainer.train_round()
        _TRAINED[request.param] = trainer.members()[0]
    return _TRAINED[request.param]


def test_joint_probabilities_are_products_of_those_of_dimensions() -> None:
    torch.manual_seed(0)
    head, features = FactoredLinear(5, (3, 2, 4)), torch.randn(7, 5)
    rows = torch.nn.functional.linear(features, head.weight, head.bias).split((3, 2, 4), -1)
    first, second, third = (row.softmax(-1) for row in rows)
    expected = torch.einsum("ba,bc,bd->bacd", first, second, third).flatten(1)
    policy = Categorical(head(features))
    for action in range(24):
        found = policy.log_prob(torch.full((7,), action)).exp()
        torch.testing.assert_close(found, expected[:, action])
    alone = [-(chance * chance.log()).sum(-1) for chance in (first, second, third)]
    torch.testing.assert_close(policy.entropy(), sum(alone[1:], alone[0]))


def test_a_gaussian_is_that_of_torch() -> None:
    parameters, action = torch.randn(7, 6), torch.randn(7, 3)
    normal = torch.distributions.Normal(parameters[:, :3], parameters[:, 3:].exp())
    policy = Gaussian(parameters)
    torch.testing.assert_close(policy.log_prob(action), normal.log_prob(action).sum(-1))
    torch.testing.assert_close(policy.entropy(), normal.entropy().sum(-1))
    assert torch.equal(policy.mode(), parameters[:, :3])
    uniform = 0.01 + 0.98 * torch.rand(7, 3)
    drawn = Gaussian.draw(parameters.numpy(), uniform.numpy())
    np.testing.assert_allclose(drawn, normal.icdf(uniform), rtol=1e-4, atol=1e-4)
    assert np.isfinite(Gaussian.draw(parameters.numpy(), np.zeros((7, 3)))).all()


def test_actions_are_what_the_environment_takes(agent: Agent) -> None:
    env = gymnasium.make(AIM_2D, disable_env_checker=True)
    observation, _ = env.reset(seed=0)
    action, state = agent.predict(observation)
    assert state is None
    assert isinstance(action, np.ndarray)
    assert action.shape == (2,)
    assert action.dtype == np.float32
    env.step(action)
    batch, _ = agent.predict(np.stack([observation] * 3))
    assert np.array_equal(batch, np.stack([action] * 3))
    drawn, _ = agent.predict(np.stack([observation] * 200), deterministic=False)
    assert drawn.shape == (200, 2)
    assert all(env.action_space.contains(vector) for vector in drawn)
    assert len(np.unique(drawn, axis=0)) > 1


def test_it_returns_from_a_file_as_it_went(agent: Agent, tmp_path: Path) -> None:
    agent.save(tmp_path / "agent.safetensors")
    loaded = xlvin.load(tmp_path / "agent.safetensors")
    assert loaded.config == agent.config
    assert loaded.config.low == (-2.0, 0.0)
    given = np.random.default_rng(0).uniform(-1.0, 1.0, (9, 2)).astype(np.float32)
    assert np.array_equal(loaded.predict(given)[0], agent.predict(given)[0])


def test_the_most_probable_cell_is_the_one_that_is_acted_out() -> None:
    agent = make_agent("xlvin-r", **TWO).eval()
    with torch.no_grad():
        agent.actor.bias.copy_(torch.tensor([0.0, 0.0, 50.0, 50.0, 0.0]))
    action, _ = agent.predict(np.zeros(2, np.float32))
    assert action.tolist() == [6.0, 0.0]
    plan = agent.plan(np.zeros(2, np.float32))
    assert int(plan.levels[0].policy[0].argmax()) == 4  # the third bin of the first, the first of the second


def test_trees_stay_small_where_actions_are_many() -> None:
    many = {**TWO, "actions": 25, "bins": (5, 5)}
    sizes = [len(level.value) for level in make_agent("xlvin-r", **many).plan(np.zeros(2)).levels]
    assert sizes == [1, BEAM, BEAM]
    sizes = [len(level.value) for level in make_agent("xlvin-r", beam=700, **many).plan(np.zeros(2)).levels]
    assert sizes == [1, 25, 625]
    assert make_agent("xlvin-r", **TWO).config.kept is None
    assert make_agent("xlvin-r", observation=(2,), actions=25, hidden=8).config.kept is None  # not binned


def test_a_gaussian_says_the_middle_first_and_stays_within_bounds() -> None:
    fields = {name: value for name, value in TWO.items() if name != "bins"} | {"actions": 2}
    agent = make_agent("ppo-gaussian", **fields).eval()
    np.testing.assert_allclose(agent.predict(np.zeros(2))[0], [2.0, 0.5], atol=0.2)
    with torch.no_grad():
        agent.actor.bias.fill_(30.0)
    assert agent.predict(np.zeros(2))[0].tolist() == [6.0, 1.0]


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("ppo", {"low": ()}, "low and high"),
        ("ppo", {"actions": 5}, "6 actions, not 5"),
        ("ppo", {"bins": (1, 6)}, "at least 2"),
        ("ppo", {"bins": (40, 40), "actions": 1600}, "too many"),
        ("ppo-gaussian", {}, "no bins"),
    ],
)
def test_impossible_ones_are_refused(name: str, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        make_agent(name, **{**TWO, **fields})


def test_the_grid_has_both_ends_and_the_last_dimension_counts_fastest() -> None:
    grid = centres((3, 2), (-2.0, 0.0), (6.0, 1.0))
    assert grid.tolist() == [[-2, 0], [-2, 1], [2, 0], [2, 1], [6, 0], [6, 1]]
    assert math.prod((3, 2)) == len(grid)
