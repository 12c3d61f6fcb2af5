"""Depth and width: what deeper and wider trees cost and what they earn, full and sparse."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from xlvin.executor.artefact import load_executor, load_provenance
from xlvin.experiments import control, planning_bed
from xlvin.experiments.depth_cost import CostCell, settings, time_plans, width
from xlvin.experiments.planning_arms import PRETRAINED, Arm, Learner, PlannedLearner, Sizes
from xlvin.experiments.planning_bed import BedConfig
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.planner.aligned_beam import SparseAlignedPlanner
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, find, read_all, write
from xlvin.report.statistics import mean, summarise
from xlvin.training.presets import preset

NAME = "depth-width"
ACTIONS = (2, 4, 9, 18)
BATCHES, BEAMS = (1, 32), (8, 16)
BEAM = 8  # where scores are compared
BED_DEPTHS, LABELS = (1, 2, 3, 4, 6, 10), 8
CONTROL_DEPTHS, CONTROL_SEEDS = (1, 2, 4, 6, 10), 24
CONTROL = {"CartPole-v0": 2, "Acrobot-v1": 3}  # and their actions
AGENT = "xlvin-r"
# Full trees are trained with up to this many leaves.
MOST_LEAVES = {"bed": 1024, "control": 128}
BAR = 6.0  # times K = 2 that K = 10 may cost, at 18 actions


@dataclass(frozen=True)
class BedCell:
    """The planning bed with some number of actions, planned to a depth in full or along a beam."""

    depth: int
    beam: int | None  # None: the full tree
    config: BedConfig
    device: str = "cpu"

    @property
    def name(self) -> str:
        """version/environment/agent, as in the records."""
        return f"bed-depth-{self.depth}/actions-{self.config.actions}/{width(self.beam)}"


Cell = CostCell | BedCell


def cost_cells(effort: Effort) -> list[Cell]:
    """Every shape of tree that is timed, on one core; rounds of timing are no seeds."""
    found = [
        CostCell(actions, batch, beam, learning)
        for learning, actions, batch, beam in product((False, True), ACTIONS, BATCHES, (*BEAMS, None))
    ]
    return [cell for cell in found if effort.wants(cell.name)]


def bed_cells(effort: Effort) -> list[Cell]:
    """Every tree that is trained on the planning bed, the largest first."""
    config = BedConfig() if effort.seeds is None else BedConfig(seeds=effort.seeds)
    found = [
        BedCell(depth, beam, replace(config, actions=actions), effort.device)
        for actions, depth in product(ACTIONS, BED_DEPTHS)
        for beam in _widths(actions, depth, MOST_LEAVES["bed"], expands=depth - 1)
    ]
    found.sort(key=lambda cell: -cell.depth * cell.config.actions)
    return [cell for cell in found if effort.wants(cell.name)]


def control_cells(effort: Effort) -> list[control.Cell]:
    """XLVIN-R with its tuned settings at every depth, one seed at a time."""
    found = []
    for environment, depth in product(CONTROL, sorted(CONTROL_DEPTHS, reverse=True)):
        config = preset(environment, AGENT)
        for beam in _widths(CONTROL[environment], depth, MOST_LEAVES["control"], expands=depth):
            network = replace(config.network, depth=depth, beam=beam)
            version = f"control-depth-{depth}-{width(beam)}"
            whole = replace(config, network=network, seeds=effort.seeds or CONTROL_SEEDS)
            found.append(control.Cell(version, whole, effort.device))
    return [part for cell in found if effort.wants(cell.name) for part in control.split(cell, 1)]


def _widths(actions: int, depth: int, most: int, expands: int) -> list[int | None]:
    """The full tree where it fits, and the beam where it leaves something out of level `expands`."""
    full: list[int | None] = [None] if actions**depth <= most else []
    return [*full, *([BEAM] if actions**expands > BEAM else [])]


def run(results: Path, effort: Effort | None = None) -> None:
    """Time, train and score what is not in the records yet; every finished cell is kept at once."""
    effort = effort or Effort()
    _run(results, cost_cells(effort), workers=1)  # alone, or the others would be timed too
    _run(results, bed_cells(effort), effort.workers)
    control.run_cells(results, NAME, control_cells(effort), effort.workers)


def _run(results: Path, cells: Sequence[Cell], workers: int | None) -> None:
    jobs = [cell for cell in cells if not _done(results, cell)]
    for number, (cell, record) in enumerate(run_jobs(measure, jobs, workers), 1):
        write(record, results)
        told = f"{statistics.median(record.scores):.3g} in {record.seconds:.0f} s"
        print(f"{number}/{len(jobs)} {cell.name}: {told}", file=sys.stderr)


def measure(cell: Cell) -> Record:
    """Time or train a cell, and tell all about it."""
    started = time.perf_counter()
    entries = time_plans(cell) if isinstance(cell, CostCell) else _solve(cell)
    version, environment, agent = cell.name.split("/")
    return Record(
        experiment=NAME,
        version=version,
        environment=environment,
        agent=agent,
        seeds=entries,
        config=_resolved(cell),
        command=f"xlvin reproduce {NAME} --only {cell.name}",
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )


def _solve(cell: BedCell) -> list[dict[str, Any]]:
    bed = planning_bed.Cell(planning_bed.BEST, cell.depth, LABELS, cell.config, cell.device)
    return planning_bed.solve(bed, None if cell.beam is None else Arm(partial(_sparse, cell.beam)))


def _sparse(beam: int, sizes: Sizes) -> Learner:
    executor = load_executor(PRETRAINED)
    planner = SparseAlignedPlanner(executor, sizes.transition(), sizes.depth, beam, sizes.discount)
    return PlannedLearner(sizes, planner)


def _resolved(cell: Cell) -> dict[str, Any]:
    """All that decides a cell's result, as JSON keeps it."""
    if isinstance(cell, CostCell):
        return settings(cell)
    named = {"labels": LABELS, "depth": cell.depth, "beam": cell.beam}
    return asdict(cell.config) | named | {"executor_sha256": load_provenance(PRETRAINED)["sha256"]}


