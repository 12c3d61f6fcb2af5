"""The executor's figure: policy accuracy by size of MDP, beside the trivial predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from xlvin.report.executor_tables import size
from xlvin.report.styles import Style, bare, save
from xlvin.report.tables import Row

# By executor and predictor; the trivial predictors are the same beside either executor.
LINES = {
    ("random-deterministic", ""): Style("executor pretrained on random-deterministic", "#0072B2"),
    ("cartpole-tree", ""): Style("executor pretrained on cartpole-tree", "#009E73"),
    ("random-deterministic", "reward_"): Style("reward only", "#E69F00", "--"),
    ("random-deterministic", "copy_"): Style("copy V", "#D55E00", "--"),
}


def save_executor_figure(path: Path, cells: Mapping[str, Sequence[Row]], sizes: Sequence[str]) -> None:
    """Draw means over deterministic and over stochastic families; `cells` are measured ones by executor."""
    drawing = Figure(figsize=(9.0, 4.2), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    for axes, deterministic in zip(panels, (True, False), strict=True):
        for (executor, predictor), style in LINES.items():
            chosen = [cell for cell in cells[executor] if cell["deterministic"] == deterministic]
            curve = [
                100 * fmean(cell[f"{predictor}policy_accuracy"] for cell in chosen if size(cell) == label)
                for label in sizes
            ]
            axes.plot(
                sizes, curve, style.line, color=style.colour, label=style.label, marker="o", markersize=4
            )
        title = f"{'Deterministic' if deterministic else 'Stochastic'} families"
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axes.set(ylim=(0, 103), xlabel="states x actions")
        axes.tick_params(axis="x", rotation=45)
        bare(axes)
    panels[0].set_ylabel("policy accuracy (%)")
    handles, names = panels[0].get_legend_handles_labels()
    drawing.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    save(drawing, path)
