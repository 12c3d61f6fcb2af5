"""Table 2 from trajectories to figure, and the bars that its committed records meet."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from xlvin.cli import main
from xlvin.envs.environment import Shapes
from xlvin.errors import XLVINError
from xlvin.experiments import table2
from xlvin.experiments.abstract_runs import AbstractConfig, collect, learn, run, units
from xlvin.experiments.workers import Effort
from xlvin.latent.abstraction import SYSTEMS
from xlvin.planner.abstract import PlanConfig
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, read_all, write

RESULTS = Path(__file__).parents[2] / "results"
SMALL = AbstractConfig(
    "prae-1", 2, latent=6, hidden=4, epochs=2, plan=PlanConfig(states=16), evaluation_episodes=2
)


@pytest.fixture(autouse=True)
def two_seeds_make_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)


def record(version: str, agent: str, scores: list[float], experiment: str = "table2") -> Record:
    seeds = [{"seed": seed, "score": score} for seed, score in enumerate(scores)]
    return Record(
        experiment, version, "CartPole-v0", agent, seeds, {}, "command", **provenance(), seconds=1.0
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(record("100-trajectories", "prae-5", [100.0, 120.0]), tmp_path)
    write(record("100-trajectories", "wm-ae", [90.0, 90.0]), tmp_path)
    write(record("10-trajectories", "prae-5", [50.0, 60.0]), tmp_path)
    write(record("tuned", "ppo", [150.0, 130.0], "table1"), tmp_path)
    return tmp_path


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_learns_plans_and_acts(system: str) -> None:
    returns, steps = run(replace(SMALL, system=system), [3, 4])
    assert returns.shape == (2, 2)
    assert (returns >= 8).all()
    assert all(count >= 16 for count in steps)


def test_a_seed_does_not_depend_on_its_company() -> None:
    together, _ = run(SMALL, [3, 4])
    alone, _ = run(SMALL, [4])
    assert np.array_equal(together[1], alone[0])


def test_learning_reconstructs() -> None:
    config = replace(SMALL, system="ld-ae", learning_rate=1e-2)
    data, shapes = collect(config, [0])
    here = data.pool[0, data.state[0]]
    errors = []
    for epochs in (1, 60):
        (model,) = learn(replace(config, epochs=epochs), [0], data, shapes)
        error = model.decoder(model(here)) - model.standardise(here)
        errors.append(float(error.detach().square().mean()))
    assert errors[1] < 0.5 * errors[0]


def test_units_of_observations() -> None:
    shapes = Shapes((2,), (2,), "float32", 2, ((1.0, 5.0), (float("-inf"), float("inf"))))
    seen, weight = torch.tensor([[1.0, 2.0], [3.0, 2.0], [9.0, 9.0]]), torch.tensor([1.0, 1.0, 0.0])
    found = {
        inputs: [part.tolist() for part in units(replace(SMALL, inputs=inputs), shapes, seen, weight)]
        for inputs in ("raw", "bounds", "standard")
    }
    assert found["raw"] == [[0.0, 0.0], [1.0, 1.0]]
    assert found["bounds"] == [[3.0, 0.0], [2.0, 1.0]]
    assert found["standard"] == [[2.0, 2.0], [pytest.approx(2.0**0.5), 1.0]]


def test_epochs_and_minibatches_follow_the_data() -> None:
    assert (AbstractConfig("prae-5", 100).rows, AbstractConfig("prae-5", 100).updates) == (1024, 300)
    assert (AbstractConfig("prae-5", 10).rows, AbstractConfig("prae-5", 10).updates) == (220, 100)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(XLVINError, match='Did you mean "prae-5"'):
        AbstractConfig("prae5", 10)
    with pytest.raises(XLVINError, match="at least 1"):
        AbstractConfig("prae-5", 0)


def test_jobs_cover_systems_and_budgets() -> None:
    names = {job.name for job in table2.jobs(Effort())}
    assert len(names) == len(table2.AGENTS) * len(table2.BUDGETS)
    chosen = table2.jobs(Effort(only=("10-trajectories/CartPole-v0/dmdp-h",), seeds=3))
    assert [(job.agent, job.trajectories, job.seeds) for job in chosen] == [("dmdp-h", 10, (0, 1, 2))]


def test_a_run_keeps_records_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        table2.Job, "_abstract", lambda job: replace(SMALL, system=job.agent, trajectories=job.trajectories)
    )
    effort = Effort(only=("10-trajectories/CartPole-v0/prae-1", "10-trajectories/CartPole-v0/rein"), seeds=2)
    table2.run(tmp_path, replace(effort, workers=1))
    kept = {found.agent: found for found in read_all(tmp_path, "table2")}
    assert kept.keys() == {"reinforce", "prae-1"}
    assert kept["reinforce"].config["ppo"]["value_coef"] == 0.0
    assert kept["prae-1"].config["plan"]["states"] == 16
    assert all([entry["seed"] for entry in found.seeds] == [0, 1] for found in kept.values())
    capsys.readouterr()
    table2.run(tmp_path, replace(effort, workers=1))
    assert capsys.readouterr().err == ""


def test_a_record_from_before_a_setting_existed_is_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        table2.Job, "__call__", lambda job: [{"seed": seed, "score": 9.0} for seed in job.seeds]
    )
    for agent, newer in (("reinforce", "samples"), ("prae-1", "temperature")):
        only = Effort(only=(f"10-trajectories/CartPole-v0/{agent}",), workers=1, seeds=3)
        (job,) = table2.jobs(only)
        old = job.config
        del old["network" if agent == "reinforce" else "plan"][newer]
        write(replace(record(job.version, agent, [1.0, 2.0]), config=old), tmp_path)
        table2.run(tmp_path, replace(only, seeds=2))
        table2.run(tmp_path, only)
        found = next(kept for kept in read_all(tmp_path, "table2") if kept.agent == agent)
        assert found.config == old
        assert [entry["seed"] for entry in found.seeds] == [0, 1, 2]
    assert not list(tmp_path.rglob("*.replaced-*"))


def test_rows_and_summary_stand_beside_the_other_experiments(results: Path) -> None:
    assert [(row["trajectories"], row["experiment"], row["agent"]) for row in table2.rows(results)] == [
        (100, "table2", "wm-ae"),
        (100, "table2", "prae-5"),
        (10, "table2", "prae-5"),
        (10, "table1", "ppo"),
    ]
    lines = table2.summary(results).splitlines()
    assert any(line.startswith("| prae-5 | 171.5 ± 34.2 | 110.0 ± 14.1") for line in lines)
    assert any(line.startswith("| ppo |  |  | 104.6 ± 48.5 | 140.0 ± 14.1") for line in lines)
    first, second = table2.comparisons(results)
    assert (first["trajectories"], first["prae-5 minus"], first["difference"]) == (100, "wm-ae", 20.0)
    assert (second["trajectories"], second["prae-5 minus"], second["difference"]) == (10, "ppo", -85.0)


def test_the_command_works_from_records(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "table2", "--from-records", "--json"]
    assert main([*arguments, "--results", str(results), "--docs", str(tmp_path / "docs")]) == 0
    assert json.loads(capsys.readouterr().out) == table2.rows(results)
    assert (tmp_path / "docs" / "figures" / "table2.png").read_bytes().startswith(b"\x89PNG")


def test_the_committed_records_meet_the_bars() -> None:
    found = {(kept.version, kept.agent): kept for kept in read_all(RESULTS, "table2")}
    assert len(found) == len(table2.AGENTS) * len(table2.BUDGETS)
    assert all([entry["seed"] for entry in kept.seeds] == list(range(20)) for kept in found.values())
    assert all(table2._done(RESULTS, job) for job in table2.jobs(Effort()))
    for agent, (mean, spread) in table2.PAPER[100].items():
        bar = mean if agent == table2.BEST else mean - spread
        assert sum(found["100-trajectories", agent].scores) / 20 >= bar, agent


def test_the_page_shows_the_committed_records() -> None:
    page = (RESULTS.parent / "docs" / "experiments" / "table2.md").read_text()
    own = [line for line in table2.summary(RESULTS).splitlines() if line.startswith("| prae-5")]
    assert own
    assert all(line in page for line in own)
