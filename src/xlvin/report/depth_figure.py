"""The figure of depth and width: what a tree costs against K, and what it earns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlvin.report.styles import bare, save
from xlvin.report.tables import Row

# Okabe and Ito's colours, by width and by number of actions.
WIDTHS = {"full": "#D55E00", "beam-8": "#56B4E9", "beam-16": "#0072B2"}
ACTIONS = {2: "#E69F00", 4: "#009E73", 9: "#0072B2", 18: "#CC79A7"}

COLUMNS = 3


def save_depth_figure(
    path: Path, cost: Sequence[Row], bed: Sequence[Row], control: Sequence[Row], bar: float
) -> None:
    """Draw rows with depth, width and ratio, or mean, low and high; as many panels as there is to show."""
    environments = list(dict.fromkeys(row["environment"] for row in control))
    panels = 2 + bool(bed) + len(environments)
    rows = -(-panels // COLUMNS)
    drawing = Figure(figsize=(4.2 * COLUMNS, 3.8 * rows), layout="constrained")
    axes = list(drawing.subplots(rows, COLUMNS, squeeze=False).ravel())
    for batch in (1, 32):
        _cost(axes.pop(0), [row for row in cost if row["batch"] == batch and row["actions"] == 18], bar)
    if bed:
        _bed(axes.pop(0), bed)
    for environment in environments:
        _control(axes.pop(0), [row for row in control if row["environment"] == environment])
    for empty in axes:
        empty.set_visible(False)
    save(drawing, path, dpi=150)


def _cost(axes: Axes, table: Sequence[Row], bar: float) -> None:
    for name, colour in WIDTHS.items():
        for learning, line in ((False, "-"), (True, "--")):
            curve = [row for row in table if (row["width"], row["learning"]) == (name, learning)]
            if curve:
                label = f"{name.replace('-', ' ')}{', with backward' if learning else ''}"
                _line(axes, curve, "ratio", colour, line, label)
    axes.plot([10], [bar], marker="v", color="black", linestyle="none", label="bar at K = 10")
    axes.set_yscale("log")
    axes.set_yticks((0.5, 1, 2, 5, 10, 20), ("0.5", "1", "2", "5", "10", "20"))
    axes.legend(frameon=False, fontsize=7, handlelength=4.0)
    batch = table[0]["batch"] if table else ""
    _frame(axes, f"Cost, 18 actions, batch {batch}", "time of a plan / time at K = 2")


def _bed(axes: Axes, table: Sequence[Row]) -> None:
    for actions, colour in ACTIONS.items():
        own = [row for row in table if row["actions"] == actions]
        full = [row for row in own if row["width"] == "full"]
        # A beam that keeps everything is the full tree.
        pruned = [row for row in own if row["width"] != "full"]
        first = min((row["depth"] for row in pruned), default=0)
        sparse = [row for row in full if row["depth"] < first] + pruned
        if full:
            _line(axes, full, "mean", colour, ":", "", scale=100.0)
        if sparse:
            _line(axes, sparse, "mean", colour, "-", f"{actions} actions", scale=100.0)
            _band(axes, sparse, colour, 100.0)
    axes.set_ylim(0, 100)
    axes.legend(frameon=False, fontsize=8)
    _frame(axes, "Planning bed (dotted: full tree)", "accuracy in unlabelled states (%)")


def _control(axes: Axes, table: Sequence[Row]) -> None:
    for name in dict.fromkeys(row["width"] for row in table):
        curve = [row for row in table if row["width"] == name]
        _line(axes, curve, "mean", WIDTHS[name], ":" if name == "full" else "-", name.replace("-", " "))
        _band(axes, curve, WIDTHS[name], 1.0)
    axes.legend(frameon=False, fontsize=8)
    _frame(axes, table[0]["environment"], "return", max(row["depth"] for row in table))


def _line(
    axes: Axes, table: Sequence[Row], key: str, colour: str, line: str, label: str, scale: float = 1.0
) -> None:
    places, heights = [row["depth"] for row in table], [scale * row[key] for row in table]
    axes.plot(places, heights, line, color=colour, label=label or None, marker="o", markersize=3)


def _band(axes: Axes, table: Sequence[Row], colour: str, scale: float) -> None:
    low, high = ([scale * row[key] for row in table] for key in ("low", "high"))
    axes.fill_between([row["depth"] for row in table], low, high, color=colour, alpha=0.15, linewidth=0)


def _frame(axes: Axes, title: str, what: str, deepest: int = 10) -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set(xlabel="K, depth of the tree", ylabel=what)
    axes.set_xticks(range(1, deepest + 1))
    bare(axes)
