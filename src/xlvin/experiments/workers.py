"""Independent jobs on the local cores, one thread each, results as they finish."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, TypeVar

from xlvin.errors import RunFailedError, XLVINError


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
    asked: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """The names of all parts that the experiment has, once it was run."""

    def __post_init__(self) -> None:
        if min(1 if count is None else count for count in (self.workers, self.seeds)) < 1:
            raise XLVINError("Workers and seeds must be at least 1 where they are given.")

    def wants(self, name: str) -> bool:
        """Whether a part of the experiment is to be run."""
        self.asked.append(name)
        return not self.only or any(part in name for part in self.only)


Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# How often a job is started again whose process died; seconds that an interrupted one has to save its work.
RETRIES = 2
GRACE = 60.0


def run_jobs(
    function: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    workers: int | None = None,
    lost: Callable[[Job, str], Outcome] | None = None,
) -> Generator[tuple[Job, Outcome]]:
    """Yield (job, function(job)) in the order of completion; start the longest jobs first.

    A job whose process dies is given to a new one, RETRIES times at most; then `lost(job, reason)` is its
    outcome, or without `lost` the end of all. An interrupt reaches every process, and each only once.
    """
    workers = min(workers or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield job, function(job)
        return
    # A worker computes with one thread: spinning OpenMP threads of several workers slow each other down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    waiting = deque(range(len(jobs)))
    deaths = [0] * len(jobs)
    crew = [_Worker(function) for _ in range(workers)]
    try:
        while busy := _occupy(crew, waiting, jobs):
            for pipe in wait(list(busy)):
                worker, number = busy[pipe]
                try:
                    outcome, error = worker.finish()
                except EOFError:
                    deaths[number] += 1
                    crew[crew.index(worker)] = _Worker(function)
                    if deaths[number] <= RETRIES:
                        waiting.appendleft(number)
                        continue
                    reason = f"its process died {deaths[number]} times (code {worker.exit_code()})"
                    if lost is None:
                        raise RunFailedError(f"A job was given up: {reason}.") from None
                    outcome, error = lost(jobs[number], reason), None
                if error is not None:
                    raise error
                yield jobs[number], outcome
    finally:
        for worker in crew:
            worker.stop()


class _Worker:
    """A process of its own that does one job after another."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.number: int | None = None  # of the job it is at
        self._process = context.Process(target=_serve, args=(function, other))
        self._process.start()
        other.close()

    def begin(self, number: int, job: Any) -> None:
        """Start a job."""
        self.number = number
        with contextlib.suppress(OSError):  # a dead process is noticed when its answer is read
            self.pipe.send(job)

    def finish(self) -> tuple[Any, Exception | None]:
        """The outcome of its job, or what the job raised; EOFError if the process has died."""
        self.number = None
        try:
            answer: tuple[Any, Exception | None] = self.pipe.recv()
        except OSError as error:  # it died while it answered
            raise EOFError from error
        return answer

    def exit_code(self) -> int | None:
        """How the process ended; waits until it has."""
        self._process.join()
        return self._process.exitcode

    def stop(self) -> None:
        """Let go of an idle process, interrupt a busy one and wait until it has saved its work."""
        self.pipe.close()
        if self.number is not None and self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGINT)
        self._process.join(GRACE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _occupy(
    crew: Sequence[_Worker], waiting: deque[int], jobs: Sequence[Any]
) -> dict[Any, tuple[_Worker, int]]:
    """Give idle workers what waits; returns all that are busy and their jobs' numbers, by pipe."""
    for worker in crew:
        if worker.number is None and waiting:
            number = waiting.popleft()
            worker.begin(number, jobs[number])
    return {worker.pipe: (worker, worker.number) for worker in crew if worker.number is not None}


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """What a worker's process does, until nobody asks any more."""
    signal.signal(signal.SIGINT, _interrupt_once)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            job = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = function(job), None
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = None, error
            pipe.send(answer)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """A terminal tells the whole group of processes, and then the parent does: one interrupt is enough."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
