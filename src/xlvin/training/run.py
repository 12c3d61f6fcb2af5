"""A training run on disk: resolved configuration, metrics, checkpoints, evaluation.

config.json              the resolved configuration, versions, the executor's hash, the environment's file
metrics.jsonl            one line per round and seed
tensorboard/             the same for TensorBoard
checkpoint.safetensors   weights, optimiser, environments: all a resumed run needs
evaluation.json          every seed's greedy score
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents import registry
from xlvin.agents.base import Agent
from xlvin.envs.atari import is_atari
from xlvin.envs.own import source_file, with_source
from xlvin.errors import XLVINError
from xlvin.fields import flat
from xlvin.files import write_json
from xlvin.provenance import provenance
from xlvin.storage import load_tensors, save_tensors
from xlvin.training.config import TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.frames.trainer import FrameTrainer
from xlvin.training.lock import alone_in
from xlvin.training.log import Log
from xlvin.training.tracking import check_tracker
from xlvin.training.trainer import Progress, Trainer
from xlvin.training.values.trainer import ValueTrainer

FORMAT = "xlvin-checkpoint-1"
CONFIG, CHECKPOINT, EVALUATION = "config.json", "checkpoint.safetensors", "evaluation.json"
# The environment decides this field of the network, and older runs lack it: no run is known by it.
IMAGE = "image"
# Seconds between checkpoints, so that short rounds are not spent on writing files.
CHECKPOINT_EVERY = 20.0


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished run."""

    folder: Path | None  # where it is kept, if it is
    config: TrainConfig  # as resolved
    agents: list[Agent]  # one per seed
    returns: NDArray[np.float64]  # [S, episodes] greedy evaluation

    def __repr__(self) -> str:
        config, mean = self.config, self.scores.mean()
        kept = "not kept" if self.folder is None else f"in {self.folder}"
        seeds = "1 seed" if config.seeds == 1 else f"{config.seeds} seeds"
        return f"<Result {config.agent} on {config.environment}: mean {mean:.1f} of {seeds}, {kept}>"

    @property
    def agent(self) -> Agent:
        """The agent of the first seed."""
        return self.agents[0]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Mean greedy return per seed, [S]."""
        return np.asarray(self.returns.mean(1))


def fingerprint(config: TrainConfig) -> str:
    """Eight hexadecimal digits that stand for the whole configuration."""
    return hashlib.sha256(json.dumps(settings(config), sort_keys=True).encode()).hexdigest()[:8]


def settings(config: TrainConfig) -> dict[str, Any]:
    """What runs are told apart by: all fields but one."""
    fields = asdict(config)
    del fields["network"][IMAGE]
    return fields


def default_folder(config: TrainConfig) -> Path:
    """Where a run is kept unless the user says otherwise; the same for the same configuration."""
    environment = config.environment.replace("/", "-").replace(":", "-")
    return Path("runs") / f"{environment}-{config.agent}-{fingerprint(config)}"


def run(
    config: TrainConfig,
    folder: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
    track: str | None = None,
) -> Result:
    """Train, or go on training, or return what is already finished in `folder`; None keeps nothing on disk.

    The same configuration and folder resume where the last checkpoint stands and end with the same bits as
    a run that was never stopped. `checkpoint_every` is in seconds; a run that fails or is interrupted is
    kept as it was after its last whole round. Atari is kept as of its last checkpoint and goes on with new
    games. `track` names a service of `xlvin.training.tracking` that is told the metrics as well.
    """
    if track is not None:
        check_tracker(track)
    trainer = make_trainer(config, device)
    with alone_in(folder):
        with contextlib.closing(trainer):
            if folder is None:
                while not trainer.finished:
                    trainer.train_round(progress)
            else:
                train_in(folder, trainer, progress, checkpoint_every, track)
        agents = trainer.members()
        returns = known_returns(folder, trainer.config)
        if returns is None:
            seeds, episodes = trainer.config.seed_list, trainer.config.evaluation_episodes
            returns = evaluate(agents, config.environment, seeds, episodes, device)
            if folder is not None:
                write_evaluation(folder / EVALUATION, trainer.config, returns)
    return Result(folder, trainer.config, agents, returns)


def make_trainer(config: TrainConfig, device: str = "cpu") -> Trainer | FrameTrainer:
    """The loop for an environment and an agent: Atari has one of its own, and so have action values."""
    if is_atari(config.environment):
        return FrameTrainer(config, device)
    return ValueTrainer(config, device) if config.network.tail == "values" else Trainer(config, device)


def open_run(folder: Path) -> tuple[TrainConfig, list[Agent]]:
    """The configuration and the agents of a run's last checkpoint.

    An environment's file that is not found from here is looked for where it was at training.
    """
    if not (folder / CONFIG).is_file():
        raise XLVINError(f"{folder} holds no run; give the folder that `xlvin train` printed.")
    path = folder / CHECKPOINT
    if not path.exists():
        raise XLVINError(f"The run in {folder} has no checkpoint yet; try again when it has trained longer.")
    tensors, metadata = _checkpoint(path)
    if metadata.get("format") != FORMAT:
        raise XLVINError(f"{path} is no xlvin checkpoint; train it anew.")
    stored = metadata.get("config")
    stored = stored if isinstance(stored, dict) else {}
    config = TrainConfig.from_dict(stored)
    if differences(_stored(folder)["config"], stored):
        raise XLVINError(f"{path} belongs to another run than {folder / CONFIG}; put its own back.")
    weights = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    if any(weight.shape[:1] != (config.seeds,) for weight in weights.values()):
        raise XLVINError(f"{path} does not hold weights for {config.seeds} seeds; train it anew.")
    description = {"config": asdict(config.network), "executor": metadata.get("executor")}
    agents = [
        registry.restore(description, {name: weight[index] for name, weight in weights.items()}, str(path))
        for index in range(config.seeds)
    ]
    source = _stored(folder).get("environment_file")
    return replace(config, environment=with_source(config.environment, source)), agents


def kept_rounds(folder: Path) -> int:
    """How many whole rounds the last checkpoint in a run's folder has; 0 if there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0
    round_ = _checkpoint(path)[0].get("round")
    if round_ is None or round_.numel() != 1 or round_.is_floating_point() or round_ < 0:
        raise XLVINError(f"{path} does not say how far it is; remove the folder {folder} and train anew.")
    return int(round_)


