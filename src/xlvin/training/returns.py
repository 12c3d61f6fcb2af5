"""Advantages and returns of many flat, concatenated episodes at once."""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_sums(values: Tensor, carry: Tensor) -> Tensor:
    """Solve y_t = x_t + c_t y_{t+1} along the last axis (y beyond the end is zero).

    Works by doubling: after k passes every entry has summed 2^k terms, so N steps take log2(N) passes of
    whole-tensor products instead of N small ones.
    """
    sums, length, span = values.clone(), values.shape[-1], 1
    while span < length:
        sums[..., :-span].add_(carry[..., : length - span] * sums[..., span:])
        carry, span = carry[..., :-span] * carry[..., span:], 2 * span
    return sums


def advantages(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    ended: Tensor,
    discount: float,
    gae_lambda: float,
    trust: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016), all tensors [..., N].

        delta_t = r_t + gamma V(s_{t+1}) [not terminated] - V(s_t)
        A_t     = delta_t + gamma lambda A_{t+1} [not ended]

    A truncated episode ends the sum and keeps its bootstrap. gae_lambda = 1 gives Monte-Carlo returns A + V.
    With `trust` c_t, see `trusted`, A_{t+1} counts c_{t+1} times, and the critic's target is V + c A: V-trace
    (Espeholt et al. 2018).
    """
    delta = reward + discount * next_value * ~terminated - value
    carry = discount * gae_lambda * (~ended).to(reward.dtype)
    if trust is not None:
        carry = carry * torch.nn.functional.pad(trust[..., 1:], (0, 1))
    return discounted_sums(delta, carry)


def trusted(log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
    """min(1, pi(a|s) / pi_old(a|s)): how much a policy learns from what followed an older one's actions."""
    return (log_prob - old_log_prob).exp().clamp(max=1.0)


def standardise(values: Tensor, weight: Tensor) -> Tensor:
    """Mean zero and variance one along the last axis, over what has weight."""
    count = weight.sum(-1, keepdim=True)
    mean = (values * weight).sum(-1, keepdim=True) / count
    variance = ((values - mean).square() * weight).sum(-1, keepdim=True) / count
    return (values - mean) / (variance.sqrt() + 1e-8)
