"""Progress of a run: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from xlvin.training.config import TrainConfig
from xlvin.training.run import Progress

LINE_EVERY = 10.0  # seconds


@contextmanager
def training_progress(config: TrainConfig, quiet: bool = False) -> Iterator[Progress | None]:
    """Shows round, epoch, return, loss and time left while a run trains."""
    if quiet:
        yield None
        return
    total = config.budget.rounds * config.ppo.epochs
    terminal = sys.stderr.isatty()
    bar = tqdm(total=total, disable=not terminal, desc=f"{config.agent} on {config.environment}", unit="epoch")
    started = printed = time.monotonic()

    def show(round_: int, epoch: int, metrics: dict[str, np.ndarray]) -> None:
        nonlocal printed
        done = round_ * config.ppo.epochs + epoch
        facts = {name: float(np.nanmean(metrics[name])) for name in ("return", "total") if name in metrics}
        bar.n = done
        bar.set_postfix({name.replace("total", "loss"): f"{value:.3g}" for name, value in facts.items()})
        now = time.monotonic()
        if not terminal and now - printed > LINE_EVERY:
            printed = now
            left = (now - started) / max(done, 1) * (total - done)
            told = ", ".join(f"{name.replace('total', 'loss')} {value:.3g}" for name, value in facts.items())
            print(f"round {round_ + 1}/{config.budget.rounds}, {told}, {left:.0f} s left", file=sys.stderr)

    yield show
    bar.close()
