"""Collected segments as tensors: one pool of observations per seed, every observation stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xlvin.training.rollouts import Segment


@dataclass(frozen=True, eq=False)
class Experience:
    """N transitions of each of S seeds, padded to the longest; padding has weight zero.

    The successor of the observation at `state` stands right after it in the pool, and it is always the
    true one: a segment's last observation is stored too.
    """

    pool: Tensor  # [S, M, ...] observations
    state: Tensor  # [S, N] int64, index of s_t in the pool; s_{t+1} is at state + 1
    action: Tensor  # [S, N] int64; vectors [S, N, d]
    reward: Tensor  # [S, N]
    terminated: Tensor  # [S, N] bool: no value beyond this step
    ended: Tensor  # [S, N] bool: the segment's last step; the next row belongs to another episode
    weight: Tensor  # [S, N] one, or zero for padding
    count: tuple[int, ...]  # real transitions per seed

    @classmethod
    def from_segments(cls, segments: Sequence[Sequence[Segment]], device: torch.device | str) -> Experience:
        """Stack the segments of every seed."""
        columns = [_flatten(of_seed) for of_seed in segments]

        def stack(index: int) -> Tensor:
            arrays = [column[index] for column in columns]
            shape = (len(arrays), max(map(len, arrays)), *arrays[0].shape[1:])
            padded = np.zeros(shape, arrays[0].dtype)
            for row, array in zip(padded, arrays, strict=True):
                row[: len(array)] = array
            return torch.from_numpy(padded).to(device)

        pool, state, action, reward, terminated, ended = (stack(index) for index in range(6))
        count = tuple(len(column[1]) for column in columns)
        weight = (torch.arange(state.shape[1]) < torch.tensor(count).unsqueeze(1)).float().to(device)
        return cls(pool, state, action, reward, terminated, ended, weight, count)


def _flatten(segments: Sequence[Segment]) -> tuple[np.ndarray, ...]:
    steps = np.array([len(segment.actions) for segment in segments])
    # A segment has one observation more than it has steps.
    state = np.arange(steps.sum()) + np.repeat(np.arange(len(segments)), steps)
    last = np.cumsum(steps) - 1
    terminated, ended = np.zeros((2, len(state)), bool)
    terminated[last], ended[last] = [segment.terminated for segment in segments], True
    return (
        np.concatenate([segment.observations for segment in segments]),
        state,
        np.concatenate([segment.actions for segment in segments]),
        np.concatenate([segment.rewards for segment in segments]),
        terminated,
        ended,
    )
