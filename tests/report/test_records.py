import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xlvin.errors import XLVINError
from xlvin.provenance import provenance
from xlvin.report.records import Record, add, read, read_all, write


def record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "experiment": "table1",
        "version": "paper",
        "environment": "CartPole-v0",
        "agent": "xlvin-r",
        "seeds": [{"seed": 0, "score": 195.0, "steps": 7}, {"seed": 1, "score": 200}],
        "config": {"depth": 2},
        "command": "xlvin reproduce table1",
        "seconds": 1.5,
        **provenance(),
    }
    return Record(**(fields | changes))


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    path = write(record(), tmp_path)
    assert path == tmp_path / "table1" / "paper" / "CartPole-v0" / "xlvin-r.json"
    assert read(path) == record()
    assert read(path).scores == [195.0, 200.0]
    assert list(path.parent.iterdir()) == [path]  # no temporary file is left
    assert sum('"score"' in line for line in path.read_text().splitlines()) == 2  # one line per seed


def test_a_slash_in_a_name_makes_no_folder(tmp_path: Path) -> None:
    path = write(record(environment="ALE/Freeway-v5"), tmp_path)
    assert path == tmp_path / "table1" / "paper" / "ALE-Freeway-v5" / "xlvin-r.json"
    assert read(path).environment == "ALE/Freeway-v5"


def test_what_does_not_fit_json_leaves_the_old_record_alone(tmp_path: Path) -> None:
    path = write(record(), tmp_path)
    for bad in ({"depth": {1, 2}}, {"depth": float("nan")}):
        with pytest.raises(XLVINError, match="does not fit JSON"):
            write(record(config=bad), tmp_path)
    assert read(path) == record()
    assert list(path.parent.iterdir()) == [path]


def test_seeds_that_a_new_record_lacks_are_kept_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(record(), tmp_path)
    write(record(command="again"), tmp_path)
    assert list(path.parent.iterdir()) == [path], "the same seeds replace each other"
    for seed in (7, 8):
        add(record(config={"depth": seed}, seeds=[{"seed": seed, "score": 1.0}]), tmp_path)
    assert [entry["seed"] for entry in read(path).seeds] == [8]
    first, second = (path.with_name(f"xlvin-r.json.replaced-{number}") for number in (1, 2))
    assert read(first) == record(command="again")
    assert [entry["seed"] for entry in read(second).seeds] == [7]
    assert read_all(tmp_path, "table1") == [read(path)]
    assert f"what {path} held before is kept as {first.name}" in capsys.readouterr().err
    path.write_text("{")
    write(record(), tmp_path)
    assert path.with_name("xlvin-r.json.replaced-3").read_text() == "{"


def test_seeds_join_a_record_of_the_same_settings(tmp_path: Path) -> None:
    path = write(record(), tmp_path)
    add(record(seeds=[{"seed": 1, "score": 3.0}, {"seed": 2, "score": 4.0}], seconds=5.0), tmp_path)
    assert read(path).scores == [195.0, 3.0, 4.0]
    assert read(path).seconds == 5.8, "half of 1.5 went with seed 1"
    add(read(path), tmp_path)
    assert read(path).seconds == 5.8


def test_a_seed_made_elsewhere_says_where(tmp_path: Path) -> None:
    path = write(record(), tmp_path)
    other = {"cpu": "other", "cores": 1, "gpu": None}
    add(record(seeds=[{"seed": 2, "score": 4.0}], machine=other), tmp_path)
    found = read(path)
    assert found.machine == record().machine
    assert found.seeds[:2] == record().seeds
    assert found.seeds[2] == {"seed": 2, "score": 4.0, "machine": other}
    add(record(seeds=[{"seed": seed, "score": 1.0} for seed in range(3)], machine=other), tmp_path)
    assert read(path).machine == other, "nothing of the first is left"
    assert not any("machine" in entry for entry in read(path).seeds)


def test_read_all_takes_one_experiment(tmp_path: Path) -> None:
    write(record(agent="ppo"), tmp_path)
    write(record(agent="atreec"), tmp_path)
    write(record(experiment="bottleneck"), tmp_path)
    assert [found.agent for found in read_all(tmp_path, "table1")] == ["atreec", "ppo"]
    with pytest.raises(XLVINError, match="run `xlvin reproduce figure3` first"):
        read_all(tmp_path, "figure3")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"agent": "../ppo"}, "letters, digits"),
        ({"environment": ""}, "letters, digits"),
        ({"version": None}, "letters, digits"),
        ({"seeds": []}, "at least one"),
        ({"seeds": {}}, "at least one"),
        ({"seeds": [{"score": 1.0}]}, "integer under 'seed'"),
        ({"seeds": [{"seed": True, "score": 1.0}]}, "integer under 'seed'"),
        ({"seeds": [{"seed": 0}]}, "Seed 0 .* finite number"),
        ({"seeds": [{"seed": 3, "score": float("nan")}]}, "Seed 3 .* finite number"),
        ({"seeds": [{"seed": 3, "score": "high"}]}, "Seed 3 .* finite number"),
        ({"seeds": [{"seed": 3, "score": 1.0}, {"seed": 3, "score": 2.0}]}, "a seed twice"),
        ({"config": None}, "give a dict"),
        ({"command": 7}, "give a str"),
        ({"seconds": float("inf")}, "give a number"),
    ],
)
def test_bad_records_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(XLVINError, match=sentence):
        record(**changes)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = write(record(), tmp_path)
    content = json.loads(path.read_text())
    for text, sentence in {
        "{": "is not JSON",
        "[]": "it lacks agent, command",
        json.dumps({k: v for k, v in content.items() if k != "machine"}): "it lacks machine; delete",
        json.dumps(content | {"score": 1}): "it has an unknown score; delete",
        json.dumps(content | {"seeds": []}): "at least one",
        "[" * 100_000: "is not JSON",
        "\xff": "is not JSON",
    }.items():
        path.write_text(text, encoding="latin-1")
        with pytest.raises(XLVINError, match=sentence) as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_provenance_names_versions_and_machine() -> None:
    found = provenance()
    assert set(found["versions"]) == {"python", "torch", "numpy", "gymnasium", "xlvin"}
    assert found["versions"]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert set(found["machine"]) == {"cpu", "cores", "gpu"}
    assert found["machine"]["cpu"]


def test_the_room_runs_without_torch() -> None:
    code = (
        "import importlib, pkgutil, sys, xlvin.report as room; "
        "[importlib.import_module(f'xlvin.report.{m.name}') for m in pkgutil.iter_modules(room.__path__)]; "
        "import xlvin.provenance; xlvin.provenance.provenance(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
