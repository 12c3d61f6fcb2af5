"""Continuous actions: agents that cut them into bins against PPO with a Gaussian policy, at equal data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from xlvin.experiments.control import Cell, run_cells, split
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import Record, read_all
from xlvin.training.config import TrainConfig
from xlvin.training.presets import CONTINUOUS, preset, with_settings

NAME = "continuous"
FULL, FEW = "tuned", "less-data"
SEEDS = 20
# A fraction of the data: trajectories.
FRACTION = {"Pendulum-v1": 30, "MountainCarContinuous-v0": 30}
# What agents without a model do otherwise with so little, found on seeds from 1,000.
FEW_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "Pendulum-v1": {"ppo": {"epochs": 80}, "ppo-gaussian": {"epochs": 80, "minibatches": 8}},
    "MountainCarContinuous-v0": {"ppo": {"discount": 0.99, "minibatches": 8}},
}
# The agent, the same without a tree, the same without imagination; and the one that needs no bins.
AGENTS = ("xlvin-imagine", "ppo-imagine", "ppo", "ppo-gaussian")
# Seeds that train together on a CPU: recorded steps of one are as fast as those of several.
SIDE_BY_SIDE = {"ppo": SEEDS, "ppo-gaussian": SEEDS}


def cells(effort: Effort) -> list[Cell]:
    """Everything there is to train, the longest first."""
    found, seeds = [], effort.seeds or SEEDS
    for environment in reversed(CONTINUOUS):
        for version in (FULL, FEW) if environment in FRACTION else (FULL,):
            for agent in AGENTS:
                config = replace(configuration(version, environment, agent), seeds=seeds)
                cell = Cell(version, config, effort.device)
                together = seeds if effort.device != "cpu" else SIDE_BY_SIDE.get(agent, 1)
                found += split(cell, together) if effort.wants(cell.name) else []
    return found


def configuration(version: str, environment: str, agent: str) -> TrainConfig:
    """What is trained, with all data or a fraction of them."""
    config = preset(environment, agent)
    if version == FULL:
        return config
    config = replace(config, budget=replace(config.budget, total=FRACTION[environment]))
    return with_settings(config, FEW_SETTINGS.get(environment, {}).get(agent, {}))


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet."""
    effort = effort or Effort()
    run_cells(results, NAME, cells(effort), effort.workers)


def rows(results: Path) -> list[tables.Row]:
    """One row per version, environment and agent, in the order of the page."""
    found = tables.rows(read_all(results, NAME))
    return tables.ordered(found, version=(FULL, FEW), environment=[*CONTINUOUS], agent=AGENTS)


def comparisons(results: Path) -> list[tables.Row]:
    """The first agent minus each other, paired over seeds."""
    known, found = _known(results), []
    for version, environment in _cases(known):
        first = known.get((version, environment, AGENTS[0]))
        for agent in AGENTS[1:]:
            second = known.get((version, environment, agent))
            if first and second and (pair := tables.paired(first, second)):
                told = {"environment": environment, "trajectories": _trajectories(version, environment)}
                found.append(told | {f"{AGENTS[0]} minus": agent} | pair)
    return found


def summary(results: Path) -> str:
    """Scores by agent, environment and data, their worst seeds, and paired differences."""
    known = _known(results)
    found = [{**row, "case": _title(row["version"], row["environment"])} for row in rows(results)]
    found = tables.ordered(found, agent=AGENTS)
    worst = {key: min(record.scores) for key, record in known.items()}
    mean = tables.pivot(found, "agent", "case", lambda row: f"{tables.spread(row)} ({row['seeds']})")
    least = tables.pivot(
        found, "agent", "case", lambda row: f"{worst[row['version'], row['environment'], row['agent']]:.1f}"
    )
    columns = ["agent", *(_title(*case) for case in _cases(known))]
    parts = [
        f"Mean ± standard deviation (seeds).\n\n{tables.markdown(mean, columns)}",
        f"The worst seed.\n\n{tables.markdown(least, columns)}",
    ]
    if differences := comparisons(results):
        parts.append(f"### Paired differences over seeds\n\n{tables.differences(differences)}")
    return "\n\n".join(parts)


def figure(results: Path, path: Path) -> None:
    """Every seed of every agent, and their means."""
    from xlvin.report.seed_figure import OURS, draw_seeds, save_panels
    from xlvin.report.styles import panels

    known = _known(results)
    cases = _cases(known)
    picture, axes = panels(len(cases), 3, 3.2, 3.4)
    for axis, case in zip(axes, cases, strict=True):
        scores = {agent: known[*case, agent].scores for agent in AGENTS if (*case, agent) in known}
        draw_seeds(axis, scores, AGENTS, {AGENTS[0]: OURS})
        axis.set_title(f"{_title(*case)} trajectories", fontsize=8)
    save_panels(path, picture, "Greedy return: every seed, and their mean")


def _known(results: Path) -> dict[tuple[str, str, str], Record]:
    return {(record.version, record.environment, record.agent): record for record in read_all(results, NAME)}


def _cases(known: dict[tuple[str, str, str], Record]) -> list[tuple[str, str]]:
    """Versions and environments that have records, environment by environment."""
    return [
        (version, environment)
        for environment in CONTINUOUS
        for version in (FULL, FEW)
        if any((version, environment, agent) in known for agent in AGENTS)
    ]


def _trajectories(version: str, environment: str) -> int:
    return FRACTION[environment] if version == FEW else CONTINUOUS[environment][2].total


def _title(version: str, environment: str) -> str:
    return f"{environment}, {_trajectories(version, environment)}"
