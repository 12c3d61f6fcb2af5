"""Agents with a value tail, from the shell."""

import json
from pathlib import Path

import pytest

from xlvin.agents.registry import VALUE_BASED
from xlvin.cli import main

from ..environments import CORRIDOR

SMALL = [
    "--network.hidden",
    "8",
    "--network.latent",
    "6",
    "--values.updates",
    "3",
    "--evaluation-episodes",
    "2",
]


@pytest.mark.parametrize("agent", VALUE_BASED)
def test_train_again_evaluate_and_show(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    command = [
        "train",
        CORRIDOR,
        "--agent",
        agent,
        "--trajectories",
        "4",
        "--folder",
        folder,
        "--json",
        *SMALL,
    ]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert json.loads(first)["agent"] == agent
    written = (tmp_path / "run/checkpoint.safetensors").read_bytes()
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert (tmp_path / "run/checkpoint.safetensors").read_bytes() == written
    assert main(["evaluate", folder, "--episodes", "2"]) == 0
    assert main(["show", folder, "--steps", "2"]) == 0
    assert (tmp_path / "run/show.html").exists()
    losses = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])
    assert losses["q"] > 0.0


def test_the_paper_has_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", CORRIDOR, "--agent", "treeqn", "--preset", "paper"]) == 2
    assert "The paper has no treeqn" in capsys.readouterr().err
