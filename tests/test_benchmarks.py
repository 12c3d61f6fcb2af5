"""What the benchmarks share, and the page made of their records; nothing is timed here."""

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.report.records import read_all
from xlvin.report.speed_page import meets, speed_markdown

ROOT = Path(__file__).parent.parent
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "speed")


def loaded(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)  # dataclasses look there
        specification.loader.exec_module(module)
    return module


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = loaded("speed")
    monkeypatch.setitem(sys.modules, "speed", module)
    return module


def measured(speed: ModuleType) -> list:
    return [
        speed.Measured("Planning, K = 2", (3.0, 5.0, 4.0), "theirs / ours", bar=">= 3", detail="4 ms / 1 ms"),
        speed.Measured("Acting", (3.5,), "ours / theirs", bar="<= 3"),
        speed.Measured("Throughput", (12345.0,), unit="transitions/s"),
    ]


def options(speed: ModuleType, results: Path, *more: str) -> argparse.Namespace:
    found = speed.parser("A benchmark.").parse_args(["--results", str(results), *more])
    assert isinstance(found, argparse.Namespace)
    return found


def test_a_race_compares_round_by_round(speed: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([9.0, 9.0, 4.0, 2.0, 9.0, 3.0])  # the first round only warms up
    monkeypatch.setattr(speed, "cpu_seconds", lambda work: next(seconds))
    ratios, detail = speed.race(print, print, rounds=2)
    assert ratios == (2.0, 3.0)
    assert detail == "6.50 s / 2.50 s"
    seconds = iter([9.0, 9.0, 4.0, 2.0])
    assert speed.race(print, print, rounds=1, slower_is_more=True)[0] == (0.5,)


def test_rows_are_printed_or_given_as_json(
    speed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speed.report(measured(speed), options(speed, tmp_path), "planner")
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"Planning, K = 2 +4 x +>= 3 +theirs / ours 4 ms / 1 ms", lines[0])
    speed.report(measured(speed), options(speed, tmp_path, "--json"), "planner")
    rows = json.loads(capsys.readouterr().out)
    assert [row["value"] for row in rows] == [4.0, 3.5, 12345.0]
    assert not list(tmp_path.iterdir())


def test_kept_rows_become_records_and_the_page(
    speed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks/planner.py", "--json", "--keep", "--rounds", "3"])
    speed.report(measured(speed), options(speed, tmp_path / "results", "--keep"), "planner")
    records = read_all(tmp_path / "results", "speed")
    assert len(records) == 3
    (planning,) = (record for record in records if record.agent == "planning-k-2-x")
    assert planning.scores == [3.0, 5.0, 4.0]
    assert planning.command == "python benchmarks/planner.py --keep --rounds 3"
    assert planning.config["bar"] == ">= 3"
    page = tmp_path / "docs" / "speed.md"
    page.parent.mkdir()
    page.write_text("# Speed\n<!-- results -->\n<!-- /results -->\n")
    arguments = ["report", "--markdown", "--results", str(tmp_path / "results"), "--docs", str(page.parent)]
    assert main(arguments) == 0
    capsys.readouterr()
    text = page.read_text()
    assert speed_markdown(records) in text
    assert "| Planning, K = 2 | theirs / ours | **4** | 3: 3 to 5 | >= 3: met |" in text
    assert "| Acting | ours / theirs | **3.5** | 1 | <= 3: missed |" in text
    assert "| Throughput | - | **12,345** transitions/s | 1 |  |" in text


def test_bars_are_read() -> None:
    assert meets(3.0, ">= 3")
    assert not meets(2.9, ">= 3")
    assert meets(5.9, "<= 6")
    assert not meets(6.1, "<= 6")
    with pytest.raises(XLVINError, match='bar "about 3" cannot be read'):
        meets(3.0, "about 3")


def test_mazes_are_solved_while_their_values_are_timed(
    speed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    mazes = loaded("mazes")
    calls: list[int] = []

    def race(other: Callable[[], object], ours: Callable[[], object], rounds: int) -> tuple:
        other()
        before = len(calls)
        ours()
        return (float(len(calls) - before),), ""

    solve = mazes.distances
    monkeypatch.setattr("xlvin.mdp.mazes.distances", lambda *given: calls.append(1) or solve(*given))
    monkeypatch.setattr(mazes, "distances", lambda *given: calls.append(1) or solve(*given))
    monkeypatch.setattr(mazes, "race", race)
    solved = {row.what.partition(": ")[2]: row.value for row in mazes.measure(60, 8, 1)}
    assert solved == {
        "50 steps": 0.0,
        "50 steps with images": 0.0,
        "distances to the goal": 1.0,
        "optimal values": 1.0,
    }


def test_every_benchmark_can_be_kept() -> None:
    for name in BENCHMARKS:
        text = (ROOT / "benchmarks" / f"{name}.py").read_text()
        assert re.search(rf'report\(.*"{name}"', text), name
    kept = {record.version for record in read_all(ROOT / "results", "speed")}
    assert {"planner", "training"} <= kept <= set(BENCHMARKS)


def test_the_page_shows_the_committed_records() -> None:
    assert speed_markdown(read_all(ROOT / "results", "speed")) in (ROOT / "docs" / "speed.md").read_text()
