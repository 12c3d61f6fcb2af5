"""The imagination experiment's bookkeeping, and the bars that its committed records meet."""

from dataclasses import replace
from pathlib import Path

import pytest

from xlvin.experiments import imagination
from xlvin.experiments.control import Cell, Outcome, keep, resolved, run_cell
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import read_all
from xlvin.training.config import Budget
from xlvin.training.presets import CONTROL, preset

RESULTS = Path(__file__).parents[2] / "results"
# Mean return at the paper's data.
BARS = {"CartPole-v0": 199.5, "Acrobot-v1": -88.0, "MountainCar-v0": -120.0}


@pytest.fixture(autouse=True)
def two_seeds_make_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)


def tiny(version: str, agent: str, seeds: int = 2) -> Cell:
    config = preset("CartPole-v0", agent)
    config = replace(config, budget=Budget(total=2, per_round=2), ppo=replace(config.ppo, epochs=1))
    return Cell(version, replace(config, seeds=seeds, evaluation_episodes=2))


def test_every_cell_has_its_seeds() -> None:
    found: dict[str, list[int]] = {}
    for cell in imagination.cells(Effort(seeds=6)):
        found.setdefault(cell.name, []).extend(cell.config.seed_list)
    count = len(CONTROL) * (len(imagination.AGENTS) + 1)
    assert len(found) == count + len(imagination.ABLATED) * len(imagination.ABLATIONS)
    assert all(sorted(seeds) == list(range(6)) for seeds in found.values())


def test_less_data_is_less_data() -> None:
    for cell in imagination.cells(Effort(only=(imagination.FEW,), seeds=1)):
        full = preset(cell.config.environment, imagination.AGENT).budget
        assert cell.config.budget.total == imagination.FRACTION[cell.config.environment] < full.total
        assert cell.config.budget.rounds >= 1


def test_an_ablation_changes_what_its_name_says() -> None:
    for name, fields in imagination.ABLATIONS.items():
        whole, part = preset("CartPole-v0", imagination.AGENT), imagination.ablated("CartPole-v0", name)
        changed = {
            key
            for key in vars(whole.imagination)
            if getattr(whole.imagination, key) != getattr(part.imagination, key)
        }
        assert changed <= fields.keys()
        assert replace(part, imagination=whole.imagination) == whole


def test_rows_summary_headline_and_figure_come_from_records(tmp_path: Path) -> None:
    for version, agent in (
        (imagination.FULL, "xlvin-imagine"),
        (imagination.FULL, "ppo-imagine"),
        (imagination.FEW, "xlvin-imagine"),
    ):
        cell = tiny(version, agent)
        keep(tmp_path, imagination.NAME, cell, run_cell(cell))
    rows = imagination.rows(tmp_path)
    assert [(row["version"], row["agent"]) for row in rows] == [
        (imagination.FULL, "xlvin-imagine"),
        (imagination.FULL, "ppo-imagine"),
        (imagination.FEW, "xlvin-imagine"),
    ]
    (pair,) = imagination.comparisons(tmp_path)
    assert pair["xlvin-imagine minus"] == "ppo-imagine"
    assert pair["difference"] == pytest.approx(rows[0]["mean"] - rows[1]["mean"])
    summary = imagination.summary(tmp_path)
    assert "3 of 10" in summary
    assert f"{rows[0]['mean']:.1f}" in summary
    assert f"{rows[0]['mean']:.1f}" in imagination.headline(tmp_path)
    imagination.figure(tmp_path, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_pretraining_is_paired_with_the_same_agent_without_it(tmp_path: Path) -> None:
    scores = {"xlvin-imagine": 1.0, "xlvin-aligned-imagine": 50.0, "xlvin-aligned-untrained-imagine": 20.0}
    for agent, score in scores.items():
        cell = tiny(imagination.FULL, agent)
        seeds = [{"seed": seed, "score": score + seed} for seed in cell.config.seed_list]
        keep(tmp_path, imagination.NAME, cell, Outcome(seeds, resolved(cell.config), 1.0))
    (pair,) = imagination.pretraining(tmp_path)
    assert (pair["pretrained"], pair["minus"]) == ("xlvin-aligned-imagine", "xlvin-aligned-untrained-imagine")
    assert (pair["seeds"], pair["difference"], pair["low"], pair["high"]) == (2, 30.0, 30.0, 30.0)
    assert "What the executor's pretraining earns" in imagination.summary(tmp_path)


def test_the_committed_records_meet_the_bars() -> None:
    found = {
        record.environment: record
        for record in read_all(RESULTS, imagination.NAME)
        if (record.version, record.agent) == (imagination.FULL, imagination.AGENT)
    }
    for environment, bar in BARS.items():
        scores = found[environment].scores
        assert sum(scores) / len(scores) >= bar, environment