def _checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and description of a checkpoint."""
    try:
        return load_tensors(path)
    except XLVINError as error:
        raise XLVINError(
            f"{path} is damaged or cannot be read ({error.__cause__ or 'no file'}); if it stays so, remove "
            f"the folder {path.parent} and train anew."
        ) from error


def differences(there: dict[str, Any], here: dict[str, Any]) -> str:
    """The first three fields in which a stored configuration is another, with both values; "" if none."""
    old, new = flat(there), flat(here)
    told = [
        f"{name} {old.get(name, 'unknown')} there, {new.get(name, 'unknown')} here"
        for name in old | new
        if old.get(name) != new.get(name) and not name.endswith(f"network.{IMAGE}")
    ]
    return "; ".join([*told[:3], *(["and more"] if len(told) > 3 else [])])


def write_evaluation(path: Path, config: TrainConfig, returns: NDArray[np.float64]) -> None:
    """Keep greedy returns [S, episodes]."""
    seeds = [
        {"seed": seed, "score": float(row.mean()), "returns": row.tolist()}
        for seed, row in zip(config.seed_list, returns, strict=True)
    ]
    write_json(path, {"environment": config.environment, "seeds": seeds, "provenance": _made_with()})


def train_in(
    folder: Path,
    trainer: Trainer | FrameTrainer,
    progress: Progress | None,
    checkpoint_every: float,
    track: str | None = None,
) -> None:
    """Train to the end, with checkpoints on the way; starts from the one that is there."""
    description = _open(folder, trainer)
    path = folder / CHECKPOINT
    if path.exists():
        tensors, metadata = _checkpoint(path)
        if differences(metadata, description):
            raise XLVINError(f"{path} belongs to another run; choose another folder with --folder.")
        trainer.restore(tensors, str(path))
    if not trainer.finished:
        (folder / EVALUATION).unlink(missing_ok=True)  # of what these agents were before
    saved, written = trainer.round, time.monotonic()
    good = trainer.state()
    with contextlib.closing(Log(folder, trainer.config, trainer.round, track)) as log:
        try:
            while not trainer.finished:
                log.add(trainer.round + 1, trainer.train_round(progress))
                due = trainer.finished or time.monotonic() - written >= checkpoint_every
                if due or trainer.light:
                    good = trainer.state()
                if due:
                    log.sync()
                    save_tensors(path, good, description)
                    saved, written = trainer.round, time.monotonic()
        except BaseException:
            if good["round"] > saved:
                with contextlib.suppress(XLVINError):
                    save_tensors(path, good, description)
            raise


def _open(folder: Path, trainer: Trainer | FrameTrainer) -> dict[str, Any]:
    """Write a new run's configuration or check that an old one is the same; returns what describes it."""
    executor = None if trainer.agent.executor is None else asdict(trainer.agent.executor)
    resolved = {"format": FORMAT, "config": asdict(trainer.config), "executor": executor}
    description: dict[str, Any] = json.loads(json.dumps(resolved))
    digest = registry.executor_hash(trainer.config.network)
    source = source_file(trainer.config.environment)
    if not (folder / CHECKPOINT).exists():  # nothing was learned: other settings may take the folder
        content = {
            "config": description["config"],
            "executor": executor,
            "executor_sha256": digest,
            "environment_file": None if source is None else str(source),
            "environment_sha256": _file_hash(source),
            "provenance": _made_with(),
        }
        write_json(folder / CONFIG, content)
        return description
    stored = _stored(folder)
    if told := differences(stored["config"], description["config"]):
        raise XLVINError(
            f"{folder} holds a run with other settings ({told}); choose another folder with --folder."
        )
    if stored.get("executor_sha256", digest) != digest:
        raise XLVINError(
            f"The run in {folder} has another executor than {trainer.config.network.executor} holds now; "
            "choose another folder with --folder, or put the old file back."
        )
    if source is not None and stored.get("environment_sha256", now := _file_hash(source)) != now:
        warnings.warn(
            f"{source.name} has changed since the run in {folder} began, whose training so far is kept; to "
            "train anew, remove that folder or choose another with --folder.",
            stacklevel=2,
        )
    return description


def _made_with() -> dict[str, Any]:
    """Versions, machine and threads of this process."""
    return {**provenance(), "threads": torch.get_num_threads()}


def _file_hash(path: Path | None) -> str | None:
    """What a file's content is known by; None if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None


def _stored(folder: Path) -> dict[str, Any]:
    """What config.json holds: the configuration under "config", and what is known beside it."""
    path = folder / CONFIG
    try:
        stored = json.loads(path.read_text())
        if not isinstance(stored["config"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise XLVINError(f"{path} is damaged; remove the folder or choose another with --folder.") from error
    return dict(stored)


def known_returns(folder: Path | None, config: TrainConfig) -> NDArray[np.float64] | None:
    """What an earlier evaluation of this run found, [S, episodes], if it is there and whole."""
    if folder is None or not (folder / EVALUATION).exists():
        return None
    try:
        seeds = json.loads((folder / EVALUATION).read_text())["seeds"]
        returns = np.array([seed["returns"] for seed in seeds], np.float64)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return returns if returns.shape == (config.seeds, config.evaluation_episodes) else None
