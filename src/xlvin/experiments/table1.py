"""Table 1: control from a handful of trajectories, every agent in the paper's and in a tuned version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xlvin.agents.registry import VALUE_BASED
from xlvin.experiments.control import Cell, run_cells, split
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import Record, read_all
from xlvin.training.presets import CONTROL, Version, preset

NAME = "table1"
SEEDS = 20
VERSIONS: tuple[Version, ...] = ("paper", "tuned")
AGENTS = ("ppo", "atreec", "xlvin-r", "xlvin-cp", "xlvin-untrained")
# Ours: the same networks with a value tail, and one more; the paper has no settings for them.
ALL = (*AGENTS, *VALUE_BASED)
# Ours, from the same data: the default agent has an experiment of its own. Experiment, version, agent.
BESIDE = ("imagination", "paper-data", "xlvin-imagine")
# Seeds that train side by side in one process; trees of 85 nodes fill a core's cache with few of them.
SIDE_BY_SIDE = {"LunarLander-v3": 2}

# As printed in the paper, mean and standard deviation over five seeds.
PAPER = {
    "CartPole-v0": {
        "ppo": (104.6, 48.5),
        "atreec": (117.1, 56.2),
        "xlvin-r": (199.2, 1.6),
        "xlvin-cp": (195.2, 5.0),
    },
    "Acrobot-v1": {
        "ppo": (-500.0, 0.0),
        "atreec": (-500.0, 0.0),
        "xlvin-r": (-353.1, 120.3),
        "xlvin-cp": (-245.4, 48.4),
    },
    "MountainCar-v0": {
        "ppo": (-200.0, 0.0),
        "atreec": (-200.0, 0.0),
        "xlvin-r": (-185.6, 8.1),
        "xlvin-cp": (-168.9, 24.7),
    },
    "LunarLander-v3": {"ppo": (90.52, 9.54), "atreec": (84.04, 5.35), "xlvin-r": (99.34, 6.77)},
}
# Who is held against whom.
COMPARED = {
    "xlvin-r": ("ppo", "atreec", "xlvin-untrained"),
    "xlvin-cp": ("xlvin-untrained",),
    "xlvin-dqn": ("dqn", "treeqn", "vpn", "xlvin-r"),
}


def cells(effort: Effort) -> list[Cell]:
    """Everything the table needs, the longest training first."""
    found, seeds = [], effort.seeds or SEEDS
    for environment in ("LunarLander-v3", "Acrobot-v1", "MountainCar-v0", "CartPole-v0"):
        for version in VERSIONS:
            for agent in AGENTS if version == "paper" else ALL:
                config = replace(preset(environment, agent, version), seeds=seeds)
                cell = Cell(version, config, effort.device)
                size = SIDE_BY_SIDE.get(environment, seeds) if effort.device == "cpu" else seeds
                found += split(cell, size)
    return [cell for cell in found if effort.wants(cell.name)]


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet; every finished cell is kept at once."""
    effort = effort or Effort()
    run_cells(results, NAME, cells(effort), effort.workers)


def rows(results: Path) -> list[tables.Row]:
    """One row per version, environment and agent, in the table's order."""
    found = tables.rows(_records(results))
    return tables.ordered(found, version=VERSIONS, environment=[*CONTROL], agent=(*ALL, BESIDE[-1]))


def _records(results: Path) -> list[Record]:
    """The table's own, and the default agent's."""
    experiment, version, agent = BESIDE
    elsewhere = read_all(results, experiment) if (results / experiment).exists() else []
    beside = [r for r in elsewhere if (r.version, r.agent) == (version, agent) and r.environment in CONTROL]
    return [*read_all(results, NAME), *(replace(record, version="tuned") for record in beside)]


