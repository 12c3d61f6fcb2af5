"""Agents in mazes by name: XLVIN, its twin without a planner, and the planners that are told the map.

All read images [B, 3, H, W] of walls, goal and agent, as `xlvin.envs.maze_world.observe` makes them.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from xlvin.agents.base import AgentConfig, Batch, Output
from xlvin.agents.distributions import Categorical
from xlvin.agents.registry import build
from xlvin.errors import unknown
from xlvin.planner.grid.base import ACTIONS, GridPlanner
from xlvin.planner.grid.registry import PLANNERS, make_planner

# All but "paper" have the network of "tuned"; the last three have a shorter horizon. The critic of "valued"
# weighs more, and "hindsight" also learns from its moves with other goals.
Version = Literal["paper", "tuned", "discounted", "valued", "hindsight"]

# Appendix F: a three-layer CNN with 128 features and 10 outputs, a transition MLP with 128, K = 4, layer
# normalisation after every step of the executor.
PAPER: dict[str, Any] = {"encoder": "maze", "hidden": 128, "latent": 10, "depth": 4, "normalise": True}
# Ours: information has to travel as far as the goal may be away, which three layers do not allow for.
TUNED: dict[str, Any] = PAPER | {"encoder": "maze-recurrent", "hidden": 64, "latent": 32}
# What a name stands for, beside the settings of its version: fields of AgentConfig.
LEARNED: dict[str, dict[str, Any]] = {
    "xlvin": {"kind": "xlvin"},
    "xlvin-untrained": {"kind": "xlvin", "executor": "untrained"},
    "xlvin-sparse": {"kind": "xlvin", "beam": 32},
    "ppo": {"kind": "ppo", "normalise": False},
}
MAZE_AGENTS = (*LEARNED, *PLANNERS)


class GridAgent(nn.Module):
    """A planner that is told the map, as an agent without losses of its own."""

    def __init__(self, planner: GridPlanner) -> None:
        super().__init__()
        self.planner = planner

    def forward(self, observation: Tensor) -> Output:
        """Policy and value of images [B, 3, H, W]; there is no embedding."""
        position = observation[:, 2].flatten(1).argmax(1)
        logits, value = self.planner(observation[:, :2], position)
        return Output(logits, value, observation.new_empty(len(observation), 0))

    def distribution(self, logits: Tensor) -> Categorical:
        """A choice among the moves, by logits [..., 8]."""
        return Categorical(logits)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """None."""
        return {}


def network_of(name: str, version: Version = "tuned") -> dict[str, Any]:
    """The fields of AgentConfig that a learned model's name stands for; planners that are told have none."""
    return (PAPER if version == "paper" else TUNED) | LEARNED[name] if name in LEARNED else {}


def make_maze_agent(
    name: str, size: tuple[int, int], seed: int = 0, version: Version = "tuned", **fields: Any
) -> nn.Module:
    """A fresh agent for mazes of H x W cells; `fields` of AgentConfig may be set for learned models."""
    if name in PLANNERS:
        return GridAgent(make_planner(name, size, seed=seed))
    if name not in LEARNED:
        raise unknown("maze agent", name, MAZE_AGENTS)
    settings = network_of(name, version) | fields
    shapes: dict[str, Any] = {"observation": (3, *size), "image": "float32", "actions": ACTIONS}
    return build(AgentConfig(**shapes | settings), seed)
