"""Worlds that roll dice: a tree with several outcomes for every action against one with their mean."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from xlvin.experiments import stochastic_bed as bed
from xlvin.experiments.control import Cell, run_cells, split
from xlvin.experiments.planning_bed import holds
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.report import tables
from xlvin.report.records import find, read_all, write
from xlvin.training.config import Budget
from xlvin.training.presets import preset

NAME = "stochastic"
SEEDS = 20
LAKE, PUSHED = "FrozenLake-v1", "xlvin/PushedCartPole-v0"
BED = "bed"
# Episodes of training, and how many are collected at a time.
BUDGETS: dict[str, dict[str, Budget]] = {
    LAKE: {"episodes-2000": Budget(total=2000, per_round=100)},
    PUSHED: {
        "episodes-10": Budget(total=10, per_round=5),
        "episodes-30": Budget(total=30, per_round=5),
    },
}
# Each agent with one outcome for an action, and its twin with several.
TWINS = {"xlvin-r": "xlvin-stochastic", "xlvin-imagine": "xlvin-stochastic-imagine"}
AGENTS = ("ppo", *[name for pair in TWINS.items() for name in pair], "ppo-imagine")
EVALUATION = {LAKE: 1000, PUSHED: 100}
DEPTHS = (1, 2, 3)  # of the trees in the bed
OPTIMUM = {LAKE: 0.740}  # of FrozenLake's best policy in 100 steps, by dynamic programming


def cells(effort: Effort) -> list[Cell]:
    """Every agent in every world, the longest first."""
    found = []
    for environment, budgets in BUDGETS.items():
        for version, budget in budgets.items():
            for agent in reversed(AGENTS):
                config = replace(
                    preset(environment, agent),
                    budget=budget,
                    seeds=effort.seeds or SEEDS,
                    evaluation_episodes=EVALUATION[environment],
                )
                found.append(Cell(version, config, effort.device))
    size = 1 if effort.device == "cpu" else effort.seeds or SEEDS
    return [part for cell in found if effort.wants(cell.name) for part in split(cell, size)]


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet."""
    effort = effort or Effort()
    beds = [cell for cell in bed.cells(DEPTHS, effort.seeds, effort.device) if effort.wants(cell.name)]
    jobs = [cell for cell in reversed(beds) if not _done(results, cell)]
    for number, (cell, record) in enumerate(run_jobs(partial(bed.measure, NAME), jobs, effort.workers), 1):
        write(record, results)
        told = f"{100 * sum(record.scores) / len(record.scores):.1f} % in {record.seconds:.0f} s"
        print(f"{number}/{len(jobs)} {cell.name}: {told}", file=sys.stderr)
    run_cells(results, NAME, cells(effort), effort.workers)


def _done(results: Path, cell: bed.BedCell) -> bool:
    """Whether the record of a bed's cell is there, made with these settings and at least as many seeds."""
    record = find(results, NAME, *cell.name.split("/"))
    return record is not None and holds(record, bed.resolved(cell))


def rows(results: Path) -> list[tables.Row]:
    """One row per version, world and agent, in the order of the page; the bed comes last."""
    worlds, gambles = _rows(results)
    return worlds + gambles


def _rows(results: Path) -> tuple[list[tables.Row], list[tables.Row]]:
    records = read_all(results, NAME)
    worlds = tables.rows(record for record in records if record.version != BED)
    gambles = tables.rows(record for record in records if record.version == BED)
    versions = [version for budgets in BUDGETS.values() for version in budgets]
    worlds = tables.ordered(worlds, environment=[*BUDGETS], version=versions, agent=AGENTS)
    depths = [f"depth-{depth}" for depth in DEPTHS]
    return worlds, tables.ordered(gambles, agent=[*bed.ARMS], environment=depths)


def comparisons(results: Path) -> list[tables.Row]:
    """Several outcomes minus their mean, paired over seeds."""
    records = {(r.environment, r.version, r.agent): r for r in read_all(results, NAME)}
    wanted = [
        (environment, version, first, second)
        for environment, budgets in BUDGETS.items()
        for version in budgets
        for second, first in TWINS.items()
    ]
    pairs = (("aligned-2", "aligned-1"), ("aligned-3", "aligned-1"), ("paper-3", "paper-1"))
    wanted += [(f"depth-{depth}", BED, *pair) for pair in pairs for depth in DEPTHS]
    found = []
    for environment, version, *names in wanted:
        first, second = (records.get((environment, version, name)) for name in names)
        if first and second and (pair := tables.paired(first, second)):
            found.append({"world": environment, "data": version, "compared": " - ".join(names)} | pair)
    return found


