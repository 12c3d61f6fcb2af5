"""Value iteration against policy iteration, a linear program and hand-computed numbers."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import (
    greedy_policy,
    optimal_actions,
    policy_accuracy,
    sweep,
    value_iteration,
)


def draw(
    family: str = "dense", count: int = 6, states: int = 7, actions: int = 3, seed: int = 0
) -> TabularMDP:
    """Small MDPs in double precision."""
    mdp = sample(family, count, states, actions, 0.9, torch.Generator().manual_seed(seed))
    probability = mdp.probability.double()
    probability = probability / probability.sum(-1, keepdim=True)
    return TabularMDP(mdp.successor, probability, mdp.reward.double(), mdp.discount)


def chain(discount: float = 0.5, scale: float = 1.0) -> TabularMDP:
    """State 0 can stay for 1 or go to state 1 for 0; state 1 stays for 3."""
    successor = torch.tensor([[[0, 1], [1, 1]]])
    return TabularMDP.deterministic(successor, scale * torch.tensor([[[1.0, 0.0], [3.0, 3.0]]]), discount)


def policy_iteration(mdp: TabularMDP) -> tuple[Tensor, Tensor]:
    """V* by exact evaluation (a linear solve) and greedy improvement until the policy stays."""
    transition, batch, states = mdp.transition(), torch.arange(mdp.batch)[:, None], torch.arange(mdp.states)
    policy = torch.zeros(mdp.batch, mdp.states, dtype=torch.int64)
    while True:
        system = torch.eye(mdp.states).double() - mdp.discount * transition[batch, states, policy]
        values = torch.linalg.solve(system, mdp.reward[batch, states, policy])
        better = greedy_policy(mdp, values)
        if torch.equal(better, policy):
            return values, policy
        policy = better


def linear_program(mdp: TabularMDP, member: int) -> np.ndarray:
    """V* as the least V with V(s) >= R(s, a) + gamma P V for all s, a."""
    identity = np.repeat(np.eye(mdp.states), mdp.actions, 0)
    constraint = mdp.discount * mdp.transition()[member].flatten(0, 1).numpy() - identity
    solution = linprog(
        np.ones(mdp.states), constraint, -mdp.reward[member].flatten().numpy(), bounds=(None, None)
    )
    assert solution.success
    return np.asarray(solution.x)


@pytest.mark.parametrize("family", ["dense", "random-deterministic", "erdos-renyi-stochastic"])
def test_agrees_with_policy_iteration(family: str) -> None:
    mdp = draw(family)
    values, policy = policy_iteration(mdp)
    final = value_iteration(mdp, tolerance=1e-10).final
    torch.testing.assert_close(final, values, atol=1e-8, rtol=0.0)
    assert torch.equal(greedy_policy(mdp, final), policy)


@pytest.mark.parametrize("family", ["dense", "random-deterministic", "line"])
def test_agrees_with_a_linear_program(family: str) -> None:
    mdp = draw(family, count=3)
    final = value_iteration(mdp, tolerance=1e-10).final.numpy()
    for member in range(mdp.batch):
        np.testing.assert_allclose(final[member], linear_program(mdp, member), atol=1e-7)


def test_the_sweep_contracts_by_gamma_and_is_monotone() -> None:
    mdp = draw(count=50)
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(50, 7, generator=generator).double() for _ in range(2))
    distance = (first - second).abs().amax(-1)
    assert ((sweep(mdp, first) - sweep(mdp, second)).abs().amax(-1) <= 0.9 * distance + 1e-12).all()
    assert (sweep(mdp, torch.maximum(first, second)) >= sweep(mdp, first)).all()


def test_a_hand_computed_trace() -> None:
    trace = value_iteration(chain(), tolerance=0.2)
    # V(1) = 3, 4.5, 5.25, 5.625, 5.8125 moves by 0.1875 at last; V(0) = max(1 + V(0) / 2, V(1) / 2).
    expected = [[0, 0], [1, 3], [1.5, 4.5], [2.25, 5.25], [2.625, 5.625], [2.8125, 5.8125]]
    assert torch.equal(trace.values, torch.tensor(expected).unsqueeze(1))
    assert trace.steps.tolist() == [5]
    assert torch.equal(trace.final, torch.tensor([[2.8125, 5.8125]]))


def test_steps_say_when_each_member_stopped_moving() -> None:
    mdp = draw("random-deterministic", count=20)
    tolerance = 1e-3
    trace = value_iteration(mdp, tolerance)
    change = (trace.values[1:] - trace.values[:-1]).abs().amax(-1)  # [T, B]
    assert len(trace.values) == trace.steps.max() + 1
    assert trace.steps.min() < trace.steps.max()
    for member, steps in enumerate(trace.steps.tolist()):
        assert (change[: steps - 1, member] >= tolerance).all()
        assert change[steps - 1, member] < tolerance


def test_a_member_does_not_depend_on_its_batch() -> None:
    mdp = draw("random-deterministic", count=8)
    together = value_iteration(mdp)
    alone = value_iteration(mdp.select(torch.tensor([3])))
    assert alone.steps[0] == together.steps[3]
    assert torch.equal(alone.values[:, 0], together.values[: len(alone.values), 3])


def test_max_steps_and_initial_values() -> None:
    mdp = draw()
    full = value_iteration(mdp)
    first = value_iteration(mdp, max_steps=4)
    assert torch.equal(first.values, full.values[:5])
    assert first.steps.tolist() == [4] * 6
    resumed = value_iteration(mdp, initial=first.final)
    assert torch.equal(resumed.values, full.values[4:])
    assert torch.equal(resumed.steps + 4, full.steps)
    assert value_iteration(mdp, max_steps=0).values.shape[0] == 1


@pytest.mark.parametrize("initial", [-1e5, 1e5])
def test_a_far_start_is_given_the_sweeps_it_needs(initial: float) -> None:
    mdp = draw()
    trace = value_iteration(mdp, initial=torch.full((6, 7), initial))
    torch.testing.assert_close(trace.final, value_iteration(mdp, 1e-9).final, atol=1e-3, rtol=0.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12, 1e30])
def test_it_stops_right_at_any_scale_of_rewards(scale: float) -> None:
    # In single precision: beyond 1e3 no change but zero is below the tolerance.
    trace = value_iteration(chain(scale=scale), tolerance=1e-4 * min(scale, 1.0))
    torch.testing.assert_close(trace.final / scale, torch.tensor([[3.0, 6.0]]), atol=2e-4, rtol=0.0)
    assert len(trace.values) < 200


def test_it_stops_although_rounding_never_lets_values_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, sign = chain(), torch.tensor(1.0)
    exact = TabularMDP.action_values

    def wobbling(self: TabularMDP, values: Tensor) -> Tensor:
        return exact(self, values) + sign.neg_()

    monkeypatch.setattr(TabularMDP, "action_values", wobbling)
    assert len(value_iteration(mdp, tolerance=1e-3, max_steps=1000).values) < 20


@pytest.mark.parametrize("discount", [0.0, 0.99])
def test_extreme_discounts(discount: float) -> None:
    final = value_iteration(chain(discount), tolerance=1e-5).final
    expected = [1.0, 3.0] if discount == 0.0 else [297.0, 300.0]
    torch.testing.assert_close(final, torch.tensor([expected]), atol=2e-2, rtol=0.0)


def test_greedy_policy_and_ties() -> None:
    mdp = chain()
    optimal = torch.tensor([[3.0, 6.0]])
    assert greedy_policy(mdp, optimal).tolist() == [[1, 0]]
    assert optimal_actions(mdp, optimal).tolist() == [[[False, True], [True, True]]]
    assert policy_accuracy(mdp, optimal, optimal).tolist() == [1.0]
    # With V = 0 state 0 prefers the reward at hand; in state 1 both actions are right.
    assert policy_accuracy(mdp, optimal, torch.zeros(1, 2)).tolist() == [0.5]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_accuracy_does_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    mdp = sample("random-deterministic", 50, 20, 8, 0.9, torch.Generator().manual_seed(0))
    optimal = value_iteration(mdp, 1e-5).final
    noisy = optimal + torch.randn(optimal.shape, generator=torch.Generator().manual_seed(1))
    scaled = TabularMDP.deterministic(mdp.successor.squeeze(-1), scale * mdp.reward, mdp.discount)
    expected = policy_accuracy(mdp, optimal, noisy)
    assert 0.3 < expected.mean() < 0.9
    # Rounding may flip single near-ties.
    assert (policy_accuracy(scaled, scale * optimal, scale * noisy) - expected).abs().mean() < 2e-3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tolerance": 0.0}, "give a positive number"),
        ({"tolerance": float("nan")}, "give a positive number"),
        ({"max_steps": -1}, "give zero or more"),
        ({"initial": torch.zeros(1, 3)}, "one per state"),
        ({"initial": torch.full((1, 2), float("nan"))}, "overflow"),
    ],
)
def test_bad_input(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(XLVINError, match=sentence):
        value_iteration(chain(), **options)  # type: ignore[arg-type]


def test_rewards_whose_values_overflow_are_refused() -> None:
    with pytest.raises(XLVINError, match="rescale"):
        value_iteration(chain(discount=0.9, scale=1e38))
