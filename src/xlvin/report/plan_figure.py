"""A picture of a plan: the states an agent imagines around the current one, and how it values them.

The tree grows from left to right, a column per imagined action. Large trees are thinned to the most probable
children of every node; what is left out is counted at the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve

from xlvin.errors import XLVINError
from xlvin.report.plan_layout import Array, Node, Plan, arrange
from xlvin.report.styles import save

MOST_LEAVES = 36  # as many as one page can tell apart
COLOURS = colormaps["viridis"]  # perceptually uniform, and safe for colour-blind readers
INK, SOFT, GREY, ACCENT = "#222222", "#5A5F66", "#C4C8CE", "#D55E00"
LABEL_ROOM = 10.5  # points between rows that letters need
NUMBER_ROOM = 22.0  # points across a disc that a number fits into
BAR = 0.24  # inches per action of the policy

LEGEND = (
    "Discs are states of the latent tree, coloured by the value that the critic gives them. "
    "Lines are actions, as wide as the\nactor finds them probable. Orange: the path of most probable actions."
)
SAMPLED = " Outcomes of an action are numbered ·1, ·2, ...; lines count their chances too."
THINNED = " Of a large tree, the most probable children are shown."


def plan_figure(
    plan: Plan,
    frame: Array | None = None,
    actions: Sequence[str] | None = None,
    title: str = "What the agent imagines",
    most_leaves: int = MOST_LEAVES,
) -> Figure:
    """Draw a plan; `frame` [height, width, 3] shows the current state, `actions` are the actions' names."""
    policy = plan.levels[0].policy[0]
    names = [f"action {number}" for number in range(len(policy))] if actions is None else list(actions)
    if len(names) != len(policy):
        raise XLVINError(f"The plan has {len(policy)} actions and {len(names)} names; give a name for each.")
    nodes = arrange(plan, most_leaves)
    picture = 0.0 if frame is None else min(2.5 * frame.shape[0] / frame.shape[1], 3.0)
    beside = picture + (0.5 if picture else 0.0) + BAR * min(len(names), 8) + 0.5
    page = Page(10.0, 2.1 + max(beside, min(0.3 * _rows(nodes), 7.0)))
    top = page.height - 1.1
    page.write(0.25, page.height - 0.2, title, va="top", fontsize=13.5, fontweight="bold")
    sampled = SAMPLED if any(node.sample >= 0 for node in nodes) else ""
    legend = LEGEND + sampled + (THINNED if any(node.hidden for node in nodes) else "")
    page.write(0.25, 0.15, legend, va="bottom", fontsize=8.5, color=SOFT)

    values = [node.value for node in nodes]
    scale = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1.0)
    _draw_tree(page.axes(3.1, 0.9, 5.75, top - 0.9), nodes, names, scale, top - 0.9)
    _draw_scale(page.axes(9.2, 1.05, 0.14, top - 1.2), scale)
    if frame is not None:
        _draw_frame(page.axes(0.25, top - picture, 2.5, picture), frame)
        top -= picture + 0.5
    page.write(0.25, top + 0.05, "the policy: what it does", va="bottom", fontsize=9, color=SOFT)
    likely = np.argsort(-policy, kind="stable")[: max(1, int((top - 0.9) / BAR))]
    height = BAR * len(likely)
    _draw_policy(page.axes(1.25, top - 0.1 - height, 1.1, height), policy, np.sort(likely), names)
    return page.figure


def save_plan_figure(path: Path | str, plan: Plan, dpi: int = 120, **options: Any) -> None:
    """Draw a plan into a PNG file; options as for `plan_figure`."""
    save(plan_figure(plan, **options), path, dpi)


