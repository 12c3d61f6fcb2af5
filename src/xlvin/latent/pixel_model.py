"""A world model that paints frames, in the place of TransE (appendix G), after Ha & Schmidhuber (2018)."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn


class Painted(NamedTuple):
    """A guess at frames."""

    frame: Tensor  # [B, 84, 84] in [0, 1]
    mean: Tensor  # [B, c], of the code
    log_variance: Tensor  # [B, c]


class PixelModel(nn.Module):
    """A variational autoencoder behind an encoder: embedding h -> code ~ N(mean, variance) -> 84 x 84 frame.

    The encoder's convolutions run backwards; code is the width of Ha & Schmidhuber's, doubled.
    """

    def __init__(self, width: int, code: int = 64) -> None:
        super().__init__()
        self.moments = nn.Linear(width, 2 * code)
        self.start = nn.Linear(code, 64 * 7 * 7)
        self.paint = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(64, 64, 3, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 8, 4),
            nn.Sigmoid(),
        )

    def forward(self, embedding: Tensor, noise: Tensor | None = None) -> Painted:
        """Frames for embeddings [B, k]; with standard normal noise [B, c] a sample, without it the mean."""
        mean, log_variance = self.moments(embedding).chunk(2, -1)
        code = mean if noise is None else mean + noise * (0.5 * log_variance).exp()
        frame = cast(Tensor, self.paint(self.start(code).view(-1, 64, 7, 7)))
        return Painted(frame.squeeze(1), mean, log_variance)

    @property
    def code(self) -> int:
        """c, the width of the code."""
        return self.start.in_features


def reconstruction_loss(painted: Tensor, frame: Tensor) -> Tensor:
    """||painted - frame||^2, summed over pixels; [B, H, W] -> [B]."""
    return (painted - frame).square().sum((-2, -1))


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) = sum (mean^2 + variance - 1 - log variance) / 2; [B, c] -> [B]."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)


def newest_frame(observation: Tensor) -> Tensor:
    """The last of the stacked frames in [0, 1]; [B, C, H, W] bytes -> [B, H, W]."""
    return observation[:, -1].to(torch.float32) / 255.0
