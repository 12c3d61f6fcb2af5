"""The figure of imitation: held-out success of every planner by size of maze."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from xlvin.files import replacing
from xlvin.report.records import Record

# Label and colour (Okabe and Ito) of every planner, in the order of the bars.
STYLES = {
    "vin": ("VIN", "#0072B2"),
    "vin-torch": ("VIN from random weights", "#56B4E9"),
    "gvin": ("GVIN", "#F0E442"),
    "gppn": ("GPPN", "#009E73"),
    "xlvin": ("XLVIN", "#D55E00"),
    "ppo": ("its encoder without a planner", "#E69F00"),
    "cnn": ("CNN", "#7F7F7F"),
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
    shown = [
        Patch(color=colour, label=label) for agent, (label, colour) in STYLES.items() if agent in present
    ]
    picture.legend(handles=shown, loc="outside lower center", ncols=4, frameon=False)
    with replacing(path) as temporary:
        picture.savefig(temporary, format="png", dpi=160)


def _panel(axes: Axes, records: Sequence[Record], key: str) -> None:
    sizes = list(dict.fromkeys(record.environment for record in records))
    present = {record.agent for record in records}
    agents = [agent for agent in STYLES if agent in present]
    width = 0.8 / len(agents)
    for record in records:
        number = agents.index(record.agent)
        place = sizes.index(record.environment) + width * (number - (len(agents) - 1) / 2)
        scores = [entry[key] for entry in record.seeds]
        axes.bar(place, sum(scores) / len(scores), 0.9 * width, color=STYLES[record.agent][1])
        axes.scatter([place] * len(scores), scores, s=8, color="black", zorder=3)
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_xticks(range(len(sizes)), [size.replace("x", " × ") for size in sizes])
    axes.set_ylim(0, 102)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
