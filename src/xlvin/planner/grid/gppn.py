"""Gated path planning network (Lee et al. 2018): an LSTM in every cell instead of a maximum over channels."""

from __future__ import annotations

from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.planner.grid.base import CHANNELS, MapPlanner


class GPPN(MapPlanner):
    """`iterations` updates of one LSTM that all cells share.

    A cell's input is one number, a `kernel` x `kernel` convolution of its surroundings' hidden states.
    """

    def __init__(self, iterations: int = 20, hidden: int = 150, kernel: int = 9) -> None:
        super().__init__(hidden)
        if min(iterations, hidden) < 1 or kernel % 2 == 0:
            raise XLVINError(
                f"A GPPN of {iterations} iterations, {hidden} hidden features and kernels of {kernel} does "
                "not exist; give at least 1 each, and an odd kernel."
            )
        self.iterations = iterations
        self.encoder = nn.Conv2d(CHANNELS, hidden, 3, padding="same")
        self.start = nn.Conv2d(hidden, 2 * hidden, 3, padding="same")  # of h and of c
        self.surroundings = nn.Conv2d(hidden, 1, kernel, padding="same")
        self.cell = nn.LSTMCell(1, hidden)

    def plan(self, maps: Tensor) -> Tensor:
        """h [B, hidden, H, W] after the last iteration."""
        batch, _, height, width = maps.shape
        start = self.start(self.encoder(maps)).permute(0, 2, 3, 1)
        h, c = start.reshape(batch * height * width, -1).chunk(2, -1)
        for _ in range(self.iterations):
            # Cells come first for the LSTM; seen as a map that is the layout "channels last", without a copy.
            seen = self.surroundings(h.reshape(batch, height, width, -1).permute(0, 3, 1, 2))
            h, c = self.cell(seen.reshape(-1, 1), (h, c))
        features: Tensor = h.view(batch, height, width, -1).permute(0, 3, 1, 2)
        return features
