"""Planners on a map by name, in the sizes of their papers."""

from __future__ import annotations

from collections.abc import Callable

from xlvin.errors import unknown
from xlvin.planner.grid.base import GridPlanner
from xlvin.planner.grid.cnn import CNN
from xlvin.planner.grid.gppn import GPPN
from xlvin.planner.grid.gvin import GVIN
from xlvin.planner.grid.vin import VIN
from xlvin.randomness import seeded

# (size of the maze, iterations) -> a planner
PLANNERS: dict[str, Callable[[tuple[int, int], int], GridPlanner]] = {
    "vin": lambda size, iterations: VIN(iterations),
    "gvin": lambda size, iterations: GVIN(iterations),
    "gppn": lambda size, iterations: GPPN(iterations),
    "cnn": lambda size, iterations: CNN(size),
}
# Iterations of Tamar et al. (2016) by the maze's longer side; about as many as the longest ways have moves.
ITERATIONS = {8: 10, 16: 20, 28: 36}


def iterations_for(size: tuple[int, int]) -> int:
    """How many iterations mazes of H x W cells are given: as published, in proportion for other sizes."""
    side = max(size)
    return ITERATIONS.get(side, max(1, round(1.25 * side)))


def make_planner(
    name: str, size: tuple[int, int], iterations: int | None = None, seed: int = 0
) -> GridPlanner:
    """A fresh planner for mazes of H x W cells, whose weights depend on `seed` alone."""
    if name not in PLANNERS:
        raise unknown("maze planner", name, PLANNERS)
    with seeded(seed):
        return PLANNERS[name](size, iterations or iterations_for(size))
