"""What acts is what was trained: recorded networks say what the forward pass says, whatever their shape."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.registry import AGENTS, make_agent

# Names that stand for the same network are tried once.
NETWORKS = {str(fields): name for name, fields in AGENTS.items()}.values()
BATCHES, ACTIONS = (1, 3, 8), (2, 4)


def assert_acts_as_it_says(agent: Agent, observation: np.ndarray) -> None:
    with torch.no_grad():
        wanted = agent(torch.from_numpy(observation))
    for got, want in zip(agent._recorded(observation), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-3, atol=1e-4)


def observations(batch: int, features: int = 4) -> np.ndarray:
    return np.random.default_rng(batch).normal(size=(batch, features)).astype(np.float32)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_agent_acts_as_its_network_says(name: str, depth: int) -> None:
    for actions, batch in product(ACTIONS, BATCHES):
        agent = make_agent(
            name, observation=(4,), actions=actions, depth=depth, hidden=8, latent=6, initialisation="torch"
        )
        assert_acts_as_it_says(agent, observations(batch))


@pytest.mark.parametrize("batch", BATCHES)
def test_without_a_tree_too(batch: int) -> None:
    agent = make_agent("xlvin-r", observation=(4,), actions=4, depth=0, initialisation="torch")
    assert_acts_as_it_says(agent, observations(batch))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ppo", {"hidden": 513}),
        ("ppo", {"hidden": 2000}),
        ("xlvin-r", {"actions": 4, "latent": 10, "hidden": 300}),
        ("xlvin-aligned", {"latent": 1200}),
        ("atreec", {"hidden": 700, "depth": 1}),
    ],
    ids=str,
)
def test_wide_networks_act_as_well(name: str, shape: dict[str, Any], batch: int) -> None:
    agent = make_agent(name, **{"observation": (4,), "actions": 2, **shape})
    assert_acts_as_it_says(agent, observations(batch))
