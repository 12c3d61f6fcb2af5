"""Randomness by name: every random stream is derived from (seed, purpose, counters), never carried along.

A seed's data then never depends on which other seeds train beside it, and a resumed run needs no stored
generators: round 7's permutation is round 7's permutation.
"""

from __future__ import annotations

import zlib

import numpy as np


def _entropy(seed: int, purpose: str, counters: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *counters])


def derive_seed(seed: int, purpose: str, *counters: int) -> int:
    """A 31-bit seed for something that takes an integer (an environment, torch)."""
    return int(_entropy(seed, purpose, counters).generate_state(1)[0]) >> 1


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A fresh NumPy generator for one purpose."""
    return np.random.Generator(np.random.PCG64(_entropy(seed, purpose, counters)))
