"""What figures have in common: how an arm is drawn, what frames a panel, and how a picture becomes a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlvin.files import replacing


@dataclass(frozen=True)
class Style:
    """How an arm is drawn; colours are from Okabe and Ito."""

    label: str
    colour: str
    line: str = "-"
    marker: str = ""
    hatch: str = ""  # of a bar


# A planner of mazes has the same colour in every figure.
VIN, GVIN, GPPN, XLVIN = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
ENCODER, CNN = "#E69F00", "#7F7F7F"


def bare(axes: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    """A faint grid, and no frame above and to the right."""
    axes.grid(axis=axis, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def panels(
    count: int, columns: int, width: float, height: float, below: float = 0.0, flat: int | None = None
) -> tuple[Figure, list[Any]]:
    """A figure with `count` panels of so many inches, at most `columns` in a row, and room below them.

    All panels are plane, or only the first `flat` of them and the others three-dimensional.
    """
    columns, flat = min(columns, count), count if flat is None else flat
    lines = -(-count // columns)
    picture = Figure(figsize=(width * columns, height * lines + below), layout="constrained")
    kinds = [None if number < flat else "3d" for number in range(count)]
    every = [picture.add_subplot(lines, columns, n, projection=kind) for n, kind in enumerate(kinds, 1)]
    return picture, every


def save(picture: Figure, path: Path | str, dpi: int = 160) -> None:
    """Write a PNG file, whole or not at all."""
    with replacing(path) as temporary:
        picture.savefig(temporary, format="png", dpi=dpi)
