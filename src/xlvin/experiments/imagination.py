"""Learning inside a model: XLVIN that imagines against agents that do not, and what each part earns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from xlvin.experiments import table1
from xlvin.experiments.control import Cell, run_cells, split
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import Record, read_all
from xlvin.training.config import TrainConfig
from xlvin.training.presets import CONTROL, preset

NAME = "imagination"
SEEDS = 24
SIDE_BY_SIDE = 1  # seeds that train together on a CPU: recorded steps of one are as fast as those of several
AGENT, TREELESS = "xlvin-imagine", "ppo-imagine"
# The agent, with an untrained executor, without a tree, in its own latent model, and with an aligned tree.
AGENTS = (
    AGENT,
    "xlvin-untrained-imagine",
    "ppo-imagine",
    "xlvin-latent-imagine",
    "xlvin-aligned-imagine",
    "xlvin-aligned-untrained-imagine",
)
# Agents that differ in their executor alone: pretrained, and untrained.
EXECUTORS = ((AGENT, "xlvin-untrained-imagine"), ("xlvin-aligned-imagine", "xlvin-aligned-untrained-imagine"))
FULL, FEW = "paper-data", "less-data"
# A fraction of the paper's data: trajectories.
FRACTION = {"CartPole-v0": 3, "Acrobot-v1": 20, "MountainCar-v0": 30, "LunarLander-v3": 100}
# What happens without a part, at the paper's data.
ABLATIONS: dict[str, dict[str, Any]] = {
    "no-support": {"support": 1e9},
    "no-curiosity": {"curiosity": 1e9},
    "no-real-data": {"real": False},
    "one-member": {"members": 1},
    "horizon-10": {"horizon": 10},
}
ABLATED = ("CartPole-v0", "Acrobot-v1", "MountainCar-v0")


def cells(effort: Effort) -> list[Cell]:
    """Everything there is to train, the longest first."""
    found = []
    for environment in ("LunarLander-v3", "Acrobot-v1", "MountainCar-v0", "CartPole-v0"):
        found += [Cell(FULL, preset(environment, agent), effort.device) for agent in AGENTS]
        few = with_trajectories(preset(environment, AGENT), FRACTION[environment])
        found.append(Cell(FEW, few, effort.device))
        if environment in ABLATED:
            found += [Cell(name, ablated(environment, name), effort.device) for name in ABLATIONS]
    seeds = effort.seeds or SEEDS
    chosen = [
        replace(cell, config=replace(cell.config, seeds=seeds)) for cell in found if effort.wants(cell.name)
    ]
    size = seeds if effort.device != "cpu" else SIDE_BY_SIDE
    return [part for cell in chosen for part in split(cell, size)]


def with_trajectories(config: TrainConfig, count: int) -> TrainConfig:
    """The same with another data budget."""
    return replace(config, budget=replace(config.budget, total=count, per_round=min(5, count)))


def ablated(environment: str, name: str) -> TrainConfig:
    """The agent without one of its parts."""
    config = preset(environment, AGENT)
    return replace(config, imagination=replace(config.imagination, **ABLATIONS[name]))


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet."""
    effort = effort or Effort()
    run_cells(results, NAME, cells(effort), effort.workers)


def rows(results: Path) -> list[tables.Row]:
    """One row per version, environment and agent, in the order of the page."""
    found = tables.rows(read_all(results, NAME))
    return tables.ordered(found, version=(FULL, FEW, *ABLATIONS), environment=[*CONTROL], agent=AGENTS)


def comparisons(results: Path) -> list[tables.Row]:
    """The agent minus each other, and minus itself without a part, paired over seeds."""
    ours = {(r.version, r.environment, r.agent): r for r in read_all(results, NAME)}
    others = {("tuned", r.environment, r.agent): r for r in _table1(results) if r.version == "tuned"}
    found = []
    for environment in CONTROL:
        first = ours.get((FULL, environment, AGENT))
        rivals = {agent: ours.get((FULL, environment, agent)) for agent in AGENTS[1:]}
        rivals |= {f"{agent}, tuned": others.get(("tuned", environment, agent)) for agent in table1.ALL}
        rivals |= {f"itself, {name}": ours.get((name, environment, AGENT)) for name in ABLATIONS}
        for name, second in rivals.items():
            if first is not None and second is not None:
                pair = tables.paired(first, second)
                found += [{"environment": environment, f"{AGENT} minus": name} | pair] if pair else []
    return found


def pretraining(results: Path) -> list[tables.Row]:
    """What an executor's pretraining earns: agents that have it minus those without, paired over seeds."""
    ours = {(r.environment, r.agent): r for r in read_all(results, NAME) if r.version == FULL}
    found = []
    for environment in CONTROL:
        for with_it, without in EXECUTORS:
            first, second = ours.get((environment, with_it)), ours.get((environment, without))
            if first is not None and second is not None and (pair := tables.paired(first, second)):
                found.append({"environment": environment, "pretrained": with_it, "minus": without} | pair)
    return found


def _table1(results: Path) -> list[Record]:
    return read_all(results, table1.NAME) if (results / table1.NAME).exists() else []


