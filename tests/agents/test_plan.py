"""What an agent imagines is what it would think if it were there."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.networks import AlignedXLVINAgent, ModelBasedAgent
from xlvin.agents.registry import make_agent
from xlvin.errors import XLVINError
from xlvin.executor.network import Executor

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


@pytest.mark.parametrize("name", ["xlvin-aligned", "xlvin-aligned-untrained"])
def test_an_aligned_tree_shows_the_values_that_it_decodes(name: str) -> None:
    agent = make(name, depth=3, sharpness=2.0)
    assert isinstance(agent, AlignedXLVINAgent)
    tree = agent.plan(OBSERVATION)
    with torch.no_grad():
        leaves = agent.planner.value(torch.from_numpy(tree.levels[-1].embedding)).squeeze(-1)
        np.testing.assert_allclose(tree.levels[-1].value, leaves, rtol=1e-4, atol=1e-5)
        for above, level in pairwise(tree.levels):
            # Planned one step from the parents, with their children's values as they stand in the tree.
            nodes = torch.from_numpy(above.embedding)
            own, rewards = agent.planner.value(nodes), agent.planner.reward(nodes)
            received = agent.planner.reward(torch.from_numpy(level.embedding)).view(-1, 3, 3)
            candidates = candidates_of(
                agent.planner.executor,
                torch.stack((own.expand(-1, 3), rewards), -1),
                torch.stack(
                    (
                        torch.from_numpy(level.value).view(-1, 3) * (0.99 / 0.9),
                        received.diagonal(dim1=-2, dim2=-1),
                    ),
                    -1,
                ),
            )
            decoded = own + agent.planner.executor.decoder(candidates.amax(-2))
            np.testing.assert_allclose(above.value, decoded.squeeze(-1), rtol=1e-3, atol=1e-4)
        for level in tree.levels:
            nodes = torch.from_numpy(level.embedding)
            logits = 2.0 * torch.from_numpy(level.executed) + agent.actor(nodes)
            np.testing.assert_allclose(level.policy, logits.softmax(-1), rtol=1e-3, atol=1e-5)


def candidates_of(executor: Executor, node: torch.Tensor, sender: torch.Tensor) -> torch.Tensor:
    """y(s, a) of features [V, R] of nodes and of what their successors send, [..., A, 2]."""
    x, processor = executor.node_encoder(node), executor.processor
    edge = processor.edge(executor.edge_encoder(torch.tensor([1.0, 0.9])))
    sent = processor.sender(executor.node_encoder(sender))
    return x + processor.activate(sent + processor.receiver(x) + edge)


def test_an_aligned_agent_ranks_actions_by_reward_and_value_where_it_knows_them() -> None:
    agent = make("xlvin-aligned", depth=1, sharpness=10.0)
    assert isinstance(agent, AlignedXLVINAgent)
    with torch.no_grad():
        agent.planner.value.weight.zero_()
        agent.planner.reward.weight.zero_()
        agent.actor.weight.zero_()
        agent.actor.bias.zero_()
        agent.planner.value.bias.fill_(0.4)
        agent.planner.reward.bias.copy_(torch.tensor([0.5, -1.0, 0.0]))
    tree = agent.plan(OBSERVATION)
    expected = np.array([0.5, -1.0, 0.0]) + 0.99 * 0.4
    np.testing.assert_allclose(tree.levels[0].executed[0], expected, atol=0.03)
    assert tree.levels[0].value[0] == pytest.approx(expected.max(), abs=0.03)
    assert agent.predict(OBSERVATION)[0] == 0


def test_sparse_trees_keep_only_the_beam() -> None:
    tree = make("xlvin-r", depth=3, beam=2).plan(OBSERVATION)
    assert [len(level.value) for level in tree.levels] == [1, 2, 2, 2]
    assert all((level.parent < 2).all() for level in tree.levels)


def test_a_sparse_aligned_tree_expands_only_the_beam() -> None:
    agent = make("xlvin-aligned", depth=4, beam=2)
    tree = agent.plan(OBSERVATION)
    assert [len(level.value) for level in tree.levels] == [1, 3, 6, 6, 6]
    for above, level in pairwise(tree.levels):
        assert len(np.unique(level.parent)) == len(level.parent) // 3
        assert level.action.tolist() == [0, 1, 2] * (len(level.action) // 3)
        with torch.no_grad():
            parents = torch.from_numpy(above.embedding[level.parent[::3]])
            successors = agent.transition.successors(parents, dim=-2).flatten(0, 1)
        np.testing.assert_allclose(level.embedding, successors, atol=1e-5)
    assert isinstance(agent, AlignedXLVINAgent)
    with torch.no_grad():
        own = agent.planner.value(torch.from_numpy(tree.levels[1].embedding)).squeeze(-1)
    kept = np.isin(np.arange(3), tree.levels[2].parent)
    assert np.isclose(tree.levels[1].value, own, atol=1e-6).tolist() == (~kept).tolist()
    full = make("xlvin-aligned", depth=4)
    root = torch.from_numpy(tree.levels[0].embedding)
    with torch.no_grad():
        np.testing.assert_allclose(tree.levels[0].executed, agent.planner(root).value, rtol=1e-4, atol=1e-5)
    assert agent.state_dict().keys() == full.state_dict().keys()


def test_without_thinking_time_there_is_only_the_root() -> None:
    assert make("xlvin-r", depth=0).plan(OBSERVATION).depth == 0


def test_plans_start_at_one_observation() -> None:
    with pytest.raises(XLVINError, match="one at a time"):
        make().plan(np.stack([OBSERVATION, OBSERVATION]))


@pytest.mark.parametrize("fields", [{}, {"beam": 7}, {"wiring": "aligned", "depth": 1}])
def test_several_outcomes_of_an_action_are_nodes_of_their_own(fields: dict[str, Any]) -> None:
    agent = make("xlvin-stochastic", samples=2, **fields)
    tree = agent.plan(OBSERVATION)
    again = agent.plan(OBSERVATION)
    first = tree.levels[1]
    assert first.action.tolist().count(0) <= 2
    with torch.no_grad():
        successors, chances = agent.transition.outcomes(torch.from_numpy(tree.levels[0].embedding[0]))
    for node, (action, sample) in enumerate(zip(first.action, first.sample, strict=True)):
        np.testing.assert_allclose(first.embedding[node], successors[2 * action + sample], atol=1e-5)
        np.testing.assert_allclose(first.chance[node], chances[action, sample], atol=1e-6)
    if "beam" not in fields:
        assert first.action.tolist() == [0, 0, 1, 1, 2, 2]
        assert first.sample.tolist() == [0, 1] * 3
    assert tree.levels[0].sample.tolist() == [-1]
    assert tree.levels[0].chance.tolist() == [1.0]
    for level, same in zip(tree.levels, again.levels, strict=True):
        for array, other in zip(vars(level).values(), vars(same).values(), strict=True):
            np.testing.assert_array_equal(array, other)


def test_one_outcome_is_certain() -> None:
    level = make("xlvin-r").plan(OBSERVATION).levels[1]
    assert level.sample.tolist() == [0, 0, 0]
    assert level.chance.tolist() == [1.0, 1.0, 1.0]
