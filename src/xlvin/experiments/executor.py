"""The executor by itself: the paper's two on families of MDPs x sizes, and an ablation of its design."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor, load_provenance
from xlvin.executor.evaluation import SIZES, cells, evaluate_cell, finite, measure
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.pretrain import PretrainConfig, pretrain
from xlvin.executor.traces import TracedMDPs
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.mdp.families import FAMILIES, sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import value_iteration
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.executor_tables import by_size, means, shown, size
from xlvin.report.records import Record, read_all, write

NAME = "executor"
COUNT = 100  # MDPs per cell
EVALUATION_SEED = 1

# The shipped executors of the paper; the third one, of stochastic MDPs, is on the page "stochastic".
EXECUTORS = ("random-deterministic", "cartpole-tree")
ABLATION_SEEDS = (0, 1, 2)
# A third of the shipped executor's iterations: enough to rank designs.
ABLATION_BASE = PretrainConfig(iterations=4_000, validations=1)
ABLATIONS: dict[str, PretrainConfig] = {
    "max-relu": ABLATION_BASE,
    "max-identity": replace(ABLATION_BASE, executor=ExecutorConfig(activation="identity")),
    "sum-relu": replace(ABLATION_BASE, executor=ExecutorConfig(reduction="sum")),
    "sum-identity": replace(ABLATION_BASE, executor=ExecutorConfig(reduction="sum", activation="identity")),
    "mean-relu": replace(ABLATION_BASE, executor=ExecutorConfig(reduction="mean")),
    "mean-identity": replace(ABLATION_BASE, executor=ExecutorConfig(reduction="mean", activation="identity")),
    "max-relu-norm": replace(ABLATION_BASE, executor=ExecutorConfig(layer_norm=True)),
    "max-relu-two-steps": replace(ABLATION_BASE, executor=ExecutorConfig(steps=2)),
    "max-relu-from-zero": replace(ABLATION_BASE, level=0.0, spread=0.0),
    "max-relu-even-sweeps": replace(ABLATION_BASE, skew=1.0),
    "max-relu-usual-adam": replace(ABLATION_BASE, beta2=0.999),
    "max-relu-constant-rate": replace(ABLATION_BASE, schedule="constant"),
}
ABLATION_CELLS = [
    ("random-deterministic", (20, 8)),
    ("random-deterministic", (100, 20)),
    ("grid", (20, 8)),
    ("grid-stochastic", (20, 8)),
]


def run(results: Path, effort: Effort | None = None) -> None:
    """Measure the shipped executors, then pretrain and measure every ablation."""
    effort = effort or Effort()
    shipped = [(executor, family) for family in reversed(FAMILIES) for executor in EXECUTORS]
    shipped = [(name, family) for name, family in shipped if effort.wants(f"shipped/{family}/{name}")]
    for (executor, family), (rows, seconds) in run_jobs(_measure_shipped, shipped, effort.workers):
        described = load_provenance(executor)
        config = {"count": COUNT, "executor_sha256": described["sha256"], "pretraining": described["config"]}
        _write(results, "shipped", family, executor, [_entry(EVALUATION_SEED, rows)], config, seconds)
    trained: dict[str, list[dict[str, Any]]] = {}
    spent: dict[str, float] = {}
    wanted = [agent for agent in ABLATIONS if effort.wants(f"ablation/{ABLATION_BASE.family}/{agent}")]
    jobs = [(agent, seed) for agent in wanted for seed in ABLATION_SEEDS]
    for (agent, seed), (rows, seconds) in run_jobs(_measure_ablation, jobs, effort.workers):
        trained.setdefault(agent, []).append(_entry(seed, rows))
        spent[agent] = spent.get(agent, 0.0) + seconds
        if len(trained[agent]) == len(ABLATION_SEEDS):
            entries = sorted(trained[agent], key=lambda entry: int(entry["seed"]))
            config = {"count": COUNT, "pretraining": asdict(ABLATIONS[agent])}
            _write(results, "ablation", ABLATION_BASE.family, agent, entries, config, spent[agent])


def _measure_shipped(job: tuple[str, str]) -> tuple[list[dict[str, Any]], float]:
    """All cells of one family, and the seconds it took."""
    executor, family = job
    started = time.perf_counter()
    network = load_executor(executor)
    found = [
        evaluate_cell(network, *cell, COUNT, seed=EVALUATION_SEED).row() for cell in cells([family], SIZES)
    ]
    return found, time.perf_counter() - started


def _measure_ablation(job: tuple[str, int]) -> tuple[list[dict[str, Any]], float]:
    """Pretrain one ablation from one seed and measure it."""
    agent, seed = job
    started = time.perf_counter()
    executor, _ = pretrain(replace(ABLATIONS[agent], seed=seed))
    found = [evaluate_cell(executor, *cell, COUNT, seed=EVALUATION_SEED).row() for cell in ABLATION_CELLS]
    found.append(_with_negative_values(executor))
    return found, time.perf_counter() - started


def _with_negative_values(executor: Executor) -> dict[str, Any]:
    """Measure it on MDPs of its family with rewards lowered by two: V* lies around -2 instead of 17.

    An ablation's seed 1 has been pretrained on these graphs with other rewards, since its generator starts
    from the same seed; seeds 0 and 2 have not seen them.
    """
    generator = torch.Generator().manual_seed(EVALUATION_SEED)
    mdp = sample(ABLATION_BASE.family, COUNT, 20, 8, ABLATION_BASE.discount, generator)
    lowered = TabularMDP(mdp.successor, mdp.probability, mdp.reward - 2.0, mdp.discount)
    traced = TracedMDPs(lowered, value_iteration(lowered))
    measured = measure(executor, traced, traced.draw(4 * COUNT, 2.0, generator))
    named = {"family": "random-deterministic-lowered", "states": 20, "actions": 8, "deterministic": True}
    return finite(named | measured)


def _entry(seed: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A seed of a record: its score is the mean policy accuracy of its cells."""
    return {"seed": seed, "score": fmean(row["policy_accuracy"] for row in rows), "cells": rows}


