"""Progress of a run: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tqdm import tqdm

from xlvin.envs.atari import is_atari
from xlvin.training.config import TrainConfig
from xlvin.training.trainer import Metrics, Progress

LINE_EVERY = 10.0  # seconds


def announce(config: TrainConfig, folder: Path | None) -> None:
    """Tells what a run is about: agent, environment, data, seeds and folder."""
    budget = config.budget
    data = f"{budget.total:,} {budget.unit}"
    if budget.used < budget.total:
        length = f"{budget.actors} x {budget.steps}" if budget.unit == "transitions" else f"{budget.actors}"
        data = f"{budget.used:,} of {data} (rounds of {length})"
    seeds = "1 seed" if config.seeds == 1 else f"{config.seeds} seeds"
    kept = "not kept" if folder is None else f"in {folder}"
    print(f"{config.agent} on {config.environment}, {data}, {seeds}, {kept}", file=sys.stderr)


@contextmanager
def training_progress(
    config: TrainConfig, quiet: bool = False, device: str = "cpu"
) -> Iterator[Progress | None]:
    """Shows round, return and time left while a run trains; says at once how long Atari takes on a CPU."""
    if quiet:
        yield None
        return
    usual, last = config.passes
    total = (config.budget.rounds - 1) * usual + last
    terminal = sys.stderr.isatty()
    bar = tqdm(total=total, disable=not terminal, desc=f"{config.agent} on {config.environment}", unit="pass")
    started = printed = time.monotonic()
    before: int | None = None  # passes that a resumed run does not do again

    def show(round_: int, epoch: int, metrics: Metrics) -> None:
        nonlocal printed, before
        done = round_ * usual + epoch
        before = done - 1 if before is None else before
        known = metrics["return"][np.isfinite(metrics["return"])]  # no episode may have ended yet
        told = f"return {known.mean():.3g}" if len(known) else "no episode ended"
        bar.n = done
        if done - before == usual and device == "cpu" and is_atari(config.environment):
            tqdm.write(
                _patience(config, (time.monotonic() - started) * (total - before) / (done - before)),
                sys.stderr,
            )
        bar.set_postfix_str("evaluating" if done == total else told)
        now = time.monotonic()
        if not terminal and done == total:
            print(f"round {round_ + 1}/{config.budget.rounds}, {told}, evaluating", file=sys.stderr)
        elif not terminal and now - printed > LINE_EVERY:
            printed = now
            left = (now - started) / (done - before) * (total - done)
            print(f"round {round_ + 1}/{config.budget.rounds}, {told}, {left:.0f} s left", file=sys.stderr)

    try:
        yield show
    finally:
        bar.close()


def _patience(config: TrainConfig, seconds: float) -> str:
    """How long a run without a GPU will take."""
    long = f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
    seeds = f" for each of {config.seeds} seeds" if config.seeds > 1 else ""
    return (
        f"No GPU is used: {config.budget.total:,} transitions{seeds} will take about {long}; "
        "--device cuda is faster by far."
    )
