"""The figure of the continual maze: held-out success after each level, up to the one that is failed.

A panel per size of maze has the tuned agents and the paper's; another has those that learn in other ways,
against the episodes that they have used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from xlvin.errors import XLVINError
from xlvin.report.records import Record
from xlvin.report.styles import CNN, ENCODER, GPPN, GVIN, VIN, XLVIN, Style, bare, panels, save

STYLES = {
    ("tuned", "xlvin"): Style("XLVIN", XLVIN),
    ("paper", "xlvin"): Style("XLVIN, the paper's network", XLVIN, ".-"),
    ("discounted", "xlvin"): Style("XLVIN, γ = 0.9", XLVIN, "--"),
    ("valued", "xlvin"): Style("XLVIN, γ = 0.9, value loss × 60", XLVIN, "-."),
    ("hindsight", "xlvin"): Style("XLVIN, γ = 0.9, hindsight", XLVIN, ":"),
    ("tuned", "xlvin-sparse"): Style("XLVIN, sparse tree", "#CC79A7", "--"),
    ("tuned", "xlvin-untrained"): Style("XLVIN, executor never trained", "#CC79A7", ":"),
    ("tuned", "ppo"): Style("its encoder without a planner", ENCODER, "--"),
    ("valued", "ppo"): Style("its encoder, γ = 0.9, value loss × 60", ENCODER, "-."),
    ("hindsight", "ppo"): Style("its encoder, γ = 0.9, hindsight", ENCODER, ":"),
    ("tuned", "vin"): Style("VIN", VIN),
    ("valued", "vin"): Style("VIN, γ = 0.9, value loss × 60", VIN, "-."),
    ("hindsight", "vin"): Style("VIN, γ = 0.9, hindsight", VIN, ":"),
    ("tuned", "gvin"): Style("GVIN", GVIN),
    ("tuned", "gppn"): Style("GPPN", GPPN),
    ("tuned", "cnn"): Style("CNN", CNN),
    ("hindsight", "cnn"): Style("CNN, γ = 0.9, hindsight", CNN, ":"),
}
# Versions that differ in what agents learn from, and the agents that they are held against.
OTHER_WAYS = ("discounted", "valued", "hindsight")
COMPARED = ("xlvin", "ppo", "vin", "cnn")
COLUMNS = 2


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw all records."""
    known = {(record.version, record.environment, record.agent): record for record in records}
    for version, _, agent in known:
        if (version, agent) not in STYLES:
            raise XLVINError(f"The figure has no style for {version}/{agent}; add one to STYLES.")
    sizes = sorted({record.environment for record in records}, key=lambda name: int(name.partition("x")[0]))
    shown = {
        (f"{size.replace('x', ' × ')} mazes", False): [
            record for record in records if record.environment == size and not _other(record)
        ]
        for size in sizes
    }
    for size in dict.fromkeys(record.environment for record in records if _other(record)):
        beside = [known[key] for agent in COMPARED if (key := ("tuned", size, agent)) in known]
        others = [record for record in records if record.environment == size and _other(record)]
        shown[f"{size.replace('x', ' × ')}, other ways to learn", True] = [*beside, *others]
    picture, every = panels(len(shown), COLUMNS, 4.6, 3.4, below=1.2)
    for axes, ((title, by_episodes), drawn) in zip(every, shown.items(), strict=True):
        chosen = {(record.version, record.agent): record for record in drawn}
        for names in [names for names in STYLES if names in chosen]:
            _curve(axes, chosen[names], STYLES[names], by_episodes)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axes.set(xlabel="episodes until a level was passed" if by_episodes else "after passing level")
        axes.set_ylim(0, 102)
        if by_episodes:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        bare(axes)
    for axes in every[::COLUMNS]:
        axes.set_ylabel("success on held-out mazes (%)")
    handles = {str(line.get_label()): line for axes in every for line in axes.get_legend_handles_labels()[0]}
    picture.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=COLUMNS,
        frameon=False,
        fontsize=9,
    )
    save(picture, path)


def _other(record: Record) -> bool:
    return record.version in OTHER_WAYS


def _curve(axes: Axes, record: Record, style: Style, by_episodes: bool) -> None:
    """Mean and range over the seeds that have passed a level; a cross after which a seed failed."""
    passed = [[level for level in entry["levels"] if level["passed"]] for entry in record.seeds]
    curves = [[100 * float(np.mean(level["held_out"])) for level in levels] for levels in passed]
    used = [np.cumsum([level["trajectories"] for level in levels]).tolist() for levels in passed]
    longest = max(map(len, curves))
    if not longest:
        return
    by_level = _by_level(curves, longest)
    episodes = [float(np.mean(counts)) for counts in _by_level(used, longest)]
    places = episodes if by_episodes else [float(level) for level in range(1, longest + 1)]
    low, high = [min(values) for values in by_level], [max(values) for values in by_level]
    axes.fill_between(places, low, high, color=style.colour, alpha=0.15, linewidth=0)
    means = [float(np.mean(values)) for values in by_level]
    # A single point has no line to be seen, here or in the legend.
    line = "o" if longest == 1 else style.line
    axes.plot(places, means, line, color=style.colour, label=style.label, linewidth=1.8)
    for entry, curve in zip(record.seeds, curves, strict=True):
        if curve and not entry["levels"][-1]["passed"]:
            place = places[len(curve) - 1]
            axes.plot(place, curve[-1], "x", color=style.colour, markersize=7, markeredgewidth=2)


def _by_level(curves: Sequence[Sequence[float]], longest: int) -> list[list[float]]:
    """The numbers of those that have passed level 1, level 2 and so on."""
    return [[curve[level] for curve in curves if len(curve) > level] for level in range(longest)]
