"""From what an agent chooses to what an environment takes: a number, a cell of a grid, or a vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from xlvin.binning import MOST, centres, default_bins, possible
from xlvin.errors import XLVINError

# The number of an action or of a cell; or a vector.
Action = int | Sequence[float]


@dataclass(frozen=True)
class Choices:
    """The actions of an environment as agents see them."""

    count: int  # how many there are; of vectors, how many numbers each has
    bins: tuple[int, ...]  # of each dimension, where the choices are the cells of a grid over vectors
    low: tuple[float, ...]  # of each dimension of continuous actions
    high: tuple[float, ...]
    take: Callable[[Any], Any]  # what the environment is given for a choice


def choices(name: str, space: spaces.Space[Any], bins: Sequence[int] | None) -> Choices:
    """Read an action space; `bins` as in `Environment`."""
    if not isinstance(space, spaces.Space):
        raise XLVINError(f"{name} does not say how to act in it; give it an action_space.")
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise XLVINError(
                f"{name} numbers its actions from {space.start}; wrap it so that they start at 0."
            )
        # As spaces give them: an environment that checks its action takes twice as long to check an int.
        numbers = [np.int64(action) for action in range(int(space.n))]
        return Choices(len(numbers), (), (), (), numbers.__getitem__)
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        raise XLVINError(
            f"{name} has actions in {space}, and agents here choose among discrete ones or vectors of real "
            "numbers; wrap it with gymnasium.wrappers.TransformAction over a spaces.Discrete or spaces.Box."
        )
    if not np.isfinite(space.high - space.low).all():
        raise XLVINError(
            f"{name} has actions without bounds ({space}); wrap it with gymnasium.wrappers.RescaleAction or "
            "TransformAction so that every dimension has two finite ones."
        )
    low, high = tuple(space.low.tolist()), tuple(space.high.tolist())
    if bins is None:
        return Choices(
            len(low),
            (),
            low,
            high,
            lambda vector: np.clip(np.array(vector, space.dtype), space.low, space.high),
        )
    bins = _checked(name, tuple(bins) or default_bins(len(low)), len(low))
    table = centres(bins, low, high).astype(space.dtype)
    return Choices(len(table), bins, low, high, lambda cell: table[cell].copy())


def _checked(name: str, bins: tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    """One number of bins for every dimension; a single one stands for all."""
    bins = bins * dimensions if len(bins) == 1 else bins
    if len(bins) != dimensions:
        raise XLVINError(
            f"{name} has actions of {dimensions} dimensions and {len(bins)} numbers of bins were given; "
            "give one for each, or one for all."
        )
    if not possible(bins):
        raise XLVINError(
            f"{name} has actions of {dimensions} dimensions, {math.prod(bins):,} joint ones in bins "
            f"{bins}; give each at least 2 and no more than {MOST:,} together with --network.bins, "
            "or choose agent ppo-gaussian."
        )
    return bins
