"""A run's metrics: a line per round and seed in metrics.jsonl, the same for TensorBoard and trackers."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xlvin.errors import XLVINError
from xlvin.files import unwritable, write_atomically
from xlvin.training.config import TrainConfig
from xlvin.training.imagination.imagination import REWARD_SCALE
from xlvin.training.tracking import make_tracker
from xlvin.training.trainer import Metrics

if TYPE_CHECKING:
    from xlvin.training.board import Board

METRICS = "metrics.jsonl"


class Log:
    """metrics.jsonl, TensorBoard, perhaps a tracker; rounds after the resumed checkpoint are redone."""

    def __init__(self, folder: Path, config: TrainConfig, done: int, track: str | None) -> None:
        self.seeds = config.seed_list
        self._path = folder / METRICS
        self._tracker = None if track is None else make_tracker(track, folder, config)
        write_atomically(self._path, "".join(_lines(self._path, done)).encode())
        try:
            self._file = self._path.open("a")
            self._board = _board(folder, done)
        except OSError as error:
            raise unwritable(folder, error) from error

    def add(self, round_: int, metrics: Metrics) -> None:
        """A line per seed."""
        lines: list[str] = []
        shown: dict[str, float] = {}
        tracked: dict[str, float] = {}
        for index, seed in enumerate(self.seeds):
            row = {name: float(values[index]) for name, values in metrics.items()}
            finite = {name: value if np.isfinite(value) else None for name, value in row.items()}
            lines.append(json.dumps({"round": round_, "seed": seed, **finite}) + "\n")
            shown |= {f"seed {seed}/{name}": value for name, value in row.items()}
            tracked |= {f"seed {seed}/{name}": value for name, value in finite.items() if value is not None}
        if self._tracker is not None:
            self._tracker.add(round_, tracked)
        try:
            self._file.write("".join(lines))
            self._file.flush()
            if self._board is not None:
                self._board.add(round_, shown)
        except OSError as error:
            raise unwritable(self._path, error) from error

    def sync(self) -> None:
        """Let no checkpoint reach the disk before the lines that lead to it."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Release the files, let the tracker finish."""
        if self._tracker is not None:
            self._tracker.close()
        with contextlib.suppress(OSError):  # the lines are flushed; a full disk was reported then
            self._file.close()
        if self._board is not None:
            self._board.close()


def reward_scale(folder: Path, config: TrainConfig, seed: int) -> float:
    """What a run multiplies a seed's rewards by: a setting, or the latest that imagination has found."""
    if config.imagination.last_iterations == 0:
        return config.ppo.reward_scale
    lines = [json.loads(line) for line in _lines(folder / METRICS, config.budget.rounds)]
    known = [line[REWARD_SCALE] for line in lines if line.get("seed") == seed and line.get(REWARD_SCALE)]
    return float(known[-1]) if known else 1.0


def _board(folder: Path, done: int) -> Board | None:
    """What TensorBoard reads; None where it is not installed, since metrics.jsonl has the same numbers."""
    try:
        from xlvin.training.board import Board  # takes half a second, and only those who train need it
    except ImportError:
        return None
    return Board(folder / "tensorboard", done + 1)


def _lines(path: Path, done: int) -> list[str]:
    """The whole lines of the first `done` rounds."""
    if not path.exists():
        return []
    try:
        lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if json.loads(line)["round"] <= done]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise XLVINError(f"{path} is damaged; remove it, or choose another folder with --folder.") from error
