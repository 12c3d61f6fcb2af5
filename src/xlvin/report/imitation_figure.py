"""The figure of imitation: held-out success of every planner by size of maze."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from xlvin.report.records import Record
from xlvin.report.styles import CNN, ENCODER, GPPN, GVIN, VIN, XLVIN, Style, bare, save

# In the order of the bars.
STYLES = {
    "vin": Style("VIN", VIN),
    "vin-torch": Style("VIN from random weights", VIN, hatch="///"),
    "gvin": Style("GVIN", GVIN),
    "gppn": Style("GPPN", GPPN),
    "xlvin": Style("XLVIN", XLVIN),
    "ppo": Style("its encoder without a planner", ENCODER),
    "cnn": Style("CNN", CNN),
}


def draw(records: Sequence[Record], tests: Sequence[str], path: Path) -> None:
    """A panel per kind of test maze; a bar is the mean over seeds, dots are the seeds."""
    picture = Figure(figsize=(5.4 * len(tests), 4.2), layout="constrained")
    panels = picture.subplots(1, len(tests), squeeze=False, sharey=True)[0]
    for axes, test in zip(panels, tests, strict=True):
        _panel(axes, records, f"{test}_success")
        axes.set_title(f"{test} mazes", loc="left", fontsize=11, fontweight="bold")
    panels[0].set_ylabel("success on held-out mazes (%)")
    present = {record.agent for record in records}
    shown = [Patch(label=style.label, **_fill(style)) for agent, style in STYLES.items() if agent in present]
    picture.legend(handles=shown, loc="outside lower center", ncols=4, frameon=False)
    save(picture, path)


def _fill(style: Style) -> dict[str, Any]:
    """Of a bar and of its patch in the legend; hatches are white."""
    return {"facecolor": style.colour, "edgecolor": "white", "hatch": style.hatch, "linewidth": 0}


def _panel(axes: Axes, records: Sequence[Record], key: str) -> None:
    sizes = list(dict.fromkeys(record.environment for record in records))
    present = {record.agent for record in records}
    agents = [agent for agent in STYLES if agent in present]
    width = 0.8 / len(agents)
    for record in records:
        number = agents.index(record.agent)
        place = sizes.index(record.environment) + width * (number - (len(agents) - 1) / 2)
        scores = [entry[key] for entry in record.seeds]
        axes.bar(place, sum(scores) / len(scores), 0.9 * width, **_fill(STYLES[record.agent]))
        axes.scatter([place] * len(scores), scores, s=8, color="black", zorder=3)
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_xticks(range(len(sizes)), [size.replace("x", " × ") for size in sizes])
    axes.set_ylim(0, 102)
    bare(axes, "y")
