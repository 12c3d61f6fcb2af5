"""The imitation experiment from run to page, and the numbers that the documentation shows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from xlvin.cli import main
from xlvin.experiments import imitation
from xlvin.experiments.imitation import AGENTS, TESTS, TRAINING, Cell
from xlvin.experiments.workers import Effort
from xlvin.planner.grid.vin import VIN
from xlvin.report.imitation_figure import STYLES
from xlvin.report.records import read, read_all

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few mazes and steps."""
    monkeypatch.setattr(imitation, "MAZES", dict.fromkeys((8, 16, 28), 8))
    monkeypatch.setattr(imitation, "TEST_MAZES", 4)
    for agent, config in TRAINING.items():
        monkeypatch.setitem(TRAINING, agent, replace(config, epochs=1, batch=8, cells=2))


@pytest.mark.usefixtures("tiny")
def test_cells_are_kept_one_by_one_and_not_done_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    effort = Effort(("mixed/8x8/vin", "mixed/8x8/cnn"), workers=1)
    imitation.run(tmp_path, replace(effort, seeds=1))
    assert "3/3" in capsys.readouterr().err  # vin, vin-torch and cnn
    imitation.run(tmp_path, replace(effort, seeds=2))
    assert "3/3" in capsys.readouterr().err
    imitation.run(tmp_path, replace(effort, seeds=2))
    assert capsys.readouterr().err == ""
    record = read(tmp_path / "imitation" / "mixed" / "8x8" / "vin.json")
    assert [entry["seed"] for entry in record.seeds] == [0, 1]
    for entry in record.seeds:
        assert entry["score"] == entry["plain_success"]
        for test in TESTS:
            assert 0.0 <= entry[f"{test}_optimal"] <= entry[f"{test}_success"] <= 100.0
    assert record.config["iterations"] == 20


@pytest.mark.usefixtures("tiny")
def test_the_command_runs_and_remakes_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "experiments" / "imitation.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Page\n<!-- results -->\n<!-- /results -->\n")
    folders = ["--results", str(tmp_path / "results"), "--docs", str(tmp_path / "docs")]
    only = ["--only", "mixed/8x8/gvin", "--seeds", "1", "--workers", "1"]
    assert main(["reproduce", "imitation", *only, *folders]) == 0
    text = imitation.summary(tmp_path / "results")
    assert capsys.readouterr().out.startswith(text)
    assert text in page.read_text()
    assert (tmp_path / "docs" / "figures" / "imitation.png").read_bytes().startswith(b"\x89PNG")
    assert main(["reproduce", "imitation", "--from-records", "--json", *folders]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["test"], row["environment"], row["agent"]) for row in rows] == [
        ("plain", "8x8", "gvin"),
        ("winding", "8x8", "gvin"),
    ]


def test_a_device_that_is_not_there_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "imitation", "--device", "nowhere", "--results", str(tmp_path)]
    assert main(command) == 2
    assert 'The device "nowhere" cannot be used' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_agent_has_settings_and_a_colour() -> None:
    assert set(AGENTS) == set(TRAINING) == set(STYLES)
    planner = Cell(16, "vin-torch", 0).planner()
    assert isinstance(planner, VIN)
    assert planner.iterations == 40
    assert planner.value_to_q.weight.abs().max() < 0.5  # no taps


def test_the_page_shows_the_committed_records() -> None:
    results = REPOSITORY / "results"
    assert imitation.summary(results) in (REPOSITORY / "docs" / "experiments" / "imitation.md").read_text()


def test_the_committed_records_support_what_the_page_says() -> None:
    entries = {
        (record.environment, record.agent): record.seeds
        for record in read_all(REPOSITORY / "results", "imitation")
    }
    taps, random = entries["8x8", "vin"], entries["8x8", "vin-torch"]
    assert len(taps) >= 3
    assert all(entry["score"] >= 99.0 and entry["cpu_seconds"] <= 300.0 for entry in taps)
    assert max(entry["winding_success"] for entry in random) < min(entry["winding_success"] for entry in taps)
