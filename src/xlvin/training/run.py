"""A training run on disk: resolved configuration, metrics, checkpoints, evaluation.

    config.json              the resolved configuration, versions, and the executor's hash
    metrics.jsonl            one line per round and seed
    tensorboard/             the same for TensorBoard
    checkpoint.safetensors   weights, optimiser, environments: all a resumed run needs
    evaluation.json          every seed's greedy score
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents import registry
from xlvin.agents.base import Agent
from xlvin.errors import XLVINError
from xlvin.storage import load_tensors, save_tensors, write_json
from xlvin.training.config import TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.trainer import Progress, Trainer

FORMAT = "xlvin-checkpoint-1"
PACKAGES = ("xlvin", "torch", "numpy", "gymnasium", "safetensors")
# Seconds between checkpoints, so that short rounds are not spent on writing files.
CHECKPOINT_EVERY = 20.0



@dataclass(frozen=True)
class Result:
    """A finished run."""

    folder: Path
    config: TrainConfig
    agents: list[Agent]  # one per seed
    returns: NDArray[np.float64]  # [S, episodes] greedy evaluation

    @property
    def scores(self) -> NDArray[np.float64]:
        """Mean greedy return per seed, [S]."""
        return np.asarray(self.returns.mean(1))


def fingerprint(config: TrainConfig) -> str:
    """Eight hexadecimal digits that stand for the whole configuration."""
    return hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode()).hexdigest()[:8]


def run(
    config: TrainConfig, folder: Path, device: str = "cpu", progress: Progress | None = None
) -> Result:
    """Train, or go on training, or return what is already finished in `folder`.

    The same configuration and folder resume where the last checkpoint stands and end with the same bits as
    a run that was never stopped.
    """
    trainer = Trainer(config, device)
    stored = _open(folder, trainer.config)
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists():
        tensors, metadata = load_tensors(checkpoint)
        if metadata.get("format") != FORMAT or metadata.get("config") != stored:
            raise XLVINError(f"{checkpoint} belongs to another run; choose another folder with --folder.")
        trainer.restore(tensors)
    log = _Log(folder, trainer.config, trainer.round)
    saved = time.monotonic()
    while not trainer.finished:
        metrics = trainer.train_round(progress)
        log.add(trainer.round, metrics)
        if trainer.finished or time.monotonic() - saved > CHECKPOINT_EVERY:
            save_tensors(checkpoint, trainer.state(), {"format": FORMAT, "config": stored})
            saved = time.monotonic()
    log.close()
    trainer.actors.close()
    agents = trainer.members()
    returns = _evaluate_once(folder, trainer.config, agents, device)
    return Result(folder, trainer.config, agents, returns)


def open_run(folder: Path) -> tuple[TrainConfig, list[Agent]]:
    """The configuration and the agents of a run's last checkpoint."""
    if not (folder / "config.json").is_file():
        raise XLVINError(f"{folder} holds no run; give the folder that `xlvin train` printed.")
    tensors, metadata = load_tensors(folder / "checkpoint.safetensors")
    if metadata.get("format") != FORMAT:
        raise XLVINError(f"The checkpoint in {folder} is no xlvin checkpoint; train it anew.")
    config = TrainConfig.from_dict(metadata["config"])
    weights = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    agents = [
        registry.restore(metadata["config"]["network"], {n: w[i] for n, w in weights.items()}, str(folder))
        for i in range(config.seeds)
    ]
    return config, agents


def provenance() -> dict[str, Any]:
    """What this run was made with."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _open(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """Write the configuration of a new run, or check that an old one is the same."""
    stored: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    path = folder / "config.json"
    if not path.exists():
        write_json(path, {"config": stored, "provenance": provenance()})
    else:
        try:
            known = json.loads(path.read_text())["config"]
        except (ValueError, KeyError) as error:
            raise XLVINError(f"{path} is damaged; remove the folder or choose another with --folder.") from error
        if known != stored:
            raise XLVINError(f"{folder} holds a run with other settings; choose another folder with --folder.")
    return stored


def _evaluate_once(folder: Path, config: TrainConfig, agents: list[Agent], device: str) -> NDArray[np.float64]:
    path = folder / "evaluation.json"
    if path.exists():
        return np.array([seed["returns"] for seed in json.loads(path.read_text())["seeds"]])
    returns = evaluate(agents, config.environment, config.seed_list, config.evaluation_episodes, device)
    seeds = [
        {"seed": seed, "score": float(row.mean()), "returns": row.tolist()}
        for seed, row in zip(config.seed_list, returns, strict=True)
    ]
    write_json(path, {"environment": config.environment, "seeds": seeds, "provenance": provenance()})
    return returns


class _Log:
    """metrics.jsonl and TensorBoard; rounds behind the checkpoint that resumes are dropped and redone."""

    def __init__(self, folder: Path, config: TrainConfig, done: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.seeds = config.seed_list
        path = folder / "metrics.jsonl"
        kept = []
        if path.exists():
            lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            kept = [line for line in lines if json.loads(line)["round"] <= done]
        path.write_text("".join(kept))
        self._file = path.open("a")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)  # type: ignore[no-untyped-call]

    def add(self, round_: int, metrics: dict[str, NDArray[Any]]) -> None:
        for index, seed in enumerate(self.seeds):
            row = {name: float(values[index]) for name, values in metrics.items()}
            finite = {name: value if np.isfinite(value) else None for name, value in row.items()}
            self._file.write(json.dumps({"round": round_, "seed": seed, **finite}) + "\n")
            for name, value in row.items():
                self._board.add_scalar(f"seed {seed}/{name}", value, round_)  # type: ignore[no-untyped-call]
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._board.close()  # type: ignore[no-untyped-call]
