"""Value tails: action values where a policy's logits are, and what the trees behind them predict."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from xlvin.agents.base import Agent, Batch, Output, Trail
from xlvin.agents.registry import VALUE_BASED, make_agent
from xlvin.agents.values import VPNAgent
from xlvin.errors import XLVINError

ACTIONS = 3


def make(name: str, **fields: Any) -> Agent:
    shape = {"observation": (4,), "actions": ACTIONS, "hidden": 8, "latent": 6, "initialisation": "torch"}
    return make_agent(name, seed=1, **{**shape, **fields}).eval()


def trails(agent: Agent, n: int, rows: int = 5) -> tuple[Output, Trail]:
    """Random steps; the last row ends after one of them, for good."""
    generator = torch.Generator().manual_seed(2)
    observation, successor = torch.randn(2, rows, 4, generator=generator)
    action = torch.randint(ACTIONS, (rows, n), generator=generator)
    reward = torch.randn(rows, n, generator=generator)
    taken, terminated = torch.ones(rows, n), torch.zeros(rows, n)
    taken[-1, 1:] = 0.0
    terminated[-1, 0] = 1.0
    target = torch.randn(rows, n + 1, generator=generator)
    first = Batch(observation, action[:, 0], reward[:, 0], successor, torch.arange(rows).roll(1))
    return agent(observation), Trail(first, action, reward, taken, terminated, target)


@pytest.mark.parametrize("name", VALUE_BASED)
def test_the_value_is_the_best_action_value_and_needs_no_critic(name: str) -> None:
    agent = make(name)
    output = agent(torch.randn(7, 4))
    assert output.logits.shape == (7, ACTIONS)
    assert torch.equal(output.value, output.logits.amax(-1))
    assert not [weight for weight, _ in agent.named_parameters() if weight.startswith("critic")]


@pytest.mark.parametrize("name", [name for name in VALUE_BASED if name != "dqn"])
def test_nodes_of_a_plan_show_their_best_action_value(name: str) -> None:
    agent = make(name, depth=2)
    tree = agent.plan(np.array([0.3, -1.2, 0.5, 2.0]))
    assert [len(level.value) for level in tree.levels] == [1, 3, 9]
    for level in tree.levels:
        with torch.no_grad():
            q = agent.decide(torch.from_numpy(level.embedding)).logits
        np.testing.assert_allclose(level.value, q.amax(-1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(level.policy, q.softmax(-1), rtol=1e-4, atol=1e-5)


def q_of(agent: VPNAgent, state: Tensor, depth: int) -> list[Tensor]:
    """Equations of Oh et al. (2017), one node at a time."""
    found = []
    for action in range(ACTIONS):
        after = state + agent.transition.translation(state, torch.tensor(action))
        worth = agent.tree.value(after).squeeze()
        if depth > 1:
            best = torch.stack(q_of(agent, after, depth - 1)).max()
            worth = worth / depth + (depth - 1) / depth * best
        lasting = agent.tree.lasting(state)[action].sigmoid()
        found.append(agent.tree.reward(state)[action] + agent.config.discount * lasting * worth)
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_value_prediction_network_averages_what_every_depth_says(depth: int) -> None:
    agent = make("vpn", depth=depth, discount=0.8)
    assert isinstance(agent, VPNAgent)
    with torch.no_grad():
        states = torch.randn(4, 6)
        expected = torch.stack([torch.stack(q_of(agent, state, depth)) for state in states])
        torch.testing.assert_close(agent.decide(states).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("depth", "n"), [(1, 3), (2, 2), (3, 2)])
def test_outcomes_are_learned_along_the_actions_taken(depth: int, n: int) -> None:
    agent = make("vpn", depth=depth)
    assert isinstance(agent, VPNAgent)
    output, trail = trails(agent, n)
    losses = agent.trail_losses(output, trail)
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    for row in range(5):
        state, reward, lasting, value = output.embedding[row], 0.0, 0.0, 0.0
        for step in range(min(depth, n)):
            if not trail.taken[row, step]:
                break
            action = trail.action[row, step]
            reward += 0.5 * (agent.tree.reward(state)[action] - trail.reward[row, step]) ** 2
            lasting += bce(agent.tree.lasting(state)[action], 1.0 - trail.terminated[row, step])
            state = state + agent.transition.translation(state, action)
            value += 0.5 * (agent.tree.value(state).squeeze() - trail.target[row, step + 1]) ** 2
        for name, expected in (("reward", reward), ("lasting", lasting), ("value", value)):
            torch.testing.assert_close(losses[name][row], expected, rtol=1e-4, atol=1e-5)


def test_a_scalar_tree_grounds_rewards_as_deep_as_it_is() -> None:
    agent = make("treeqn", depth=2)
    output, trail = trails(agent, 1)
    one = agent.trail_losses(output, trail)
    expected = agent.auxiliary_losses(output, trail.first)
    assert one.keys() == expected.keys() == {"transe", "reward"}
    assert all(torch.allclose(one[name], expected[name]) for name in one)
    output, trail = trails(agent, 3)
    two, first = agent.trail_losses(output, trail), agent.auxiliary_losses(output, trail.first)
    after = output.embedding + agent.transition.translation(output.embedding, trail.action[:, 0])
    foreseen = agent.tree.reward(after).gather(-1, trail.action[:, 1:2]).squeeze(-1)
    second = 0.5 * trail.taken[:, 1] * (foreseen - trail.reward[:, 1]) ** 2
    torch.testing.assert_close(two["reward"], first["reward"] + second)
    assert second[:-1].min() > 0.0
    assert second[-1] == 0.0, "behind the end there is nothing to foresee"


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("vpn", {"tail": "policy"}, "no policy"),
        ("vpn", {"depth": 0}, "depth 0"),
        ("treeqn", {"depth": 0}, "depth 0"),
        ("xlvin-aligned", {"tail": "values"}, "policy tail only"),
        ("dqn", {"tail": "head"}, "choose one of policy, values"),
    ],
)
def test_impossible_tails_are_refused(name: str, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        make(name, **fields)
