"""Progress of a run: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from xlvin.training.config import TrainConfig
from xlvin.training.trainer import Metrics, Progress

LINE_EVERY = 10.0  # seconds


@contextmanager
def training_progress(config: TrainConfig, quiet: bool = False) -> Iterator[Progress | None]:
    """Shows round, return and time left while a run trains."""
    if quiet:
        yield None
        return
    total = config.budget.rounds * config.ppo.epochs
    terminal = sys.stderr.isatty()
    bar = tqdm(
        total=total, disable=not terminal, desc=f"{config.agent} on {config.environment}", unit="epoch"
    )
    started = printed = time.monotonic()
    before: int | None = None  # epochs that a resumed run does not do again

    def show(round_: int, epoch: int, metrics: Metrics) -> None:
        nonlocal printed, before
        done = round_ * config.ppo.epochs + epoch
        before = done - 1 if before is None else before
        known = metrics["return"][np.isfinite(metrics["return"])]  # no episode may have ended yet
        told = f"return {known.mean():.3g}" if len(known) else "no episode ended"
        bar.n = done
        bar.set_postfix_str(told)
        now = time.monotonic()
        if not terminal and now - printed > LINE_EVERY:
            printed = now
            left = (now - started) / (done - before) * (total - done)
            print(f"round {round_ + 1}/{config.budget.rounds}, {told}, {left:.0f} s left", file=sys.stderr)

    try:
        yield show
    finally:
        bar.close()
