"""Generalised value iteration network (Niu et al. 2018) with its directional kernel, on a maze's graph.

The graph has the free cells as nodes and the moves between free neighbours as edges. A channel's weight of
the edge from i to j depends on its direction theta_ij alone,

    P_a[i, j] = A[i, j] sum_l w_{a,l} ((1 + cos(theta_ij - theta_l)) / 2)^t,

with learned weights w, reference directions theta_l and sharpness t.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, softplus

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES
from xlvin.planner.grid.base import MapPlanner
from xlvin.planner.maximum import maximum

# How large values may be in the first plan: gradients are about as large, and their squares must be finite.
LARGEST = 1e14


class DirectionalKernel(nn.Module):
    """Edge weights from edge directions; on a grid there are only the directions of the eight moves."""

    direction: Tensor  # [8]
    cell: Tensor  # [8] int64: where a move's weight stands in a 3 x 3 kernel

    def __init__(self, channels: int, references: int) -> None:
        super().__init__()
        moves = torch.as_tensor(MOVES)
        self.register_buffer("direction", torch.atan2(-moves[:, 0].float(), moves[:, 1].float()), False)
        self.register_buffer("cell", 3 * (moves[:, 0] + 1) + moves[:, 1] + 1, False)
        self.reference = nn.Parameter(torch.arange(references) * (2.0 * math.pi / references))
        # softplus(4) is about 4: a kernel then reaches half its height 46 degrees off its reference.
        self.sharpness = nn.Parameter(torch.full((references,), 4.0))
        # Every channel starts with a direction of its own, as in a VIN that starts from taps.
        own = torch.eye(references)[torch.arange(channels) % references]
        self.weight = nn.Parameter(own + 0.01 * torch.randn(channels, references))

    def edges(self) -> Tensor:
        """The weight of every channel on each move, [channels, 8]."""
        alignment = (1.0 + torch.cos(self.direction[:, None] - self.reference)) / 2.0  # [8, references]
        # The clamp keeps the logarithm inside the power's gradient finite at opposite directions.
        return self.weight @ alignment.clamp_min(1e-6).pow(softplus(self.sharpness)).T

    def forward(self) -> Tensor:
        """The same as a 3 x 3 convolution kernel with an empty centre, [channels, 1, 3, 3]."""
        edges = self.edges()
        kernel = edges.new_zeros(len(edges), 9).index_copy(1, self.cell, edges)
        return kernel.view(-1, 1, 3, 3)


class GVIN(MapPlanner):
    """Value iteration over the graph: q_a = P_a (r + gamma v), v = max_a q_a.

    r is a learned multiple of the graph signal, 1 at the goal. Walls are no nodes: they send nothing. All
    edges are one convolution of a masked map, since those that a wall cuts carry zeros.
    """

    def __init__(
        self, iterations: int = 10, channels: int = 10, references: int = 8, discount: float = 0.99
    ) -> None:
        super().__init__(channels)
        if min(iterations, channels, references) < 1 or not 0.0 <= discount <= 1.0:
            raise XLVINError(
                f"A GVIN of {iterations} iterations, {channels} channels, {references} directions and "
                f"discount {discount} does not exist; give at least 1 each, and a discount from 0 to 1."
            )
        self.iterations, self.discount = iterations, discount
        self.reward = nn.Parameter(torch.ones(()))
        self.transition = DirectionalKernel(channels, references)
        with torch.no_grad():  # in open space a value grows by this factor with every iteration
            growth = discount * self.transition.edges().sum(1).max().item()
            if growth > (most := LARGEST ** (1.0 / iterations)):
                self.transition.weight.mul_(most / growth)

    def plan(self, maps: Tensor) -> Tensor:
        """q [B, channels, H, W] after the last iteration."""
        free = 1.0 - maps[:, :1]
        reward = self.reward * maps[:, 1:]
        kernel = self.transition()
        q = conv2d(free * reward, kernel, padding=1)
        for _ in range(self.iterations):
            value = maximum(q, 1).unsqueeze(1)
            q = conv2d(free * (reward + self.discount * value), kernel, padding=1)
        return q
