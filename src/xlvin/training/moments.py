"""Running statistics of the observations, by which they are standardised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Moments:
    """Running mean and variance of the observations of every seed."""

    def __init__(self, seeds: int, shape: tuple[int, ...]) -> None:
        self.count = np.zeros(seeds)
        self.mean = np.zeros((seeds, *shape))
        self.squares = np.zeros((seeds, *shape))

    def update(self, index: int, values: NDArray[Any]) -> None:
        """Add observations [N, ...] of one seed (Chan et al.'s parallel update)."""
        values = values.astype(np.float64)
        total = self.count[index] + len(values)
        difference = values.mean(0) - self.mean[index]
        self.squares[index] += (
            values.var(0) * len(values) + difference**2 * self.count[index] * len(values) / total
        )
        self.mean[index] += difference * len(values) / total
        self.count[index] = total

    def standardisation(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(mean, 1 / std), each [S, ...]; constant features are left unscaled."""
        count = np.maximum(self.count, 1.0).reshape(-1, *([1] * (self.mean.ndim - 1)))
        std = np.sqrt(self.squares / count)
        return self.mean.astype(np.float32), (1.0 / np.where(std < 1e-6, 1.0, std)).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """From arrays."""
        self.count, self.mean, self.squares = (state[name].copy() for name in ("count", "mean", "squares"))
