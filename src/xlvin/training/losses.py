"""PPO's terms as pure functions of per-sample tensors (Schulman et al. 2017); means are the caller's."""

from __future__ import annotations

import torch
from torch import Tensor


def policy_loss(log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """-min(rho A, clip(rho, 1 - eps, 1 + eps) A) with rho = pi(a|s) / pi_old(a|s).

    The minimum is clipped on one side: from above where A is positive, from below where it is negative.
    """
    good = advantage > 0.0
    lower, upper = torch.where(good, -torch.inf, 1.0 - clip), torch.where(good, 1.0 + clip, torch.inf)
    return -advantage * (log_prob - old_log_prob).exp().clamp(lower, upper)


def value_loss(value: Tensor, target: Tensor) -> Tensor:
    """(V(s) - G)^2 / 2."""
    return 0.5 * (value - target).square()


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip: float) -> Tensor:
    """max((V - G)^2, (V_old + clip(V - V_old, -eps, eps) - G)^2) / 2, as in Kostrikov's implementation."""
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(value_loss(value, target), value_loss(clipped, target))


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean over the samples that are no padding; zero where there are none."""
    return (values * weight).sum(-1) / weight.sum(-1).clamp(min=1.0)
