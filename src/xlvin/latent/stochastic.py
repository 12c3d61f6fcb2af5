"""A transition model for worlds that roll dice: several successors for an action (section 3.1's remedy).

The expectation E z(s') of equation 5 may be no state at all, and nothing sensible follows from it. Here an
action has M successors, one for each of M fixed latent codes, and says how probable each is:

    f(h, a, m) = T's features with a first-layer row per action and code
    T(h, a, m) = W_output f(h, a, m) + b_output                          the translation of sample m
    p(m|h, a)  = softmax_m w_weigh f(h, a, m)                            its chance

A tree takes every sample with its chance, so that planning needs no random numbers.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.latent.losses import energy
from xlvin.latent.transition import Outcomes, TransitionModel, think

# Of the mixture, in units of the energy: how near a sample must be to answer for a successor. With the
# energy's own width (1.0) states that the hinge holds apart would still share a sample at their mean.
TEMPERATURE = 0.1


class StochasticTransitionModel(TransitionModel):
    """T(h, a, m) and p(m|h, a), for m = 1 ... M."""

    def __init__(self, width: int, actions: int, hidden: int, samples: int) -> None:
        if samples < 2:
            raise XLVINError(
                f"A stochastic transition model with {samples} samples is impossible; give 2 or more."
            )
        self.samples = samples
        super().__init__(width, actions, hidden)
        self.weigh = nn.Linear(hidden, 1, bias=False)

    def outcomes(self, states: Tensor, dim: int = -2) -> Outcomes:
        """All samples of all actions, [..., A M, k] and [..., A, M]; `dim` as in `features`."""
        features = self.features(states, dim)
        return Outcomes(states.unsqueeze(dim) + self.output(features), self.chances(features, dim))

    def chances(self, features: Tensor, dim: int = -2) -> Tensor:
        """p(m|h, a) of features with the branches at `dim`, [..., A M, ..., F] -> [..., A, M, ...]."""
        logits = self.weigh(features).squeeze(-1)
        return torch.unflatten(logits, dim + 1, (self.actions, self.samples)).softmax(dim + 1)

    def translation(self, states: Tensor, action: Tensor) -> Tensor:
        """The expected translation of one action each, [..., k] and [...] int64 -> [..., k]."""
        translations, logits = self.of_action(states, action)
        return (logits.softmax(-1).unsqueeze(-1) * translations).sum(-2)

    def of_action(self, states: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """T(h, a, m) for one action each, [..., M, k], and the logits of p, [..., M]."""
        rows = self.action.weight.view(self.actions, self.samples, -1)[action]  # [..., M, F]
        features = think(self.state(states).unsqueeze(-2) + rows, *self.core)
        return self.output(features), cast(Tensor, self.weigh(features)).squeeze(-1)


def mixture_loss(
    predicted: Tensor,
    logits: Tensor,
    successor: Tensor,
    negative: Tensor,
    hinge: float = 1.0,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """TransE (equation 4) with several predictions, per sample; [..., M, k], [..., M], [..., k] -> [...].

        L = sum_m r_m (d(z(s) + T(z(s), a, m), z(s')) - log p_m) + max(0, xi - d(z(s~), z(s')))
        r_m = softmax_m(log p_m - d_m / tau), without a gradient

    These are steps of expectation maximisation for a mixture of M Gaussians with weights p: prediction m
    answers for s' by the share r_m, is drawn to it by that share, and p learns the shares. One prediction
    makes it equation 4; a small tau lets the nearest one learn.
    """
    log_chance = logits.log_softmax(-1)
    distance = energy(predicted, successor.unsqueeze(-2))
    share = (log_chance - distance / temperature).softmax(-1).detach()
    near = (share * (distance - log_chance)).sum(-1)
    return near + (hinge - energy(negative, successor)).clamp(min=0.0)
