"""Continuous actions: agents that cut them into bins against PPO with a Gaussian policy, at equal data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xlvin.experiments.control import Cell, run_cells, split
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.files import replacing
from xlvin.report.records import Record, read_all
from xlvin.report.statistics import paired_difference
from xlvin.training.presets import CONTINUOUS, preset

NAME = "continuous"
VERSION = "tuned"
SEEDS = 20
# The agent, the same without a tree, the same without imagination; and the one that needs no bins.
AGENTS = ("xlvin-imagine", "ppo-imagine", "ppo", "ppo-gaussian")
# Seeds that train together on a CPU: recorded steps of one are as fast as those of several.
SIDE_BY_SIDE = {"ppo": SEEDS, "ppo-gaussian": SEEDS}


def cells(effort: Effort) -> list[Cell]:
    """Everything there is to train, the longest first."""
    found, seeds = [], effort.seeds or SEEDS
    for environment in reversed(CONTINUOUS):
        for agent in AGENTS:
            cell = Cell(VERSION, replace(preset(environment, agent), seeds=seeds), effort.device)
            together = seeds if effort.device != "cpu" else SIDE_BY_SIDE.get(agent, 1)
            found += split(cell, together) if effort.wants(cell.name) else []
    return found


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet."""
    effort = effort or Effort()
    run_cells(results, NAME, cells(effort), effort.workers)


def rows(results: Path) -> list[tables.Row]:
    """One row per environment and agent, in the order of the page."""
    found = tables.rows(read_all(results, NAME))
    return tables.ordered(found, environment=[*CONTINUOUS], agent=AGENTS)


def comparisons(results: Path) -> list[tables.Row]:
    """The first agent minus each other, paired over seeds, with 95 % intervals."""
    known, found = _known(results), []
    for environment in CONTINUOUS:
        first = known.get((environment, AGENTS[0]))
        for agent in AGENTS[1:]:
            second = known.get((environment, agent))
            if first is None or second is None:
                continue
            ours, theirs = (
                {entry["seed"]: float(entry["score"]) for entry in record.seeds} for record in (first, second)
            )
            shared = sorted(ours.keys() & theirs.keys())
            if len(shared) > 1:
                pair = paired_difference([ours[seed] for seed in shared], [theirs[seed] for seed in shared])
                told = {"environment": environment, f"{AGENTS[0]} minus": agent, "seeds": len(shared)}
                found.append(told | pair)
    return found


def summary(results: Path) -> str:
    """Scores by agent and environment, their worst seeds, and paired differences."""
    found = rows(results)
    worst = {key: min(record.scores) for key, record in _known(results).items()}
    mean = tables.pivot(
        found, "agent", "environment", lambda row: f"{row['mean']:.1f} ± {row['std']:.1f} ({row['seeds']})"
    )
    least = tables.pivot(
        found, "agent", "environment", lambda row: f"{worst[row['environment'], row['agent']]:.1f}"
    )
    columns = ["agent", *(name for name in CONTINUOUS if any(name in line for line in mean))]
    parts = [
        f"Mean ± standard deviation (seeds).\n\n{tables.markdown(mean, columns)}",
        f"The worst seed.\n\n{tables.markdown(least, columns)}",
    ]
    if differences := comparisons(results):
        parts.append(f"### Paired differences over seeds\n\n{tables.markdown(differences)}")
    return "\n\n".join(parts)


def figure(results: Path, path: Path) -> None:
    """Every seed of every agent, and their means."""
    from matplotlib.figure import Figure

    known = _known(results)
    environments = [name for name in CONTINUOUS if any((name, agent) in known for agent in AGENTS)]
    picture = Figure(figsize=(3.2 * len(environments), 3.6), layout="constrained")
    axes = picture.subplots(1, len(environments), squeeze=False)[0]
    for axis, environment in zip(axes, environments, strict=True):
        for place, agent in enumerate(AGENTS):
            if (record := known.get((environment, agent))) is None:
                continue
            colour, count = ("C0" if place == 0 else "0.45"), len(record.scores)
            spread = [place + 0.3 * (i / max(1, count - 1) - 0.5) for i in range(count)]
            axis.scatter(spread, record.scores, s=10, color=colour, alpha=0.5, linewidths=0)
            axis.hlines(sum(record.scores) / count, place - 0.35, place + 0.35, color=colour, lw=2)
        axis.set_title(f"{environment}, {CONTINUOUS[environment][2].total} trajectories", fontsize=8)
        axis.set_xticks(range(len(AGENTS)), AGENTS, rotation=30, ha="right", fontsize=8)
        axis.grid(axis="y", alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    picture.suptitle("Greedy return: every seed, and their mean", fontsize=10)
    with replacing(path) as temporary:
        picture.savefig(temporary, dpi=130, format="png")


def _known(results: Path) -> dict[tuple[str, str], Record]:
    return {(record.environment, record.agent): record for record in read_all(results, NAME)}
