"""Thousands of mazes that step together, in one tensor program on a CPU or GPU.

A place is one number, maze * H * W + row * W + column: a move is an addition, and what it meets is looked up.
Nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import GOAL_REWARD, STEP_REWARD, WALL_REWARD, Mazes

# An episode is cut after this many steps per row of the maze.
STEPS_PER_ROW = 4


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a step led to, before any agent starts anew."""

    place: Tensor  # [B] int64, the true successor; the goal or a wall where the episode terminated
    reward: Tensor  # [B]
    terminated: Tensor  # [B] bool: in the goal or in a wall
    truncated: Tensor  # [B] bool: out of time

    @property
    def success(self) -> Tensor:
        """Who has reached the goal, [B] bool."""
        return self.reward == GOAL_REWARD

    @property
    def ended(self) -> Tensor:
        """Whose episode is over, [B] bool."""
        return self.terminated | self.truncated


class MazeWorld:
    """B agents, each in a maze; where an episode ends the agent starts anew at a random start.

    starts: places to start from, [M] int64, as `Mazes.starts(level)` gives them; see `restart`.
    step_limit: steps after which an episode is cut; by default four times the height of the maze.
    """

    def __init__(
        self, mazes: Mazes, agents: int, starts: Tensor, step_limit: int | None = None, seed: int = 0
    ) -> None:
        if agents < 1:
            raise XLVINError(f"A world of {agents} agents is empty; give at least one.")
        self.mazes, self.agents = mazes, agents
        self.step_limit = STEPS_PER_ROW * mazes.shape[0] if step_limit is None else step_limit
        self._scenes = scenes(mazes)
        self._rewards = reward_of_cells(mazes)
        self._offset = mazes.offsets()
        self._generator = torch.Generator(mazes.device).manual_seed(seed)
        self.restart(starts)

    def reseed(self, seed: int) -> None:
        """Give the starts that are drawn from now on a random stream of their own."""
        self._generator.manual_seed(seed)

    def restart(self, starts: Tensor, seed: int | None = None) -> None:
        """Begin new episodes everywhere, from now on at one of these places, [M] int64."""
        if not len(starts):
            raise XLVINError(
                "No maze has a start of this level; generate more mazes or choose another level."
            )
        if seed is not None:
            self.reseed(seed)
        self._starts = starts.to(self.mazes.device)
        self.place = self._draw()
        self.age = torch.zeros_like(self.place)

    def observe(self, place: Tensor | None = None) -> Tensor:
        """Walls, goal and agent as images [B, 3, H, W]; of the agents, or of other places [B]."""
        return observe(self._scenes, self.place if place is None else place)

    def step(self, action: Tensor) -> Outcome:
        """Move all agents, [B] int64; those whose episode ends stand at a new start afterwards."""
        target = self.place + self._offset[action]
        reward, age = self._rewards[target], self.age + 1
        terminated = reward != STEP_REWARD
        outcome = Outcome(target, reward, terminated, (age >= self.step_limit) & ~terminated)
        ended = outcome.ended
        self.place = torch.where(ended, self._draw(), target)
        self.age = age.masked_fill_(ended, 0)
        return outcome

    def _draw(self) -> Tensor:
        chosen = torch.randint(
            len(self._starts), (self.agents,), generator=self._generator, device=self._starts.device
        )
        return self._starts[chosen]


def scenes(mazes: Mazes) -> Tensor:
    """Images of all mazes with nobody in them, [N, 3, H, W]: walls, goal, and an empty channel."""
    maps = mazes.maps()
    return torch.cat((maps, torch.zeros_like(maps[:, :1])), 1)


def observe(scenes: Tensor, place: Tensor, goal: Tensor | None = None) -> Tensor:
    """Images [B, 3, H, W] of walls, goal and agent, from all scenes [N, 3, H, W] and places [B].

    goal: cells [B] to show as the goal, row * W + column; by default each scene's own.
    """
    cells = scenes.shape[2] * scenes.shape[3]
    images = scenes.index_select(0, place // cells)
    if goal is not None:
        images[:, 1] = 0.0
        images[:, 1].flatten(1).scatter_(1, goal.unsqueeze(1), 1.0)
    images[:, 2].flatten(1).scatter_(1, (place % cells).unsqueeze(1), 1.0)
    return images


def reward_of_cells(mazes: Mazes) -> Tensor:
    """What a move into each place earns, [N * H * W]."""
    rewards = torch.where(mazes.walls, WALL_REWARD, STEP_REWARD).flatten(1)
    return rewards.scatter(1, mazes.goal.unsqueeze(1), GOAL_REWARD).flatten()
