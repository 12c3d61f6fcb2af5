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

    The successor of the observation at `state` stands right behind it in the pool, and it is always the
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
            longest = max(len(column[index]) for column in columns)
            padded = [
                np.concatenate(
                    (c[index], np.zeros((longest - len(c[index]), *c[index].shape[1:]), c[index].dtype))
                )
                for c in columns
            ]
            return torch.from_numpy(np.stack(padded)).to(device)

        pool, state, action, reward, terminated, ended = (stack(index) for index in range(6))
        count = tuple(len(column[1]) for column in columns)
        weight = (torch.arange(state.shape[1]) < torch.tensor(count).unsqueeze(1)).float().to(device)
        return cls(pool, state, action, reward, terminated, ended, weight, count)


def _flatten(segments: Sequence[Segment]) -> tuple[np.ndarray, ...]:
    state, terminated, ended, offset = [], [], [], 0
    for segment in segments:
        steps = len(segment.actions)
        last = np.arange(steps) == steps - 1
        state.append(offset + np.arange(steps))
        ended.append(last)
        terminated.append(last & segment.terminated)
        offset += steps + 1
    return (
        np.concatenate([segment.observations for segment in segments]),
        np.concatenate(state),
        np.concatenate([segment.actions for segment in segments]),
        np.concatenate([segment.rewards for segment in segments]),
        np.concatenate(terminated),
        np.concatenate(ended),
    )
