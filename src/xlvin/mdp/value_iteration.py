"""Value iteration with its whole trace (equation 1), and the greedy policies it yields."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class Trace:
    """Every sweep of value iteration over a batch of MDPs."""

    values: Tensor  # [T + 1, B, S]: V_0 ... V_T
    steps: Tensor  # [B] int64: the sweep after which each MDP's values moved less than the tolerance

    @property
    def final(self) -> Tensor:
        """The last values, [B, S]: V* up to the tolerance."""
        return self.values[-1]


def sweep(mdp: TabularMDP, values: Tensor) -> Tensor:
    """One application of the Bellman optimality operator, V_t -> V_{t+1}; [B, S] -> [B, S]."""
    return mdp.action_values(values).amax(-1)


def value_iteration(
    mdp: TabularMDP, tolerance: float = 1e-4, max_steps: int | None = None, initial: Tensor | None = None
) -> Trace:
    """Iterate equation 1 from `initial` (zeros if omitted) until no value moves by `tolerance` or more.

    The tolerance is absolute, in units of reward; V_T is then within tolerance * gamma / (1 - gamma) of V*.
    The batch runs until its slowest member has converged or `max_steps` sweeps are done; `Trace.steps`
    says when each member did.
    """
    if not tolerance > 0.0:
        raise XLVINError(f"The tolerance is {tolerance}; give a positive number.")
    if max_steps is not None and max_steps < 0:
        raise XLVINError(f"The number of sweeps is {max_steps}; give zero or more, or None for no limit.")
    trace = [_start(mdp, initial)]
    steps = torch.zeros(mdp.batch, dtype=torch.int64, device=mdp.reward.device)
    moving = torch.ones_like(steps, dtype=torch.bool)
    limit = math.inf if max_steps is None else max_steps
    while len(trace) <= limit and moving.any():
        trace.append(sweep(mdp, trace[-1]))
        change = (trace[-1] - trace[-2]).abs().amax(-1)
        steps += moving
        moving &= change >= tolerance
        if len(trace) == 2:
            # Rounding can move large values by more than a tiny tolerance for ever; exact sweeps would not.
            limit = min(limit, _sufficient_steps(float(change.amax()), mdp.discount, tolerance))
    return Trace(torch.stack(trace), steps)


def _start(mdp: TabularMDP, initial: Tensor | None) -> Tensor:
    """V_0, [B, S], checked to lead to values that fit the number format."""
    shape = mdp.reward.shape[:2]
    start = mdp.reward.new_zeros(shape) if initial is None else initial.to(mdp.reward)
    if start.shape != shape:
        raise XLVINError(
            f"Initial values have shape {tuple(start.shape)}; give {tuple(shape)}: one per state."
        )
    bound = float(start.abs().amax()) + float(mdp.reward.abs().amax()) / (1.0 - mdp.discount)
    if not bound < torch.finfo(start.dtype).max:
        raise XLVINError(
            f"Values up to {bound:.3g} overflow {start.dtype}; rescale rewards or initial values."
        )
    return start


def _sufficient_steps(first_change: float, discount: float, tolerance: float) -> int:
    """Sweeps that bring the change below `tolerance`: sweep t + 1 moves by gamma^t `first_change` at most."""
    if first_change < tolerance:
        return 1
    if discount == 0.0:
        return 2
    return math.floor(math.log(first_change / tolerance) / -math.log(discount)) + 2


def greedy_policy(mdp: TabularMDP, values: Tensor) -> Tensor:
    """The action that one step of lookahead from `values` prefers, [B, S] int64."""
    return mdp.action_values(values).argmax(-1)


def optimal_actions(mdp: TabularMDP, values: Tensor, tolerance: float = 1e-3) -> Tensor:
    """Which actions are optimal under V*, [B, S, A] bool.

    Ties count: an action is optimal if it falls short of the best by no more than `tolerance` times the MDP's
    largest absolute reward, so that the answer does not depend on the unit in which rewards are given.
    """
    action_values = mdp.action_values(values)
    slack = tolerance * mdp.reward.abs().amax((1, 2), keepdim=True)
    return action_values >= action_values.amax(-1, keepdim=True) - slack


def policy_accuracy(mdp: TabularMDP, optimal_values: Tensor, values: Tensor) -> Tensor:
    """Share of states where acting greedily on `values` picks an optimal action, [B]."""
    chosen = greedy_policy(mdp, values).unsqueeze(-1)
    return optimal_actions(mdp, optimal_values).gather(-1, chosen).squeeze(-1).float().mean(-1)
