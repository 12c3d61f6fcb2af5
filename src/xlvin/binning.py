"""Continuous actions as choices: a grid over the box of actions, the same for environments and for agents.

Every dimension is cut into bins whose centres are evenly spaced from its lowest to its highest value, both
included; an odd number of them includes the middle. A joint action is one bin of every dimension, numbered
like the cells of an array: the last dimension counts fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Bins of each dimension by the number of dimensions, and for more dimensions.
BINS = {1: 11, 2: 5}
FEWEST = 3
# Joint actions that an agent can choose among.
MOST = 1000


def default_bins(dimensions: int) -> tuple[int, ...]:
    """How finely a box of actions is cut unless the user says otherwise."""
    return (BINS.get(dimensions, FEWEST),) * dimensions


def possible(bins: Sequence[int]) -> bool:
    """Whether every dimension has a choice and there are not too many joint actions."""
    return bool(bins) and min(bins) >= 2 and math.prod(bins) <= MOST


def centres(bins: Sequence[int], low: Sequence[float], high: Sequence[float]) -> NDArray[np.float32]:
    """What every joint action does: [A, d], A the product of the bins."""
    axes = [np.linspace(first, last, count) for first, last, count in zip(low, high, bins, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(bins)).astype(np.float32)