def summary(results: Path) -> str:
    """Scores beside tuned agents and the paper's best, then from less data, then what each part earns."""
    found = rows(results)
    full = [row for row in found if row["version"] == FULL]
    together = tables.markdown(_beside(results, full), ["agent", *CONTROL])
    parts = [f"### At the paper's data\n\nMean ± standard deviation (seeds).\n\n{together}"]
    few = [row for row in found if row["version"] == FEW]
    if few:
        told = [
            {
                "environment": row["environment"],
                "trajectories": f"{FRACTION[row['environment']]} of {CONTROL[row['environment']][2].total}",
                "return": _cell(row),
                "worst seed": f"{row['worst']:.1f}",
                "seeds": row["seeds"],
            }
            for row in _with_worst(results, few)
        ]
        parts.append(f"### From less data\n\n{tables.markdown(told)}")
    without = [row for row in found if row["version"] in ABLATIONS]
    if without:
        shown = tables.pivot(without, "version", "environment", _counted)
        parts.append(f"### Without a part, at the paper's data\n\n{tables.markdown(shown)}")
    if differences := comparisons(results):
        parts.append(f"### Paired differences over seeds\n\n{tables.differences(differences)}")
    if executors := pretraining(results):
        parts.append(f"### What the executor's pretraining earns\n\n{tables.differences(executors)}")
    return "\n\n".join(parts)


def headline(results: Path) -> str:
    """The agent beside the best of Table 1's tuned ones and the paper's best, short enough for a README."""
    full = {
        row["environment"]: row for row in rows(results) if row["version"] == FULL and row["agent"] == AGENT
    }
    treeless = [row for row in rows(results) if row["version"] == FULL and row["agent"] == TREELESS]
    tuned = [row for row in tables.rows(_table1(results)) if row["version"] == "tuned"]
    lines: list[tables.Row] = [
        {"": AGENT} | {name: _cell(row) for name, row in full.items()},
        {"": "its worst seed"}
        | {row["environment"]: f"{row['worst']:.1f}" for row in _with_worst(results, [*full.values()])},
        {"": "seeds"} | {name: str(row["seeds"]) for name, row in full.items()},
        {"": f"{TREELESS}, no tree"} | {row["environment"]: _cell(row) for row in treeless},
    ]
    for agent in ("xlvin-r", "ppo"):
        lines.append(
            {"": f"{agent}, tuned"} | {r["environment"]: _cell(r) for r in tuned if r["agent"] == agent}
        )
    lines.append({"": "the paper's best"} | _printed_best())
    return tables.markdown(lines, ["", *(name for name in CONTROL if name in full)])


def _printed_best() -> dict[str, str]:
    return {name: "{:.1f} ± {:.1f}".format(*max(scores.values())) for name, scores in table1.PAPER.items()}


def _beside(results: Path, full: list[tables.Row]) -> list[tables.Row]:
    """Agents by environment: ours, the tuned ones of Table 1, the paper's best."""
    shown = tables.pivot(full, "agent", "environment", _counted)
    tuned = [row for row in tables.rows(_table1(results)) if row["version"] == "tuned"]
    shown += [
        {**row, "agent": f"{row['agent']}, tuned"}
        for row in tables.pivot(tuned, "agent", "environment", _counted)
    ]
    return [*shown, {"agent": "the paper's best", **_printed_best()}]


def _with_worst(results: Path, found: list[tables.Row]) -> list[tables.Row]:
    worst = {(r.version, r.environment, r.agent): min(r.scores) for r in read_all(results, NAME)}
    return [{**row, "worst": worst[row["version"], row["environment"], row["agent"]]} for row in found]


def _counted(row: tables.Row) -> str:
    return f"{_cell(row)} ({row['seeds']})"


def _cell(row: tables.Row) -> str:
    return tables.spread(row)


def figure(results: Path, path: Path) -> None:
    """Every seed of every agent at the paper's data, beside Table 1's tuned agents and the paper's best."""
    from xlvin.report.seed_figure import OURS, draw_seeds, new_figure, save_panels

    ours = {(r.environment, r.agent): r.scores for r in read_all(results, NAME) if r.version == FULL}
    ours |= {(r.environment, f"{r.agent}, tuned"): r.scores for r in _table1(results) if r.version == "tuned"}
    known = {name for _, name in ours}
    names = [name for name in (*AGENTS, *(f"{agent}, tuned" for agent in table1.ALL)) if name in known]
    environments = [name for name in CONTROL if (name, AGENT) in ours]
    picture = new_figure(2.6 * len(environments) + 2.0, 0.3 * len(names) + 1.2)
    axes = picture.subplots(1, len(environments), squeeze=False, sharey=True)[0]
    for axis, environment in zip(axes, environments, strict=True):
        scores = {name: ours[environment, name] for name in names if (environment, name) in ours}
        draw_seeds(axis, scores, names, {AGENT: OURS}, across=True)
        axis.axvline(max(table1.PAPER[environment].values())[0], color="black", lw=0.8, ls=":")
        axis.set_title(environment, fontsize=10)
    title = "Greedy return at the paper's data: every seed and their mean; dotted, the paper's best mean"
    save_panels(path, picture, title)
