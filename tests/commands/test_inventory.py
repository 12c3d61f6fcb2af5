"""`xlvin list`, `xlvin doctor` and `xlvin completion`."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import gymnasium
import pytest

from xlvin.agents.registry import AGENTS
from xlvin.cli import COMMANDS, main
from xlvin.commands import doctor
from xlvin.commands.list import KINDS
from xlvin.commands.reproduce import EXPERIMENTS
from xlvin.executor.artefact import SHIPPED

ROOT = Path(__file__).parents[2]


def test_everything_with_a_name_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == list(KINDS)
    assert [row["agent"] for row in found["agents"]] == list(AGENTS)
    assert {row["environment"] for row in found["environments"]} >= set(gymnasium.registry)
    assert [row["executor"] for row in found["executors"]] == list(SHIPPED)
    assert [row["experiment"] for row in found["experiments"]] == list(EXPERIMENTS)
    assert all(row["what"] for row in found["experiments"])
    assert {row["preset"] for row in found["presets"]} == {"paper", "tuned"}


def test_lists_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(f"{kind}\n\n" in told for kind in KINDS)
    assert "CartPole-v0" in told
    assert "FrozenLake-v1" in told
    assert "CliffWalking-v1" not in told
    assert main(["list", "environments"]) == 0
    settings = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if "-v" in line)
    assert settings["FrozenLake-v1"] == "tuned"
    assert settings["CliffWalking-v1"] == "general"
    assert main(["list", "envs"]) == 2
    assert "choose one of: agents, environments" in capsys.readouterr().err


def test_the_doctor_names_versions_and_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["executors"].values()) == {"intact"}
    assert found["parts"]["export"]["present"]
    # One optional part that no machine has:
    monkeypatch.setitem(doctor.PARTS, "dreams", ("dreaming", ("no_such_module_here",)))
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "pip install 'xlvin[dreams]'" in told
    assert f"torch {found['versions']['torch']}" in told
    monkeypatch.setattr(doctor, "SHIPPED", ("stolen",))
    assert main(["doctor"]) == 1
    assert "no executor" in capsys.readouterr().out


def test_the_doctor_knows_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(doctor.PARTS) == set(extras) - {"dev", "docs"}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "xlvin.bash"
    with pytest.MonkeyPatch.context() as patch, path.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert main(["completion", "bash"]) == 0
    return path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("xlvin tr", {"train"}),
        ("xlvin ", set(COMMANDS)),
        ("xlvin train Cart", {"CartPole-v0"}),
        ("xlvin train CartPole-v0 --agent xlvin-c", {"xlvin-cp"}),
        ("xlvin train CartPole-v0 --ppo.learn", {"--ppo.learning-rate"}),
        ("xlvin list ex", {"executors", "experiments"}),
        ("xlvin evaluate --ep", {"--episodes"}),
    ],
)
def test_bash_completes(script: Path, line: str, expected: set[str]) -> None:
    words = line.split(" ")
    asked = f'source {script}; COMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words) - 1}; _xlvin; '
    told = subprocess.run(
        ["bash", "-c", asked + 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    assert set(told.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    told = capsys.readouterr().out
    assert "bashcompinit" in told if shell == "zsh" else "-l ppo.learning-rate" in told
    if shutil.which(shell):
        (tmp_path / "script").write_text(told)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
    assert main(["completion", "bahs"]) == 2
    assert 'Did you mean "bash"' in capsys.readouterr().err
