"""A maze as a picture: walls, the goal, the way so far, the agent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CELL = 32  # pixels
FLOOR, LINE, WALL = (250, 250, 248), (226, 228, 230), (58, 66, 78)
GOAL, AGENT, TRAIL = (0, 158, 115), (213, 94, 0), (240, 180, 140)


def picture(walls: Array, goal: int, trail: Sequence[int]) -> Array:
    """Draw walls [H, W], a goal and the cells of a way, the last the agent's; [32 H, 32 W, 3] bytes."""
    width = walls.shape[1]
    blocks = walls.repeat(CELL, 0).repeat(CELL, 1)
    canvas = np.where(blocks[..., None], np.array(WALL), np.array(FLOOR)).astype(np.float64)
    # Thin lines between free cells.
    grid = np.zeros_like(blocks)
    grid[::CELL], grid[:, ::CELL] = True, True
    canvas[grid & ~blocks] = LINE
    centres = [(CELL * (cell // width + 0.5), CELL * (cell % width + 0.5)) for cell in (goal, *trail)]
    _disc(canvas, centres[0], 0.36 * CELL, GOAL)
    _disc(canvas, centres[0], 0.18 * CELL, FLOOR)
    for start, end in pairwise(centres[1:]):
        for point in np.linspace(start, end, 6):
            _disc(canvas, point.tolist(), 2.0, TRAIL)
    _disc(canvas, centres[-1], 0.28 * CELL, AGENT)
    return canvas.round().astype(np.uint8)


def _disc(canvas: Array, centre: Sequence[float], radius: float, colour: tuple[int, int, int]) -> None:
    """Draw a disc with a soft edge."""
    low = [max(0, int(x - radius - 2)) for x in centre]
    high = [int(x + radius + 3) for x in centre]
    part = canvas[low[0] : high[0], low[1] : high[1]]
    rows, columns = np.ogrid[low[0] : low[0] + part.shape[0], low[1] : low[1] + part.shape[1]]
    away = np.hypot(rows + 0.5 - centre[0], columns + 0.5 - centre[1])
    cover = np.clip(radius - away + 0.5, 0.0, 1.0)[..., None]
    part += cover * (np.array(colour) - part)
