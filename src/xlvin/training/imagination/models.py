"""What imagination asks of world models, whichever they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from xlvin.latent.world import Imagined
from xlvin.training.experience import Experience
from xlvin.training.learner import Learner
from xlvin.training.objective import Targets
from xlvin.training.replay import Replay


class WorldModels(ABC):
    """The models of all seeds, stacked, of states [S, ..., s] that observations [S, ..., o] stand for."""

    exhaustible = False
    """Whether what was never tried is known, so that all can be tried one day."""

    def learner(self, learner: Learner) -> Learner:
        """What acts and learns in states: by default what does so in observations."""
        return learner

    def place(self, observation: Tensor) -> Tensor:
        """States for observations: by default the same."""
        return observation

    @abstractmethod
    def fit(self, replay: Replay, round_: int, last: bool = False) -> NDArray[np.float32]:
        """Learn from all data; returns the mean loss [S]."""

    def behaviour(self, chances: Tensor) -> Tensor:
        """How branches act where a policy's chances are [..., A]: by default as the policy does."""
        return chances

    @abstractmethod
    def imagine(self, state: Tensor, action: Tensor, uniform: Tensor) -> Imagined:
        """What comes of actions [S, B] in states [S, B, s]; `uniform` [S, B, 2] decides what is drawn."""

    @abstractmethod
    def landmarks(self, replay: Replay, round_: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Some seen states [S, M, s], and a unit of distance [S, 1]."""

    @abstractmethod
    def distance(
        self, state: Tensor, action: Tensor, successor: Tensor, landmarks: Tensor, unit: Tensor
    ) -> Tensor:
        """How far from what was seen steps of B branches lead, in units; [S, B]."""

    def targets(
        self,
        policy: Callable[[int], Tensor],
        experience: Experience,
        sampled: Targets,
        scale: Tensor,
        beyond: Tensor,
        discount: float,
    ) -> Targets:
        """What PPO learns from imagined steps [S, N]: by default what was sampled along the branches.

        `policy` gives the agents' chances in each of n states. Rewards are multiplied by `scale` [S, 1];
        what lies beyond the known is worth `beyond` [S, 1].
        """
        return sampled

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint."""

    @abstractmethod
    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
