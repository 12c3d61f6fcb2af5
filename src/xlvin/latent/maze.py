"""State encoders z for mazes: images of walls, goal and agent to embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError


def check_shape(shape: Sequence[int]) -> None:
    """Refuse anything but images of walls, goal and agent."""
    if len(shape) != 3 or shape[0] != 3:
        raise XLVINError(f"Mazes are seen as images [3, height, width], not as {tuple(shape)}.")


class MazeEncoder(nn.Module):
    """Three layers (appendix F): two 3 x 3 convolutions with `hidden` features, a linear one on all cells."""

    def __init__(self, shape: Sequence[int], hidden: int = 128, outputs: int = 10) -> None:
        super().__init__()
        check_shape(shape)
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU()
        )
        self.linear = nn.Linear(hidden * shape[1] * shape[2], outputs)

    def forward(self, image: Tensor) -> Tensor:
        """Embed images [..., 3, H, W]; returns [..., outputs]."""
        maps = self.convolutions(image.flatten(0, -4).float() if image.dim() > 3 else image[None].float())
        return cast(Tensor, self.linear(maps.flatten(1)).view(*image.shape[:-3], -1))


class RecurrentMazeEncoder(nn.Module):
    """One residual 3 x 3 convolution, applied again and again; the embedding is read where the agent stands.

    Information travels one cell per pass, so `passes` passes see as far. The map's features do not depend on
    the agent: it is a place to read them at, together with its eight neighbours.
    """

    def __init__(
        self, shape: Sequence[int], hidden: int = 128, outputs: int = 10, passes: int | None = None
    ) -> None:
        super().__init__()
        check_shape(shape)
        self.passes = 5 * shape[1] // 4 if passes is None else passes
        self.inputs = nn.Conv2d(2, hidden, 3, padding=1)
        self.again = nn.Conv2d(hidden, hidden, 3, padding=1)
        self.linear = nn.Linear(9 * hidden, outputs)

    def forward(self, image: Tensor) -> Tensor:
        """Embed images [..., 3, H, W]; returns [..., outputs]."""
        images = image.flatten(0, -4).float() if image.dim() > 3 else image[None].float()
        maps, agent = images[:, :2], images[:, 2].flatten(1).argmax(1)
        entry = self.inputs(maps)
        state = entry.relu()
        for _ in range(self.passes):
            state = (self.again(state) + entry).relu()
        width = maps.shape[-1] + 2
        window = torch.arange(3, device=image.device)
        rows = (agent // maps.shape[-1]).unsqueeze(1) + window
        columns = (agent % maps.shape[-1]).unsqueeze(1) + window
        cells = (rows * width).unsqueeze(2) + columns.unsqueeze(1)
        padded = nn.functional.pad(state, (1, 1, 1, 1)).flatten(2)  # [B, F, (H + 2)(W + 2)]
        near = padded.gather(2, cells.view(-1, 1, 9).expand(-1, padded.shape[1], -1))
        return cast(Tensor, self.linear(near.flatten(1)).view(*image.shape[:-3], -1))
