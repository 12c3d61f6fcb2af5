"""`xlvin evaluate` and `xlvin show`: elsewhere than in training, and of a run that is not at its end."""

import json
from pathlib import Path

import pytest

from xlvin.cli import main

from ..environments import CRASH

SMALL = ["--ppo.epochs", "1", "--evaluation-episodes", "3", "--network.hidden", "8", "--network.latent", "6"]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_run_is_evaluated_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    command = ["train", "CartPole-v0", "--agent", "ppo", "--trajectories", "2", "--folder", folder, *SMALL]
    code, told, _ = call(capsys, *command)
    assert code == 0
    assert "+-" not in told, "one seed has no deviation"
    elsewhere = ["evaluate", folder, "--episodes", "2", "--environment"]
    code, told, _ = call(capsys, *elsewhere, "CartPole-v1")
    assert code == 0
    assert told.startswith("ppo on CartPole-v1 (trained on CartPole-v0): ")
    found = json.loads(call(capsys, *elsewhere, "CartPole-v1", "--json")[1])
    assert (found["environment"], found["trained_on"]) == ("CartPole-v1", "CartPole-v0")
    assert found["std"] is None
    code, _, error = call(capsys, *elsewhere, "Acrobot-v1")
    assert code == 2
    assert "Acrobot-v1 has observations (6,) and 3 actions, the agent was trained with (4,) and 2" in error


def test_an_unfinished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "train", CRASH, "--trajectories", "20", "--folder", str(tmp_path), *SMALL)[0] == 1
    for command in (["evaluate", str(tmp_path), "--episodes", "2"], ["show", str(tmp_path), "--steps", "1"]):
        code, told, _ = call(capsys, *command)  # two good rounds were kept
        assert code == 0
        assert "after round 2 of 4, unfinished: " in told
        found = json.loads(call(capsys, *command, "--json")[1])
        assert (found["round"], found["rounds"]) == (2, 4)
    assert "after round 2 of 4, unfinished" in (tmp_path / "show.html").read_text()


def test_a_damaged_checkpoint_says_what_to_remove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "CartPole-v0", "--agent", "ppo", "--trajectories", "2", "--folder", str(tmp_path)]
    assert call(capsys, *command, *SMALL)[0] == 0
    (tmp_path / "checkpoint.safetensors").write_bytes(b"torn")
    for again in (["evaluate", str(tmp_path)], ["show", str(tmp_path)], [*command, *SMALL]):
        code, _, error = call(capsys, *again)
        assert code == 2
        assert f"remove the folder {tmp_path} and train anew" in error
