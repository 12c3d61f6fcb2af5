"""What every planner on a map is: a map and a position in, logits of the eight moves and a value out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

ACTIONS = 8
# Channels of a map: walls (1 = wall), then the goal (1 there, 0 elsewhere).
CHANNELS = 2


class GridOutput(NamedTuple):
    """Policy and value, of one cell per maze or of all of them."""

    logits: Tensor  # [B, 8] or [B, 8, H, W], in the order of `xlvin.mdp.mazes.MOVES`
    value: Tensor  # [B] or [B, H, W]


class GridPlanner(nn.Module, ABC):
    """A policy network that reads a maze's map."""

    @abstractmethod
    def forward(self, maps: Tensor, position: Tensor) -> GridOutput:
        """Policy and value of an agent at `position` [B] = row * W + column on maps [B, 2, H, W]."""


class MapPlanner(GridPlanner):
    """A planner that thinks about all cells at once; linear heads read the agent's cell.

    One pass then serves every position on a map: training by imitation groups its samples by maze.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.actor = nn.Linear(features, ACTIONS, bias=False)
        self.critic = nn.Linear(features, 1)

    @abstractmethod
    def plan(self, maps: Tensor) -> Tensor:
        """What the planner thinks of every cell: maps [B, 2, H, W] -> features [B, C, H, W]."""

    def forward_all(self, maps: Tensor) -> GridOutput:
        """Policy [B, 8, H, W] and value [B, H, W] of an agent on every cell."""
        features = self.plan(maps).flatten(2)
        batch, _, height, width = maps.shape
        logits = torch.matmul(self.actor.weight, features).view(batch, ACTIONS, height, width)
        value = torch.matmul(self.critic.weight, features).view(batch, height, width)
        return GridOutput(logits, value + self.critic.bias)

    def forward(self, maps: Tensor, position: Tensor) -> GridOutput:
        """Policy [B, 8] and value [B] of an agent at `position` [B]."""
        features = self.plan(maps).flatten(2)
        here = features[torch.arange(len(position), device=position.device), :, position]
        return GridOutput(self.actor(here), self.critic(here).squeeze(-1))


def with_agent(maps: Tensor, position: Tensor) -> Tensor:
    """Maps [B, 2, H, W] with the agent at `position` [B] as a third channel."""
    here = torch.zeros_like(maps[:, :1]).flatten(1).scatter_(1, position.unsqueeze(1), 1.0)
    return torch.cat((maps, here.view_as(maps[:, :1])), 1)
