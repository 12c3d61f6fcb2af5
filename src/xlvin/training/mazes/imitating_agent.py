"""Agents with a learned model as planners on a map, so that they can imitate like the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from xlvin.agents.base import Batch, Output
from xlvin.planner.grid.base import GridOutput, GridPlanner, with_agent

AuxiliaryLosses = Callable[[Output, Batch], dict[str, Tensor]]


class Step(NamedTuple):
    """Moves that an agent's model learns from, beside imitation."""

    action: Tensor  # [B] int64
    successor: Tensor  # [B] int64: the cell that it leads to
    negative: Tensor  # [B] int64: row of another state of the batch


class ImitatingAgent(GridPlanner):
    """An agent that reads images [B, 3, H, W] of walls, goal and agent."""

    def __init__(self, agent: nn.Module) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, maps: Tensor, position: Tensor) -> GridOutput:
        """Policy [B, 8] and value [B] of an agent at `position` [B]."""
        output: Output = self.agent(with_agent(maps, position))
        return GridOutput(output.logits, output.value)

    def with_model_loss(self, maps: Tensor, position: Tensor, step: Step) -> tuple[GridOutput, Tensor]:
        """The same, and the loss of the agent's model (TransE, equation 4) on a move from each position."""
        observation, successor = with_agent(maps, position), with_agent(maps, step.successor)
        output: Output = self.agent(observation)
        unrewarded = torch.zeros_like(output.value)
        batch = Batch(observation, step.action, unrewarded, successor, step.negative)
        losses = cast(AuxiliaryLosses, self.agent.auxiliary_losses)(output, batch)
        total = sum((loss.mean() for loss in losses.values()), output.value.new_zeros(()))
        return GridOutput(output.logits, output.value), total
