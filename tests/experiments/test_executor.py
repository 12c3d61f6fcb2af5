"""The executor's experiment, shrunk: records, tables and figure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_provenance
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.traces import TracedMDPs
from xlvin.experiments import executor
from xlvin.mdp.families import FAMILIES
from xlvin.report.executor_tables import by_size, means
from xlvin.report.records import read_all


def serial(
    function: Callable[[Any], Any], jobs: Sequence[Any], workers: int | None = None
) -> Iterator[tuple[Any, Any]]:
    """Jobs in this process, where the shrunken constants are."""
    return ((job, function(job)) for job in jobs)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny = replace(
        executor.ABLATION_BASE,
        iterations=3,
        batch=2,
        pool=2,
        validation_count=2,
        executor=ExecutorConfig(width=4),
    )
    monkeypatch.setattr(executor, "ABLATIONS", {"max-relu": tiny, "even": replace(tiny, skew=1.0)})
    monkeypatch.setattr(executor, "ABLATION_SEEDS", (0, 1))
    monkeypatch.setattr(executor, "ABLATION_CELLS", [("grid", (5, 2))])
    monkeypatch.setattr(executor, "SIZES", ((20, 8), (5, 2)))
    monkeypatch.setattr(
        executor, "FAMILIES", {name: FAMILIES[name] for name in ("random-deterministic", "dense")}
    )
    monkeypatch.setattr(executor, "COUNT", 2)
    monkeypatch.setattr(executor, "run_jobs", serial)
    return tmp_path / "results"


def test_run_writes_records_that_the_report_reads(results: Path) -> None:
    executor.run(results)
    rows = executor.rows(results)
    assert [(row["version"], row["environment"], row["agent"]) for row in rows] == [
        ("shipped", "random-deterministic", "random-deterministic"),
        ("shipped", "random-deterministic", "cartpole-tree"),
        ("shipped", "dense", "random-deterministic"),
        ("shipped", "dense", "cartpole-tree"),
        ("ablation", "random-deterministic", "max-relu"),
        ("ablation", "random-deterministic", "even"),
    ]
    assert [row["seeds"] for row in rows] == [1, 1, 1, 1, 2, 2]
    first = rows[0]["cells"]
    assert [(cell["states"], cell["actions"]) for cell in first] == [(20, 8), (5, 2)]
    assert rows[0]["mean"] == pytest.approx(sum(cell["policy_accuracy"] for cell in first) / 2)
    text = executor.summary(results)
    for expected in (
        "`cartpole-tree`",
        "| dense |",
        "stochastic (1)",
        "even",
        "random-deterministic-lowered 20x8",
    ):
        assert expected in text
    executor.figure(results, results / "figure.png")
    assert (results / "figure.png").stat().st_size > 10_000


def test_missing_records_are_named(results: Path) -> None:
    executor.run(results)
    (results / "executor" / "ablation" / "random-deterministic" / "even.json").unlink()
    with pytest.raises(XLVINError, match="ablation/random-deterministic/even"):
        executor.summary(results)


@pytest.mark.parametrize(("seed", "seen"), [(0, 0), (1, 100), (2, 0)])
def test_the_page_says_which_seed_has_seen_graphs_of_the_lowered_column(
    seed: int, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[TracedMDPs] = []
    monkeypatch.setattr(executor, "measure", lambda network, traced, sweeps: measured.append(traced) or {})
    executor._with_negative_values(Executor())
    base = executor.ABLATION_BASE
    pretrained = base.trace(base.pool, torch.Generator().manual_seed(seed)).mdp.successor
    shared = [bool((pretrained == graph).flatten(1).all(1).any()) for graph in measured[0].mdp.successor]
    assert sum(shared) == seen


def cell(
    family: str, deterministic: bool, accuracy: float, error: float | None, states: int = 20
) -> dict[str, Any]:
    measures = {"policy_accuracy": accuracy, "value_error": error, "one_step_error": 0.5}
    measures["action_accuracy"] = accuracy
    trivial = {f"{who}{name}": 1.0 for who in ("copy_", "reward_") for name in measures}
    return (
        {"family": family, "states": states, "actions": 8, "deterministic": deterministic}
        | measures
        | trivial
    )


def test_tables_are_hand_checked() -> None:
    found = [
        cell("random-deterministic", True, 1.0, 0.01),
        cell("grid", True, 0.8, 0.1),
        cell("line", True, 0.9, None),
        cell("dense", False, 0.7, 2.0),
        cell("tall", True, 0.5, 1.0, states=99),
    ]
    wide, tall = by_size(found, "policy_accuracy")
    assert wide[1] == {"family": "grid", "20x8": "80.00"}
    assert tall == [{"family": "tall", "99x8": "50.00"}]
    assert by_size(found, "value_error")[0][2] == {"family": "line", "20x8": "diverged"}
    other = means(found)[3]
    assert other["families"] == "other deterministic (2)"
    assert other["predictor"] == "executor"
    assert (other["policy accuracy"], other["value error"]) == ("85.00", "diverged")
    assert (other["single actions"], means(found)[4]["single actions"]) == ("85.00", "")


def test_published_records_are_those_of_the_shipped_weights() -> None:
    records = read_all(Path(__file__).parents[2] / "results", executor.NAME)
    shipped = [record for record in records if record.version == "shipped"]
    assert {record.agent for record in shipped} == set(executor.EXECUTORS)
    for record in shipped:
        assert record.config["executor_sha256"] == load_provenance(record.agent)["sha256"], record.environment
