"""What is drawn: fresh weights by a seed alone, outcomes by their probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn inside depends on `seed` alone; the caller's stream is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed every GPU as well
        yield


def draw(probability: Tensor, uniform: Tensor) -> Tensor:
    """Which outcomes uniform numbers [..., 1] stand for, by their probabilities [..., A]; [...] int64."""
    return (probability.cumsum(-1)[..., :-1] < uniform).sum(-1)
