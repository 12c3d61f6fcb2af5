"""Greedy scores of a run, for people or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.report.tables import number
from xlvin.training.config import TrainConfig


def print_scores(config: TrainConfig, returns: NDArray[np.float64], folder: Path, as_json: bool) -> None:
    """Print the scores of a run that was trained, from `returns` [S, episodes], and where it is kept."""
    if as_json:
        print(json.dumps(score_row(config, returns, folder)))
    else:
        print(f"{score_text(config, returns)}\n  kept in {folder}")


def score_row(config: TrainConfig, returns: NDArray[np.float64], folder: Path) -> dict[str, Any]:
    """The mean over seeds and every seed's mean of `returns` [S, episodes], for JSON."""
    scores = returns.mean(1)
    return {
        "environment": config.environment,
        "agent": config.agent,
        "mean": float(scores.mean()),
        "std": _std(scores),
        "episodes": returns.shape[1],
        "seeds": [
            {"seed": seed, "score": float(s)} for seed, s in zip(config.seed_list, scores, strict=True)
        ],
        "folder": str(folder),
    }


def score_text(config: TrainConfig, returns: NDArray[np.float64], note: str = "") -> str:
    """The same in two lines; `note` stands after the environment."""
    scores = returns.mean(1)
    std = _std(scores)
    spread = "" if std is None else f" +- {number(std)}"
    episodes = "1 fresh episode" if returns.shape[1] == 1 else f"{returns.shape[1]} fresh episodes"
    return (
        f"{config.agent} on {config.environment}{note}: {number(scores.mean())}{spread}\n"
        f"  greedy, {episodes} a seed; seeds: {'  '.join(map(number, scores))}"
    )


def unfinished(done: int, rounds: int) -> str:
    """What to say about a run that is not at its end; nothing about others."""
    return "" if done >= rounds else f" after round {done} of {rounds}, unfinished"


def _std(scores: NDArray[np.float64]) -> float | None:
    """The sample's standard deviation; one seed has none."""
    return float(scores.std(ddof=1)) if len(scores) > 1 else None
