"""`xlvin train ENVIRONMENT`: train an agent for one or many seeds; the same command resumes a stopped run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from tyro.conf import Suppress

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import AGENTS
from xlvin.commands.parsing import Parser, folder_named
from xlvin.commands.scores import print_scores
from xlvin.errors import XLVINError
from xlvin.training.api import check_imagination, configure
from xlvin.training.config import TrainConfig
from xlvin.training.effects import without_effect
from xlvin.training.progress import announce, training_progress
from xlvin.training.run import default_folder, kept_rounds, run

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
    "image": "the environment",
    "actions": "the environment",
    "low": "the environment",
    "high": "the environment",
    "discount": "--ppo.discount",
}


@dataclass(frozen=True)
class Network(AgentConfig):
    """An agent's shape, of which help shows what can be set."""

    observation: Suppress[tuple[int, ...]] = ()
    given: Suppress[tuple[int, ...] | None] = None
    image: Suppress[Literal["uint8", "float32"]] = "uint8"
    actions: Suppress[int] = 0
    low: Suppress[tuple[float, ...]] = ()
    high: Suppress[tuple[float, ...]] = ()
    discount: Suppress[float] = 0.99


@dataclass(frozen=True)
class Options(TrainConfig):
    """One training run; what has an option of its own above is not shown again."""

    environment: Suppress[str] = ""
    agent: Suppress[str] = ""
    seeds: Suppress[int] = 1
    network: Network = field(default_factory=Network)
    """The agent's shape."""


def parser() -> argparse.ArgumentParser:
    """The options that choose a configuration; every field of it can then be overridden."""
    usage = "xlvin train ENVIRONMENT [--agent AGENT] [--trajectories N] [--seeds S] [--OPTION VALUE ...]"
    options = Parser("xlvin train", usage, description=__doc__, add_help=False, allow_abbrev=False)
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
    options.add_argument("--seeds", type=int, default=1, help="how many seeds, side by side (default: 1)")
    options.add_argument("--folder", type=folder_named, help="where the run is kept (default: runs/...)")
    options.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options.add_argument("--track", metavar="SERVICE", help='tell a service the metrics as well: "wandb"')
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def configuration(
    chosen: argparse.Namespace, overrides: list[str], command: str = "xlvin train"
) -> TrainConfig:
    """The preset with the data budget and all overrides applied."""
    return configurations(chosen, overrides, command)[1]


def configurations(
    chosen: argparse.Namespace, overrides: list[str], command: str = "xlvin train"
) -> tuple[TrainConfig, TrainConfig]:
    """The preset with the data budget and the seeds, and the same with all overrides applied."""
    given = {word.partition("=")[0].removeprefix("--") for word in overrides}
    if "environment" in given:
        raise XLVINError("Name the environment once, right after `xlvin train`.")
    for name, decider in DECIDED.items():
        if f"network.{name}" in given:
            raise XLVINError(f"--network.{name} is decided by {decider}; leave it out.")
    start = configure(
        chosen.environment, chosen.agent, chosen.preset, chosen.trajectories, chosen.transitions
    )
    start = replace(start, seeds=chosen.seeds)
    shown = Options(**_parts(start) | {"network": Network(**_parts(start.network))})
    parsed = tyro.cli(Options, default=shown, args=overrides, prog=f"{command} {chosen.environment}")
    config = TrainConfig(**_parts(parsed) | {"network": AgentConfig(**_parts(parsed.network))})
    granted = chosen.trajectories is not None or chosen.transitions is not None
    if granted and (config.budget.unit, config.budget.total) != (start.budget.unit, start.budget.total):
        raise XLVINError("The budget is set twice; give --trajectories, --transitions or --budget.total.")
    return start, check_imagination(config)


def _parts(config: AgentConfig | TrainConfig) -> dict[str, Any]:
    return {each.name: getattr(config, each.name) for each in fields(config)}


def main(argv: list[str]) -> int:
    """Train, evaluate, print the scores and where the run is kept."""
    options = parser()
    words = [word for word in argv if word not in ("-h", "--help")]
    named = bool(words) and not words[0].startswith("-")
    chosen, overrides = options.parse_known_args(words if named else [TrainConfig.environment, *words])
    if len(words) < len(argv):
        print(options.format_help() + "\n" + EXAMPLES)
        overrides = ["--help"]
    elif not named:
        raise XLVINError(
            "Name the environment first, as in `xlvin train CartPole-v0`; `xlvin list` has some."
        )
    start, config = configurations(chosen, overrides)
    for name in without_effect(start, config):
        print(f"--{name.replace('_', '-')} has no effect on {config.agent}", file=sys.stderr)
    folder = chosen.folder or default_folder(config)
    if not chosen.json:
        announce(config, folder)
    finished = folder.is_dir() and kept_rounds(folder) >= config.budget.rounds
    try:
        with training_progress(config, chosen.json, chosen.device) as progress:
            result = run(config, folder, chosen.device, progress, track=chosen.track)
    except KeyboardInterrupt as stop:
        stop.args = (_kept(folder, config.budget.rounds),)
        raise
    if finished and not chosen.json:
        print("this run was finished already, nothing was left to train", file=sys.stderr)
    print_scores(result.config, result.returns, folder, as_json=chosen.json)
    return 0


def _kept(folder: Path, rounds: int) -> str:
    """What an interrupted run has kept, and how it goes on."""
    if done := kept_rounds(folder):
        return f"{done} of {rounds} rounds kept in {folder}, and the same command resumes"
    return "no round was complete, and the same command starts anew"
