"""`xlvin report` from the outside: the page and the Markdown of whatever records there are."""

import json
from pathlib import Path

import pytest

from xlvin.cli import main
from xlvin.commands.reproduce import EXPERIMENTS
from xlvin.report.paper import EXHIBITS
from xlvin.report.records import Record, write

from ..browser import PROGRAM, browser


def record(experiment: str, agent: str = "ppo", version: str = "tuned") -> Record:
    return Record(
        experiment=experiment,
        version=version,
        environment="CartPole-v0",
        agent=agent,
        seeds=[{"seed": seed, "score": 100.0 + seed} for seed in range(8)],
        config={},
        command=f"xlvin reproduce {experiment} --only {agent}",
        versions={"torch": "2.0"},
        machine={"cpu": "a processor", "cores": 4, "gpu": None},
        seconds=7200.0,
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for agent in ("ppo", "xlvin-r"):
        write(record("table1", agent), folder)
    write(record("home-made"), folder)
    write(record("bottleneck"), folder)
    (folder / "notes").mkdir()
    return folder


def test_the_page_has_every_exhibit_and_every_record(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    assert main(["report", "--results", str(results), "--output", str(path)]) == 0
    told = capsys.readouterr().out
    assert "3 experiments with records" in told
    text = path.read_text()
    for exhibit in EXHIBITS:
        assert f'id="{exhibit.experiment}"' in text
        state = f"<code>xlvin reproduce {exhibit.experiment}</code> makes them"
        without = exhibit.experiment not in ("table1", "bottleneck")
        assert (state in text) == (without and exhibit.experiment in EXPERIMENTS)
        assert (exhibit.experiment in told) == without
    assert 'id="home-made"' in text
    assert "104.6 ± 48.5" in text  # the paper's, beside
    assert "103.5 ± 2.4" in text  # ours
    assert "<code>xlvin reproduce table1 --only xlvin-r</code>" in text
    assert "a processor, 4 cores" in text
    assert text.count("data:image/png;base64,") == 1  # table 1's figure
    assert "are missing in" in text  # the bottleneck has too few records, and says so


def test_markdown_stands_alone_or_between_marks(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    (docs / "experiments").mkdir(parents=True)
    (docs / "experiments" / "table1.md").write_text("# Table 1")
    command = ["report", "--markdown", "--results", str(results), "--docs", str(docs)]
    assert main(command) == 0
    page = docs / "results.md"
    text = page.read_text()
    assert (
        "[Control from a handful of trajectories](experiments/table1.md) | Table 1 | 2 records, 8 seeds each"
        in text
    )
    assert "| home-made | not in it | 1 record, 8 seeds each |" in text
    assert "| Algorithmic bottleneck | tuned | 1 | 1 | 8 | 2.00 | a processor, 4 cores |" in text
    page.write_text("# Ours\n\nBy hand.\n\n<!-- results -->\nold\n<!-- /results -->\n\nThe end.\n")
    assert main(command) == 0
    text = page.read_text()
    assert text.startswith("# Ours\n\nBy hand.")
    assert text.endswith("The end.\n")
    assert "old" not in text
    assert "8 seeds each" in text
    capsys.readouterr()


def test_programs_are_told_the_counts(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    assert main(["report", "--markdown", "--results", str(results), "--output", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(path)
    assert {name: count for name, count in told["records"].items() if count} == {
        "table1": 2,
        "bottleneck": 1,
        "home-made": 1,
    }


def test_a_missing_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(tmp_path / "none"), "--output", str(tmp_path / "page.html")]) == 2
    assert "say with --results" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.skipif(PROGRAM is None, reason="left out: the pages in a browser, as no Chromium is installed")
def test_the_page_opens_without_network_or_complaint(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    main(["report", "--results", str(results), "--output", str(path)])
    with browser(tmp_path / "profile") as tab:
        tab.open(path)
        assert tab.text("h1") == "Results beside the paper's"
        theme = tab.ask("document.documentElement.dataset.theme")
        tab.click("#theme")
        assert tab.ask("document.documentElement.dataset.theme") != theme
        assert tab.ask("document.querySelector('img').naturalWidth") > 500
        tab.resize(480, 900)
        assert tab.ask("document.documentElement.scrollWidth") <= 480
        assert tab.complaints == []
        assert tab.requests == []
    capsys.readouterr()
