"""The `xlvin` command: finds the command, runs it, turns errors into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from xlvin.errors import XLVINError, unknown

# Each command is a module of `xlvin.commands` with `main(argv)`; it is imported only when asked for,
# so that `xlvin --help` answers at once.
COMMANDS = {
    "demo": "train on CartPole from 10 trajectories, evaluate, draw the plan",
    "train": "train an agent on a Gymnasium environment",
    "evaluate": "evaluate a trained run",
    "pretrain": "pretrain an executor on synthetic MDPs",
    "executor": "evaluate an executor: families of MDPs x sizes",
    "reproduce": "remake a table or figure of the paper",
}

USAGE = "usage: xlvin COMMAND [OPTIONS]\n\n" + "\n".join(
    f"  {name:<10} {summary}" for name, summary in COMMANDS.items()
)
EXIT_CODES = "\nexit codes: 0 done, 1 a run failed, 2 bad input, 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    # The tensors here are small: one thread is fastest, and on a busy machine threads that wait for others
    # can be ten times slower. An OMP_NUM_THREADS of the user's own stays.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE + "\n\n`xlvin COMMAND --help` tells a command's options." + EXIT_CODES)
        return 0
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        command = importlib.import_module(f"xlvin.commands.{name}")
        return int(command.main(rest))
    except XLVINError as error:
        print(f"xlvin: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has gone, as in `xlvin train --help | head`
        sys.stdout = None
        return 0
    except OSError as error:
        print(f"xlvin: {error.strerror or error} ({error.filename}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("xlvin: interrupted; the same command resumes.", file=sys.stderr)
        return 130
