"""The `xlvin` command: finds the command, runs it, turns errors into one sentence and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence

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
EXIT_CODES = "\nexit codes: 0 done, 1 a run failed, 2 bad input, 130 interrupted, 143 terminated"


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which schedulers stop a process: it saves its work as it does after Ctrl-C.

    A command that has kept something adds a note on it to the exception's arguments; it is printed too.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    # The tensors here are small: one thread is fastest, and on a busy machine threads that wait for others
    # can be ten times slower. An OMP_NUM_THREADS of the user's own stays.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.formatwarning = _warning
    try:
        try:
            with _terminable():
                return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:  # as in `xlvin list >&-`
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as in `xlvin list | head -1`
        _forget_output()
        return 0
    except OSError as error:  # a file without a name: our output, on a disk that is full
        _forget_output()
        return _tell(f"the output could not be written ({error.strerror or error}); free some space.", 1)


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
        return _tell(str(error), error.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        return _tell(f"{error.filename} could not be used ({error.strerror}); check path and rights.", 2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _tell("the memory does not suffice; choose a smaller network, depth, beam or batch.", 1)
    except Terminated as stop:
        return _tell("; ".join(["terminated", *stop.args]) + ".", 143)
    except KeyboardInterrupt as stop:
        return _tell("; ".join(["interrupted", *stop.args]) + ".", 130)


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning in a line, without the code that gave it."""
    return f"xlvin: {message}\n"


def _forget_output() -> None:
    """Keep Python from failing again at its exit over what could not be written."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(sentence: str, code: int) -> int:
    print(f"xlvin: {sentence}", file=sys.stderr)
    return code


def _out_of_memory(error: Exception) -> bool:
    # A CPU's allocator raises plain errors, a GPU's a class of its own; neither is worth importing torch for.
    told = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or "OutOfMemory" in told or "can't allocate memory" in told


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM raises `Terminated` in here, where signals can be handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: object) -> None:
    raise Terminated
