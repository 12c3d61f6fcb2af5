"""Mazes as a Gymnasium environment, registered as `xlvin/Maze-v0` when this module is imported.

gymnasium.make("xlvin.envs.mazes:xlvin/Maze-v0", size=8, level=5)

It moves, rewards and ends exactly as `xlvin.envs.maze_world.MazeWorld` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from xlvin.envs.maze_picture import picture
from xlvin.envs.maze_world import STEPS_PER_ROW, observe, reward_of_cells, scenes
from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES, STEP_REWARD, Mazes, Part, generate

Array = NDArray[Any]


class MazeEnv(gymnasium.Env[Array, np.int64]):
    """One agent in a maze: eight moves, to the goal and not into a wall.

    size: rows and columns of the maze, its border of walls included.
    level: moves from the start to the goal on a shortest way; None: any.
    mazes: how many mazes to draw, or the mazes themselves.
    maze_seed, part: which mazes are drawn, see `xlvin.mdp.mazes.generate`.
    step_limit: steps after which an episode is truncated; by default four times the size.

    Observations are images [3, size, size] of walls, goal and agent. `info["distance"]` is how many moves
    away the goal is.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        size: int = 8,
        level: int | None = None,
        mazes: int | Mazes = 1000,
        maze_seed: int = 0,
        part: Part = "train",
        step_limit: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise XLVINError(f'A maze cannot be rendered as "{render_mode}"; choose rgb_array.')
        drawn = mazes if isinstance(mazes, Mazes) else generate(mazes, size, maze_seed, part)
        self.mazes, self.render_mode = drawn.to("cpu"), render_mode
        height, width = self.mazes.shape
        self.step_limit = STEPS_PER_ROW * height if step_limit is None else step_limit
        distance = self.mazes.distance.flatten()
        chosen = distance > 0 if level is None else distance == level
        self._starts = chosen.nonzero().squeeze(-1).numpy()
        if level == 0 or not len(self._starts):
            raise XLVINError(
                f"No maze has a start of level {level}; draw more mazes or choose another level."
            )
        self._scenes, self._distance = scenes(self.mazes), distance.numpy()
        self._rewards = reward_of_cells(self.mazes).numpy()
        self._over = self._rewards != np.float32(STEP_REWARD)
        self._offset = self.mazes.offsets().tolist()
        self.observation_space = spaces.Box(0.0, 1.0, (3, height, width), np.float32)
        self.action_space = spaces.Discrete(len(MOVES))
        self.place, self.trail = int(self._starts[0]), [int(self._starts[0])]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode at a random start, or at `options["place"]`."""
        super().reset(seed=seed)
        place = (options or {}).get("place")
        if place is not None and place not in self._starts:
            raise XLVINError(f"Place {place} is no start of this environment; choose one of `Mazes.starts`.")
        self.place = int(self.np_random.choice(self._starts) if place is None else place)
        self.trail = [self.place]
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move."""
        self.place += self._offset[action]
        self.trail.append(self.place)
        reward, terminated = float(self._rewards[self.place]), bool(self._over[self.place])
        truncated = not terminated and len(self.trail) > self.step_limit
        return self._observation(), reward, terminated, truncated, self._info()

    def render(self) -> Array | None:
        """The maze, the goal, the way so far and the agent, [height, width, 3] bytes."""
        if self.render_mode is None:
            return None
        maze, cells = self.place // self.mazes.cells, [place % self.mazes.cells for place in self.trail]
        return picture(self.mazes.walls[maze].numpy(), int(self.mazes.goal[maze]), cells)

    def places(self, paths: Sequence[Sequence[int]]) -> Array:
        """Where sequences of actions would lead from here, [N, 2] as fractions (x, y) of the picture.

        An episode that ends on the way stays where it ended.
        """
        height, width = self.mazes.shape
        ends = []
        for path in paths:
            place = self.place
            for action in path:
                if self._over[place]:
                    break
                place += self._offset[action]
            row, column = divmod(place % self.mazes.cells, width)
            ends.append(((column + 0.5) / width, (row + 0.5) / height))
        return np.array(ends, np.float64).reshape(-1, 2)

    def _observation(self) -> Array:
        image: Array = observe(self._scenes, torch.tensor([self.place]))[0].numpy()
        return image

    def _info(self) -> dict[str, Any]:
        return {"distance": int(self._distance[self.place]), "maze": self.place // self.mazes.cells}


gymnasium.register("xlvin/Maze-v0", entry_point="xlvin.envs.mazes:MazeEnv")
