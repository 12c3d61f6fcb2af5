"""Depth and width from cell to page, on small trees; and what the committed records must show."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.experiments import depth_width
from xlvin.experiments.control import Cell as ControlCell
from xlvin.experiments.control import Outcome, keep, resolved
from xlvin.experiments.depth_cost import REFERENCE, CostCell, time_plans
from xlvin.experiments.depth_width import BEAM, BedCell, measure
from xlvin.experiments.planning_bed import BedConfig
from xlvin.experiments.workers import Effort
from xlvin.report.records import Record, read_all, write

REPOSITORY = Path(__file__).parent.parent.parent
TINY = BedConfig(
    states=12, actions=3, observation=3, latent=4, hidden=5, steps=4, label_steps=3, seeds=3, first_seed=5
)


def test_trees_are_left_out_where_they_do_not_fit_or_are_the_same() -> None:
    for cell in depth_width.bed_cells(Effort()):
        assert isinstance(cell, BedCell)
        if cell.beam is None:
            assert cell.config.actions**cell.depth <= depth_width.MOST_LEAVES["bed"]
        else:
            assert cell.config.actions ** (cell.depth - 1) > BEAM
    names = {cell.name for cell in depth_width.bed_cells(Effort())}
    assert "bed-depth-10/actions-2/full" in names
    assert "bed-depth-10/actions-18/beam-8" in names
    assert not any(name.startswith("bed-depth-4/actions-18/full") for name in names)


def test_every_depth_is_played_in_every_environment() -> None:
    cells = depth_width.control_cells(Effort(seeds=2))
    assert {cell.config.seeds for cell in cells} == {1}
    for environment in depth_width.CONTROL:
        own = [cell for cell in cells if cell.config.environment == environment]
        assert {cell.config.network.depth for cell in own} == set(depth_width.CONTROL_DEPTHS)
        assert {seed for cell in own for seed in cell.config.seed_list} == {0, 1}
        deepest = [cell for cell in own if cell.config.network.depth == 10]
        assert {cell.config.network.beam for cell in deepest} == {BEAM}


@pytest.mark.parametrize("learning", [False, True])
def test_every_depth_is_timed_in_every_round(learning: bool) -> None:
    cell, threads = CostCell(18, 2, None, learning, rounds=2), torch.get_num_threads()
    entries = time_plans(cell)
    assert cell.depths == (1, 2, 3)
    assert [entry["seed"] for entry in entries] == [0, 1]
    for entry in entries:
        assert len(entry["ms"]) == 3
        assert min(entry["ms"]) > 0.0
        reference = entry["ms"][cell.depths.index(REFERENCE)]
        assert entry["score"] == pytest.approx(entry["ms"][-1] / reference, rel=0.01)
    assert torch.get_num_threads() == threads


def test_a_beam_is_trained_as_the_full_tree_is() -> None:
    full, wide, narrow = (measure(BedCell(3, beam, TINY)) for beam in (None, 27, 1))
    assert full.scores == wide.scores
    assert [entry["seed"] for entry in full.seeds] == [5, 6, 7]
    assert (narrow.version, narrow.environment, narrow.agent) == ("bed-depth-3", "actions-3", "beam-1")
    assert narrow.config["beam"] == 1
    assert narrow.command == "xlvin reproduce depth-width --only bed-depth-3/actions-3/beam-1"


def test_a_run_keeps_every_cell_and_does_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        depth_width, "_solve", lambda cell: [{"seed": seed, "score": 0.5} for seed in cell.config.seed_list]
    )
    entry = {"seed": 0, "score": 2.0, "ms": [1.0] * 10}
    monkeypatch.setattr(depth_width, "time_plans", lambda cell: [entry])
    effort = Effort(only=("cost-acting/actions-2-batch-1/beam-8", "bed-depth-1/actions-2/"), workers=1)
    depth_width.run(tmp_path, effort)
    told = capsys.readouterr().err
    assert "1/1 cost-acting/actions-2-batch-1/beam-8: 2 in" in told
    assert "1/1 bed-depth-1/actions-2/full: 0.5 in" in told
    for fewer in (None, 2):
        depth_width.run(tmp_path, replace(effort, seeds=fewer))
        assert capsys.readouterr().err == ""
    depth_width.run(tmp_path, replace(effort, seeds=25))
    assert "1/1 bed-depth-1/actions-2/full: 0.5 in" in capsys.readouterr().err
    found = {record.agent: len(record.seeds) for record in read_all(tmp_path, "depth-width")}
    assert found == {"beam-8": 1, "full": 25}


def test_the_bed_goes_where_it_is_told() -> None:
    cells = depth_width.bed_cells(Effort(device="cuda", seeds=2))
    assert {(cell.device, cell.config.seed_list) for cell in cells if isinstance(cell, BedCell)} == {
        ("cuda", (0, 1))
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Made-up records: time and accuracy rise with K, and a beam costs a point."""
    folder = tmp_path / "results"

    def add(name: str, seeds: list[dict], config: dict) -> None:
        version, environment, agent = name.split("/")
        write(
            Record("depth-width", version, environment, agent, seeds, config, "made up", {}, {}, 0.0), folder
        )

    for learning, batch, beam in ((False, 1, 8), (False, 32, 8), (True, 32, None)):
        cell = CostCell(18, batch, beam, learning)
        rounds = [{"seed": n, "score": 5.0, "ms": [n + k for k in cell.depths]} for n in range(3)]
        add(
            cell.name,
            rounds,
            {"actions": 18, "batch": batch, "learning": learning, "depths": [*cell.depths]},
        )
    for depth, beam in ((1, None), (3, None), (3, 8), (10, 8)):
        cell = BedCell(depth, beam, replace(TINY, actions=4))
        base = 0.1 * depth - (0.01 if beam else 0.0)
        order = (7, 2, 1, 0) if depth == 10 else (0, 1, 2)
        seeds = [{"seed": n, "score": base - 0.02 * n} for n in order]
        add(cell.name, seeds, {"actions": 4, "depth": depth})
    for cell in depth_width.control_cells(Effort(only=("depth-10",), seeds=2)):
        scores = [{"seed": seed, "score": 100.0 + seed} for seed in cell.config.seed_list]
        assert isinstance(cell, ControlCell)
        keep(folder, "depth-width", cell, Outcome(scores, resolved(cell.config), 1.0))
    return folder


