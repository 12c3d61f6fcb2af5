"""Continual maze (appendix F): how many levels each planner passes, and how it does on held-out mazes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xlvin.agents.mazes import Version
from xlvin.experiments.maze_runs import FOLDER, MazeRun, Outcome, load_outcome, run_config, train
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, find, merged, read_all, write
from xlvin.report.statistics import summarise

NAME = FOLDER
SEEDS = 3
SIZES = (8, 16)
# The paper's planners and a plain CNN, and of XLVIN: without the planner, with an executor that was never
# trained, with a sparse tree. The paper gives numbers for XLVIN alone.
AGENTS: dict[Version, tuple[str, ...]] = {
    "tuned": ("xlvin", "ppo", "vin", "gvin", "gppn", "cnn", "xlvin-untrained", "xlvin-sparse"),
    "paper": ("xlvin",),
    "discounted": ("xlvin",),
    "valued": ("xlvin", "ppo", "vin"),
    "hindsight": ("xlvin", "ppo", "vin", "cnn"),
}
BESIDE_TUNED = {
    "paper": " (paper's settings)",
    "discounted": " (γ = 0.9)",
    "valued": " (γ = 0.9, value loss × 60)",
    "hindsight": " (γ = 0.9, hindsight)",
}


def jobs(results: Path, effort: Effort) -> list[MazeRun]:
    """Every run that was asked for."""
    found = [
        MazeRun(run_config(version, size, agent), seed, runs_beside(results), effort.device)
        for size in SIZES
        for version, agents in AGENTS.items()
        for agent in agents
        for seed in range(effort.seeds or SEEDS)
    ]
    return [job for job in found if effort.wants(job.name)]


def runs_beside(results: Path) -> Path:
    """Where the runs of records below `results` lie."""
    return results.absolute().parent / "runs"


def run(results: Path, effort: Effort | None = None) -> None:
    """Train what the records do not hold finished; every run that ends is kept at once.

    Of a run that is stopped the levels so far are kept, and it goes on next time.
    """
    effort = effort or Effort()
    wanted = [job for job in jobs(results, effort) if not _done(results, job)]
    try:
        for number, (job, outcome) in enumerate(run_jobs(train, wanted, effort.workers), 1):
            keep(results, job, outcome)
            print(f"{number}/{len(wanted)} {job.name}: {outcome.passed} levels passed", file=sys.stderr)
    finally:
        keep_begun(results, wanted)


def keep_begun(results: Path, wanted: Sequence[MazeRun]) -> None:
    """Add the runs that were stopped on their way to their records, where these do not know more already."""
    for job in wanted:
        outcome, known = load_outcome(job), _known(results, job)
        if outcome is None or outcome.finished or not outcome.levels:
            continue
        before = [entry for entry in known.seeds if entry["seed"] == job.seed] if known else []
        if all(entry["passed"] < outcome.passed for entry in before):
            keep(results, job, outcome)


def keep(results: Path, job: MazeRun, outcome: Outcome) -> None:
    """Add a run to its record; other settings start a new record."""
    size, known = job.config.size, _known(results, job)
    record = Record(
        experiment=NAME,
        version=job.config.version,
        environment=f"{size}x{size}",
        agent=job.config.agent,
        seeds=[_entry(job.seed, outcome)],
        config=job.plain(),
        command=f"xlvin reproduce {NAME} --only {job.config.version}/{size}x{size}/{job.config.agent}/",
        seconds=0.0,
        **provenance(),
    )
    record = merged(known, record) if known else record
    seconds = sum(level["seconds"] for entry in record.seeds for level in entry["levels"])
    write(replace(record, seconds=round(seconds, 1)), results)


def _done(results: Path, job: MazeRun) -> bool:
    """Whether the record holds this run from beginning to end, made with these settings."""
    known = _known(results, job)
    return known is not None and any(
        entry["seed"] == job.seed and not entry.get("stopped") for entry in known.seeds
    )


def _known(results: Path, job: MazeRun) -> Record | None:
    """The record of a run, if it was made with these settings."""
    size = job.config.size
    record = find(results, NAME, job.config.version, f"{size}x{size}", job.config.agent)
    return record if record and job.made(record.config) else None


def _entry(seed: int, outcome: Outcome) -> dict[str, Any]:
    """One seed; its score is the held-out success over all levels (%) after the last one that it passed."""
    tested = [level["held_out"] for level in outcome.levels if level["passed"]]
    score = round(100.0 * _mean(tested[-1]), 3) if tested else 0.0
    entry = {"seed": seed, "score": score, "passed": outcome.passed, "levels": outcome.levels}
    return entry if outcome.finished else entry | {"stopped": True}


def rows(results: Path) -> list[tables.Row]:
    """One row per version, size and agent: held-out success (%) at the end, levels passed, episodes used."""
    found = []
    for record in read_all(results, NAME):
        episodes = [sum(level["trajectories"] for level in entry["levels"]) for entry in record.seeds]
        row: tables.Row = {"version": record.version, "environment": record.environment}
        row |= {"agent": record.agent} | summarise(record.scores)
        row |= {"passed": [entry["passed"] for entry in record.seeds], "episodes": _mean(episodes)}
        row |= {"stopped": [entry.get("stopped", False) for entry in record.seeds]}
        found.append(row | {"levels": record.config["continual"]["levels"]})
    return sorted(found, key=_place)


def _place(row: tables.Row) -> tuple[int, int, int]:
    versions = list(AGENTS)
    agents = AGENTS["tuned"]
    size = int(row["environment"].partition("x")[0])
    return size, versions.index(row["version"]), agents.index(row["agent"])


def summary(results: Path) -> str:
    """A table per size."""
    parts, table = [], rows(results)
    for size in dict.fromkeys(row["environment"] for row in table):
        shown = [
            {
                "agent": row["agent"] + BESIDE_TUNED.get(row["version"], ""),
                "levels passed, by seed": ", ".join(map(_passed, row["passed"], row["stopped"])),
                "held-out success (%)": tables.spread(row),
                "episodes": f"{row['episodes']:,.0f}",
            }
            for row in table
            if row["environment"] == size
        ]
        levels = next(row["levels"] for row in table if row["environment"] == size)
        parts.append(f"### {size}, {levels} levels\n\n{tables.markdown(shown)}")
    return "\n\n".join(parts)


def _passed(levels: int, stopped: bool) -> str:
    """A plus where the run was stopped before it passed or failed the rest."""
    return f"{levels}+" if stopped else str(levels)


def figure(results: Path, path: Path) -> None:
    """Held-out success after each level."""
    # late: only figures need matplotlib
    from xlvin.report.continual_figure import draw

    draw(read_all(results, NAME), path)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
