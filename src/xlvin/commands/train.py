"""`xlvin train ENVIRONMENT`: train an agent for one or many seeds."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from xlvin.agents.registry import AGENTS
from xlvin.commands.progress import training_progress
from xlvin.training.config import Budget, TrainConfig
from xlvin.training.presets import preset
from xlvin.training.run import fingerprint, run

EXAMPLES = """examples:
  xlvin train CartPole-v0 --trajectories 10 --seeds 5
  xlvin train Acrobot-v1 --agent ppo --ppo.learning-rate 3e-4
  xlvin train my_package:MyEnv-v0 --transitions 100000 --network.depth 3

The same command resumes a stopped run. Every field of the configuration can be set by name:
"""


def parser() -> argparse.ArgumentParser:
    """The options that choose a configuration; every field of it can then be overridden."""
    options = argparse.ArgumentParser("xlvin train", description=__doc__, add_help=False, allow_abbrev=False)
    options.add_argument("environment", help='a Gymnasium environment with discrete actions, also "module:Name-v0"')
    options.add_argument("--agent", default="xlvin-r", help=f"one of {', '.join(AGENTS)} (default: %(default)s)")
    options.add_argument("--preset", choices=("tuned", "paper"), default="tuned", help="settings to start from")
    options.add_argument("--trajectories", type=int, help="data budget: complete episodes per seed")
    options.add_argument("--transitions", type=int, help="data budget: environment steps per seed")
    options.add_argument("--folder", type=Path, help="where the run is kept (default: runs/...)")
    options.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def configuration(chosen: argparse.Namespace, overrides: list[str]) -> TrainConfig:
    """The preset with the data budget and all overrides applied."""
    start = preset(chosen.environment, chosen.agent, chosen.preset)
    if chosen.trajectories is not None:
        budget = start.budget if start.budget.unit == "trajectories" else Budget()
        start = replace(start, budget=replace(budget, total=chosen.trajectories))
    if chosen.transitions is not None:
        start = replace(start, budget=Budget("transitions", chosen.transitions, per_round=128))
    return tyro.cli(TrainConfig, default=start, args=overrides, prog=f"xlvin train {chosen.environment}")


def main(argv: list[str]) -> int:
    """Train, evaluate, print the scores and where the run is kept."""
    options = parser()
    if not argv or "-h" in argv or "--help" in argv:
        print(options.format_help() + "\n" + EXAMPLES)
        tyro.cli(TrainConfig, args=["--help"], prog="xlvin train ENVIRONMENT")
    chosen, overrides = options.parse_known_args(argv)
    config = configuration(chosen, overrides)
    folder = chosen.folder or Path("runs") / f"{_plain(config.environment)}-{config.agent}-{fingerprint(config)}"
    with training_progress(config, quiet=chosen.json) as progress:
        result = run(config, folder, chosen.device, progress)
    scores = result.scores
    if chosen.json:
        seeds = [{"seed": s, "score": score} for s, score in zip(config.seed_list, scores.tolist(), strict=True)]
        json.dump({"folder": str(folder), "mean": float(scores.mean()), "seeds": seeds}, sys.stdout)
        print()
    else:
        each = "  ".join(f"{score:.1f}" for score in scores)
        print(f"{config.agent} on {config.environment}: {scores.mean():.1f} +- {np.std(scores):.1f}")
        print(f"  greedy, {config.evaluation_episodes} fresh episodes a seed; seeds: {each}")
        print(f"  kept in {folder}")
    return 0


def _plain(name: str) -> str:
    return name.replace("/", "-").replace(":", "-")
