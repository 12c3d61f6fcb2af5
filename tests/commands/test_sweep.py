"""`xlvin sweep` from the outside: output, settings by name, exit codes."""

import json
from pathlib import Path

import pytest

from xlvin.cli import main
from xlvin.commands.sweep import plan

from ..environments import CORRIDOR, CRASH

SMALL = ["--ppo.epochs", "1", "--evaluation-episodes", "2", "--network.hidden", "8", "--network.latent", "6"]
SMALL += ["--trajectories", "4", "--workers", "1"]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(["sweep", *arguments])
    except SystemExit as stop:  # the parsers' way out
        code = int(stop.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_product_of_all_that_is_named() -> None:
    words = "--environments CartPole-v0 Acrobot-v1 --agents xlvin-cp xlvin-r --seeds 4 --first-seed 7 "
    words += (
        "--set ppo.learning-rate=1e-3,3e-4 network.beam=None,2 --set ppo.anneal=true,false --ppo.clip 0.3"
    )
    cells, chosen = plan(words.split())
    assert len(cells) == 2 * 2 * 2 * 2 * 2
    assert len({cell.name for cell in cells}) == len(cells)
    assert chosen.ray is None
    for cell in cells:
        assert cell.config.seed_list == (7, 8, 9, 10)
        assert cell.config.ppo.clip == 0.3
        assert cell.settings == {
            "ppo.learning_rate": cell.config.ppo.learning_rate,
            "network.beam": cell.config.network.beam,
            "ppo.anneal": cell.config.ppo.anneal,
        }
    assert cells[0].name == "CartPole-v0/xlvin-cp/ppo.learning_rate=0.001/network.beam=None/ppo.anneal=True"
    assert plan(["--environments", "CartPole-v0"])[0][0].config.agent == "xlvin-imagine"
    assert plan(["--environments", "CartPole-v0", "--ray"])[1].ray == "local"
    assert plan(["--ray", "auto", "--environments", "CartPole-v0"])[1].ray == "auto"


def test_a_table_for_people_and_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "--environments",
        CORRIDOR,
        "--agents",
        "ppo",
        "--seeds",
        "2",
        "--folder",
        str(tmp_path),
        *SMALL,
    ]
    command += ["--set", "ppo.learning_rate=1e-3,1e-2"]
    code, told, progress = call(capsys, *command)
    assert code == 0
    header, _, *lines = told.split("\n\n")[0].splitlines()
    assert (
        " ".join(header.split())
        == "environment agent ppo.learning_rate mean std iqm low high seeds interval_of"
    )
    assert [line.split()[2] for line in lines] == ["0.001", "0.01"]
    assert "4/4" in progress
    code, told, progress = call(capsys, *command, "--json")
    assert (code, progress) == (0, "")
    result = json.loads(told)
    assert result["rows"] == json.loads((tmp_path / "sweep.json").read_text())["rows"]
    assert f"{result['rows'][0]['mean']:.4g}" in lines[0].split()


def test_a_failed_run_exits_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--environments", CRASH, CORRIDOR, "--agents", "ppo", "--folder", str(tmp_path), *SMALL]
    code, told, error = call(capsys, *command, "--budget.per-round", "1")
    assert code == 1
    assert CORRIDOR in told
    assert "failed: xlvin-tests-Crash-v0/ppo/seed-0: " in error
    assert "ZeroDivisionError" in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--agents ppo", "--environments CartPole-v0"),
        ("--environments CartPoole-v0", "Did you mean CartPole-v0"),
        ("--environments CartPole-v0 CartPole-v0", "twice"),
        ("--environments CartPole-v0 --agents ppo ppoo", 'Did you mean "ppo"'),
        ("--environments CartPole-v0 --agent ppo", "--agents"),
        ("--environments CartPole-v0 --set ppo.lerning_rate=1", 'Did you mean "ppo.learning_rate"'),
        ("--environments CartPole-v0 --set ppo.learning_rate", "VALUE,VALUE"),
        ("--environments CartPole-v0 --set ppo.learning_rate=1e-3,nan", "finite"),
        ("--environments CartPole-v0 --set ppo.anneal=perhaps", "true or false"),
        ("--environments CartPole-v0 --set seeds=1,2", "use --seeds"),
        ("--environments CartPole-v0 --set network.actions=2,3", "decided by the environment"),
        ("--environments CartPole-v0 --seeds 0", "at least 1"),
        ("--environments CartPole-v0 --workers 0", "at least 1"),
        ("--environments CartPole-v0 --ppo.lerning-rate 1", "lerning-rate"),
    ],
)
def test_bad_input_exits_with_two_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = call(capsys, *words.split())
    assert (code, out) == (2, "")
    assert told in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())
