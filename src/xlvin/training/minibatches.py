"""How the data of a round is cut into minibatches: every seed shuffles by its own stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xlvin.agents.base import Batch
from xlvin.training.experience import Experience
from xlvin.training.objective import Sample, Targets
from xlvin.training.seeding import generator


class Minibatch(NamedTuple):
    """Which rows of the experience a minibatch holds; padded to the same size for every seed."""

    rows: Tensor  # [S, B] int64, into the experience
    negative: Tensor  # [S, B] int64, into the minibatch: a random other state for TransE
    weight: Tensor  # [S, B] one, or zero for padding


def minibatches(
    seeds: Sequence[int], counts: Sequence[int], parts: int, round_: int, epoch: int, device: torch.device
) -> Iterator[Minibatch]:
    """Cut each seed's `counts` rows into `parts` of nearly equal size, in random order."""
    size = -(-max(counts) // parts)
    rows = np.zeros((len(seeds), parts, size), np.int64)
    negative = np.zeros_like(rows)
    weight = np.zeros(rows.shape, np.float32)
    for index, (seed, count) in enumerate(zip(seeds, counts, strict=True)):
        stream = generator(seed, "minibatches", round_, epoch)
        cut = np.array_split(stream.permutation(count), parts)
        for part, chosen in enumerate(cut):
            length = len(chosen)
            rows[index, part, :length] = chosen
            negative[index, part, :length] = stream.integers(0, max(1, length), length)
            weight[index, part, :length] = 1.0
    columns = (torch.from_numpy(array).to(device) for array in (rows, negative, weight))
    for minibatch in zip(*(column.unbind(1) for column in columns), strict=True):
        yield Minibatch(*minibatch)


class Rows:
    """The transitions of a round with what PPO holds against them, to be picked from."""

    def __init__(self, experience: Experience, reward: Tensor, targets: Targets) -> None:
        self._pool = experience.pool
        # Picked together: one copy of all numbers of a row instead of one for each.
        self._integers = torch.stack((experience.state, experience.action), -1)
        self._numbers = torch.stack((reward, *targets), -1)

    def sample(self, chosen: Minibatch) -> Sample:
        """A minibatch."""
        state, action = at(self._integers, chosen.rows).unbind(-1)
        reward, *targets = at(self._numbers, chosen.rows).unbind(-1)
        batch = Batch(at(self._pool, state), action, reward, at(self._pool, state + 1), chosen.negative)
        return Sample(batch, Targets(*targets), chosen.weight)


def at(values: Tensor, index: Tensor) -> Tensor:
    """values[s, index[s, n]] for values [S, M, ...] and index [S, N]."""
    seeds, members = values.shape[:2]
    if seeds > 1:
        index = index + torch.arange(0, seeds * members, members, device=index.device).unsqueeze(1)
    return values.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, *values.shape[2:])
