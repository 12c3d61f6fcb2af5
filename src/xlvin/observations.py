"""Observations as networks read them, the same for environments while training and for agents in use.

Vectors are float32, images [channels, height, width], discrete states one-hot; what has another shape is
flattened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.errors import XLVINError

Array = NDArray[Any]
# The shape of a discrete state, which is a number.
DISCRETE: tuple[int, ...] = ()
# Images smaller than this are read as vectors: no convolution of the usual encoder fits them.
SMALLEST_IMAGE = 36


def converter(given: tuple[int, ...], read: tuple[int, ...], dtype: str) -> Callable[[Any], Array]:
    """A function from observations [*given] or [B, *given] to new arrays [*read] or [B, *read]."""
    if given == DISCRETE:
        return partial(_one_hot, read[0])
    if given == read:
        return partial(np.array, dtype=dtype)

    def convert(observation: Any) -> Array:
        array = np.array(observation, dtype=dtype)
        if len(read) == 3:
            return np.moveaxis(array, -1, -3)
        return array.reshape(*array.shape[: array.ndim - len(given)], *read)

    return convert


def _one_hot(count: int, observation: Any) -> Array:
    states = np.asarray(observation)
    if not np.issubdtype(states.dtype, np.integer) or (states < 0).any() or (states >= count).any():
        raise XLVINError(f"A discrete state must be a whole number from 0 to {count - 1}, not {states}.")
    rows = np.zeros((*states.shape, count), np.float32)
    np.put_along_axis(rows, states[..., None], 1.0, -1)
    return rows
