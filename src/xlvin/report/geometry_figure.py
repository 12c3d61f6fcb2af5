"""Cells of a maze in latent space: three principal components, edges where the transition model leads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

from xlvin.report.styles import panels, save

# A title, and what `xlvin.experiments.embedding_geometry.picture` gives.
Stage = tuple[str, dict[str, Any]]
COLOURS = colormaps["plasma"]
GOAL, WALL, EDGE = "#009E73", "#3A424E", "#9AA0A8"


def colours(distance: Sequence[int]) -> list[str]:
    """A colour for every distance to the goal, near ones bright; the goal itself is green."""
    farthest = max(distance)
    shades = COLOURS(1.0 - np.array(distance) / max(farthest, 1))
    as_text = ["#" + "".join(f"{round(255 * part):02x}" for part in shade[:3]) for shade in shades]
    return [GOAL if d == 0 else text for d, text in zip(distance, as_text, strict=True)]


def draw(stages: Sequence[Stage], path: Path) -> None:
    """The maze and a panel per stage."""
    picture, (maze, *spaces) = panels(len(stages) + 1, 3, 3.4, 3.7, flat=1)
    _draw_maze(maze, stages[0][1])
    for axes, (title, shown) in zip(spaces, stages, strict=True):
        points, ends = np.array(shown["points"]), np.array(shown["ends"]).reshape(-1, 3)
        starts = points[[start for start, _ in shown["edges"]]]
        axes.add_collection(
            Line3DCollection(np.stack((starts, ends), 1), colors=EDGE, linewidths=0.5, alpha=0.6)
        )
        axes.scatter(
            *points.T, c=colours(shown["distance"]), s=26, depthshade=False, edgecolors="white", lw=0.4
        )
        axes.set_title(title, fontsize=11, fontweight="bold")
        axes.set(xticklabels=[], yticklabels=[], zticklabels=[])
    save(picture, path, dpi=150)


def _draw_maze(axes: Axes, shown: dict[str, Any]) -> None:
    """Cells in the colours of the other panels, with their distances."""
    height, width = shown["height"], shown["width"]
    axes.imshow(np.zeros((height, width, 3)) + 0.97, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    for row, column in zip(*np.nonzero(np.array(shown["walls"])), strict=True):
        _square(axes, row, column, WALL)
    shades = colours(shown["distance"])
    for cell, distance, colour in zip(shown["cells"], shown["distance"], shades, strict=True):
        row, column = divmod(cell, width)
        _square(axes, row, column, colour)
        ink = "white" if distance == 0 or distance > 0.4 * max(shown["distance"]) else "black"
        axes.text(column, row, str(distance), ha="center", va="center", fontsize=8, color=ink)
    axes.set(xticks=[], yticks=[])
    axes.set_title("a held-out maze: moves to the goal", fontsize=11, fontweight="bold")


def _square(axes: Axes, row: int, column: int, colour: str) -> None:
    axes.fill_between((column - 0.5, column + 0.5), row - 0.5, row + 0.5, color=colour, linewidth=0)
