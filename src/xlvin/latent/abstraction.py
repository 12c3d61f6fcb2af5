"""Latent models to plan in: contrastive ones and autoencoders, all with the same parts.

A model embeds observations, predicts what actions do to an embedding, and reads from an embedding what it
pays to get there. What tells one system from another is which losses hold it together, stage by stage:

    PRAE     prediction and J negatives           van der Pol et al. (2020)
    DMDP-H   prediction alone, J = 0              Gelada et al. (2019)
    WM-AE    reconstruction, then prediction      Ha & Schmidhuber (2018)
    LD-AE    reconstruction and prediction together
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.latent.encoders import MLPEncoder
from xlvin.latent.losses import energy
from xlvin.latent.transition import TransitionModel


@dataclass(frozen=True)
class Stage:
    """Which losses a stage of learning adds up."""

    predict: bool = True
    """The next embedding and its reward."""
    negatives: int = 0
    """J: embeddings of other states that a prediction is pushed away from."""
    reconstruct: bool = False
    """The observations from their embeddings."""
    frozen: bool = False
    """Leave the encoder as it is."""

    def __post_init__(self) -> None:
        if self.negatives < 0 or (self.negatives and not self.predict):
            raise XLVINError("Negatives are pushed away from predictions; predict, and give zero or more.")
        if not (self.predict or self.reconstruct):
            raise XLVINError("A stage that neither predicts nor reconstructs learns nothing; choose one.")


SYSTEMS: dict[str, tuple[Stage, ...]] = {
    "prae-5": (Stage(negatives=5),),
    "prae-1": (Stage(negatives=1),),
    "dmdp-h": (Stage(),),
    "wm-ae": (Stage(predict=False, reconstruct=True), Stage(frozen=True)),
    "ld-ae": (Stage(reconstruct=True),),
}


class Steps(NamedTuple):
    """A minibatch of N observed steps."""

    observation: Tensor  # [N, o]
    action: Tensor  # [N] int64
    reward: Tensor  # [N]
    next_observation: Tensor  # [N, o]


class AbstractModel(nn.Module):
    """Encoder z, decoder, transition T, and the reward of arriving at an embedding.

    Encoder and transition are those of the XLVIN agent; the decoder mirrors the encoder. Observations are
    read in units of the data, which the buffers hold.
    """

    mean: Tensor  # [o]
    scale: Tensor  # [o]

    def __init__(self, observation: int, actions: int, latent: int = 50, hidden: int = 64) -> None:
        super().__init__()
        self.encoder = MLPEncoder(observation, hidden, latent)
        self.decoder = MLPEncoder(latent, hidden, observation)
        self.transition = TransitionModel(latent, actions, hidden)
        self.reward = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.register_buffer("mean", torch.zeros(observation))
        self.register_buffer("scale", torch.ones(observation))

    def standardise(self, observation: Tensor) -> Tensor:
        """Observations in units of the data."""
        return (observation - self.mean) / self.scale

    def forward(self, observation: Tensor) -> Tensor:
        """Embed observations, [..., o] -> [..., k]."""
        return cast(Tensor, self.encoder(self.standardise(observation)))

    def rewards(self, embedding: Tensor) -> Tensor:
        """What arriving at embeddings pays, [..., k] -> [...]."""
        return cast(Tensor, self.reward(embedding)).squeeze(-1)

    def loss(self, steps: Steps, stage: Stage, hinge: float = 1.0) -> Tensor:
        """The stage's losses per step, [N]."""
        here, there = self(steps.observation), self(steps.next_observation)
        total = torch.zeros_like(steps.reward)
        if stage.reconstruct:
            total = total + energy(self.decoder(here), self.standardise(steps.observation), sigma=1.0)
        if stage.predict:
            if stage.frozen:
                here, there = here.detach(), there.detach()
            predicted = here + self.transition.translation(here, steps.action)
            # Steps of a minibatch are drawn at random: a step's negatives are those before it.
            negatives = [here.roll(shift, 0) for shift in range(1, stage.negatives + 1)]
            total = total + equivariance_loss(predicted, there, negatives, hinge)
            total = total + 0.5 * (self.rewards(there) - steps.reward).square()
        return total


def equivariance_loss(
    predicted: Tensor, successor: Tensor, negatives: Sequence[Tensor] = (), hinge: float = 1.0
) -> Tensor:
    """Action equivariance with J negatives (van der Pol et al. 2020), per step; embeddings [..., k] -> [...].

    L = d(z + T(z, a), z(s')) + sum_j max(0, xi - d(z(s~_j), z + T(z, a))),  d(x, y) = ||x - y||^2 / 2
    """
    loss = energy(predicted, successor, sigma=1.0)
    for negative in negatives:
        loss = loss + (hinge - energy(negative, predicted, sigma=1.0)).clamp(min=0.0)
    return loss
