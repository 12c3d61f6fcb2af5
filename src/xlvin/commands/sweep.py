"""`xlvin sweep`: train seeds x environments x agents x settings, on the local cores or on Ray."""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from xlvin.agents.registry import AGENTS
from xlvin.commands.parsing import Parser, folder_named
from xlvin.commands.train import configuration
from xlvin.errors import XLVINError, unknown
from xlvin.experiments.cluster import LOCAL
from xlvin.experiments.sweep import TABLE, Cell, Resources, Result, run_sweep
from xlvin.fields import flat
from xlvin.report.statistics import FEWEST
from xlvin.report.tables import plain
from xlvin.training.config import TrainConfig

EXAMPLES = """examples:
  xlvin sweep --environments CartPole-v0 Acrobot-v1 --agents xlvin-imagine ppo --seeds 4
  xlvin sweep --environments CartPole-v0 --set ppo.learning_rate=1e-3,3e-4 network.depth=1,2
  xlvin sweep --environments CartPole-v0 --seeds 100 --ray auto --folder /shared/sweeps/cartpole

Every field of the configuration can be set for all runs as well, as in `xlvin train`:
"""
# Fields that options of their own sweep over.
OPTIONS = {
    "environment": "--environments",
    "agent": "--agents",
    "seeds": "--seeds",
    "first_seed": "--first-seed",
}


def parser() -> argparse.ArgumentParser:
    """The options that span the sweep; every field of the configuration can then be overridden."""
    options = Parser("xlvin sweep", description=__doc__, add_help=False, allow_abbrev=False)
    options.add_argument(
        "--environments",
        nargs="+",
        default=[],
        metavar="ENVIRONMENT",
        help='Gymnasium environments, as for `xlvin train`; also "my_env.py:Name-v0"',
    )
    options.add_argument(
        "--agents",
        nargs="+",
        metavar="AGENT",
        help=f"some of {', '.join(AGENTS)} (default: the best there is)",
    )
    options.add_argument("--seeds", type=int, default=1, help="how many seeds, from --first-seed on")
    options.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="FIELD=VALUE,VALUE",
        help="values to try of a field of the configuration; of several fields, all combinations",
    )
    options.add_argument("--preset", default="tuned", help="settings to start from (default: %(default)s)")
    options.add_argument("--trajectories", type=int, help="data budget: complete episodes per seed")
    options.add_argument("--transitions", type=int, help="data budget: environment steps per seed")
    options.add_argument(
        "--folder",
        type=folder_named,
        default=Path("sweeps"),
        help="where runs and table are kept (default: %(default)s)",
    )
    options.add_argument("--workers", type=int, help="runs at a time (default: one per core)")
    options.add_argument(
        "--side-by-side", type=int, default=1, metavar="SEEDS", help="seeds that share a run (default: 1)"
    )
    options.add_argument(
        "--ray",
        nargs="?",
        const=LOCAL,
        metavar="ADDRESS",
        help='use Ray: one of its own on this machine, or the cluster at ADDRESS ("auto", "host:6379")',
    )
    options.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def plan(argv: list[str]) -> tuple[list[Cell], argparse.Namespace]:
    """The cells that a command line asks for, and its other options."""
    chosen, overrides = parser().parse_known_args(argv)
    if not chosen.environments:
        raise XLVINError("Name environments, as in `xlvin sweep --environments CartPole-v0 Acrobot-v1`.")
    given = {word.partition("=")[0].removeprefix("--") for word in overrides if word.startswith("--")}
    if wrong := given & {"environment", "agent"}:
        name = min(wrong)
        raise XLVINError(f"A sweep has several: use {OPTIONS[name]} instead of --{name}.")
    axes = [_axis(text) for text in chosen.set]
    cells = [
        _cell(environment, agent, dict(point), chosen, overrides)
        for environment in chosen.environments
        for agent in chosen.agents or [None]
        for point in itertools.product(*([(name, value) for value in values] for name, values in axes))
    ]
    return cells, chosen


def _axis(text: str) -> tuple[str, list[str]]:
    """The field and the values of `field=value,value`."""
    name, equals, values = text.partition("=")
    name = name.removeprefix("--").replace("-", "_")
    known = flat(asdict(TrainConfig()))
    if name in OPTIONS:
        raise XLVINError(f"--set does not take {name}; use {OPTIONS[name]}.")
    if name not in known:
        raise unknown("setting", name, known)
    if not equals or not all(values.split(",")):
        raise XLVINError(f"--set {text} has no values; write {name}=VALUE,VALUE.")
    return name, values.split(",")


def _cell(
    environment: str,
    agent: str | None,
    point: dict[str, str],
    chosen: argparse.Namespace,
    overrides: list[str],
) -> Cell:
    start = argparse.Namespace(**{**vars(chosen), "environment": environment, "agent": agent})
    words = [word for name, text in point.items() for word in _words(name, text)]
    config = configuration(start, [*overrides, *words], "xlvin sweep --environments")
    values = flat(asdict(config))
    return Cell(config, {name: values[name] for name in point})


def _words(name: str, text: str) -> list[str]:
    """The option that sets a field: switches are turned, others get a value."""
    option = name.replace("_", "-")
    if not isinstance(flat(asdict(TrainConfig()))[name], bool):
        return [f"--{option}", text]
    if text.lower() not in ("true", "false"):
        raise XLVINError(f"{name} is a switch; give true or false, not {text}.")
    place, _, switch = option.rpartition(".")
    return [f"--{option}" if text.lower() == "true" else f"--{place}.no-{switch}"]


def main(argv: list[str]) -> int:
    """Plan, run, print the table; exit code 1 if a run failed."""
    if "-h" in argv or "--help" in argv:
        print(parser().format_help() + "\n" + EXAMPLES)
        start, _ = parser().parse_known_args([])
        start.environment, start.agent = TrainConfig.environment, None
        configuration(start, ["--help"], "xlvin sweep --environments")
    cells, chosen = plan(argv)
    resources = Resources(chosen.workers, chosen.ray, chosen.device, chosen.side_by_side)
    tell = (lambda line: None) if chosen.json else (lambda line: print(line, file=sys.stderr))
    try:
        result = run_sweep(cells, chosen.folder, resources, shlex.join(["xlvin", "sweep", *argv]), tell)
    except KeyboardInterrupt as stop:
        stop.args = ("the same command resumes",)
        raise
    print_result(result, chosen.folder, chosen.json)
    return 1 if result.failures else 0


def print_result(result: Result, folder: Path, as_json: bool) -> None:
    """The table and what failed, for people or as JSON."""
    if as_json:
        print(json.dumps({"folder": str(folder), "rows": result.rows, "failures": result.failures}, indent=1))
        return
    longest = max(result.rows, key=len)
    print(plain(result.rows, [name for name in longest if name != "scores"]))
    print("\ngreedy return over seeds; iqm is the interquartile mean, low and high what interval_of says:")
    print(f"its 95 % interval, or the range of fewer than {FEWEST} seeds")
    print(f"kept in {folder / TABLE}, runs below {folder}")
    for failure in result.failures:
        print(f"failed: {failure['run']}: {failure['error']}", file=sys.stderr)