def comparisons(results: Path, agent: str = "xlvin-r") -> list[tables.Row]:
    """An agent minus each other one, paired over seeds."""
    known = {(r.version, r.environment, r.agent): r for r in read_all(results, NAME)}
    found = []
    for version in VERSIONS:
        for environment in CONTROL:
            for other in COMPARED[agent]:
                first, second = (known.get((version, environment, name)) for name in (agent, other))
                if first and second and (pair := tables.paired(first, second)):
                    who = {"version": version, "environment": environment, f"{agent} minus": other}
                    found.append(who | pair)
    return found


def summary(results: Path) -> str:
    """Both versions beside the paper's numbers, then the paired differences, as Markdown."""
    table = rows(results)
    parts = [f"### As printed in the paper\n\n{tables.markdown(_printed())}"]
    for version in VERSIONS:
        chosen = [row for row in table if row["version"] == version]
        if chosen:
            many, bounds = tables.counted(chosen), tables.interval_title(chosen)
            shown = tables.pivot(chosen, "agent", "environment", tables.full)
            legend = f"Mean ± standard deviation over {many} seeds (interquartile mean; its {bounds})."
            parts.append(f"### This library, {version} version\n\n{legend}\n\n{tables.markdown(shown)}")
    differences = [
        tables.markdown(tables.signed(found, "version", "environment", f"{agent} minus"))
        for agent in COMPARED
        if (found := comparisons(results, agent))
    ]
    if differences:
        parts += ["### Paired differences over seeds", *differences]
    return "\n\n".join(parts)


def headline(results: Path) -> str:
    """The tuned version beside the printed means, short enough for a README."""
    tuned = [row for row in rows(results) if row["version"] == "tuned"]
    shown = tables.pivot(tuned, "agent", "environment", lambda row: f"{row['mean']:.1f} ± {row['std']:.1f}")
    measured = {row["agent"]: row for row in shown}
    environments = [name for name in CONTROL if any(name in row for row in shown)]
    lines = [
        {"agent": agent}
        | {f"{name}, printed": _printed_cell(name, agent) for name in environments}
        | {f"{name}, here": measured.get(agent, {}).get(name, "") for name in environments}
        for agent in ALL
        if agent in AGENTS or agent in measured
    ]
    columns = ["agent", *(f"{name}, {side}" for name in environments for side in ("printed", "here"))]
    return tables.markdown(lines, columns)


def _printed() -> list[tables.Row]:
    return [
        {"agent": agent} | {environment: _printed_cell(environment, agent) for environment in PAPER}
        for agent in AGENTS
        if agent != "xlvin-untrained"
    ]


def _printed_cell(environment: str, agent: str) -> str:
    scores = PAPER[environment]
    return "{:.1f} ± {:.1f}".format(*scores[agent]) if agent in scores else ""


def figure(results: Path, path: Path) -> None:
    """Every seed of the tuned and the paper's version, beside the printed means."""
    from xlvin.report.seed_figure import draw_seeds, new_figure, save_panels

    table = {(r.version, r.environment, r.agent): r.scores for r in _records(results)}
    measured = {agent for _, _, agent in table}
    shown = [agent for agent in (*ALL, BESIDE[-1]) if agent in AGENTS or agent in measured]
    colours = {agent: f"C{place}" for place, agent in enumerate(shown)}
    picture = new_figure(11, 6.4)
    axes = picture.subplots(2, len(CONTROL), sharex=True)
    for row, version in enumerate(VERSIONS):
        for axis, environment in zip(axes[row], CONTROL, strict=True):
            scores = {agent: table[key] for agent in shown if (key := (version, environment, agent)) in table}
            marks = {agent: mean for agent, (mean, _) in PAPER[environment].items()}
            draw_seeds(axis, scores, shown, colours, marks)
            axis.set_title(environment if row == 0 else "", fontsize=10)
        axes[row, 0].set_ylabel(f"{version} version")
    title = "Greedy return after training: every seed, their mean (coloured bar), the paper's mean (black)"
    save_panels(path, picture, title)
