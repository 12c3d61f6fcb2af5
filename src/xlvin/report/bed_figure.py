"""The planning bed's figure: accuracy by labels, by depth, and without each part of the aligned wiring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlvin.report.styles import Style, bare, save
from xlvin.report.tables import Row

# Dashes where no executor was pretrained.
STYLES = {
    "aligned-pretrained": Style("aligned wiring, pretrained executor", "#0072B2", "-", "o"),
    "scalar-tree": Style("scalar tree, same grounding", "#009E73", "--", "s"),
    "reward-head": Style("reward head alone, no plan", "#E69F00", "--", "^"),
    "aligned-random": Style("aligned wiring, random executor", "#56B4E9", "--", "o"),
    "paper-pretrained": Style("paper's wiring, pretrained executor", "#D55E00", "-", "D"),
    "paper-random": Style("paper's wiring, random executor", "#CC79A7", "--", "D"),
    "none": Style("no planner", "0.25", "--", "v"),
}


def save_bed_figure(
    path: Path, table: Sequence[Row], depth: int, labels: int, best: str, ablations: Sequence[str]
) -> None:
    """Draw rows with agent, depth, labels, mean, low and high; panels fix the depth, the labels, or both."""
    drawing = Figure(figsize=(11.5, 4.6), layout="constrained")
    left, middle, right = drawing.subplots(1, 3, width_ratios=(1.0, 1.0, 1.15))
    _curves(left, [row for row in table if row["depth"] in (0, depth)], "labels")
    left.set_title(f"More labels (depth {depth})", loc="left", fontsize=11, fontweight="bold")
    left.set(xlabel="states with a known optimal action", ylabel="accuracy in all other states (%)")
    _curves(middle, [row for row in table if row["labels"] == labels and row["depth"] > 0], "depth")
    middle.set_title(f"Deeper trees ({labels} labels)", loc="left", fontsize=11, fontweight="bold")
    middle.set_xlabel("depth of the tree")
    chosen = {row["agent"]: row for row in table if (row["depth"], row["labels"]) == (depth, labels)}
    _bars(right, [chosen[agent] for agent in (best, *ablations)], best)
    right.set_title("Without a part", loc="left", fontsize=11, fontweight="bold")
    right.set_xlabel(f"accuracy (%), depth {depth}, {labels} labels")
    handles, names = left.get_legend_handles_labels()
    drawing.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(drawing, path)


def _curves(axes: Axes, table: Sequence[Row], across: str) -> None:
    for agent, style in STYLES.items():
        curve = sorted((row for row in table if row["agent"] == agent), key=lambda row: int(row[across]))
        if len(curve) < 2:
            continue
        places = [row[across] for row in curve]
        middle, low, high = ([100 * row[key] for row in curve] for key in ("mean", "low", "high"))
        axes.fill_between(places, low, high, color=style.colour, alpha=0.18, linewidth=0)
        (line,) = axes.plot(places, middle, style.line, color=style.colour, label=style.label)
        line.set(marker=style.marker, markersize=4, clip_on=False)
    axes.set_xticks(sorted({row[across] for row in table}))
    axes.set_ylim(0, 100)
    bare(axes)


def _bars(axes: Axes, table: Sequence[Row], best: str) -> None:
    places = list(range(len(table)))[::-1]
    middle = [100 * row["mean"] for row in table]
    around = [
        [100 * (row["mean"] - row["low"]) for row in table],
        [100 * (row["high"] - row["mean"]) for row in table],
    ]
    colours = [STYLES[best].colour if row["agent"] == best else "0.65" for row in table]
    axes.barh(places, middle, xerr=around, color=colours, height=0.65, error_kw={"elinewidth": 1.2})
    names = ["complete" if row["agent"] == best else row["agent"].replace("-", " ") for row in table]
    axes.set_yticks(places, names)
    axes.set_xlim(0, 100)
    bare(axes, "x")
