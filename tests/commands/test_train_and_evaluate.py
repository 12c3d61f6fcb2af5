"""`xlvin train` and `xlvin evaluate` from the outside: output, files, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from xlvin.cli import main
from xlvin.training.api import configure
from xlvin.training.config import Budget, TrainConfig
from xlvin.training.progress import training_progress

from ..environments import CORRIDOR, CRASH

SMALL = ["--ppo.epochs", "1", "--evaluation-episodes", "3", "--network.hidden", "8", "--network.latent", "6"]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # the parsers' way out
        code = int(stop.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_train_then_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    command = ["train", CORRIDOR, "--trajectories", "4", "--seeds", "2", "--folder", folder, *SMALL]
    code, out, _ = call(capsys, *command)
    assert code == 0
    assert out.startswith(f"xlvin-imagine on {CORRIDOR}: ")
    assert f"kept in {folder}" in out
    code, told, _ = call(capsys, *command, "--json")
    result = json.loads(told)
    assert (code, result["environment"], result["agent"], result["folder"]) == (
        0,
        CORRIDOR,
        "xlvin-imagine",
        folder,
    )
    assert [seed["seed"] for seed in result["seeds"]] == [0, 1]
    assert result["mean"] == pytest.approx(sum(seed["score"] for seed in result["seeds"]) / 2)
    assert f": {result['mean']:.4g} +- {result['std']:.4g}\n" in out
    code, told, _ = call(capsys, "evaluate", folder, "--episodes", "3", "--json")
    assert code == 0
    evaluated = json.loads(told)
    assert evaluated.items() >= result.items()
    assert evaluated["round"] == evaluated["rounds"]
    code, told, _ = call(capsys, "evaluate", folder, "--episodes", "1")
    assert code == 0
    assert "greedy, 1 fresh episode " in told
    assert "kept in" not in told, "nothing is kept"
    assert "unfinished" not in told


def test_the_default_folder_resumes_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        "train",
        "CartPole-v0",
        "--agent",
        "ppo",
        "--transitions",
        "60",
        "--budget.per-round",
        "10",
        *SMALL,
    ]
    assert call(capsys, *command)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("CartPole-v0-ppo-")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["steps"] <= 60
    assert call(capsys, *command)[0] == 0
    assert list((tmp_path / "runs").iterdir()) == [folder]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "CartPoole-v0"], "Did you mean CartPole-v0"),
        (["train", "CartPole-v0", "--agent", "ppoo"], 'Did you mean "ppo"'),
        (["train", "CartPole-v0", "--trajectories", "0"], "at least 1"),
        (["train", "CartPole-v0", "--trajectories", "5", "--transitions", "5"], "give one of them"),
        (["train", "CartPole-v0", "--trajectories", "3", "--budget.total", "7"], "set twice"),
        (["train", "CartPole-v0", "--imagination.last-iterations", "0"], "would not imagine"),
        (["train"], "Name the environment first"),
        (["sweep"], "Name environments"),
        (["train", "CartPole-v0", "--ppo.learning-rate", "nan"], "finite"),
        (["train", "CartPole-v0", "--ppo.learning-rate", "-1"], "positive"),
        (["train", "CartPole-v0", "--ppo.discount", "1.5"], "between 0 and 1"),
        (["train", "CartPole-v0", "--seeds", "0"], "at least 1"),
        (["train", "CartPole-v0", "--device", "abacus"], 'device "abacus"'),
        (["train", "CartPole-v0", "--network.executor", "none.safetensors"], "no executor"),
        (["train", "CartPole-v0", "--ppo.lerning-rate", "1"], "lerning-rate"),
        (["train", "CartPole-v0", "--seeds", "many"], "many"),
        (["train", "CartPole-v0", "--preset", "best"], "best"),
        (["train", "CartPole-v0", "--folder", "/dev/null/run"], "could not be written"),
        (["evaluate", "nowhere"], "holds no run"),
        (["evaluate", "."], "holds no run"),
        (["evaluate", "nowhere", "--episodes", "0"], "at least 1"),
        (["evaluate"], "RUN"),
        (["trian"], 'Did you mean "train"'),
    ],
)
def test_bad_input_exits_with_two_and_writes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = call(capsys, *arguments)
    assert code == 2
    assert told in error
    assert "Traceback" not in error
    assert not out
    assert not list(tmp_path.iterdir())


def test_a_failed_run_exits_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = call(capsys, "train", CRASH, "--trajectories", "20", "--folder", str(tmp_path), *SMALL)
    assert code == 1
    assert error.splitlines()[-1].startswith("xlvin: The training of seed 0 stopped in round 3")
    assert "ZeroDivisionError" in error
    assert call(capsys, "evaluate", str(tmp_path), "--episodes", "2")[0] == 0  # two good rounds were kept


def test_an_interrupted_run_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    command = ["train", CORRIDOR, "--folder", str(tmp_path), "--trajectories", "10", *SMALL]
    with monkeypatch.context() as first:
        first.setattr("xlvin.training.trainer.Trainer._learn", interrupt)
        code, _, error = call(capsys, *command)
    assert code == 130
    assert error.endswith("interrupted; no round was complete, and the same command starts anew.\n")
    monkeypatch.setattr("xlvin.training.run.evaluate", interrupt)
    code, _, error = call(capsys, *command)
    assert error.endswith(f"interrupted; 2 of 2 rounds kept in {tmp_path}, and the same command resumes.\n")
    assert code == 130
    monkeypatch.setattr("xlvin.commands.pretrain.main", interrupt)
    assert call(capsys, "pretrain") == (130, "", "xlvin: interrupted.\n")
    monkeypatch.setattr("xlvin.commands.sweep.run_sweep", interrupt)
    code, _, error = call(capsys, "sweep", "--environments", CORRIDOR)
    assert (code, error) == (130, "xlvin: interrupted; the same command resumes.\n")


def test_what_a_run_is_about_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        "xlvin.commands.train.configure", lambda *given: calls.append(given) or configure(*given)
    )
    command = ["train", CORRIDOR, "--agent", "ppo", "--folder", str(tmp_path), "--transitions", "10", *SMALL]
    _, _, error = call(capsys, *command, "--network.depth", "5", "--seeds", "2")
    note, first, last = error.splitlines()
    assert note == "--network.depth has no effect on ppo"
    told = "8 of 10 transitions (rounds of 8 x 1), 2 seeds"
    assert first == f"ppo on {CORRIDOR}, {told}, in {tmp_path}"
    assert last.endswith("evaluating")
    assert len(calls) == 1


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_help_exits_with_zero(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert f"xlvin {command}" in out


def test_progress_in_a_log_tells_round_return_and_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    monkeypatch.setattr("xlvin.training.progress.LINE_EVERY", -1.0)
    config = TrainConfig(budget=Budget(total=20, per_round=5))
    with training_progress(config) as show:
        assert show is not None
        show(2, 1, {"return": np.array([3.0, np.nan]), "steps": np.array([9, 9])})
        show(3, 1, {"return": np.array([np.nan, np.nan]), "steps": np.array([9, 9])})
    first, second = capsys.readouterr().err.strip().splitlines()
    assert first.startswith("round 3/4, return 3, ")
    assert second.startswith("round 4/4, no episode ended, ")
    assert second.endswith("s left")
    with training_progress(config, quiet=True) as show:
        assert show is None
