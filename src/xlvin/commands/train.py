"""`xlvin train ENVIRONMENT`: train an agent for one or many seeds; the same command resumes a stopped run."""

from __future__ import annotations

import argparse
from pathlib import Path

import tyro

from xlvin.agents.registry import AGENTS
from xlvin.training.progress import training_progress
from xlvin.commands.scores import print_scores
from xlvin.errors import XLVINError
from xlvin.training.api import configure
from xlvin.training.config import TrainConfig
from xlvin.training.run import default_folder, run

EXAMPLES = """examples:
  xlvin train CartPole-v0 --trajectories 10 --seeds 5
  xlvin train Acrobot-v1 --agent ppo --ppo.learning-rate 3e-4
  xlvin train my_env.py:Corridor-v0 --transitions 100000 --network.depth 3
  xlvin train CartPole-v0 --help            with the settings of this environment

Every field of the configuration can be set by name:
"""
# Fields of the network that the environment or PPO decides.
DECIDED = {
    "observation": "the environment",
    "given": "the environment",
    "actions": "the environment",
    "low": "the environment",
    "high": "the environment",
    "discount": "--ppo.discount",
}


def parser() -> argparse.ArgumentParser:
    """The options that choose a configuration; every field of it can then be overridden."""
    options = argparse.ArgumentParser("xlvin train", description=__doc__, add_help=False, allow_abbrev=False)
    options.add_argument(
        "environment",
        metavar="ENVIRONMENT",
        help='a Gymnasium environment with discrete or bounded continuous actions; "my_env.py:Name-v0" or '
        '"module:Name-v0" imports what registers it first',
    )
    options.add_argument(
        "--agent",
        help=f"one of {', '.join(AGENTS)} (default: xlvin-imagine; for Atari or the paper's preset xlvin-r)",
    )
    options.add_argument(
        "--preset", default="tuned", help="settings to start from, tuned or paper (default: %(default)s)"
    )
    options.add_argument("--trajectories", type=int, help="data budget: complete episodes per seed")
    options.add_argument("--transitions", type=int, help="data budget: environment steps per seed")
    options.add_argument("--folder", type=Path, help="where the run is kept (default: runs/...)")
    options.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options.add_argument("--track", metavar="SERVICE", help='tell a service the metrics as well: "wandb"')
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def configuration(
    chosen: argparse.Namespace, overrides: list[str], command: str = "xlvin train"
) -> TrainConfig:
    """The preset with the data budget and all overrides applied."""
    start = configure(
        chosen.environment, chosen.agent, chosen.preset, chosen.trajectories, chosen.transitions
    )
    config = tyro.cli(TrainConfig, default=start, args=overrides, prog=f"{command} {chosen.environment}")
    if config.environment != start.environment:
        raise XLVINError("Name the environment once, right after `xlvin train`.")
    for name, decider in DECIDED.items():
        if getattr(config.network, name) != getattr(start.network, name):
            raise XLVINError(f"--network.{name} is decided by {decider}; leave it out.")
    return config


def main(argv: list[str]) -> int:
    """Train, evaluate, print the scores and where the run is kept."""
    options = parser()
    words = [word for word in argv if word not in ("-h", "--help")]
    named = bool(words) and not words[0].startswith("-")
    chosen, overrides = options.parse_known_args(words if named else [TrainConfig.environment, *words])
    if not argv or len(words) < len(argv):
        print(options.format_help() + "\n" + EXAMPLES)
        overrides = ["--help"]
    elif not named:
        raise XLVINError(
            "Name the environment first, as in `xlvin train CartPole-v0`; `xlvin list` has some."
        )
    config = configuration(chosen, overrides)
    folder = chosen.folder or default_folder(config)
    with training_progress(config, chosen.json, chosen.device) as progress:
        result = run(config, folder, chosen.device, progress, track=chosen.track)
    print_scores(result.config, result.returns, folder, as_json=chosen.json)
    return 0
