"""Metrics to a tracking service as well, for those who use one; nothing here is needed to train."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from xlvin.errors import XLVINError, unknown
from xlvin.training.config import TrainConfig

TRACKERS = ("wandb",)


class Tracker(Protocol):
    """Where metrics go beside the run's folder."""

    def add(self, round_: int, metrics: dict[str, float]) -> None:
        """All seeds' finite numbers of a round, named "seed 3/return"."""

    def close(self) -> None:
        """Send what is left."""


def check_tracker(name: str) -> None:
    """Refuse a tracker that is unknown or not installed, before a run begins."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise XLVINError(
            f"--track {name} needs its package; install it with `pip install {name}`."
        ) from error


def make_tracker(name: str, folder: Path, config: TrainConfig) -> Tracker:
    """The tracker of that name, with one run per folder: a resumed run goes on in the same."""
    check_tracker(name)
    return _WandB(folder, config)


class _WandB:
    """Weights & Biases; account, project and mode come from its own settings and environment variables."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        import wandb

        name = folder.resolve().name
        self._run = wandb.init(
            name=name, id=name, resume="allow", dir=str(folder), config=asdict(config), tags=[config.agent]
        )

    def add(self, round_: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=round_)

    def close(self) -> None:
        self._run.finish()
