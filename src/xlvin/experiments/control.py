"""One cell of a control experiment: an agent on an environment, trained for some seeds and scored."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xlvin.agents.registry import executor_hash
from xlvin.binning import default_bins
from xlvin.experiments.workers import run_jobs
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, add, find
from xlvin.training.config import TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.run import make_trainer, settings

EXECUTOR = "executor_sha256"  # in a record's configuration; records from before this was kept lack it


@dataclass(frozen=True)
class Cell:
    """What to train, and under which name the result is kept."""

    version: str
    config: TrainConfig
    device: str = "cpu"

    @property
    def name(self) -> str:
        """version/environment/agent."""
        return f"{self.version}/{self.config.environment}/{self.config.agent}"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    # Of each: seed, score, steps (of the environment, used by training), last training return.
    seeds: list[dict[str, Any]]
    config: dict[str, Any]  # resolved, without the seeds
    seconds: float


def run_cell(cell: Cell) -> Outcome:
    """Train all seeds of a cell side by side and evaluate them on fresh episodes."""
    started = time.perf_counter()
    trainer = make_trainer(cell.config, cell.device)
    metrics: dict[str, Any] = {}
    while not trainer.finished:
        metrics = trainer.train_round()
    trainer.close()
    config = trainer.config
    returns = evaluate(
        trainer.members(), config.environment, config.seed_list, config.evaluation_episodes, cell.device
    )
    seeds = [
        {
            "seed": seed,
            "score": round(float(returns[index].mean()), 3),
            "steps": int(trainer.steps[index]),
            "training_return": round(float(metrics["return"][index]), 3),
        }
        for index, seed in enumerate(config.seed_list)
    ]
    return Outcome(seeds, resolved(config), round(time.perf_counter() - started, 1))


def resolved(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a record keeps it: one for all seeds, with the hash of the executor inside."""
    fields = settings(config)
    del fields["seeds"], fields["first_seed"]
    digest = executor_hash(config.network)
    return fields if digest is None else fields | {EXECUTOR: digest}


# What the environment decides and training fills in; beside these the bins, which users may choose.
FILLED_IN = ("observation", "given", "image", "actions", "discount", "low", "high")


def filled_in(asked: TrainConfig, kept: TrainConfig) -> TrainConfig:
    """What is asked for, with what the environment of a kept configuration decided: compare it with that."""
    network = kept.network
    dimensions = 0 if network.kind == "gaussian" else len(network.low)
    bins = asked.network.bins or default_bins(dimensions)
    decided = {name: getattr(network, name) for name in FILLED_IN}
    decided["bins"] = bins if len(bins) == dimensions else bins[:1] * dimensions
    return replace(asked, network=replace(asked.network, **decided))


def split(cell: Cell, size: int) -> list[Cell]:
    """The cell as several of at most `size` seeds."""
    return [replace(cell, config=config) for config in batches(cell.config, size)]


def batches(config: TrainConfig, size: int) -> list[TrainConfig]:
    """The configuration as several of at most `size` seeds."""
    end = config.first_seed + config.seeds
    return [
        replace(config, first_seed=first, seeds=min(size, end - first))
        for first in range(config.first_seed, end, size)
    ]


def run_cells(results: Path, experiment: str, cells: list[Cell], workers: int | None) -> None:
    """Train and score what is not in the records yet; every finished cell is kept at once."""
    jobs = [cell for cell in cells if not _done(results, experiment, cell)]
    for number, (cell, outcome) in enumerate(run_jobs(run_cell, jobs, workers), 1):
        keep(results, experiment, cell, outcome)
        first, last = cell.config.seed_list[0], cell.config.seed_list[-1]
        told = f"seeds {first} to {last}: {tables.number(mean_score(outcome))} in {outcome.seconds:.0f} s"
        print(f"{number}/{len(jobs)} {cell.name}, {told}", file=sys.stderr)


def keep(results: Path, experiment: str, cell: Cell, outcome: Outcome) -> None:
    """Add an outcome to its record; other settings start a new one."""
    record = Record(
        experiment=experiment,
        version=cell.version,
        environment=cell.config.environment,
        agent=cell.config.agent,
        seeds=outcome.seeds,
        config=json.loads(json.dumps(outcome.config)),
        command=f"xlvin reproduce {experiment} --only {cell.name}",
        seconds=outcome.seconds,
        **provenance(),
    )
    before = known(results, experiment, cell)
    add(record if before is None else replace(record, config=before.config), results)


def _done(results: Path, experiment: str, cell: Cell) -> bool:
    """Whether the record holds these seeds, trained with these settings."""
    before = known(results, experiment, cell)
    return before is not None and set(cell.config.seed_list) <= {entry["seed"] for entry in before.seeds}


def known(results: Path, experiment: str, cell: Cell) -> Record | None:
    """The cell's record, if it was made with the same settings."""
    record = find(results, experiment, cell.version, cell.config.environment, cell.config.agent)
    return record if record and made(cell.config, record.config) else None


def made(config: TrainConfig, stored: dict[str, Any]) -> bool:
    """Whether stored settings are these, seeds apart; fields that they lack have their defaults."""
    kept = TrainConfig.from_dict({name: value for name, value in stored.items() if name != EXECUTOR})
    asked = replace(filled_in(config, kept), seeds=kept.seeds, first_seed=kept.first_seed)
    digest = executor_hash(config.network)
    return asked == kept and stored.get(EXECUTOR, digest) == digest


def mean_score(outcome: Outcome) -> float:
    """Average over seeds."""
    return float(np.mean([seed["score"] for seed in outcome.seeds]))
