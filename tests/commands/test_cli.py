"""The command line as a user meets it: signals, pipes, locks, files of one's own, settings by their names."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch

from xlvin.cli import COMMANDS, main
from xlvin.commands.train import DECIDED, configuration, parser
from xlvin.errors import XLVINError
from xlvin.storage import load_tensors
from xlvin.training.config import TrainConfig
from xlvin.training.lock import alone_in

SMALL = ["--ppo.epochs", "1", "--evaluation-episodes", "2", "--network.hidden", "8", "--network.latent", "6"]
ENVIRONMENT_FILE = """
import gymnasium
import numpy as np
from helper import SIZE

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = SIZE // 2
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place += 2 * action - 1
        return np.array([self.place], np.float32), float(action), self.place in (0, SIZE), False, {}

gymnasium.register("OwnWalk-v0", Walk, max_episode_steps=20)
"""


def in_a_process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "xlvin", *arguments], **{**pipes, **options})


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {name} " in told for name in COMMANDS)
    assert "exit codes" in told
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("xlvin 0.")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_that_begins_with_the_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert not stop.value.code
    told = capsys.readouterr().out
    assert f"xlvin {command}" in told.partition("examples")[2]
    assert "\x1b" not in told  # no colours outside a terminal


@pytest.mark.parametrize(
    ("stop", "code", "told"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
    ],
    ids=["Ctrl-C", "a scheduler"],
)
def test_a_stop_loses_nothing_and_the_same_command_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: signal.Signals, code: int, told: str
) -> None:
    command = ["train", "CartPole-v0", "--agent", "ppo", "--transitions", "4000", "--budget.per-round", "20"]
    command += ["--budget.environments", "2", *SMALL]
    # Run in a shell's background, the tests ignore the signal, and so would what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = in_a_process(*command, "--folder", str(tmp_path / "stopped"))
    metrics, deadline = tmp_path / "stopped/metrics.jsonl", time.monotonic() + 120
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(stop)
    _, error = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in error
    kept = int(load_tensors(tmp_path / "stopped/checkpoint.safetensors")[0]["round"])
    folder = tmp_path / "stopped"
    assert error.splitlines()[-1] == (
        f"xlvin: {told}; {kept} of 100 rounds kept in {folder}, and the same command resumes."
    )
    # Stopped between a round's line and its checkpoint, the line is one ahead; it is then written again.
    assert kept <= len(metrics.read_text().splitlines()) <= kept + 1 <= 100
    assert main([*command, "--folder", str(tmp_path / "stopped")]) == 0
    assert main([*command, "--folder", str(tmp_path / "whole")]) == 0
    capsys.readouterr()
    assert metrics.read_text() == (tmp_path / "whole/metrics.jsonl").read_text()
    names = ("stopped", "whole")
    left, right = (json.loads((tmp_path / name / "evaluation.json").read_text()) for name in names)
    assert left["seeds"] == right["seeds"]


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    for command in (["list", "environments"], ["train", "--help"]):
        process = in_a_process(*command, stdout=write)
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    os.close(write)


def test_output_that_goes_nowhere() -> None:
    with Path("/dev/full").open("w") as full:
        process = in_a_process("list", "agents", stdout=full)
        assert process.communicate()[1].startswith("xlvin: the output could not be written (No space left")
    assert process.returncode == 1
    closed = f'"{sys.executable}" -m xlvin --version >&-'
    assert subprocess.run(closed, shell=True, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MemoryError(), 1, "xlvin: the memory does not suffice"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "xlvin: the memory does not suffice"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "xlvin: the memory does not suffice"),
        (
            PermissionError(13, "Permission denied", "mine"),
            2,
            "xlvin: mine could not be used (Permission denied)",
        ),
    ],
)
def test_what_the_machine_refuses_is_told_in_a_sentence(
    error: Exception,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(argv: list[str]) -> int:
        raise error

    monkeypatch.setattr("xlvin.commands.doctor.main", fail)
    assert main(["doctor"]) == code
    assert capsys.readouterr().err.startswith(told)


def test_errors_of_ours_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(argv: list[str]) -> int:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("xlvin.commands.doctor.main", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["doctor"])


def test_two_processes_cannot_write_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "train",
        "CartPole-v0",
        "--agent",
        "ppo",
        "--trajectories",
        "2",
        "--folder",
        str(tmp_path / "run"),
    ]
    with alone_in(tmp_path / "run"):
        assert main([*command, *SMALL]) == 2
        assert "in use by another process" in capsys.readouterr().err
        assert not list((tmp_path / "run").iterdir())
    assert main([*command, *SMALL]) == 0
    with alone_in(None), alone_in(None):
        pass


def test_an_environment_of_ones_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/walk.py").write_text(ENVIRONMENT_FILE)
    (tmp_path / "envs/helper.py").write_text("SIZE = 6\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["train", "envs/walk.py:OwnWalk-v0", "--agent", "ppo", "--trajectories", "2", *SMALL]) == 0
    told = capsys.readouterr().out
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("envs-walk.py-OwnWalk-v0-ppo-")
    assert f"runs/{folder.name}" in told
    assert main(["evaluate", str(folder), "--episodes", "1"]) == 0
    with contextlib.chdir(tmp_path / "envs"):  # the file's path does not lead to it from here
        assert main(["evaluate", str(folder), "--episodes", "1"]) == 0
    (tmp_path / "second_walk.py").write_text(ENVIRONMENT_FILE.replace("OwnWalk", "SecondWalk"))
    assert main(["train", "second_walk:SecondWalk-v0", "--agent", "ppo", "--trajectories", "1", *SMALL]) == 0
    capsys.readouterr()
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "unfinished.py").write_text("def f(:\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "script.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "third.py").write_text(ENVIRONMENT_FILE.replace("OwnWalk", "ThirdWalk"))
    for name, sentence in {
        "nowhere.py:OwnWalk-v0": "There is no file nowhere.py",
        "broken.py:OwnWalk-v1": "ZeroDivisionError('division by zero') (broken.py, line 2).",
        "unfinished.py:OwnWalk-v1": "SyntaxError: invalid syntax (unfinished.py, line 1).",
        "empty.py:OwnWalk-v1": "gymnasium.register",
        "third.py:ThirdWolk-v0": 'Did you mean "ThirdWalk-v0"',
        "empty:OwnWalk-v1": "gymnasium.register",
        "wolk:OwnWalk-v0": "wolk.py:OwnWalk-v0",
        "script.py:OwnWalk-v1": "SystemExit(0)",
        ":OwnWalk-v0": "names no environment",
        "empty.py:": "names no environment",
    }.items():
        assert main(["train", name]) == 2
        assert sentence in capsys.readouterr().err


def leaves(config: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Every field of a configuration: its option, its type and its value."""
    hints, found = get_type_hints(type(config)), []
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), prefix + field.name.replace("_", "-")
        nested = dataclasses.is_dataclass(value)
        found += leaves(value, f"{name}.") if nested else [(name, hints[field.name], value)]
    return found


