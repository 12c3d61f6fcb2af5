"""Losses that shape the latent space, as pure functions."""

from __future__ import annotations

from torch import Tensor


def energy(x: Tensor, y: Tensor, sigma: float = 0.5) -> Tensor:
    """Squared distance of embeddings, d(x, y) = 0.5 / sigma^2 * ||x - y||^2; [..., k] -> [...]."""
    return (0.5 / sigma**2) * (x - y).square().sum(-1)


def transe_loss(predicted: Tensor, successor: Tensor, negative: Tensor, hinge: float = 1.0) -> Tensor:
    """TransE (equation 4), per sample; embeddings [..., k] -> [...].

        L((s, a, s'), s~) = d(z(s) + T(z(s), a), z(s')) + max(0, xi - d(z(s~), z(s')))

    `predicted` is z(s) + T(z(s), a), `successor` z(s'), `negative` z(s~) of a random state, `hinge` xi.
    """
    return energy(predicted, successor) + (hinge - energy(negative, successor)).clamp(min=0.0)
