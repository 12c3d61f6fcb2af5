"""Speed of the maze world (CPU time) beside a plain Python loop over the same mazes, on one thread.

    python benchmarks/mazes.py [--json] [--keep] [--rounds 5] [--agents 4096] [--size 8]

Both make the same moves and agree on every reward (checked before timing). "world" steps and starts anew;
"with images" also makes the observation of every agent. "distances" and "values" are per maze, from walls and
goal alone; both are held against a search. Ratios are medians over rounds in which the two take turns, so
that a busy machine disturbs both alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import torch

from speed import Measured, parser, race, report
from xlvin.envs.maze_world import MazeWorld, scenes
from xlvin.mdp.mazes import (
    GOAL_REWARD,
    MOVES,
    STEP_REWARD,
    WALL_REWARD,
    Mazes,
    distances,
    generate,
    optimal_values,
)

STEPS = 50


class PlainWorld:
    """The same world as one would write it first: lists, and a loop over the agents."""

    def __init__(self, mazes: Mazes, places: list[int], step_limit: int) -> None:
        self.width, self.cells = mazes.shape[1], mazes.cells
        self.walls, self.goals = mazes.walls.flatten(1).tolist(), mazes.goal.tolist()
        self.moves, self.empty = MOVES.tolist(), scenes(mazes).numpy()
        self.step_limit = step_limit
        self.agents = [[place // self.cells, place % self.cells, 0] for place in places]
        self.starts = [list(agent) for agent in self.agents]

    def observe(self) -> list[np.ndarray]:
        images = []
        for maze, cell, _ in self.agents:
            image = self.empty[maze].copy()
            image[2, cell // self.width, cell % self.width] = 1.0
            images.append(image)
        return images

    def step(self, actions: list[int]) -> list[float]:
        rewards = []
        for number, action in enumerate(actions):
            maze, cell, age = self.agents[number]
            row, column = divmod(cell, self.width)
            cell = (row + self.moves[action][0]) * self.width + column + self.moves[action][1]
            reward = STEP_REWARD
            if self.walls[maze][cell]:
                reward = WALL_REWARD
            elif cell == self.goals[maze]:
                reward = GOAL_REWARD
            rewards.append(reward)
            if reward != STEP_REWARD or age + 1 >= self.step_limit:
                self.agents[number] = list(self.starts[number])
            else:
                self.agents[number] = [maze, cell, age + 1]
        return rewards


def searched(mazes: Mazes) -> list[list[int]]:
    """Distances by breadth-first search, maze by maze."""
    height, width = mazes.shape
    moves, found = MOVES.tolist(), []
    for walls, goal in zip(mazes.walls.flatten(1).tolist(), mazes.goal.tolist(), strict=True):
        distance = [-1] * (height * width)
        distance[goal] = 0
        queue = deque([goal])
        while queue:
            cell = queue.popleft()
            for row, column in moves:
                other = cell + row * width + column
                if not walls[other] and distance[other] < 0:
                    distance[other] = distance[cell] + 1
                    queue.append(other)
        found.append(distance)
    return found


def measure(agents: int, size: int, rounds: int) -> Iterator[Measured]:
    mazes = generate(agents, size, 0)
    world = MazeWorld(mazes, agents, mazes.starts(3))
    plain = PlainWorld(mazes, world.place.tolist(), world.step_limit)
    actions = torch.randint(8, (STEPS, agents), generator=torch.Generator().manual_seed(0))
    listed = actions.tolist()
    first = world.step(actions[0]).reward.tolist()
    assert all(abs(a - b) < 1e-6 for a, b in zip(first, plain.step(listed[0]), strict=True))
    assert distances(mazes.walls, mazes.goal)[:50].flatten(1).tolist() == searched(mazes[:50])

    def with_images() -> None:
        for action in actions:
            world.step(action)
            world.observe()

    def plain_images() -> None:
        for row in listed:
            plain.step(row)
            np.stack(plain.observe())

    def plain_steps() -> None:
        for row in listed:
            plain.step(row)

    def steps() -> None:
        for action in actions:
            world.step(action)

    def values() -> None:
        optimal_values(Mazes.from_walls(mazes.walls, mazes.goal), 0.99)

    for name, function, other in (
        (f"{STEPS} steps", steps, plain_steps),
        (f"{STEPS} steps with images", with_images, plain_images),
        ("distances to the goal", lambda: distances(mazes.walls, mazes.goal), lambda: searched(mazes)),
        ("optimal values", values, lambda: searched(mazes)),
    ):
        ratios, detail = race(other, function, rounds)
        case = f"{agents} mazes of {size} x {size}: {name}"
        yield Measured(case, ratios, "Python loop / ours", detail=detail)


def main() -> None:
    made = parser((__doc__ or "").partition("\n")[0])
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--agents", type=int, default=4096)
    made.add_argument("--size", type=int, default=8)
    options = made.parse_args()
    torch.set_num_threads(1)
    report(measure(options.agents, options.size, options.rounds), options, "mazes")


if __name__ == "__main__":
    main()
