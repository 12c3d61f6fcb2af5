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

    The batch runs until its slowest member has converged or `max_steps` sweeps are done; `Trace.steps`
    says when each member did.
    """
    if tolerance <= 0.0:
        raise XLVINError(f"The tolerance is {tolerance}; give a positive number.")
    values = torch.zeros(mdp.reward.shape[:2], device=mdp.reward.device) if initial is None else initial
    trace = [values]
    steps = torch.full((mdp.batch,), -1, device=values.device)
    while (steps < 0).any() and (max_steps is None or len(trace) <= max_steps):
        values = sweep(mdp, trace[-1])
        change = (values - trace[-1]).abs().amax(-1)
        trace.append(values)
        steps = torch.where((steps < 0) & (change < tolerance), len(trace) - 1, steps)
        # In single precision large values can wobble by more than a tiny tolerance for ever.
        if len(trace) > 2 + _contraction_steps(mdp, tolerance):
            break
    return Trace(torch.stack(trace), torch.where(steps < 0, len(trace) - 1, steps))


def _contraction_steps(mdp: TabularMDP, tolerance: float) -> int:
    """Sweeps after which the contraction by gamma guarantees a change below `tolerance`, from any start."""
    if mdp.discount == 0.0:
        return 1
    bound = float(mdp.reward.abs().amax()) * 4.0 / (1.0 - mdp.discount)
    return math.ceil(max(0.0, math.log(max(bound, tolerance) / tolerance)) / -math.log(mdp.discount)) + 1


def greedy_policy(mdp: TabularMDP, values: Tensor) -> Tensor:
    """The action that one step of lookahead from `values` prefers, [B, S] int64."""
    return mdp.action_values(values).argmax(-1)


def optimal_actions(mdp: TabularMDP, values: Tensor, tolerance: float = 1e-3) -> Tensor:
    """Which actions are optimal under V* (ties within `tolerance` count), [B, S, A] bool."""
    action_values = mdp.action_values(values)
    return action_values >= action_values.amax(-1, keepdim=True) - tolerance


def policy_accuracy(mdp: TabularMDP, optimal_values: Tensor, values: Tensor) -> Tensor:
    """Share of states where acting greedily on `values` picks an optimal action, [B]."""
    chosen = greedy_policy(mdp, values).unsqueeze(-1)
    return optimal_actions(mdp, optimal_values).gather(-1, chosen).squeeze(-1).float().mean(-1)
