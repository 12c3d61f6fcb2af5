"""`xlvin pretrain` and `xlvin executor` from the outside."""

import json
from pathlib import Path

import pytest

from xlvin.cli import main
from xlvin.executor.artefact import load_executor, load_provenance

SMALL = [
    *("--iterations", "6", "--batch", "3", "--pool", "4", "--states", "5", "--actions", "3"),
    *("--validations", "2", "--validation-count", "3", "--executor.width", "8"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_pretrain_writes_an_executor_that_loads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "grid", *SMALL]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["grid.json", "grid.safetensors"]
    assert load_executor("grid.safetensors").config.width == 8
    assert load_provenance("grid.safetensors")["sha256"] in capsys.readouterr().out


def test_pretrain_replaces_nothing_unless_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = b"of last night"
    (folder / "grid.safetensors").write_bytes(before)
    assert main(["pretrain", "grid", *SMALL]) == 2
    assert "another --out, or replace it by --overwrite" in capsys.readouterr().err
    assert (folder / "grid.safetensors").read_bytes() == before
    assert main(["pretrain", "grid", *SMALL, "--overwrite"]) == 0
    assert load_executor("grid.safetensors").config.width == 8


def test_pretrain_twice_gives_the_same_files(folder: Path) -> None:
    for out in ("a/x.safetensors", "b/x.safetensors"):
        assert main(["pretrain", "random-deterministic", *SMALL, "--out", out]) == 0
    for name in ("x.safetensors", "x.json"):
        assert (folder / "a" / name).read_bytes() == (folder / "b" / name).read_bytes()


def test_evaluate_prints_cells_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "executor",
                "evaluate",
                "--families",
                "grid",
                "dense",
                "--sizes",
                "6x2",
                "--count",
                "3",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [(cell["family"], cell["states"], cell["actions"]) for cell in found] == [
        ("grid", 6, 2),
        ("dense", 6, 2),
    ]
    assert all(cell["policy_accuracy"] > 0.9 and cell["value_error"] < 0.1 for cell in found)
    assert {"one_step_error", "copy_policy_accuracy", "reward_one_step_error"} <= found[0].keys()


def test_evaluate_prints_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["executor", "evaluate", "--families", "grid", "cartpole-tree", "--sizes", "20x8", "--count", "1"]
        )
        == 0
    )
    text = capsys.readouterr().out
    for expected in ("20x8", "2047x2", "copy: V_t", "other deterministic (1)"):
        assert expected in text


BAD = {
    "unknown family": ["pretrain", "random-determinstic"],
    "no family": ["pretrain", "--seed", "3"],
    "zero states": ["pretrain", "random-deterministic", "--states", "0"],
    "wrong number of actions": ["pretrain", "cartpole-tree", "--actions", "3"],
    "discount of one": ["pretrain", "random-deterministic", "--discount", "1.0"],
    "no weight file's name": ["pretrain", "random-deterministic", "--out", "weights.pt"],
    "unknown executor": ["executor", "evaluate", "nobody"],
    "foreign file": ["executor", "evaluate", "notes.txt"],
    "damaged weights": ["executor", "evaluate", "bad.safetensors"],
    "unknown family to evaluate": ["executor", "evaluate", "--families", "grdi"],
    "no size": ["executor", "evaluate", "--sizes", "20"],
    "size beyond memory": ["executor", "evaluate", "--sizes", "100000x100000"],
    "size of zero": ["executor", "evaluate", "--sizes", "0x8"],
    "no MDPs": ["executor", "evaluate", "--count", "0"],
    "evaluation without convergence": ["executor", "evaluate", "--discount", "1"],
    "unknown verb": ["executor", "improve"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    Path("notes.txt").write_text("a note")
    Path("bad.safetensors").write_bytes(b"no weights")
    Path("bad.json").write_text('{"format": 1, "sha256": "0"}')
    before = sorted(path.name for path in folder.iterdir())
    assert main(BAD[name]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("xlvin: ")
    assert told.err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_folder_is_no_weight_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "taken.safetensors").mkdir()
    assert main(["pretrain", "random-deterministic", *SMALL, "--out", "taken.safetensors"]) == 2
    assert "cannot be written" in capsys.readouterr().err