def _done(results: Path, cell: Cell) -> bool:
    """Whether the record is there, made with these settings and, where there are seeds, at least as many."""
    record, wanted = find(results, NAME, *cell.name.split("/")), json.loads(json.dumps(_resolved(cell)))
    if record is None:
        return False
    return planning_bed.holds(record, wanted) if isinstance(cell, BedCell) else record.config == wanted


# What the records say.


def rows(results: Path) -> list[tables.Row]:
    """A row per tree: what it costs, what it scores on the planning bed, what it scores in control."""
    return [*cost_rows(results), *bed_rows(results), *control_rows(results)]


def cost_rows(results: Path) -> list[tables.Row]:
    """Median milliseconds of every tree, and the median over rounds of its time over that of K = 2."""
    found = []
    for record in _records(results, "cost-"):
        config = record.config
        reference = config["depths"].index(2)
        for place, depth in enumerate(config["depths"]):
            spent = [entry["ms"] for entry in record.seeds]
            shape = {key: config[key] for key in ("learning", "actions", "batch")}
            found.append(
                {"part": "cost", **shape, "width": record.agent, "depth": depth}
                | {"ms": statistics.median(each[place] for each in spent)}
                | {"ratio": statistics.median(each[place] / each[reference] for each in spent)}
            )
    return sorted(found, key=lambda r: (r["learning"], r["batch"], r["actions"], len(r["width"]), r["width"]))


def bed_rows(results: Path) -> list[tables.Row]:
    """Accuracy on the planning bed; low and high bound the mean over seeds."""
    found: list[tables.Row] = [
        {"part": "bed", "actions": record.config["actions"], "width": record.agent}
        | {"depth": record.config["depth"]}
        | summarise(record.scores, interval_of=mean)
        for record in _records(results, "bed-")
    ]
    return sorted(found, key=lambda row: (row["actions"], row["width"] != "full", row["depth"]))


def control_rows(results: Path) -> list[tables.Row]:
    """Return in control; low and high bound the mean over seeds."""
    found: list[tables.Row] = [
        {"part": "control", "environment": record.environment}
        | {"width": width(record.config["network"]["beam"]), "depth": record.config["network"]["depth"]}
        | summarise(record.scores, interval_of=mean)
        for record in _records(results, "control-")
    ]
    order = [*CONTROL]
    return sorted(found, key=lambda r: (order.index(r["environment"]), r["width"] != "full", r["depth"]))


