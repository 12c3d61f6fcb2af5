"""One cell of a control experiment: an agent on an environment, trained for some seeds and scored."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from xlvin.training.config import TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.trainer import Trainer


@dataclass(frozen=True)
class Cell:
    """What to train, and under which name the result is kept."""

    version: str
    config: TrainConfig
    device: str = "cpu"

    @property
    def name(self) -> str:
        """version/environment/agent."""
        return f"{self.version}/{self.config.environment}/{self.config.agent}"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    seeds: list[
        dict[str, Any]
    ]  # seed, score, steps (environment steps that training used), last training return
    config: dict[str, Any]  # resolved, without the seeds
    seconds: float


def run_cell(cell: Cell) -> Outcome:
    """Train all seeds of a cell side by side and evaluate them on fresh episodes."""
    started = time.perf_counter()
    trainer = Trainer(cell.config, cell.device)
    metrics: dict[str, Any] = {}
    while not trainer.finished:
        metrics = trainer.train_round()
    trainer.actors.close()
    config = trainer.config
    returns = evaluate(
        trainer.members(), config.environment, config.seed_list, config.evaluation_episodes, cell.device
    )
    seeds = [
        {
            "seed": seed,
            "score": round(float(returns[index].mean()), 3),
            "steps": int(trainer.steps[index]),
            "training_return": round(float(metrics["return"][index]), 3),
        }
        for index, seed in enumerate(config.seed_list)
    ]
    return Outcome(seeds, resolved(config), round(time.perf_counter() - started, 1))


def resolved(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a record keeps it: one for all seeds."""
    fields = asdict(config)
    del fields["seeds"], fields["first_seed"]
    return fields


# What the environment decides and training fills in.
FILLED_IN = ("observation", "given", "actions", "discount")


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """What was chosen in a kept configuration, without what the environment decides."""
    network = {name: value for name, value in config["network"].items() if name not in FILLED_IN}
    return {**config, "network": network}


def split(cell: Cell, size: int) -> list[Cell]:
    """The cell as several of at most `size` seeds."""
    config = cell.config
    return [
        replace(
            cell,
            config=replace(
                config, first_seed=first, seeds=min(size, config.first_seed + config.seeds - first)
            ),
        )
        for first in range(config.first_seed, config.first_seed + config.seeds, size)
    ]


def mean_score(outcome: Outcome) -> float:
    """Average over seeds."""
    return float(np.mean([seed["score"] for seed in outcome.seeds]))