def _write(
    results: Path,
    version: str,
    environment: str,
    agent: str,
    seeds: list[dict[str, Any]],
    config: dict[str, Any],
    seconds: float,
) -> None:
    record = Record(
        experiment=NAME,
        version=version,
        environment=environment,
        agent=agent,
        seeds=seeds,
        config=config,
        command=f"xlvin reproduce {NAME}",
        seconds=round(seconds, 1),
        **provenance(),
    )
    write(record, results)
    print(f"{version}, {environment}, {agent}: {seconds:.0f} s", file=sys.stderr)


def rows(results: Path) -> list[tables.Row]:
    """One row per record; the score is the mean policy accuracy of its cells, which follow."""
    return [
        row | {"cells": [cell | {"seed": entry["seed"]} for entry in record.seeds for cell in entry["cells"]]}
        for record in _records(results)
        for row in tables.rows([record])
    ]


def summary(results: Path) -> str:
    """The results as Markdown."""
    records = _records(results)
    parts = []
    for executor in EXECUTORS:
        found = _shipped_cells(records, executor)
        parts.append(f"### The shipped executor `{executor}`")
        for measured, title in MEASURES.items():
            for table in by_size(found, measured):
                parts.append(f"{title}, states x actions:\n\n{tables.markdown(table)}")
        parts.append(f"Means over families at 20x8:\n\n{tables.markdown(means(found))}")
    parts.append(f"### Ablation\n\n{tables.markdown(ablation(records))}")
    return "\n\n".join(parts)


MEASURES = {
    "policy_accuracy": "Policy accuracy (%)",
    "value_error": "Squared error to V*",
    "one_step_error": "Squared error of one step from exact values",
}


def ablation(records: Sequence[Record]) -> list[tables.Row]:
    """One line per design: policy accuracy per cell and the one-step error, mean +- std over seeds."""
    found = []
    for record in records:
        if record.version != "ablation":
            continue
        line = {"design": record.agent}
        for index, cell in enumerate(record.seeds[0]["cells"]):
            line[f"{cell['family']} {size(cell)}"] = _over_seeds(record, index, "policy_accuracy")
        line["one-step error"] = _over_seeds(record, 0, "one_step_error")
        line["single actions"] = _over_seeds(record, 0, "action_accuracy")
        found.append(line)
    return found


def _over_seeds(record: Record, cell: int, measured: str) -> str:
    """The mean over seeds, of accuracies with the standard deviation."""
    values = [entry["cells"][cell][measured] for entry in record.seeds]
    if None in values:
        return shown(measured, None)
    spread = f" +- {100 * stdev(values):.2f}" if measured.endswith("accuracy") else ""
    return shown(measured, fmean(values)) + spread


def figure(results: Path, path: Path) -> None:
    """Policy accuracy by size, averaged over deterministic and over stochastic families."""
    # late: worker processes import this module and draw nothing
    from xlvin.report.executor_figure import save_executor_figure

    records = _records(results)
    cells = {executor: _shipped_cells(records, executor) for executor in EXECUTORS}
    save_executor_figure(path, cells, [f"{states}x{actions}" for states, actions in sorted(SIZES)])


def _shipped_cells(records: Sequence[Record], executor: str) -> list[tables.Row]:
    return [
        cell
        for record in records
        if (record.version, record.agent) == ("shipped", executor)
        for cell in record.seeds[0]["cells"]
    ]


def _records(results: Path) -> list[Record]:
    """All records: shipped executors in the order of `FAMILIES`, then ablations in theirs."""
    found = {(record.version, record.environment, record.agent): record for record in read_all(results, NAME)}
    wanted = [("shipped", family, executor) for family in FAMILIES for executor in EXECUTORS]
    wanted += [("ablation", ABLATION_BASE.family, agent) for agent in ABLATIONS]
    if missing := ["/".join(key) for key in wanted if key not in found]:
        raise XLVINError(
            f"{len(missing)} records such as {missing[0]} are missing in {results}; "
            f"run `xlvin reproduce {NAME}`."
        )
    return [found[key] for key in wanted]
