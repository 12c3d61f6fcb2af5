"""Independent jobs on Ray: a local one that is started for them, or a cluster that is there.

The counterpart of `xlvin.experiments.workers`: the same function, the same jobs, other machines.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from xlvin.errors import XLVINError
from xlvin.experiments.workers import GRACE, RETRIES, Job, Outcome

LOCAL = "local"  # the address of a Ray of our own
STARTS = 3  # how often it is tried: Ray gives itself 30 seconds, too few on a machine that is very busy


def run_on_ray(
    ray: Any,
    function: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    lost: Callable[[Job, str], Outcome],
    workers: int | None = None,
    gpus: float = 0.0,
) -> Generator[tuple[Job, Outcome]]:
    """Yield (job, function(job)) in the order of completion; a job takes one core, and `gpus` GPUs.

    `ray` is what `connected` gives. A job whose worker or machine dies is started again, RETRIES times at
    most; then `lost(job, reason)` is its outcome. `workers` jobs run at a time, by default all with room.
    """
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(function)
    waiting, running = deque(jobs), dict[Any, Job]()
    try:
        while waiting or running:
            while waiting and len(running) < (workers or len(jobs)):
                job = waiting.popleft()
                running[remote.remote(job)] = job
            (done,), _ = ray.wait(list(running), num_returns=1)
            job = running.pop(done)
            try:
                outcome = ray.get(done)
            except ray.exceptions.RayError as error:
                outcome = lost(job, _reason(error))
            yield job, outcome
    finally:
        for task in running:
            ray.cancel(task)  # an interrupt, on which a run saves its work
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=GRACE)


@contextlib.contextmanager
def connected(address: str, workers: int | None = None) -> Iterator[Any]:
    """Ray's module while it is connected to `address`; one of our own has `workers` cores, by default all."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray of our own tells nobody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default; it warns
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise XLVINError("Ray is not installed; `pip install 'xlvin[cluster]'` brings it.") from error
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == LOCAL else {}
    for left in reversed(range(STARTS if own else 1)):
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
            break
        except Exception as error:  # Ray raises all kinds, bare ones among them
            hint = "try again when the machine is less busy" if own else "`ray start --head` starts a cluster"
            if not left:
                raise XLVINError(f'Ray cannot be used at "{address}" ({_reason(error)}); {hint}.') from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _reason(error: Exception) -> str:
    """What Ray says of a lost job, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