class Page:
    """A figure measured in inches from its lower left corner, so that letters keep their distance."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), facecolor="white")

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes in a rectangle."""
        rectangle = (x / self.width, y / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(rectangle)

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Text at a point."""
        self.figure.text(x / self.width, y / self.height, text, **{"color": INK, "linespacing": 1.4, **style})


def _rows(nodes: Sequence[Node]) -> float:
    return max(node.row for node in nodes) + 1.0


def _draw_tree(
    axes: Axes, nodes: Sequence[Node], names: Sequence[str], scale: Normalize, inches: float
) -> None:
    """A column per depth; `inches` is the height of the axes."""
    depth, rows = max(node.depth for node in nodes), _rows(nodes)
    margin = 0.12 * max(depth, 1)
    axes.set(xlim=(-margin, depth + margin), ylim=(rows - 0.5, -0.5))
    axes.axis("off")
    room = [72.0 * inches / rows * _distance(nodes, level) for level in range(depth + 1)]  # points
    for level in range(depth + 1):
        text = "now" if level == 0 else f"after {level} action{'s' if level > 1 else ''}"
        _label(axes, (level, -0.5), (0.0, 10.0), text, ha="center", fontsize=9, color=SOFT)
    for node in nodes[1:]:
        name = names[node.action] + (f" ·{node.sample + 1}" if node.sample >= 0 else "")
        _draw_edge(axes, nodes[node.parent], node, name, room[node.depth])
    for node in nodes:
        _draw_node(axes, node, scale, room[node.depth], node.depth == depth)


def _distance(nodes: Sequence[Node], level: int) -> float:
    """Rows between the nearest neighbours of a level."""
    rows = sorted(node.row for node in nodes if node.depth == level)
    return min((below - above for above, below in pairwise(rows)), default=_rows(nodes))


def _draw_edge(axes: Axes, parent: Node, child: Node, name: str, room: float) -> None:
    """A curve as wide as the action is probable, flat before the child: there lies its label."""
    bend, flat = parent.depth + 0.18, parent.depth + 0.34
    start, end = (parent.depth, parent.row), (child.depth, child.row)
    points = [start, (bend, parent.row), (bend, child.row), (flat, child.row), end]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4, Curve.LINETO])
    width, order = 0.8 + 6.0 * child.probability, 2 if child.greedy else 1
    line, letters = (ACCENT, ACCENT) if child.greedy else (GREY, SOFT)
    axes.add_patch(PathPatch(curve, fill=False, edgecolor=line, linewidth=width, zorder=order))
    if room >= LABEL_ROOM:
        text = f"{name}  {100 * child.probability:.0f} %"
        offset = (-0.5 * _diameter(room) - 5.0, 0.5 * width + 1.0)
        style = {"ha": "right", "va": "bottom", "fontsize": min(8.5, 0.6 * room)}
        _label(axes, end, offset, text, color=letters, **style)


def _draw_node(axes: Axes, node: Node, scale: Normalize, room: float, leaf: bool) -> None:
    """A disc in the colour of the value, with the number in it or beside it."""
    place, diameter, colour = (node.depth, node.row), _diameter(room), COLOURS(float(scale(node.value)))
    ring, width = (ACCENT, 2.2) if node.greedy else ("white", 1.0)
    axes.scatter(*place, s=diameter**2, color=[colour], edgecolors=ring, linewidths=width, zorder=4)
    number = _number(node.value, scale)
    if diameter >= NUMBER_ROOM:
        dark = np.dot(colour[:3], (0.299, 0.587, 0.114)) < 0.55
        ink = "white" if dark else INK
        axes.text(*place, number, ha="center", va="center", fontsize=8.5, color=ink, zorder=5)
    elif leaf and room >= LABEL_ROOM:
        beside = (0.5 * diameter + 4.0, 0.0)
        _label(axes, place, beside, number, va="center", fontsize=min(8.0, 0.6 * room), color=INK)
    if node.hidden:
        below = (0.35 * diameter, -0.5 * diameter - 3.0)
        _label(axes, place, below, f"+ {node.hidden} more", ha="right", va="top", fontsize=7, color=SOFT)


def _label(
    axes: Axes, place: tuple[float, float], offset: tuple[float, float], text: str, **style: Any
) -> None:
    """Text at an offset in points from a place."""
    axes.annotate(text, place, offset, textcoords="offset points", annotation_clip=False, zorder=3, **style)


def _diameter(room: float) -> float:
    """Of a disc, in points."""
    return 0.92 * min(room, 34.0)


def _number(value: float, scale: Normalize) -> str:
    """With as many decimals as fit a disc, the same for all values of a plan."""
    largest = max(abs(float(scale.vmin or 0.0)), abs(float(scale.vmax or 0.0)))
    return f"{value:.{2 if largest < 9.995 else 1 if largest < 99.95 else 0}f}"


def _draw_frame(axes: Axes, frame: Array) -> None:
    axes.imshow(frame)
    axes.set(xticks=[], yticks=[], anchor="NW")
    axes.spines[:].set_color(GREY)
    axes.set_title("the state now", fontsize=9, loc="left", color=SOFT)


def _draw_scale(axes: Axes, scale: Normalize) -> None:
    bar = axes.figure.colorbar(ScalarMappable(scale, COLOURS), cax=axes)
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=8, color=GREY, labelcolor=INK, length=3)
    axes.set_title("value", fontsize=9, color=SOFT, pad=8)


def _draw_policy(axes: Axes, policy: Array, shown: Array, names: Sequence[str]) -> None:
    """A bar for each action that is shown."""
    colours = [ACCENT if action == policy.argmax() else GREY for action in shown]
    axes.barh(range(len(shown)), policy[shown], 0.62, color=colours)
    for place, probability in enumerate(policy[shown]):
        text = f"{100 * probability:.0f} %"
        axes.text(probability + 0.04, place, text, va="center", fontsize=8.5, color=INK)
    axes.set(xlim=(0, 1), ylim=(len(shown) - 0.5, -0.5), xticks=[], yticks=range(len(shown)))
    axes.set_yticklabels([names[action] for action in shown], fontsize=8.5, color=INK)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(GREY)
