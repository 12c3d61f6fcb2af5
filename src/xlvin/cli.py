"""The `xlvin` command: finds the command, runs it, turns errors into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import xlvin
from xlvin.errors import XLVINError, unknown

# Each command is a module of `xlvin.commands` with `main(argv)`; it is imported only when asked for,
# so that `xlvin --help` answers at once.
COMMANDS = {
    "demo": "train on CartPole from 10 trajectories, evaluate, draw the plan",
    "train": "train an agent on a Gymnasium environment; the same command resumes",
    "sweep": "train seeds x environments x agents x settings, on local cores or on Ray",
    "evaluate": "evaluate a trained run",
    "show": "write a page to step through an episode and its plans",
    "video": "film an episode of a trained run, as GIF or MP4",
    "export": "write a trained agent as ONNX, its planner inside",
    "pretrain": "pretrain an executor on synthetic MDPs",
    "executor": "evaluate an executor: families of MDPs x sizes",
    "reproduce": "remake a table or figure of the paper",
    "report": "write a page of all results beside the paper's",
    "list": "what there is: agents, environments, presets, executors, experiments",
    "doctor": "versions, devices, and which optional parts are installed",
    "completion": "print a completion script for bash, zsh or fish",
}

USAGE = "usage: xlvin COMMAND [OPTIONS]\n\n" + "\n".join(
    f"  {name:<10} {summary}" for name, summary in COMMANDS.items()
)
HINT = (
    "\n\n`xlvin COMMAND --help` tells a command's options and shows examples; `xlvin --version` the version."
)
EXIT_CODES = "\nexit codes: 0 done, 1 a run failed, 2 bad input, 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    # The tensors here are small: one thread is fastest, and on a busy machine threads that wait for others
    # can be ten times slower. An OMP_NUM_THREADS of the user's own stays.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as in `xlvin list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE + HINT + EXIT_CODES)
        return 0
    name, *rest = arguments
    if name == "--version":
        print(f"xlvin {xlvin.__version__}")
        return 0
    try:
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        command = importlib.import_module(f"xlvin.commands.{name}")
        return int(command.main(rest))
    except XLVINError as error:
        print(f"xlvin: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"xlvin: {error.strerror or error} ({error.filename}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("xlvin: interrupted; the same command resumes.", file=sys.stderr)
        return 130
