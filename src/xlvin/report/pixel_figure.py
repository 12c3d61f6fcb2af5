"""Frames above what a world model painted of them, and a learning curve below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from xlvin.report.curves import Panel, draw_panel
from xlvin.report.styles import save


def save_pixel_figure(path: Path, frames: NDArray[np.uint8], panel: Panel) -> None:
    """Draw frames and paintings [2, n, 84, 84] and the curves of one task into a PNG file."""
    count = frames.shape[1]
    picture = Figure(figsize=(2.0 * count, 7.6), layout="constrained")
    upper, lower = np.ravel(picture.subfigures(2, 1, height_ratios=(4, 3)))  # type: ignore[arg-type]
    grid = upper.subplots(2, count, squeeze=False)
    for row, title in enumerate(("frames", "painted")):
        for place in range(count):
            grid[row, place].imshow(frames[row, place], cmap="gray", vmin=0, vmax=255)
            grid[row, place].set_xticks([])
            grid[row, place].set_yticks([])
        grid[row, 0].set_ylabel(title)
    axes = lower.subplots()
    draw_panel(axes, panel)
    axes.set_ylabel("clipped reward of a game")
    axes.legend(frameon=False)
    save(picture, path, dpi=140)
