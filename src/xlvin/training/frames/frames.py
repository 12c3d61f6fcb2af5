"""A round of frames, each kept once; observations are stacks of them, put together where they are needed."""

from __future__ import annotations

import torch
from torch import Tensor

from xlvin.envs.atari import SIZE, STACK


class Frames:
    """The frames of T + 1 observations of E games, as bytes on the device.

    The newest frame of observation t is row t + 3; the three rows before the first are the end of the last
    round. One more row is black, for stacks that reach back before the beginning of their episode.
    """

    def __init__(self, steps: int, games: int, device: torch.device) -> None:
        self.steps, self.games = steps, games
        rows = (steps + STACK) * games
        self._black = torch.tensor(rows, device=device)  # a tensor: a CUDA graph cannot fetch a number
        self._pixels = torch.zeros(rows + 1, SIZE, SIZE, dtype=torch.uint8, device=device)
        self._age = torch.zeros((steps + 1) * games, dtype=torch.uint8, device=device)
        self._back = torch.arange(STACK, device=device)  # rows from a stack's oldest frame
        self._game = torch.arange(games, device=device)

    def write(self, step: Tensor, pixels: Tensor, age: Tensor) -> None:
        """Keep the newest frames [E, 84, 84] and their ages [E] as those of observation `step` [1]."""
        self._pixels.index_copy_(0, (step + STACK - 1) * self.games + self._game, pixels)
        self._age.index_copy_(0, step * self.games + self._game, age)

    def stacks(self, rows: Tensor) -> Tensor:
        """Observations [N, 4, 84, 84] by their rows t * E + e [N], the oldest frame first."""
        there = rows.unsqueeze(1) + self._back * self.games
        reach = self._age.index_select(0, rows).unsqueeze(1) + self._back
        there = torch.where(reach >= STACK - 1, there, self._black)
        return self._pixels.index_select(0, there.flatten()).view(-1, STACK, SIZE, SIZE)

    def carry_over(self) -> None:
        """Let the last observation's stack precede the next round."""
        rows = (STACK - 1) * self.games
        last = self.steps * self.games
        self._pixels[:rows] = self._pixels[last : last + rows].clone()
