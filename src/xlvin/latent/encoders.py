"""State encoders z: observations to embeddings (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from xlvin.errors import XLVINError


class MLPEncoder(nn.Module):
    """Three layers with ReLU between: inputs -> 2 hidden -> hidden -> outputs (section 4.1).

    The paper speaks of `hidden` features; the authors' skeleton makes the first layer twice as wide.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        if min(inputs, hidden, outputs) < 1:
            raise XLVINError(
                f"An encoder from {inputs} inputs over {hidden} to {outputs} has an empty layer; "
                "give all three at least 1."
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
    itself to the image, so anything from 36 x 36 pixels works. With `mixed` set, it computes in bfloat16 and
    channels-last; the embedding is float32 again.
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
        self.mixed = False

    def forward(self, image: Tensor) -> Tensor:
        """Embed images [..., C, H, W]; returns [..., outputs], not negative."""
        images = image.flatten(0, -4) if image.dim() > 3 else image.unsqueeze(0)
        if not self.mixed:
            maps = self.convolutions(images / 255.0 if image.dtype == torch.uint8 else images)
            embedding = self.linear(maps.flatten(1)).relu()
        else:
            embedding = self._embed_mixed(images)
        return cast(Tensor, embedding.view(*image.shape[:-3], -1))

    def _embed_mixed(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W] to embeddings [B, outputs], in bfloat16 in between."""
        first, rest = cast(nn.Conv2d, self.convolutions[0]), self.convolutions[1:]
        # Bytes are small to reorder and exact in bfloat16; their scale goes into the first weights.
        weight = first.weight / 255.0 if images.dtype == torch.uint8 else first.weight
        images = images.contiguous(memory_format=torch.channels_last).to(torch.bfloat16)
        with torch.autocast(images.device.type, torch.bfloat16, cache_enabled=False):
            maps = rest(conv2d(images, weight, first.bias, self.CONVOLUTIONS[0][2]))
            return cast(Tensor, self.linear(maps.flatten(1)).relu().float())
