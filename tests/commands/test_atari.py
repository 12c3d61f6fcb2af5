"""Atari from the command line: train, evaluate, and what is refused."""

import json
from pathlib import Path

import pytest

from xlvin.cli import main

SMALL = [
    "--budget.per-round",
    "8",
    "--budget.environments",
    "2",
    "--network.latent",
    "8",
    "--ppo.epochs",
    "1",
]


def test_any_game_trains_and_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlvin.envs.atari.LONGEST_GAME", 12)
    folder = str(tmp_path / "run")
    arguments = ["train", "ALE/Pong-v5", "--transitions", "32", "--folder", folder, *SMALL]
    assert main([*arguments, "--evaluation-episodes", "2"]) == 0
    told = capsys.readouterr()
    assert "xlvin-r on ALE/Pong-v5" in told.out
    assert "No GPU is used: 32 transitions will take about" in told.err
    assert main(["evaluate", folder, "--episodes", "2", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["environment"] == "ALE/Pong-v5"
    assert row["episodes"] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ALE/Pong-v5", "--trajectories", "5"], "--transitions"),
        (["ALE/Pongg-v5"], 'Did you mean "ALE/Pong-v5"?'),
    ],
)
def test_what_is_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *arguments]) == 2
    assert told in capsys.readouterr().err
