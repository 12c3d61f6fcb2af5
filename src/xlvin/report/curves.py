"""Learning curves: a panel per task, a line per agent, and its seeds, or a band where they are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from xlvin.report.styles import bare, save

Array = NDArray[np.float64]
# Okabe and Ito; an agent has the same colour in every figure.
COLOURS = {"ppo": "#D55E00", "atreec": "#009E73", "xlvin-r": "#0072B2", "xlvin-pixels": "#CC79A7"}
ANY_OTHER = "#777777"
FEW = 5  # seeds; so many are drawn one by one behind their mean


@dataclass(frozen=True, eq=False)
class Panel:
    """The curves of one task."""

    title: str
    curves: Mapping[str, Array]  # [seeds, points] by agent
    transitions: float  # at the last point


def band(curves: Array) -> tuple[Array, Array]:
    """The 95 % bootstrap interval of the mean at every point of curves [seeds, points]."""
    draws = np.random.default_rng(0).integers(len(curves), size=(2000, len(curves)))
    low, high = np.quantile(curves[draws].mean(1), (0.025, 0.975), axis=0)
    return low, high


def save_curves(path: Path, panels: Sequence[Panel], ylabel: str) -> None:
    """Draw all panels side by side into a PNG file."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    picture = Figure(figsize=(5.0 * columns, 3.4 * rows + 0.5), layout="constrained")
    grid = picture.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel)
        axes.set_ylabel(ylabel)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles = {
        label: line for axes in grid for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    picture.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False
    )
    save(picture, path, dpi=150)


def draw_panel(axes: Axes, panel: Panel) -> None:
    """One panel."""
    for agent, curves in panel.curves.items():
        colour = COLOURS.get(agent, ANY_OTHER)
        x = panel.transitions * (np.arange(curves.shape[1]) + 1) / curves.shape[1] / 1e6
        if len(curves) <= FEW:
            axes.plot(x, curves.T, color=colour, linewidth=0.7, alpha=0.6)
        else:
            low, high = band(curves)
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(x, curves.mean(0), color=colour, linewidth=2.2, label=agent)
    counts = sorted({len(curves) for curves in panel.curves.values()})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    axes.set_title(f"{panel.title} ({many} seed{'s' if counts[-1] > 1 else ''})", loc="left", fontsize=10)
    axes.set_xlabel("million transitions")
    axes.set_xlim(0, panel.transitions / 1e6)
    bare(axes)
