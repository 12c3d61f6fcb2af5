"""State encoders z: observations to embeddings (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError


class MLPEncoder(nn.Module):
    """Three layers with ReLU between: inputs -> 2 hidden -> hidden -> outputs (section 4.1).

    The paper speaks of `hidden` features; the authors' skeleton makes the first layer twice as wide.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        if min(inputs, hidden, outputs) < 1:
            raise XLVINError(
                f"An encoder from {inputs} inputs over {hidden} to {outputs} has an empty layer."
            )
        self.layers = nn.Sequential(
            nn.Linear(inputs, 2 * hidden),
            nn.ReLU(),
            nn.Linear(2 * hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, outputs),
        )

    def forward(self, observation: Tensor) -> Tensor:
        """Embed observations [..., inputs]; returns [..., outputs]."""
        return cast(Tensor, self.layers(observation))


class ImageEncoder(nn.Module):
    """The Atari network of Mnih et al. (2015) as in Kostrikov's PPO: three convolutions, one linear layer.

    Images are [C, H, W]; uint8 ones are scaled to [0, 1], others are taken as they are. The linear layer fits
    itself to the image, so anything from 36 x 36 pixels works.
    """

    # (channels, kernel, stride) of each convolution.
    CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (32, 3, 1))

    def __init__(self, shape: Sequence[int], outputs: int = 512) -> None:
        super().__init__()
        if len(shape) != 3:
            raise XLVINError(f"Images have shape {tuple(shape)}; give [channels, height, width].")
        channels, height, width = shape
        convolutions: list[nn.Module] = []
        for filters, kernel, stride in self.CONVOLUTIONS:
            convolutions += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
            channels, height, width = filters, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if height < 1 or width < 1:
            raise XLVINError(
                f"Images of {shape[1]} x {shape[2]} pixels are too small for the convolutions; "
                "resize them to at least 36 x 36."
            )
        self.convolutions = nn.Sequential(*convolutions)
        self.linear = nn.Linear(channels * height * width, outputs)

    def forward(self, image: Tensor) -> Tensor:
        """Embed images [..., C, H, W]; returns [..., outputs], not negative."""
        scaled = image / 255.0 if image.dtype == torch.uint8 else image
        maps = self.convolutions(scaled.flatten(0, -4) if scaled.dim() > 3 else scaled.unsqueeze(0))
        return cast(Tensor, self.linear(maps.flatten(1)).relu().view(*image.shape[:-3], -1))
