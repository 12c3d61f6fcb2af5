"""What acts is what was trained: recorded networks say what the forward pass says, whatever their shape."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.registry import AGENTS, make_agent
from xlvin.errors import XLVINError

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


@pytest.mark.parametrize("name", ["ppo", "xlvin-r", "ppo-gaussian"])
def test_of_no_observations_come_no_actions(name: str) -> None:
    agent = make_agent(name, observation=(4,), actions=2, hidden=8, latent=6)
    assert len(agent.predict(np.zeros((0, 4)))[0]) == 0


@pytest.mark.parametrize(
    "observation", [(np.zeros(4), {}), np.array([1e300, 0.0, 0.0, 0.0]), ["a", "b", "c", "d"]]
)
def test_what_is_no_observation_is_told_in_a_sentence(observation: Any) -> None:
    agent = make_agent("ppo", observation=(4,), actions=2, hidden=8, latent=6)
    with pytest.raises(XLVINError, match="The observation"):
        agent.predict(observation)


def reader(**fields: Any) -> Agent:
    shapes = {"observation": (1, 36, 36), "actions": 4, "hidden": 8, "latent": 6}
    return make_agent("xlvin-r", depth=1, initialisation="torch", **shapes, **fields)


@pytest.mark.parametrize("kind", [list, np.int16, np.int64, np.float32])
@pytest.mark.parametrize("brightest", [1, 255])
def test_bytes_are_bytes_in_every_type(kind: Any, brightest: int) -> None:
    agent = reader()
    pixels = np.random.default_rng(0).integers(0, brightest, (8, 1, 36, 36), np.uint8, endpoint=True)
    given = pixels.tolist() if kind is list else pixels.astype(kind)
    read, single = agent._read(given)
    assert (read.dtype, single) == (np.uint8, False)
    assert np.array_equal(read, pixels)
    assert agent.predict(given)[0].tolist() == agent.predict(pixels)[0].tolist()
    trees = [agent.plan(images[0]).levels[0].embedding for images in (given, pixels)]
    assert np.array_equal(*trees)


@pytest.mark.parametrize("wrong", [0.5, 300, -1, np.nan, np.inf])
def test_an_image_of_other_numbers_is_no_image_of_bytes(wrong: float) -> None:
    agent, image = reader(), np.zeros((1, 36, 36), type(wrong))
    image[0, 3, 5] = wrong
    for act in (agent.predict, agent.plan):
        with pytest.raises(XLVINError, match=r"other than bytes, .*; give whole numbers from 0 to 255, or"):
            act(image)


def test_an_image_of_numbers_is_read_as_it_is() -> None:
    agent = reader(image="float32")
    for image in (np.full((1, 36, 36), value) for value in (np.uint8(7), np.int16(300), -0.5)):
        read, single = agent._read(image)
        assert (read.dtype, single) == (np.float32, True)
        assert np.array_equal(read[0], image)
    with pytest.raises(XLVINError, match="finite"):
        agent.predict(np.full((1, 36, 36), np.nan))


def test_agents_made_in_inference_mode_act() -> None:
    with torch.inference_mode():
        agent = make_agent("xlvin-r", observation=(4,), actions=2, hidden=8, latent=6)
    assert_acts_as_it_says(agent, observations(1))
    assert agent.predict(np.zeros(4))[0] in (0, 1)


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
