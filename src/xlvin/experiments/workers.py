"""Independent jobs on the local cores, one thread each, results as they finish."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Effort:
    """How an experiment is run: which part of it, on how many cores, on which device."""

    only: tuple[str, ...] = ()
    """Run only what has one of these in its name (version/environment/agent); all if empty."""
    workers: int | None = None
    """Processes at a time; one per core by default."""
    device: str = "cpu"
    """Where networks live: "cpu" or "cuda"."""
    seeds: int | None = None
    """How many seeds, from 0 on; the experiment's own number by default."""

    def wants(self, name: str) -> bool:
        """Whether a part of the experiment is to be run."""
        return not self.only or any(part in name for part in self.only)


Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


def run_jobs(
    function: Callable[[Job], Outcome], jobs: Sequence[Job], workers: int | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Yield (job, function(job)) in the order of completion; start the longest jobs first."""
    workers = min(workers or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield job, function(job)
        return
    # A worker computes with one thread: spinning OpenMP threads of several workers slow each other down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(function, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
