"""A plain convolutional policy: what a network does that has a map and no planner inside."""

from __future__ import annotations

from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.planner.grid.base import ACTIONS, CHANNELS, GridOutput, GridPlanner, with_agent


class CNN(GridPlanner):
    """The reactive policy of Tamar et al. (2016): five convolutions, two poolings, linear heads.

    The agent's position is a third channel of the map. The heads fit one size of maze.
    """

    # (filters, pooling) of each convolution.
    LAYERS = ((50, 2), (50, 1), (100, 2), (100, 1), (100, 1))

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size
        layers: list[nn.Module] = []
        channels, (height, width) = CHANNELS + 1, size
        for filters, pooling in self.LAYERS:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            if pooling > 1:
                layers.append(nn.MaxPool2d(pooling))
            channels, height, width = filters, height // pooling, width // pooling
        if min(height, width) < 1:
            raise XLVINError(
                f"Mazes of {size[0]} x {size[1]} cells are too small for a CNN; give 4 x 4 or more."
            )
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.actor = nn.Linear(channels * height * width, ACTIONS)
        self.critic = nn.Linear(channels * height * width, 1)

    def forward(self, maps: Tensor, position: Tensor) -> GridOutput:
        """Policy [B, 8] and value [B] of an agent at `position` [B]."""
        if tuple(maps.shape[2:]) != self.size:
            raise XLVINError(f"This CNN reads mazes of size {self.size}, not {tuple(maps.shape[2:])}.")
        features = self.layers(with_agent(maps, position))
        return GridOutput(self.actor(features), self.critic(features).squeeze(-1))
