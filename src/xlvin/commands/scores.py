"""Greedy scores of a run, for people or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xlvin.training.config import TrainConfig


def print_scores(config: TrainConfig, returns: NDArray[np.float64], folder: Path, as_json: bool) -> None:
    """Print the mean over seeds and every seed's mean of `returns` [S, episodes]."""
    scores = returns.mean(1)
    std = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
    if as_json:
        seeds = [{"seed": seed, "score": float(s)} for seed, s in zip(config.seed_list, scores, strict=True)]
        row = {
            "environment": config.environment,
            "agent": config.agent,
            "mean": float(scores.mean()),
            "std": std,
            "episodes": returns.shape[1],
            "seeds": seeds,
            "folder": str(folder),
        }
        print(json.dumps(row))
        return
    each = "  ".join(f"{score:.1f}" for score in scores)
    print(f"{config.agent} on {config.environment}: {scores.mean():.1f} +- {std:.1f}")
    episodes = "1 fresh episode" if returns.shape[1] == 1 else f"{returns.shape[1]} fresh episodes"
    print(f"  greedy, {episodes} a seed; seeds: {each}")
    print(f"  kept in {folder}")
