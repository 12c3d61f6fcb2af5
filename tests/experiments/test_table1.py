"""Table 1's bookkeeping: what is run, what is kept, what is shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from xlvin.agents.registry import VALUE_BASED
from xlvin.executor.artefact import load_provenance
from xlvin.experiments import control, imagination, table1
from xlvin.experiments.control import Cell, keep, known, made, resolved, run_cell, split
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import read, write
from xlvin.training.config import Budget
from xlvin.training.presets import preset


@pytest.fixture(autouse=True)
def two_seeds_make_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)


def tiny(agent: str = "ppo", first_seed: int = 0, seeds: int = 2) -> Cell:
    config = preset("CartPole-v0", agent)
    config = replace(config, budget=Budget(total=2, per_round=2), ppo=replace(config.ppo, epochs=1))
    return Cell("tuned", replace(config, first_seed=first_seed, seeds=seeds, evaluation_episodes=2))


def test_every_version_environment_and_agent_has_its_seeds() -> None:
    found: dict[str, list[int]] = {}
    for cell in table1.cells(Effort()):
        found.setdefault(cell.name, []).extend(cell.config.seed_list)
    assert len(found) == 2 * 4 * 5 + 4 * len(VALUE_BASED), "value tails in the tuned version only"
    assert all(sorted(seeds) == list(range(table1.SEEDS)) for seeds in found.values())


def test_only_chooses_by_name() -> None:
    names = {cell.name for cell in table1.cells(Effort(only=("tuned/CartPole-v0/ppo",)))}
    assert names == {"tuned/CartPole-v0/ppo"}


def test_fewer_seeds_can_be_asked_for() -> None:
    cells = table1.cells(Effort(only=("tuned/LunarLander-v3/ppo", "tuned/CartPole-v0/ppo"), seeds=3))
    assert [cell.config.seed_list for cell in cells] == [(0, 1), (2,), (0, 1, 2)]


def test_a_split_cell_keeps_all_seeds() -> None:
    parts = split(tiny(seeds=5), 2)
    assert [part.config.seed_list for part in parts] == [(0, 1), (2, 3), (4,)]


def test_outcomes_of_the_same_settings_share_a_record(tmp_path: Path) -> None:
    for first in (0, 2):
        cell = tiny(first_seed=first)
        keep(tmp_path, table1.NAME, cell, run_cell(cell))
    path = tmp_path / "table1" / "tuned" / "CartPole-v0" / "ppo.json"
    record = read(path)
    assert [entry["seed"] for entry in record.seeds] == [0, 1, 2, 3]
    assert all(entry["steps"] > 0 and entry["score"] > 0 for entry in record.seeds)
    other = replace(tiny(), config=replace(tiny().config, evaluation_episodes=3))
    keep(tmp_path, table1.NAME, other, run_cell(other))
    assert [entry["seed"] for entry in read(path).seeds] == [0, 1], "other settings start a new record"
    assert read(path.with_name("ppo.json.replaced-1")) == record, "and none is lost"


def test_what_is_in_the_records_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = tiny()
    monkeypatch.setattr(table1, "cells", lambda effort: [cell])
    table1.run(tmp_path, Effort(workers=1))
    before = read(tmp_path / "table1" / "tuned" / "CartPole-v0" / "ppo.json")
    monkeypatch.setattr(
        control, "run_jobs", lambda function, jobs, workers: iter([(job, 1 / 0) for job in jobs])
    )
    table1.run(tmp_path, Effort(workers=1))
    assert read(tmp_path / "table1" / "tuned" / "CartPole-v0" / "ppo.json") == before


def test_another_executor_makes_another_record(tmp_path: Path) -> None:
    cell, digest = tiny("xlvin-r"), load_provenance("random-deterministic")["sha256"]
    keep(tmp_path, table1.NAME, cell, run_cell(cell))
    record = read(tmp_path / "table1" / "tuned" / "CartPole-v0" / "xlvin-r.json")
    assert record.config["executor_sha256"] == digest
    assert known(tmp_path, table1.NAME, cell) == record
    without = {name: value for name, value in record.config.items() if name != "executor_sha256"}
    for config, counts in ((without, True), (record.config | {"executor_sha256": "other"}, False)):
        write(replace(record, config=config), tmp_path)
        assert (known(tmp_path, table1.NAME, cell) is not None) == counts
    assert "executor_sha256" not in resolved(tiny("xlvin-untrained").config) | resolved(tiny().config)


def test_a_record_does_not_keep_what_older_ones_lack(tmp_path: Path) -> None:
    cell = tiny()
    keep(tmp_path, table1.NAME, cell, run_cell(cell))
    record = read(tmp_path / "table1" / "tuned" / "CartPole-v0" / "ppo.json")
    assert "image" not in record.config["network"]
    numbers = replace(cell.config, network=replace(cell.config.network, image="float32"))
    assert made(numbers, record.config), "the environment decides"


def test_rows_summary_and_figure_come_from_records(tmp_path: Path) -> None:
    for agent in ("ppo", "xlvin-r"):
        cell = tiny(agent)
        keep(tmp_path, table1.NAME, cell, run_cell(cell))
    rows = table1.rows(tmp_path)
    assert [row["agent"] for row in rows] == ["ppo", "xlvin-r"]
    keys = {"version", "environment", "agent", "mean", "std", "iqm", "low", "high", "seeds"}
    assert all(keys <= row.keys() and row["seeds"] == 2 for row in rows)
    (pair,) = table1.comparisons(tmp_path)
    assert pair["xlvin-r minus"] == "ppo"
    assert pair["difference"] == pytest.approx(rows[1]["mean"] - rows[0]["mean"])
    summary = table1.summary(tmp_path)
    assert "199.2 ± 1.6" in summary, "the paper's number stands beside ours"
    assert f"{rows[0]['mean']:.1f} ± {rows[0]['std']:.1f}" in summary
    table1.figure(tmp_path, tmp_path / "table1.png")
    assert (tmp_path / "table1.png").read_bytes().startswith(b"\x89PNG")


def test_the_default_agent_stands_in_the_tuned_version(tmp_path: Path) -> None:
    assert table1.BESIDE == (imagination.NAME, imagination.FULL, imagination.AGENT)
    cell = tiny()
    keep(tmp_path, table1.NAME, cell, run_cell(cell))
    own = read(tmp_path / "table1" / "tuned" / "CartPole-v0" / "ppo.json")
    other = replace(own, experiment=imagination.NAME, version="less-data", agent=imagination.AGENT)
    write(other, tmp_path)
    assert [row["agent"] for row in table1.rows(tmp_path)] == ["ppo"], "from other data it does not compare"
    write(replace(other, version=imagination.FULL), tmp_path)
    found = [(row["version"], row["agent"]) for row in table1.rows(tmp_path)]
    assert found == [("tuned", "ppo"), ("tuned", imagination.AGENT)]
