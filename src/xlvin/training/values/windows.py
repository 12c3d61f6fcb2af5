"""Replayed transitions with the few that followed each: what n-step Q-learning learns from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xlvin.agents.base import Batch, Trail
from xlvin.training.minibatches import at
from xlvin.training.replay import Replay, Seen
from xlvin.training.seeding import generator


class Window(NamedTuple):
    """Sampled windows of all seeds, in as few tensors as possible."""

    observation: Tensor  # [S, B, ...]
    next_observation: Tensor  # [S, B, ...], one step on
    end: Tensor  # [S, B, ...], the observation that the last step led to
    integers: Tensor  # [S, B, 1 + n]: negative, actions
    numbers: Tensor  # [S, B, 5 n + 2]: rewards, taken, terminated [n]; gain, share [n + 1]

    def trail(self, bootstrap: Tensor) -> Trail:
        """By name, with the returns that follow when the end is worth `bootstrap` [S, B]."""
        negative, action = self.integers.split_with_sizes((1, self.integers.shape[-1] - 1), -1)
        n = action.shape[-1]
        reward, taken, terminated, gain, share = self.numbers.split_with_sizes((n, n, n, n + 1, n + 1), -1)
        first = Batch(
            self.observation, action[..., 0], reward[..., 0], self.next_observation, negative[..., 0]
        )
        return Trail(first, action, reward, taken, terminated, gain + share * bootstrap.unsqueeze(-1))


class Windows:
    """The n steps from every transition of a replay on; they end earlier where their segment does."""

    def __init__(self, replay: Replay, n: int, discount: float) -> None:
        self._counts = [len(seen) for seen in replay.seeds]
        self._observation = _padded([seen.observation for seen in replay.seeds])
        self._next_observation = _padded([seen.next_observation for seen in replay.seeds])
        columns = [_columns(seen, n, discount) for seen in replay.seeds]
        self._integers, self._numbers = (_padded(list(column)) for column in zip(*columns, strict=True))

    def drawn(self, seeds: Sequence[int], updates: int, batch: int, *counters: int) -> Iterator[Window]:
        """Windows drawn evenly from all; every seed draws by its own stream."""
        rows, negatives = [], []
        for seed, count in zip(seeds, self._counts, strict=True):
            stream = generator(seed, "replay", *counters)
            rows.append(stream.integers(0, count, (updates, batch)))
            negatives.append(stream.integers(0, batch, (updates, batch, 1)))
        device = self._observation.device
        row, negative = (torch.from_numpy(np.stack(part, 1)).to(device) for part in (rows, negatives))
        for chosen, others in zip(row, negative, strict=True):
            integers = at(self._integers, chosen)
            yield Window(
                at(self._observation, chosen),
                at(self._next_observation, chosen),
                at(self._next_observation, integers[..., 0]),
                torch.cat((others, integers[..., 1:]), -1),
                at(self._numbers, chosen),
            )


def _columns(seen: Seen, n: int, discount: float) -> tuple[Tensor, Tensor]:
    """Of every window: its last row and its actions [N, 1 + n]; the numbers of `Window` [N, 5 n + 2].

    The return from the l-th state on is gain_l + share_l V, where V values the window's end:

        gain_l  = r_l + gamma gain_(l+1),   share_l = gamma share_(l+1)     where step l was taken
        gain_l  = 0,                        share_l = [not terminated]      at the end
    """
    row = torch.arange(len(seen), device=seen.action.device)
    ended = seen.first.roll(-1)
    ended[-1] = True
    final = torch.where(ended, row, len(seen)).flip(0).cummin(0).values.flip(0)  # of the row's segment
    last = final.minimum(row + n - 1)
    step = row.unsqueeze(1) + torch.arange(n, device=row.device)
    taken = (step <= last.unsqueeze(1)).float()
    step = step.minimum(last.unsqueeze(1))
    reward, terminated = seen.reward[step] * taken, seen.terminated[step] * taken
    alive, count = 1.0 - seen.terminated[last], last - row + 1
    gains, shares = [torch.zeros_like(alive)], [alive * (count == n)]
    for index in reversed(range(n)):
        gains.insert(0, reward[:, index] + taken[:, index] * discount * gains[0])
        shares.insert(0, torch.where(taken[:, index] > 0.0, discount * shares[0], alive * (count == index)))
    numbers = torch.cat((reward, taken, terminated, torch.stack(gains, 1), torch.stack(shares, 1)), 1)
    return torch.cat((last.unsqueeze(1), seen.action[step]), 1), numbers


def _padded(parts: list[Tensor]) -> Tensor:
    """Tensors [N, ...] of different lengths as one [S, M, ...], with zeros after them."""
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
