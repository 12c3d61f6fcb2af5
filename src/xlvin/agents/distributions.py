"""What an agent's policy is: a choice among actions, or a Gaussian over vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor, nn

Array = NDArray[Any]


class Distribution(ABC):
    """A policy for every state of a batch [...], from what the agent's network says."""

    @abstractmethod
    def log_prob(self, action: Tensor) -> Tensor:
        """Of one action each, [...]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """[...]."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most probable actions."""

    @abstractmethod
    def quantiles(self) -> Tensor:
        """What `draw` has to know."""

    @staticmethod
    @abstractmethod
    def draw(quantiles: Array, uniform: Array) -> Array:
        """Actions by inverting the distribution function at uniform numbers."""


class Categorical(Distribution):
    """Actions 0 to A - 1 by their logits [..., A]; an action is int64 and needs one uniform number."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def log_probs(self) -> Tensor:
        """[..., A]."""
        return self.logits.log_softmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Of actions [...] int64."""
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """- sum of p log p."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def mode(self) -> Tensor:
        """[...] int64."""
        return self.logits.argmax(-1)

    def quantiles(self) -> Tensor:
        """P(action <= a) for every action but the last, [..., A - 1]."""
        return self.logits.softmax(-1).cumsum(-1)[..., :-1]

    @staticmethod
    def draw(quantiles: Array, uniform: Array) -> Array:
        """[..., A - 1] and [...] -> [...] int64."""
        chosen: Array = (quantiles < uniform[..., None]).sum(-1)
        return chosen


class Gaussian(Distribution):
    """Vectors of d independent numbers, from means and logarithms of deviations side by side [..., 2 d].

    An action is [..., d] and needs d uniform numbers.
    """

    def __init__(self, parameters: Tensor) -> None:
        self.parameters = parameters
        self.mean, self.log_std = parameters.chunk(2, -1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Of vectors [..., d]: the density's logarithm."""
        standard = (action - self.mean) * (-self.log_std).exp()
        return -(0.5 * standard.square() + self.log_std + 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Of the density."""
        return (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)

    def mode(self) -> Tensor:
        """The means, [..., d]."""
        return self.mean

    def quantiles(self) -> Tensor:
        """Means and logarithms of deviations, [..., 2 d]."""
        return self.parameters

    @staticmethod
    def draw(quantiles: Array, uniform: Array) -> Array:
        """[..., 2 d] and [..., d] -> [..., d] float32."""
        mean, log_std = np.split(quantiles, 2, -1)
        # Zero is among the uniform numbers, and no vector is infinitely far away.
        drawn: Array = mean + np.exp(log_std) * ndtri(np.clip(uniform, 1e-12, None))
        return drawn.astype(np.float32)


class FactoredLinear(nn.Linear):
    """Logits of joint actions that are sums of one logit per dimension: dimensions are drawn independently.

    [..., inputs] -> [..., A], A the product of the bins; the joint actions are in the order of
    `xlvin.binning`.
    """

    def __init__(self, inputs: int, bins: Sequence[int]) -> None:
        super().__init__(inputs, sum(bins))
        self.bins = tuple(bins)

    def forward(self, features: Tensor) -> Tensor:
        """One row of logits for every dimension, added up."""
        first, *others = super().forward(features).split_with_sizes(self.bins, -1)
        joint = first
        for logits in others:
            joint = (joint.unsqueeze(-1) + logits.unsqueeze(-2)).flatten(-2)
        return joint


def make_actor(inputs: int, actions: int, bins: Sequence[int]) -> nn.Linear:
    """A linear head for the logits of all actions; factored where they are the cells of a grid."""
    return FactoredLinear(inputs, bins) if bins else nn.Linear(inputs, actions)
