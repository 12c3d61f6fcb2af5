"""The experiment on continuous actions: its cells, its records, its tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from xlvin.experiments import continuous
from xlvin.experiments.control import Cell, keep, known, run_cell, run_cells
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import read_all
from xlvin.training.config import Budget
from xlvin.training.presets import CONTINUOUS, preset

RESULTS = Path(__file__).parents[2] / "results"
# Mean return at the full data.
BARS = {"Pendulum-v1": -250.0, "MountainCarContinuous-v0": 90.0}


@pytest.fixture(autouse=True)
def two_seeds_make_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)


def tiny(agent: str, version: str = continuous.FULL) -> Cell:
    config = preset("Pendulum-v1", agent)
    config = replace(config, budget=Budget(total=1, per_round=1), ppo=replace(config.ppo, epochs=1))
    network = replace(config.network, hidden=8, latent=6)
    return Cell(version, replace(config, network=network, seeds=2, first_seed=3, evaluation_episodes=2))


def test_every_cell_has_its_seeds() -> None:
    found: dict[str, list[int]] = {}
    for cell in continuous.cells(Effort(seeds=6)):
        found.setdefault(cell.name, []).extend(cell.config.seed_list)
    assert len(found) == (len(CONTINUOUS) + len(continuous.FRACTION)) * len(continuous.AGENTS)
    assert all(sorted(seeds) == list(range(6)) for seeds in found.values())
    only = continuous.cells(Effort(only=("tuned/Pendulum-v1/ppo-gaussian",)))
    assert [len(cell.config.seed_list) for cell in only] == [continuous.SEEDS]


def test_agents_that_imagine_keep_their_setting_with_less_data() -> None:
    for environment, trajectories in continuous.FRACTION.items():
        for agent in continuous.AGENTS:
            full, few = (
                continuous.configuration(version, environment, agent)
                for version in (continuous.FULL, continuous.FEW)
            )
            assert few.budget == replace(full.budget, total=trajectories)
            tuned_anew = agent in continuous.FEW_SETTINGS[environment]
            assert (few.ppo != full.ppo) == tuned_anew
            assert "imagine" not in agent or not tuned_anew


def test_records_become_tables_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [tiny(agent) for agent in ("xlvin-imagine", "ppo-gaussian")]
    for cell in cells:
        keep(tmp_path, continuous.NAME, cell, run_cell(cell))
    rows = continuous.rows(tmp_path)
    assert [(row["agent"], row["seeds"]) for row in rows] == [("xlvin-imagine", 2), ("ppo-gaussian", 2)]
    (pair,) = continuous.comparisons(tmp_path)
    assert pair["difference"] == pytest.approx(rows[0]["mean"] - rows[1]["mean"], rel=1e-3)
    told = continuous.summary(tmp_path)
    assert f"{rows[0]['mean']:.1f}" in told
    assert "MountainCar" not in told
    assert "Pendulum-v1, 100" in told
    assert "Pendulum-v1, 30" not in told
    few = tiny("ppo-gaussian", continuous.FEW)
    keep(tmp_path, continuous.NAME, few, run_cell(few))
    assert "Pendulum-v1, 30" in continuous.summary(tmp_path)
    assert len(continuous.comparisons(tmp_path)) == 1  # never across amounts of data
    continuous.figure(tmp_path, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[1:4] == b"PNG"
    # What is kept is not trained again: bins and bounds that the environment decides do not matter.
    monkeypatch.setattr("xlvin.experiments.control.run_cell", lambda cell: pytest.fail("trained again"))
    run_cells(tmp_path, continuous.NAME, cells, 1)


def test_other_bins_are_another_record(tmp_path: Path) -> None:
    cell = tiny("ppo")
    keep(tmp_path, continuous.NAME, cell, run_cell(cell))

    def is_known(bins: tuple[int, ...]) -> bool:
        network = replace(cell.config.network, bins=bins)
        asked = replace(cell, config=replace(cell.config, network=network))
        return known(tmp_path, continuous.NAME, asked) is not None

    assert is_known(())
    assert is_known((11,)), "what the environment would choose by itself"
    assert not is_known((5,))


@pytest.mark.parametrize("agent", ["ppo", "ppo-gaussian"])
def test_records_made_with_the_bins_of_the_environment_are_known(agent: str) -> None:
    cell = Cell(continuous.FULL, continuous.configuration(continuous.FULL, "Pendulum-v1", agent))
    assert known(RESULTS, continuous.NAME, cell) is not None


def recorded(version: str, environment: str, agent: str) -> dict[int, float]:
    """Scores by seed."""
    wanted = (version, environment, agent)
    return {
        int(entry["seed"]): float(entry["score"])
        for record in read_all(RESULTS, continuous.NAME)
        if (record.version, record.environment, record.agent) == wanted
        for entry in record.seeds
    }


@pytest.mark.parametrize("environment", BARS)
@pytest.mark.parametrize("agent", continuous.AGENTS)
def test_every_agent_meets_the_bar_with_all_data(environment: str, agent: str) -> None:
    scores = recorded(continuous.FULL, environment, agent)
    assert sum(scores.values()) / len(scores) >= BARS[environment]


def test_imagination_beats_the_gaussian_on_pendulum_with_less_data() -> None:
    ours, theirs = (
        recorded(continuous.FEW, "Pendulum-v1", agent) for agent in ("xlvin-imagine", "ppo-gaussian")
    )
    shared = ours.keys() & theirs.keys()
    assert sum(ours[seed] - theirs[seed] for seed in shared) > 0.0