def test_rows_come_from_the_records(results: Path) -> None:
    cost = depth_width.cost_rows(results)
    deepest = [row for row in cost if row["depth"] == 10 and row["batch"] == 1]
    assert [row["ms"] for row in deepest] == [11.0]
    assert deepest[0]["ratio"] == pytest.approx(11.0 / 3.0)  # the middle round
    assert {row["ratio"] for row in cost if row["depth"] == REFERENCE} == {1.0}
    assert [(row["depth"], row["width"]) for row in depth_width.bed_rows(results)] == [
        (1, "full"),
        (3, "full"),
        (3, "beam-8"),
        (10, "beam-8"),
    ]
    found = {(row["depth"], row["width"], row["minus"]): row for row in depth_width.comparisons(results)}
    assert found[3, "beam-8", "the full tree"]["difference"] == pytest.approx(-1.0)
    assert found[10, "beam-8", "depth 1"]["difference"] == pytest.approx(89.0)
    assert found[10, "beam-8", "depth 1"]["seeds"] == 3, "those that both have"
    assert (1, "full", "depth 1") not in found
    assert [row["mean"] for row in depth_width.control_rows(results)] == [100.5, 100.5]


def test_the_command_works_from_records(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "experiments" / "depth-width.md"
    page.parent.mkdir()
    page.write_text("# Page\n<!-- results -->\n<!-- /results -->\n")
    arguments = ["reproduce", "depth-width", "--from-records", "--results", str(results)]
    arguments += ["--docs", str(tmp_path)]
    assert main(arguments) == 0
    text = depth_width.summary(results)
    assert capsys.readouterr().out.startswith(text)
    assert page.read_text() == f"# Page\n<!-- results -->\n{text}\n<!-- /results -->\n"
    assert "| forward | 1 | beam-8 | 11.00 | 3.67 | yes |" in text
    assert "CartPole-v0 | beam-8 | 100.5 ± 0.7 |" in text
    assert "over 3 to 4 seeds" in text
    assert "| points | range |" in text
    assert (tmp_path / "figures" / "depth-width.png").read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == depth_width.rows(results)


def test_without_records_the_command_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(XLVINError, match="run `xlvin reproduce depth-width` first"):
        depth_width.summary(tmp_path)


def test_a_sparse_tree_of_one_state_meets_its_bar_in_the_committed_records() -> None:
    rows = depth_width.cost_rows(REPOSITORY / "results")
    deepest = [row for row in rows if (row["actions"], row["depth"], row["batch"]) == (18, 10, 1)]
    assert {(row["learning"], row["width"]) for row in deepest} == {
        (learning, f"beam-{beam}") for learning in (False, True) for beam in depth_width.BEAMS
    }
    assert all(row["ratio"] <= depth_width.BAR for row in deepest)


def test_depth_pays_on_the_bed_in_the_committed_records() -> None:
    found = {
        (row["actions"], row["depth"], row["width"], row["minus"]): row
        for row in depth_width.comparisons(REPOSITORY / "results")
    }
    assert found[4, 3, "full", "depth 1"]["low"] > 0.0
    assert found[4, 3, "beam-8", "depth 1"]["low"] > 0.0


def test_the_page_shows_the_committed_records() -> None:
    page = (REPOSITORY / "docs" / "experiments" / "depth-width.md").read_text()
    assert depth_width.summary(REPOSITORY / "results") in page
    bed = [r for r in read_all(REPOSITORY / "results", "depth-width") if r.version.startswith("bed-")]
    assert {len(record.seeds) for record in bed} == {24}
