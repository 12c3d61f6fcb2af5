"""The bottleneck's figure: policy accuracy against noise on what value iteration is fed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlvin.report.styles import Style, bare, save
from xlvin.report.tables import Row

# Dashes for the arms that the paper does not have.
STYLES = {
    "vi-decoded": Style("VI on scalars read from the noisy embeddings", "#0072B2", "--", "s"),
    "executor-embeddings": Style("executor on noisy embeddings (paper: green)", "#009E73", "-", "o"),
    "vi-scalars": Style("VI on noisy scalars (paper: red)", "#D55E00", "-", "o"),
    "executor-scalars": Style("executor on embeddings of noisy scalars", "#CC79A7", "--", "s"),
}
# A title and what the noise is, by its scaling.
PANELS = {
    "paper": ("As in the paper: the same noise on all inputs", "standard deviation of the noise"),
    "fair": ("Noise scaled to the spread of each input", "standard deviation of the noise / spread"),
}


def save_bottleneck_figure(path: Path, table: Sequence[Row], actions: int) -> None:
    """Draw rows with agent, noise, mean, low and high, a panel per version; one of `actions` is chance."""
    drawing = Figure(figsize=(9.0, 4.4), layout="constrained")
    panels = drawing.subplots(1, len(PANELS), sharey=True)
    for axes, (version, (title, noise)) in zip(panels, PANELS.items(), strict=True):
        _panel(axes, [row for row in table if row["version"] == version])
        axes.axhline(100 / actions, color="0.45", linewidth=1, linestyle=":", label="a random action")
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axes.set_xlabel(noise)
    panels[0].set_ylabel("policy accuracy (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    save(drawing, path)


def _panel(axes: Axes, table: Sequence[Row]) -> None:
    for agent, style in STYLES.items():
        curve = [row for row in table if row["agent"] == agent]
        noise = [row["noise"] for row in curve]
        middle, low, high = ([100 * row[key] for row in curve] for key in ("mean", "low", "high"))
        axes.fill_between(noise, low, high, color=style.colour, alpha=0.25, linewidth=0)
        (line,) = axes.plot(noise, middle, style.line, color=style.colour, label=style.label)
        line.set(marker=style.marker, markersize=4, clip_on=False)
    axes.set(xlim=(0, max(row["noise"] for row in table)), ylim=(0, 100))
    bare(axes)
