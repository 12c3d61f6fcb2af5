"""Greedy scores, against episodes played by hand."""

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.registry import make_agent
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.training.evaluation import evaluate
from xlvin.training.seeding import derive_seed

from ..environments import CORRIDOR

SEEDS = (4, 9)


def played(agent: Agent, seed: int, episodes: int, parallel: int) -> list[float]:
    environment, returns = Environment(CORRIDOR), []
    for episode in range(episodes):
        round_, number = divmod(episode, parallel)
        observation, total, ended = (
            environment.reset(derive_seed(seed, "evaluation episode", number, round_)),
            0.0,
            False,
        )
        while not ended:
            action, _ = agent.predict(observation)
            observation, reward, terminated, truncated = environment.step(int(action))
            total, ended = total + reward, terminated or truncated
        returns.append(total)
    return returns


def test_scores_are_those_of_the_most_probable_actions() -> None:
    agents = [
        make_agent("xlvin-r", observation=(2,), actions=3, seed=s, hidden=8, latent=6).eval() for s in SEEDS
    ]
    with torch.no_grad():
        for agent in agents:  # far from uniform
            agent.get_submodule("actor").weight.mul_(300.0)
    returns = evaluate(agents, CORRIDOR, SEEDS, 60)
    assert returns.shape == (2, 60)
    for row, agent, seed in zip(returns, agents, SEEDS, strict=True):
        np.testing.assert_allclose(row, played(agent, seed, 60, 50), rtol=1e-6)
    assert len(np.unique(returns)) > 2


def test_walking_right_pays_what_it_should() -> None:
    agent = make_agent("ppo", observation=(2,), actions=3, hidden=8, latent=6).eval()
    with torch.no_grad():
        agent.get_submodule("actor").bias.copy_(torch.tensor([0.0, 0.0, 1e6]))
    returns = evaluate([agent], CORRIDOR, (0,), 30)
    assert sorted(set(np.round(returns[0], 4))) == [0.8, 0.9, 1.0]  # from cells 1, 2 and 3


def test_agents_are_left_where_and_as_they_were() -> None:
    agent = make_agent("ppo", observation=(2,), actions=3, hidden=8, latent=6).train()
    before = {name: (weight.data_ptr(), weight.clone()) for name, weight in agent.state_dict().items()}
    evaluate([agent], CORRIDOR, (0,), 2)
    assert agent.training
    for name, weight in agent.state_dict().items():
        assert weight.data_ptr() == before[name][0]
        assert torch.equal(weight, before[name][1])


def test_a_device_that_is_not_here_is_refused() -> None:
    agent = make_agent("ppo", observation=(2,), actions=2, hidden=8, latent=6)
    for device in ("meta", "abacus"):
        with pytest.raises(XLVINError, match=f'"{device}" cannot be used here'):
            evaluate([agent], CORRIDOR, [0], 1, device)
