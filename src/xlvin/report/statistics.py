"""Statistics over seeds: mean, standard deviation, interquartile mean, and bootstrap intervals.

A statistic is a function over the last axis, so that thousands of resamples are one array. Resampling fewer
than `FEWEST` seeds makes intervals far too narrow (of three seeds, 75 instead of 95 % hold the mean):
then no interval is claimed, and the range of the scores is told instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.errors import XLVINError

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
FEWEST = 5  # seeds that an interval is made of
RANGE = "range"


def mean(scores: Array) -> Array:
    """The average over the last axis."""
    return np.asarray(scores.mean(-1))


def iqm(scores: Array) -> Array:
    """The interquartile mean over the last axis: a quarter of the scores is dropped at either end.

    Of n scores floor(n / 4) go at each end, so up to three scores it is the mean.
    """
    dropped = scores.shape[-1] // 4
    kept = np.sort(scores, -1)[..., dropped : scores.shape[-1] - dropped]
    return np.asarray(kept.mean(-1))


def bootstrap_interval(
    scores: Sequence[float] | Array,
    statistic: Statistic = iqm,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of a statistic over seeds; the same input gives the same interval."""
    values = _checked(scores)
    if not 0.0 < confidence < 1.0:
        raise XLVINError(f"The confidence is {confidence}; give a number between 0 and 1, such as 0.95.")
    draws = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(statistic(values[draws]), (tail, 1.0 - tail))
    return float(low), float(high)


def paired_difference(first: Sequence[float] | Array, second: Sequence[float] | Array) -> dict[str, float]:
    """mean(first - second) over shared seeds and its interval, or range: difference, low, high."""
    if len(first) != len(second):
        raise XLVINError(f"{len(first)} scores cannot be paired with {len(second)}; give the same seeds.")
    differences = _checked(first) - _checked(second)
    low, high = _bounds(differences, mean)
    return {"difference": float(differences.mean()), "low": low, "high": high}


def summarise(scores: Sequence[float] | Array, interval_of: Statistic = iqm) -> dict[str, Any]:
    """A row's numbers: mean, std, iqm, low and high, how many seeds, and what low and high are.

    They are the 95 % interval of a statistic, whose name is then in `interval_of`, or the range. The standard
    deviation is the sample's (n - 1), zero for a single seed.
    """
    values = _checked(scores)
    low, high = _bounds(values, interval_of)
    return {
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "iqm": float(iqm(values)),
        "low": low,
        "high": high,
        "seeds": len(values),
        "interval_of": interval_name(interval_of, len(values)),
    }


def interval_name(statistic: Statistic, seeds: int) -> str:
    """What low and high of so many seeds are: the interval of "mean" or "iqm", or the "range"."""
    return statistic.__name__ if seeds >= FEWEST else RANGE


def _bounds(values: Array, statistic: Statistic) -> tuple[float, float]:
    """The interval of a statistic, or the range of few values."""
    if len(values) < FEWEST:
        return float(values.min()), float(values.max())
    return bootstrap_interval(values, statistic)


def _checked(scores: Sequence[float] | Array) -> Array:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise XLVINError("Statistics need a list of at least one score, all of them finite.")
    return values
