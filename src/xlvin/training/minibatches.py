"""How the data of a round is cut into minibatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.base import Batch
from xlvin.training.experience import Experience
from xlvin.training.objective import Sample, Targets
from xlvin.training.seeding import generator

Array = NDArray[Any]
TARGETS = len(Targets._fields)


class Minibatch(NamedTuple):
    """A minibatch in as few tensors as possible, all seeds padded to the same size."""

    observation: Tensor  # [S, B, ...]
    next_observation: Tensor  # [S, B, ...], the true successor
    integers: Tensor  # [S, B, 2]: action, or zero if that is a vector, negative
    numbers: Tensor  # [S, B, 6 + d]: reward, the targets, an action that is a vector, weight

    def sample(self) -> Sample:
        """With every column by its name; views."""
        action, negative = self.integers.unbind(-1)
        reward, *numbers, weight = self.numbers.unbind(-1)
        targets, vector = numbers[:TARGETS], numbers[TARGETS:]
        if vector:
            action = torch.stack(vector, -1)
        batch = Batch(self.observation, action, reward, self.next_observation, negative)
        return Sample(batch, Targets(*targets), weight)


class Minibatches:
    """The transitions of a round, cut into minibatches anew for every epoch."""

    def __init__(
        self, experience: Experience, reward: Tensor, targets: Targets, seeds: Sequence[int], parts: int
    ) -> None:
        self._pool, self._counts = experience.pool, experience.count
        self._seeds, self._parts = seeds, parts
        # Picked together: one copy of all numbers of a row instead of one for each.
        action, vectors = experience.action, experience.action.ndim > experience.state.ndim
        number = torch.zeros_like(experience.state) if vectors else action
        self._integers = torch.stack((experience.state, number), -1)
        self._numbers = torch.stack((reward, *targets, *(action.unbind(-1) if vectors else ())), -1)

    def shuffled(self, round_: int, epoch: int) -> Iterator[Minibatch]:
        """Every transition once, in parts of nearly equal size."""
        rows, negative, weight = (
            torch.from_numpy(array).to(self._pool.device)
            for array in shuffle(self._seeds, self._counts, self._parts, round_, epoch)
        )
        chosen, number = at(self._integers, rows.flatten(1)).view(*rows.shape, 2).unbind(-1)
        numbers = at(self._numbers, rows.flatten(1)).view(*rows.shape, -1)
        whole = Minibatch(
            at(self._pool, chosen.flatten(1)).view(*rows.shape, *self._pool.shape[2:]),
            at(self._pool, chosen.flatten(1) + 1).view(*rows.shape, *self._pool.shape[2:]),
            torch.stack((number, negative), -1),
            torch.cat((numbers, weight.unsqueeze(-1)), -1),
        )
        for part in range(self._parts):
            yield Minibatch(*(column[:, part] for column in whole))


def shuffle(
    seeds: Sequence[int], counts: Sequence[int], parts: int, round_: int, epoch: int
) -> tuple[Array, Array, Array]:
    """Which rows a minibatch holds, which row of it is the negative of each, and what is no padding.

    [S, parts, B] each; every seed shuffles by its own stream.
    """
    rows = np.zeros((len(seeds), parts, -(-max(counts) // parts)), np.int64)
    negative, weight = np.zeros_like(rows), np.zeros(rows.shape, np.float32)
    for index, (seed, count) in enumerate(zip(seeds, counts, strict=True)):
        stream = generator(seed, "minibatches", round_, epoch)
        for part, chosen in enumerate(np.array_split(stream.permutation(count), parts)):
            length = len(chosen)
            rows[index, part, :length] = chosen
            negative[index, part, :length] = stream.integers(0, max(1, length), length)
            weight[index, part, :length] = 1.0
    return rows, negative, weight


def at(values: Tensor, index: Tensor) -> Tensor:
    """values[s, index[s, n]] for values [S, M, ...] and index [S, N]."""
    seeds, members = values.shape[:2]
    if seeds > 1:
        index = index + torch.arange(0, seeds * members, members, device=index.device).unsqueeze(1)
    return values.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, *values.shape[2:])
