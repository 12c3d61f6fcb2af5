"""Scores seed by seed: every seed is a dot, their mean a bar, a panel per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlvin.report.styles import bare, save

OURS, OTHER = "C0", "0.45"  # colours: of what a figure is about, and of what stands beside it
WIDTH = 0.32  # of a bar, to either side


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; its panels are the caller's to arrange."""
    return Figure(figsize=(width, height), layout="constrained")


def draw_seeds(
    axes: Axes,
    scores: Mapping[str, Sequence[float]],
    names: Sequence[str],
    colours: Mapping[str, str],
    marks: Mapping[str, float] | None = None,
    turn: float = 35.0,
    across: bool = False,
) -> None:
    """A column for each of `names`, those without scores stay empty; `across` draws rows instead.

    `colours` are of those that are not `OTHER`; `marks` are printed means, in black.
    """
    for place, name in enumerate(names):
        colour = colours.get(name, OTHER)
        if name in scores:
            found = scores[name]
            last = max(1, len(found) - 1)
            places = [place + 0.3 * (index / last - 0.5) for index in range(len(found))]
            x, y, line = (found, places, axes.vlines) if across else (places, found, axes.hlines)
            axes.scatter(x, y, s=11, color=colour, alpha=0.5, linewidths=0)
            line(sum(found) / len(found), place - WIDTH, place + WIDTH, color=colour, lw=2)
        if marks and name in marks:
            point = (marks[name], place) if across else (place, marks[name])
            axes.plot(*point, marker="|" if across else "_", ms=14, mew=1.2, color="black")
    if across:
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="x", alpha=0.25)
    else:
        axes.set_xticks(range(len(names)), names, rotation=turn, ha="right", fontsize=8)
        axes.set_xlim(-0.6, len(names) - 0.4)


def save_panels(path: Path | str, picture: Figure, title: str) -> None:
    """Give all panels a faint grid and no frame above and to the right, and write a PNG file."""
    for axes in picture.axes:
        bare(axes, "y")
    picture.suptitle(title, fontsize=11)
    save(picture, path, dpi=130)