def summary(results: Path) -> str:
    """Scores by world, accuracy in the bed, and what several outcomes are worth, as Markdown."""
    worlds, gambles = _rows(results)
    parts = []
    if worlds:
        named = [row | {"world": f"{row['environment']}, {row['version']}"} for row in worlds]
        pivoted = tables.pivot(tables.ordered(named, agent=AGENTS), "agent", "world", _score)
        table = tables.markdown(pivoted, ["agent", *dict.fromkeys(row["world"] for row in named)])
        best = ", ".join(f"{score:.2f} on {name}" for name, score in OPTIMUM.items())
        parts.append(
            f"### Worlds\n\nGreedy return, mean ± standard deviation (seeds). The best possible is {best}."
            f"\n\n{table}"
        )
    if gambles:
        table = tables.markdown(tables.pivot(gambles, "agent", "environment", _percent))
        parts.append(
            f"### Gambles\n\nOptimal decisions (%), mean ± standard deviation over seeds.\n\n{table}"
        )
    if differences := comparisons(results):
        shown = tables.signed(differences, "world", "data", "compared", "seeds", digits=3)
        parts.append(f"### Several outcomes minus their mean\n\n{tables.markdown(shown)}")
    return "\n\n".join(parts)


def _score(row: tables.Row) -> str:
    digits = 3 if row["environment"] == LAKE else 1
    return f"{tables.spread(row, digits)} ({row['seeds']})"


def _percent(row: tables.Row) -> str:
    return f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}"


def figure(results: Path, path: Path) -> None:
    """Every seed of every agent in every world, and the bed's accuracy by depth."""
    from xlvin.report.seed_figure import OTHER, OURS, draw_seeds, new_figure, save_panels

    styles = {  # the label, the colour, the line
        "aligned-1": ("aligned, one outcome", OTHER, "-"),
        "aligned-2": ("aligned, two", "#9ecae1", "-"),
        "aligned-3": ("aligned, three", OURS, "-"),
        "aligned-3-deterministic-executor": ("the same, executor of certain worlds", "black", ":"),
        "paper-1": ("the paper's wiring, one", OTHER, "--"),
        "paper-3": ("the paper's wiring, three", OURS, "--"),
    }
    records = read_all(results, NAME)
    worlds = [(name, version) for name, budgets in BUDGETS.items() for version in budgets]
    picture = new_figure(3.0 * (len(worlds) + 1), 4.2)
    *panels, last = picture.subplots(1, len(worlds) + 1)
    for axis, (name, version) in zip(panels, worlds, strict=True):
        scores = {r.agent: r.scores for r in records if (r.environment, r.version) == (name, version)}
        draw_seeds(axis, scores, AGENTS, dict.fromkeys(TWINS.values(), OURS), turn=60.0)
        if name in OPTIMUM:
            axis.axhline(OPTIMUM[name], color="black", lw=0.8, ls=":")
        episodes = int(version.removeprefix("episodes-"))
        axis.set_title(f"{name.removeprefix('xlvin/')}, {episodes:,} episodes", fontsize=9)
    for arm in bed.ARMS:
        curve = [r for r in tables.rows(records) if (r["version"], r["agent"]) == (BED, arm)]
        if curve:
            depths = [int(row["environment"].removeprefix("depth-")) for row in curve]
            label, colour, line = styles[arm]
            shares = [100 * row["mean"] for row in curve]
            last.plot(depths, shares, line, color=colour, marker="o", ms=4, label=label)
    last.set_title("Gambles: optimal decisions (%)", fontsize=9)
    last.set_xticks(DEPTHS, [f"depth {depth}" for depth in DEPTHS], fontsize=7)
    if last.lines:
        last.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    title = "Blue: trees with several outcomes for every action. Dotted: the best possible."
    save_panels(path, picture, title)