def another(kind: Any, value: Any) -> tuple[list[str], Any] | None:
    """Words that set a field to another value, and that value; None if the type has no simple one."""
    if get_origin(kind) is Literal:
        other = next(choice for choice in get_args(kind) if choice != value)
        return [other], other
    if kind is float:
        other = 0.5 * value if value else 0.25
        return [str(other)], other
    if kind is int or (type(None) in get_args(kind) and int in get_args(kind)):
        return [str((value or 0) + 1)], (value or 0) + 1
    return (["other"], "other") if kind is str else None


def test_every_setting_can_be_set_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    chosen, _ = parser().parse_known_args(["CartPole-v0"])
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    told, tried = capsys.readouterr().out, 0
    decided = {"environment", "agent", "seeds", *(f"network.{name}" for name in DECIDED)}
    for name, kind, value in leaves(configuration(chosen, [])):
        last = name.rpartition(".")[2]
        if name in decided:
            assert f"--{name} " not in told.partition("Every field")[2], name
            continue
        assert f"--{name}" in told or f"--{name.removesuffix(last)}no-{last}" in told, name
        if kind is bool:
            words, expected = [f"--{name.removesuffix(last)}{'no-' if value else ''}{last}"], not value
        elif (pair := another(kind, value)) is not None:
            words, expected = [f"--{name}", *pair[0]], pair[1]
        else:
            continue
        try:
            config: Any = configuration(chosen, words)
        except XLVINError:  # understood, and refused for what it says
            continue
        for part in name.split("."):
            config = getattr(config, part.replace("-", "_"))
        assert config == expected, name
        tried += 1
    assert tried > 30


def test_what_the_environment_decides_cannot_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in {
        ("--network.actions", "7"): "decided by the environment",
        ("--network.image", "float32"): "decided by the environment",
        ("--network.discount", "0.5"): "decided by --ppo.discount",
        ("--environment", "Acrobot-v1"): "Name the environment once",
    }.items():
        assert main(["train", "CartPole-v0", *words]) == 2
        assert sentence in capsys.readouterr().err
    assert main(["train", "--seeds", "2"]) == 2
    assert "xlvin train CartPole-v0" in capsys.readouterr().err


def test_help_shows_the_settings_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "MountainCar-v0", "--help"])
    told = capsys.readouterr().out
    hidden = told.partition("--network.hidden")[2].partition("--network.depth")[0]
    assert "16" in hidden
    assert TrainConfig().network.hidden != 16


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["train", "CartPole-v0", "--trajectories", "abc"], "--trajectories: invalid int value"),
        (["train", "CartPole-v0", "--folder", ""], "--folder is empty"),
        (["sweep", "--seeds", "x"], "--seeds: invalid int value"),
        (["sweep", "--folder", ""], "--folder is empty"),
        (["pretrain", "grid", "--out"], "--out: expected one argument"),
    ],
)
def test_options_that_cannot_be_read_are_told_of_in_a_sentence(
    command: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
