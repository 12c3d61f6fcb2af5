"""An agent on an Atari game for some seeds: train in a run's folder, keep its learning curves as a record."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.experiments.control import Cell, known, resolved
from xlvin.experiments.workers import run_jobs
from xlvin.provenance import provenance
from xlvin.report.records import Record, add
from xlvin.training.config import TrainConfig
from xlvin.training.lock import alone_in
from xlvin.training.log import METRICS
from xlvin.training.run import CHECKPOINT_EVERY, default_folder, make_trainer, train_in
from xlvin.training.trainer import Metrics

POINTS = 50  # of a curve
LAST = 5  # points that make the final score: the last tenth


def missing(
    results: Path, experiment: str, version: str, config: TrainConfig, seeds: int
) -> list[TrainConfig]:
    """What is still to be trained so that the record holds seeds 0, 1, ...: a configuration per gap."""
    wanted = set(range(seeds))
    if record := known(results, experiment, Cell(version, config)):
        wanted -= {entry["seed"] for entry in record.seeds}
    gaps: list[list[int]] = []
    for seed in sorted(wanted):
        if gaps and gaps[-1][-1] == seed - 1:
            gaps[-1].append(seed)
        else:
            gaps.append([seed])
    return [replace(config, first_seed=gap[0], seeds=len(gap)) for gap in gaps]


@dataclass(frozen=True)
class Job:
    """Seeds of an agent on a game that train side by side, and how their record is called."""

    experiment: str
    version: str
    config: TrainConfig
    device: str
    command: str


def train(job: Job) -> Record:
    """Train, or go on training, in the run's own folder; returns the record of these seeds."""
    started = time.perf_counter()
    config = job.config
    trainer, folder = make_trainer(config, job.device), default_folder(config)
    with alone_in(folder), contextlib.closing(trainer):
        train_in(folder, trainer, Told(config), CHECKPOINT_EVERY)
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return Record(
        experiment=job.experiment,
        version=job.version,
        environment=config.environment,
        agent=config.agent,
        seeds=[
            entry([line for line in lines if line["seed"] == seed], seed, config) for seed in config.seed_list
        ],
        config=json.loads(json.dumps(resolved(trainer.config))),
        command=job.command,
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )


def train_all(results: Path, jobs: Sequence[Job], workers: int | None) -> None:
    """Add all jobs' seeds to their records, each as soon as it is done; one job at a time by default."""
    for number, (job, record) in enumerate(run_jobs(train, jobs, workers or 1), 1):
        keep(results, job, record)
        scores = ", ".join(f"{entry['seed']}: {entry['score']:.2f}" for entry in record.seeds)
        told = f"{job.config.agent} on {job.config.environment} in {record.seconds:.0f} s"
        print(f"{number}/{len(jobs)} {told}; clipped reward by seed: {scores}", file=sys.stderr)


def keep(results: Path, job: Job, record: Record) -> None:
    """Add a job's seeds to their record; other settings start a new one."""
    before = known(results, job.experiment, Cell(job.version, job.config))
    add(replace(record, config=before.config) if before else record, results)


def entry(lines: Sequence[dict[str, Any]], seed: int, config: TrainConfig) -> dict[str, Any]:
    """What a record keeps of a seed: two curves, the mean of the clipped one as its score, and the end."""
    clipped = curve(lines, "clipped", config.budget.total)
    raw = curve(lines, "return", config.budget.total)
    return {
        "seed": seed,
        "score": round(float(clipped.mean()), 4),
        "final": round(float(raw[-LAST:].mean()), 3),
        "games": int(sum(line["games"] for line in lines)),
        "steps": int(lines[-1]["steps"]),
        "clipped": np.round(clipped, 3).tolist(),
        "raw": np.round(raw, 3).tolist(),
    }


def curve(lines: Sequence[dict[str, Any]], name: str, total: int) -> NDArray[np.float64]:
    """The mean over all games that ended within each of `POINTS` equal parts of the run.

    Where none ended, the value before stands; before the first one, the first; zero if no game ended at all.
    """
    sums, counts = np.zeros(POINTS), np.zeros(POINTS)
    for line in lines:
        if line["games"]:
            part = min(POINTS - 1, int((line["steps"] - 1) * POINTS / total))
            sums[part] += line["games"] * line[name]
            counts[part] += line["games"]
    known = np.flatnonzero(counts)
    if not len(known):
        return np.zeros(POINTS)
    latest = np.maximum(np.searchsorted(known, np.arange(POINTS), "right") - 1, 0)
    means: NDArray[np.float64] = (sums[known] / counts[known])[latest]
    return means


class Told:
    """A progress line now and then."""

    EVERY = 20.0  # seconds

    def __init__(self, config: TrainConfig) -> None:
        self._config, self._first = config, -1
        self._started = self._printed = time.monotonic()

    def __call__(self, round_: int, epoch: int, metrics: Metrics) -> None:
        """Round, speed over all seeds, scores, time left."""
        now, config = time.monotonic(), self._config
        if self._first < 0:
            self._first, self._started = round_, now
        if now - self._printed < self.EVERY or round_ == self._first:
            return
        self._printed = now
        each = (now - self._started) / (round_ - self._first)
        speed = config.seeds * config.budget.actors * config.budget.steps / each
        scores = metrics["return"][np.isfinite(metrics["return"])]
        score = f"score {scores.mean():.1f}" if len(scores) else "no game ended"
        left = each * (config.budget.rounds - round_)
        print(
            f"{config.agent} on {config.environment}: round {round_}/{config.budget.rounds}, "
            f"{speed:.0f} transitions/s, {score}, {left:.0f} s left",
            file=sys.stderr,
        )
