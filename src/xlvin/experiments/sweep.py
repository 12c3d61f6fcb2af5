"""Sweeps: seeds x environments x agents x settings, a folder for each run, on local cores or on Ray.

FOLDER/sweep.json                                          the table, every seed's score, and what failed
FOLDER/ENVIRONMENT/AGENT[/FIELD=VALUE ...]/seed-N/         a run as `xlvin train` keeps it
"""

from __future__ import annotations

import contextlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xlvin.errors import XLVINError
from xlvin.experiments.cluster import connected, run_on_ray
from xlvin.experiments.control import batches, filled_in
from xlvin.experiments.workers import run_jobs
from xlvin.files import write_json
from xlvin.provenance import provenance
from xlvin.report.statistics import summarise
from xlvin.report.tables import Row, number
from xlvin.training.config import TrainConfig
from xlvin.training.devices import usable_device
from xlvin.training.lock import alone_in
from xlvin.training.run import CHECKPOINT_EVERY, CONFIG, differences, known_returns, make_trainer, run

TABLE = "sweep.json"


@dataclass(frozen=True)
class Cell:
    """One line of the table: an agent with certain settings on an environment, for all seeds."""

    config: TrainConfig
    settings: dict[str, Any] = field(default_factory=dict)
    """The swept fields of the configuration by name ("ppo.learning_rate") and their values here."""

    @property
    def name(self) -> str:
        """environment/agent/field=value/..., as a path."""
        values = [f"{name}={value}" for name, value in self.settings.items()]
        parts = (self.config.environment, self.config.agent, *values)
        return "/".join(part.replace("/", "-").replace(":", "-") for part in parts)


@dataclass(frozen=True)
class Resources:
    """Where the runs of a sweep are done, and how many at a time."""

    workers: int | None = None
    """Runs at a time; by default one per core, or as many as the cluster has room for."""
    ray: str | None = None
    """Ray's address, "local" for one of our own; None: processes of this machine."""
    device: str = "cpu"
    """Where networks live: "cpu" or "cuda"."""
    side_by_side: int = 1
    """Seeds that share a run; their products are batched."""
    checkpoint_every: float = CHECKPOINT_EVERY
    """Seconds; what a killed worker loses at most."""

    def __post_init__(self) -> None:
        if min(self.side_by_side, 1 if self.workers is None else self.workers) < 1:
            raise XLVINError("Workers and seeds side by side must be at least 1.")


@dataclass(frozen=True)
class Job:
    """One run of a sweep, with all that another machine must know of it."""

    cell: int  # its place among the cells
    config: TrainConfig
    root: Path  # the sweep's folder
    folder: Path  # the run's folder, below it
    device: str
    checkpoint_every: float
    threads: int  # of torch: sums depend on it in their last bits
    here: Path  # where files named in the configuration are looked for

    @property
    def name(self) -> str:
        """Where it is below the sweep's folder."""
        return self.folder.relative_to(self.root).as_posix()


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the greedy score of each seed, or why there is none."""

    scores: tuple[float, ...] = ()
    error: str | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.error or f"{number(float(np.mean(self.scores)))} in {self.seconds:.0f} s"


@dataclass(frozen=True)
class Result:
    """What is known of a sweep."""

    rows: list[Row]  # per cell: who, where, statistics over seeds, and every seed's score
    failures: list[dict[str, str]]  # run and error


def run_sweep(
    cells: Sequence[Cell],
    folder: Path,
    resources: Resources = Resources(),  # noqa: B008 - it is frozen
    command: str = "",
    tell: Callable[[str], None] = lambda line: None,
) -> Result:
    """Do what is not done yet of every cell, and keep the table in `folder`; the same call resumes.

    Bad input is refused before the first run starts. A run that fails is told in the result and stops no
    other. Where a run is done changes no bit of it.
    """
    _check(cells, resources)
    jobs = _jobs(cells, folder, resources)
    known = {job.folder: kept for job in jobs if (kept := _kept(job)) is not None}
    todo = [job for job in jobs if job.folder not in known]
    with _doing(todo, resources) as outcomes, alone_in(folder):
        result = _write(cells, jobs, known, folder, command)
        if known:
            tell(f"{len(known)} of {len(jobs)} runs are there already")
        for number, (job, outcome) in enumerate(outcomes, 1):
            known[job.folder] = outcome
            result = _write(cells, jobs, known, folder, command)
            tell(f"{number}/{len(todo)} {job.name}: {outcome}")
    return result


def train_and_score(job: Job) -> Outcome:
    """Do one run, here or on another machine; what goes wrong is told, not raised."""
    started = time.perf_counter()
    if not (job.root / TABLE).is_file():
        return Outcome(
            error=f"{platform.node()} does not see {job.root}; choose a --folder that all machines share."
        )
    torch.set_num_threads(job.threads)
    here = job.here if job.here.is_dir() else Path.cwd()
    try:
        with contextlib.chdir(here):
            result = run(job.config, job.folder, job.device, checkpoint_every=job.checkpoint_every)
    except XLVINError as error:
        return Outcome(error=str(error))
    except Exception as error:
        return Outcome(error=" ".join(f"{type(error).__name__}: {error}".split()))
    return Outcome(tuple(result.scores.tolist()), seconds=time.perf_counter() - started)


def _check(cells: Sequence[Cell], resources: Resources) -> None:
    """Refuse what could not be trained: each cell's environment and network are made once."""
    names = [cell.name for cell in cells]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise XLVINError(f"{twice} is there twice; name every environment, agent and value once.")
    if resources.ray is None:
        usable_device(resources.device)
    for config in (batches(cell.config, 1)[0] for cell in cells):
        make_trainer(config).close()


