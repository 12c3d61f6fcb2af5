"""Every agent keeps the same promises on every kind of environment."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.base import Agent
from xlvin.agents.registry import AGENTS, IMAGINING
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, PPOConfig
from xlvin.training.presets import preset
from xlvin.training.run import make_trainer

from ..environments import CORRIDOR, PICTURE

ENVIRONMENTS = ("CartPole-v0", "FrozenLake-v1", PICTURE, CORRIDOR)
_TRAINED: dict[tuple[str, str], tuple[Agent, Agent]] = {}


def make(environment: str) -> gymnasium.Env[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CartPole-v0 is old
        return gymnasium.make(environment, disable_env_checker=True)


def observations(environment: str, count: int = 7) -> list[Any]:
    """As the environment gives them to a user."""
    env = make(environment)
    found = [np.array(env.reset(seed=0)[0])]
    env.action_space.seed(0)
    while len(found) < count:
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        found.append(np.array(observation))
        if terminated or truncated:
            env.reset(seed=len(found))
    env.close()
    return found


# Images cannot be imagined; that they are refused is tested elsewhere.
# A Gaussian draws vectors; what it and binned agents promise is tested with continuous actions.
PAIRS = [
    (name, env)
    for name in AGENTS
    for env in ENVIRONMENTS
    if not (name in IMAGINING and env == PICTURE) and name != "ppo-gaussian"
]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[Agent, Agent, str]:
    """An agent before and after a round of training, and its environment's name."""
    name, environment = request.param
    if request.param not in _TRAINED:
        config = preset(environment, name)
        network = replace(config.network, hidden=8, latent=6)
        ppo = PPOConfig(epochs=1, minibatches=2, transe_coef=0.1)
        values = replace(config.values, updates=2, batch=16)
        trainer = make_trainer(
            replace(
                config,
                values=values,
                network=network,
                budget=Budget(total=2, per_round=2),
                ppo=ppo,
                first_seed=3,
            )
        )
        fresh = trainer.members()[0]
        trainer.train_round()
        _TRAINED[request.param] = fresh, trainer.members()[0]
    return *_TRAINED[request.param], environment


def test_it_trains(pair: tuple[Agent, Agent, str]) -> None:
    fresh, agent, _ = pair
    changed = [
        name
        for name, weight in agent.state_dict().items()
        if not torch.equal(weight, fresh.state_dict()[name])
    ]
    trainable = [name for name, weight in agent.named_parameters() if weight.requires_grad]
    assert set(trainable) <= set(changed) | {name for name in trainable if "bias" in name}
    assert not [name for name in changed if "processor" in name or "executor" in name]
    assert not agent.training


def test_it_predicts_one_observation_or_a_batch(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    given = observations(environment)
    batch, state = agent.predict(np.stack(given), deterministic=True)
    assert state is None
    assert isinstance(batch, np.ndarray)
    assert batch.shape == (len(given),)
    assert batch.dtype == np.int64
    singles = [agent.predict(observation)[0] for observation in given]
    assert all(np.ndim(action) == 0 for action in singles)
    assert [int(action) for action in singles] == batch.tolist()
    assert all(0 <= action < agent.config.actions for action in singles)


def test_bytes_are_read_as_in_training(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    read, _ = agent._read(observations(environment, 1)[0])
    assert read.dtype == (np.uint8 if environment == PICTURE else np.float32)


def test_its_actions_fit_the_environment(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    env = make(environment)
    observation, _ = env.reset(seed=0)
    action, _ = agent.predict(observation)
    assert env.action_space.contains(action)
    env.step(action)


def test_it_draws_actions_by_their_probabilities(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    observation = observations(environment, 1)[0]
    torch.manual_seed(0)
    drawn, _ = agent.predict(np.stack([observation] * 400), deterministic=False)
    with torch.no_grad():
        expected = agent(torch.from_numpy(agent._read(observation)[0])).logits.softmax(-1)[0].numpy()
    found = np.bincount(drawn, minlength=agent.config.actions) / 400
    assert np.abs(found - expected).max() < 0.12


def test_it_returns_from_a_file_as_it_went(pair: tuple[Agent, Agent, str], tmp_path: Path) -> None:
    _, agent, environment = pair
    agent.save(tmp_path / "agent.safetensors")
    loaded = xlvin.load(str(tmp_path / "agent.safetensors"))
    assert type(loaded) is type(agent)
    assert loaded.config == agent.config
    for name, weight in agent.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name]), name
    given = np.stack(observations(environment))
    assert np.array_equal(loaded.predict(given)[0], agent.predict(given)[0])
    with torch.no_grad():
        left, right = (each(torch.from_numpy(each._read(given)[0])) for each in (agent, loaded))
    assert torch.equal(left.logits, right.logits)
    assert torch.equal(left.value, right.value)


def test_it_refuses_what_it_cannot_read(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    given = np.array(observations(environment, 1)[0])
    wrong: list[Any] = [np.zeros((3, 5, 7)), "what", None]
    if given.dtype.kind == "f":
        wrong += [np.full_like(given, np.nan), given[:-1]]
    if given.ndim == 0:
        wrong += [16, -1, 0.5]
    for observation in wrong:
        with pytest.raises(XLVINError):
            agent.predict(observation)


def test_it_plans_or_says_that_it_does_not(pair: tuple[Agent, Agent, str]) -> None:
    _, agent, environment = pair
    observation = observations(environment, 1)[0]
    if agent.config.kind == "ppo":
        with pytest.raises(XLVINError, match="does not plan"):
            agent.plan(observation)
        return
    tree, actions = agent.plan(observation), agent.config.actions
    assert tree.depth == 2
    for depth, level in enumerate(tree.levels):
        nodes = (actions * agent.config.samples) ** depth
        assert level.embedding.shape == (nodes, agent.config.latent)
        assert level.value.shape == level.parent.shape == level.action.shape == (nodes,)
        assert level.policy.shape == (nodes, actions)
        assert all(isinstance(array, np.ndarray) for array in vars(level).values())
        np.testing.assert_allclose(level.policy.sum(-1), 1.0, rtol=1e-5)
    assert int(tree.levels[0].policy[0].argmax()) == agent.predict(observation)[0]