def comparisons(results: Path) -> list[tables.Row]:
    """On the bed, in points paired over seeds: the beam minus the full tree, and K minus K = 1."""
    records = {(r.config["actions"], r.config["depth"], r.agent): r for r in _records(results, "bed-")}
    found = []
    for actions, depth, agent in sorted(records):
        rivals = {"the full tree": depth} if agent != "full" else {}
        rivals |= {"depth 1": 1} if depth > 1 else {}
        for name, other in rivals.items():
            theirs = records.get((actions, other, "full"))
            if theirs and (pair := tables.paired(records[actions, depth, agent], theirs)):
                who = {"actions": actions, "depth": depth, "width": agent, "minus": name}
                found.append(who | tables.in_points(pair))
    return found


def summary(results: Path) -> str:
    """Cost as ratios, accuracy on the bed with paired differences, returns in control, as Markdown."""
    parts = [_bar(results)]
    for (learning, batch), group in _grouped(cost_rows(results), "learning", "batch").items():
        what = "Forward and backward" if learning else "Forward"
        table = _by_depth(group, "actions", lambda row: f"{row['ratio']:.2f}")
        parts.append(f"{what}, batch {batch}: time over that of K = 2.\n\n{table}")
    if bed := bed_rows(results):
        table = _by_depth(bed, "actions", lambda row: f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}")
        parts.append(
            f"### Score on the planning bed\n\nAccuracy (%) with {LABELS} labels; mean ± standard deviation "
            f"over {tables.counted(bed)} seeds. A beam is left out where it would keep the whole tree."
            f"\n\n{table}"
        )
    if compared := comparisons(results):
        shown = tables.signed(compared, "actions", "depth", "width", "minus", title="points")
        parts.append(f"Paired differences over seeds.\n\n{tables.markdown(shown)}")
    if played := control_rows(results):
        table = _by_depth(played, "environment", lambda row: f"{row['mean']:.1f} ± {row['std']:.1f}")
        parts.append(
            f"### Score in control\n\nGreedy return of {AGENT}, tuned; mean ± standard deviation "
            f"over {tables.counted(played)} seeds.\n\n{table}"
        )
    return "\n\n".join(parts)


def _bar(results: Path) -> str:
    """K = 10 against K = 2 at 18 actions, and whether that is within the bar."""
    deepest = [r for r in cost_rows(results) if r["actions"] == 18 and r["depth"] == 10]
    shown = [
        {
            "pass": "forward and backward" if row["learning"] else "forward",
            "batch": row["batch"],
            "width": row["width"],
            "ms": f"{row['ms']:.2f}",
            "times K = 2": f"{row['ratio']:.2f}",
            f"at most {BAR:.0f}": "yes" if row["ratio"] <= BAR else "no",
        }
        for row in deepest
    ]
    return f"### Cost\n\nK = 10 at 18 actions, against K = 2.\n\n{tables.markdown(shown)}"


def _by_depth(table: Sequence[tables.Row], down: str, cell: Callable[[tables.Row], str]) -> str:
    """One line per width and value of `down`, one column per depth."""
    depths = sorted({row["depth"] for row in table})
    lines: dict[tuple[Any, str], tables.Row] = {}
    for row in table:
        line = lines.setdefault((row[down], row["width"]), {down: row[down], "width": row["width"]})
        line[f"K = {row['depth']}"] = cell(row)
    return tables.markdown(list(lines.values()), [down, "width", *(f"K = {depth}" for depth in depths)])


def _grouped(table: Sequence[tables.Row], *names: str) -> dict[tuple[Any, ...], list[tables.Row]]:
    groups: dict[tuple[Any, ...], list[tables.Row]] = {}
    for row in table:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def figure(results: Path, path: Path) -> None:
    """Cost against depth, accuracy on the bed, and returns in control where there are records."""
    # late: worker processes import this module and draw nothing
    from xlvin.report.depth_figure import save_depth_figure

    save_depth_figure(path, cost_rows(results), bed_rows(results), control_rows(results), BAR)


def _records(results: Path, prefix: str) -> list[Record]:
    return [record for record in read_all(results, NAME) if record.version.startswith(prefix)]
