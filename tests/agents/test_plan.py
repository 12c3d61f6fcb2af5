"""What an agent imagines is what it would think if it were there."""

from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.networks import ModelBasedAgent
from xlvin.agents.registry import make_agent
from xlvin.errors import XLVINError

OBSERVATION = np.array([0.3, -1.2, 0.5, 2.0])


def make(name: str = "xlvin-r", **fields: Any) -> ModelBasedAgent:
    agent: Agent = make_agent(
        name, observation=(4,), actions=3, seed=1, hidden=8, latent=6, initialisation="torch", **fields
    )
    assert isinstance(agent, ModelBasedAgent)
    return agent.eval()


@pytest.mark.parametrize(("name", "fields"), [("xlvin-r", {"depth": 3}), ("xlvin-cp", {}), ("atreec", {})])
def test_nodes_follow_the_transition_model_and_the_agents_own_heads(
    name: str, fields: dict[str, Any]
) -> None:
    agent = make(name, **fields)
    tree = agent.plan(OBSERVATION)
    with torch.no_grad():
        root = agent.embed(torch.tensor(OBSERVATION, dtype=torch.float32))
        np.testing.assert_allclose(tree.levels[0].embedding[0], root, rtol=1e-5, atol=1e-6)
        for above, level in zip(tree.levels, tree.levels[1:], strict=False):
            for node, (parent, action) in enumerate(zip(level.parent, level.action, strict=True)):
                origin = torch.from_numpy(above.embedding[parent])
                successor = origin + agent.transition.translation(origin, torch.tensor(int(action)))
                np.testing.assert_allclose(level.embedding[node], successor, rtol=1e-4, atol=1e-5)
        for level in tree.levels:
            output = agent.decide(torch.from_numpy(level.embedding))
            np.testing.assert_allclose(level.value, output.value, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(level.policy, output.logits.softmax(-1), rtol=1e-4, atol=1e-5)
    assert tree.levels[0].parent.tolist() == tree.levels[0].action.tolist() == [-1]
    assert tree.levels[1].parent.tolist() == [0, 0, 0]
    assert tree.levels[1].action.tolist() == [0, 1, 2]
    assert tree.levels[2].parent.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_executed_embeddings_are_the_planners() -> None:
    agent = make("xlvin-r")
    tree = agent.plan(OBSERVATION)
    with torch.no_grad():
        planned = agent.imagine(agent.embed(torch.tensor(OBSERVATION, dtype=torch.float32).unsqueeze(0)))
        chi = agent.planner(torch.from_numpy(tree.levels[0].embedding))
    np.testing.assert_allclose(tree.levels[0].executed, chi, rtol=1e-4, atol=1e-5)
    for level, expected in zip(tree.levels, planned.levels, strict=True):
        np.testing.assert_array_equal(level.executed, expected.executed[0])


def test_a_scalar_tree_shows_its_action_values() -> None:
    agent = make("atreec")
    tree = agent.plan(OBSERVATION)
    for level in tree.levels:
        q = torch.from_numpy(level.executed)
        assert q.shape == (len(level.value), 3)
        np.testing.assert_allclose(q.softmax(-1), level.policy, rtol=1e-4, atol=1e-6)


def test_sparse_trees_keep_only_the_beam() -> None:
    tree = make("xlvin-r", depth=3, beam=2).plan(OBSERVATION)
    assert [len(level.value) for level in tree.levels] == [1, 2, 2, 2]
    assert all((level.parent < 2).all() for level in tree.levels)


def test_without_thinking_time_there_is_only_the_root() -> None:
    assert make("xlvin-r", depth=0).plan(OBSERVATION).depth == 0


def test_plans_start_at_one_observation() -> None:
    with pytest.raises(XLVINError, match="one at a time"):
        make().plan(np.stack([OBSERVATION, OBSERVATION]))
