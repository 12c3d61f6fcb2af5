import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xlvin.errors import XLVINError
from xlvin.report.records import Record, provenance, read, read_all, write


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
        "import sys; import xlvin.report.tables, xlvin.report.pages; "
        "from xlvin.report.records import provenance; provenance(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
