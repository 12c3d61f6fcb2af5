"""The figure of V* predictability: R² of a linear read-out after each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xlvin.report.styles import bare, panels, save
from xlvin.report.tables import Row

COLUMNS = 2
COLOURS = {"embedding": "#009E73", "executed": "#D55E00"}


def save_predictability_figure(
    path: Path, table: Sequence[Row], latents: Mapping[str, str], told: str
) -> None:
    """Draw rows with version, agent, level and R², a panel per version; the version `told` is a line in all.

    `latents` are the agents and what to call them.
    """
    reached = {row["agent"]: row["mean"] for row in table if row["version"] == told and row["level"]}
    versions = [version for version in dict.fromkeys(row["version"] for row in table) if version != told]
    lowest = min(0.0, *(row["mean"] for row in table))
    picture, every = panels(len(versions), COLUMNS, 4.8, 3.6)
    for axes, version in zip(every, versions, strict=True):
        for latent, label in latents.items():
            curve = [row for row in table if row["version"] == version and row["agent"] == latent]
            levels, colour = [row["level"] for row in curve], COLOURS[latent]
            axes.plot(levels, [row["mean"] for row in curve], "o-", color=colour, label=label)
            axes.plot(levels, [row["same_mazes"] for row in curve], ":", color=colour, linewidth=1)
            axes.plot(levels, [row["maze_by_maze"] for row in curve], "--", color=colour, linewidth=1)
            if latent in reached:
                axes.axhline(reached[latent], color=colour, linestyle="-.", linewidth=0.8)
        axes.set_title(f"{version} version", loc="left", fontsize=11, fontweight="bold")
        axes.set(xlabel="after level (0: before training)", ylim=(lowest, 1.02))
        bare(axes)
    for axes in every[::COLUMNS]:
        axes.set_ylabel("R² of a linear read-out of V*")
    every[0].legend(
        frameon=False,
        title="dotted: on the mazes of the fit\ndashed: a fit for each maze\ndash-dotted: told V*",
    )
    save(picture, path)
