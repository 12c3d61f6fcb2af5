"""`xlvin train ENVIRONMENT`: train an agent for one or many seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

import tyro

from xlvin.agents.registry import AGENTS
from xlvin.commands.progress import training_progress
from xlvin.commands.scores import print_scores
from xlvin.training.api import configure
from xlvin.training.config import TrainConfig
from xlvin.training.run import default_folder, run

EXAMPLES = """examples:
  xlvin train CartPole-v0 --trajectories 10 --seeds 5
  xlvin train Acrobot-v1 --agent ppo --ppo.learning-rate 3e-4
  xlvin train my_package:MyEnv-v0 --transitions 100000 --network.depth 3

The same command resumes a stopped run. Every field of the configuration can be set by name:
"""


def parser() -> argparse.ArgumentParser:
    """The options that choose a configuration; every field of it can then be overridden."""
    options = argparse.ArgumentParser("xlvin train", description=__doc__, add_help=False, allow_abbrev=False)
    options.add_argument(
        "environment", help='a Gymnasium environment with discrete actions, also "module:Name-v0"'
    )
    options.add_argument(
        "--agent", default="xlvin-r", help=f"one of {', '.join(AGENTS)} (default: %(default)s)"
    )
    options.add_argument(
        "--preset", choices=("tuned", "paper"), default="tuned", help="settings to start from"
    )
    options.add_argument("--trajectories", type=int, help="data budget: complete episodes per seed")
    options.add_argument("--transitions", type=int, help="data budget: environment steps per seed")
    options.add_argument("--folder", type=Path, help="where the run is kept (default: runs/...)")
    options.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def configuration(chosen: argparse.Namespace, overrides: list[str]) -> TrainConfig:
    """The preset with the data budget and all overrides applied."""
    start = configure(
        chosen.environment, chosen.agent, chosen.preset, chosen.trajectories, chosen.transitions
    )
    return tyro.cli(TrainConfig, default=start, args=overrides, prog=f"xlvin train {chosen.environment}")


def main(argv: list[str]) -> int:
    """Train, evaluate, print the scores and where the run is kept."""
    options = parser()
    if not argv or "-h" in argv or "--help" in argv:
        print(options.format_help() + "\n" + EXAMPLES)
        tyro.cli(TrainConfig, args=["--help"], prog="xlvin train ENVIRONMENT")
    chosen, overrides = options.parse_known_args(argv)
    config = configuration(chosen, overrides)
    folder = chosen.folder or default_folder(config)
    with training_progress(config, quiet=chosen.json) as progress:
        result = run(config, folder, chosen.device, progress)
    print_scores(result.config, result.returns, folder, as_json=chosen.json)
    return 0
