"""Algorithmic bottleneck (section 4.3): policy accuracy against noise on what value iteration is fed."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor, load_provenance
from xlvin.experiments.noisy_inputs import ARMS, Scaling, accuracy, draw_noise
from xlvin.experiments.workers import Effort
from xlvin.mdp.families import sample
from xlvin.mdp.value_iteration import value_iteration
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, read_all, write
from xlvin.report.statistics import mean, summarise

NAME = "bottleneck"
FAMILY = "random-deterministic"
SCALINGS: dict[Scaling, str] = {
    "paper": "the same absolute noise on every scalar and every feature",
    "fair": "noise in units of the spread of what it perturbs",
}
COMPARED = [
    ("executor-embeddings", "vi-scalars"),
    ("vi-decoded", "executor-embeddings"),
    ("executor-scalars", "vi-scalars"),
]


@dataclass(frozen=True)
class BottleneckConfig:
    """The protocol; the MDPs are those of the paper's appendix."""

    mdps: int = 400
    """Held-out MDPs, drawn from `seed`: the executor has not seen them."""
    states: int = 20
    actions: int = 8
    discount: float = 0.9
    levels: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
    """Standard deviations of the noise. One draw per MDP serves all levels, so that levels are paired."""
    executor: str = FAMILY
    """The shipped executor under test, or the path of another."""
    seed: int = 43_001

    def __post_init__(self) -> None:
        if not self.levels or min(self.levels) < 0.0:
            raise XLVINError(f"The noise levels are {self.levels}; give at least one, none of them negative.")


def run(results: Path, effort: Effort | None = None, config: BottleneckConfig | None = None) -> None:
    """Run all arms under both scalings of noise; writes one record for each."""
    config = config or BottleneckConfig()
    executor = load_executor(config.executor)
    generator = torch.Generator().manual_seed(config.seed)
    mdp = sample(FAMILY, config.mdps, config.states, config.actions, config.discount, generator)
    trace = value_iteration(mdp)
    resolved = asdict(config) | {
        "executor_sha256": load_provenance(config.executor)["sha256"],
        "sweeps": len(trace.values) - 1,
    }
    environment = f"{FAMILY}-{config.states}x{config.actions}"
    for scaling in SCALINGS:
        noise = draw_noise(executor, mdp, trace.final, scaling, generator)
        for name, arm in ARMS.items():
            if effort and not effort.wants(f"{scaling}/{environment}/{name}"):
                continue
            started = time.perf_counter()
            curves = accuracy(arm, executor, mdp, trace, noise, config.levels).tolist()
            record = Record(
                experiment=NAME,
                version=scaling,
                environment=environment,
                agent=name,
                seeds=[_entry(number, curve) for number, curve in enumerate(curves)],
                config=resolved,
                command=f"xlvin reproduce {NAME}",
                seconds=round(time.perf_counter() - started, 2),
                **provenance(),
            )
            write(record, results)
            print(f"{scaling}, {name}: {record.seconds:.0f} s", file=sys.stderr)


def _entry(number: int, curve: list[float]) -> dict[str, Any]:
    """One MDP: its accuracy at each level, and as its score their average."""
    curve = [round(share, 4) for share in curve]
    return {"seed": number, "score": round(sum(curve) / len(curve), 6), "accuracy": curve}


def rows(results: Path) -> list[tables.Row]:
    """One row per scaling, arm and level of noise, over MDPs; low and high bound the mean."""
    return [
        {"version": record.version, "environment": record.environment, "agent": record.agent, "noise": level}
        | summarise([entry["accuracy"][index] for entry in record.seeds], interval_of=mean)
        for record in _records(results)
        for index, level in enumerate(record.config["levels"])
    ]


def comparisons(results: Path) -> list[tables.Row]:
    """Paired differences between arms over MDPs, in points of accuracy averaged over levels of noise."""
    records = {(record.version, record.agent): record for record in _records(results)}
    found = []
    for version in SCALINGS:
        for first, second in COMPARED:
            if pair := tables.paired(records[version, first], records[version, second]):
                found.append({"version": version, "first": first, "second": second} | tables.in_points(pair))
    return found


def summary(results: Path) -> str:
    """The results as Markdown: accuracy by level of noise, and what the arms differ by."""
    table = rows(results)
    parts = []
    for version, meaning in SCALINGS.items():
        chosen = [row for row in table if row["version"] == version]
        pivoted = tables.pivot(chosen, "noise", "agent", lambda row: f"{100 * row['mean']:.1f}")
        parts.append(f"Accuracy (%), `{version}`: {meaning}.\n\n{tables.markdown(pivoted)}")
    if compared := comparisons(results):
        shown = [
            {
                "noise": row["version"],
                "difference": f"{row['first']} - {row['second']}",
                "points": f"{row['difference']:.1f}",
                tables.interval_title(compared): f"{row['low']:.1f} to {row['high']:.1f}",
            }
            for row in compared
        ]
        parts.append(f"Paired differences, averaged over the levels of noise.\n\n{tables.markdown(shown)}")
    return "\n\n".join(parts)


def figure(results: Path, path: Path) -> None:
    """Accuracy against noise, a panel per scaling, with 95 % bands over MDPs."""
    # late: only figures need matplotlib
    from xlvin.report.bottleneck_figure import save_bottleneck_figure

    save_bottleneck_figure(path, rows(results), _records(results)[0].config["actions"])


def _records(results: Path) -> list[Record]:
    """All records, in the order of `SCALINGS` and `ARMS`."""
    found = {(record.version, record.agent): record for record in read_all(results, NAME)}
    wanted = [(version, agent) for version in SCALINGS for agent in ARMS]
    if missing := [f"{version}/{agent}" for version, agent in wanted if (version, agent) not in found]:
        raise XLVINError(
            f"The records of {', '.join(missing)} are missing in {results}; run `xlvin reproduce {NAME}`."
        )
    return [found[key] for key in wanted]