def _jobs(cells: Sequence[Cell], folder: Path, resources: Resources) -> list[Job]:
    root, here, threads = folder.resolve(), Path.cwd(), torch.get_num_threads()
    return [
        Job(
            place,
            config,
            root,
            root / cell.name / _seeds(config),
            resources.device,
            resources.checkpoint_every,
            threads,
            here,
        )
        for place, cell in enumerate(cells)
        for config in batches(cell.config, resources.side_by_side)
    ]


def _seeds(config: TrainConfig) -> str:
    first, last = config.seed_list[0], config.seed_list[-1]
    return f"seed-{first}" if first == last else f"seeds-{first}-{last}"


def _kept(job: Job) -> Outcome | None:
    """The outcome of a finished run that is there; refuses one with other settings."""
    path = job.folder / CONFIG
    if not path.exists():
        return None
    try:
        stored = TrainConfig.from_dict(json.loads(path.read_text())["config"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise XLVINError(f"{path} is damaged; remove {job.folder} or choose another --folder.") from error
    if told := differences(asdict(stored), asdict(filled_in(job.config, stored))):
        raise XLVINError(
            f"{job.folder} holds a run with other settings ({told}); choose another folder with --folder."
        )
    returns = known_returns(job.folder, job.config)
    return None if returns is None else Outcome(tuple(returns.mean(1).tolist()))


@contextlib.contextmanager
def _doing(jobs: Sequence[Job], resources: Resources) -> Iterator[Iterator[tuple[Job, Outcome]]]:
    """Jobs and their outcomes as they finish; what is not finished at the end is interrupted."""
    workers, gpus = resources.workers, 0.0 if resources.device == "cpu" else 1.0
    with contextlib.ExitStack() as stack:
        if resources.ray is None or not jobs:
            outcomes = run_jobs(train_and_score, jobs, workers, _lost)
        else:
            ray = stack.enter_context(connected(resources.ray, workers))
            outcomes = run_on_ray(ray, train_and_score, jobs, _lost, workers, gpus)
        yield stack.enter_context(contextlib.closing(outcomes))


def _lost(job: Job, reason: str) -> Outcome:
    return Outcome(error=f"The run was given up: {reason}.")


def _write(
    cells: Sequence[Cell], jobs: Sequence[Job], known: dict[Path, Outcome], folder: Path, command: str
) -> Result:
    """Keep what is known by now."""
    rows = [_row(cell, [job for job in jobs if job.cell == place], known) for place, cell in enumerate(cells)]
    failures = [
        {"run": job.name, "error": outcome.error}
        for job in jobs
        if (outcome := known.get(job.folder)) is not None and outcome.error is not None
    ]
    result = Result(rows, failures)
    write_json(folder / TABLE, {"command": command, **asdict(result), **provenance()})
    return result


def _row(cell: Cell, jobs: Sequence[Job], known: dict[Path, Outcome]) -> Row:
    scores: list[dict[str, Any]] = [
        {"seed": seed, "score": score, "folder": job.name}
        for job in jobs
        if job.folder in known and known[job.folder].error is None
        for seed, score in zip(job.config.seed_list, known[job.folder].scores, strict=True)
    ]
    who = {"environment": cell.config.environment, "agent": cell.config.agent, **cell.settings}
    numbers = summarise([entry["score"] for entry in scores]) if scores else {"seeds": 0}
    return {**who, **numbers, "scores": scores}
