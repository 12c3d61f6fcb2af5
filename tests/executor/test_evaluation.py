"""Evaluation: the measures on executors whose behaviour is known, and the bars of the shipped ones."""

from statistics import fmean

import pytest
import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor
from xlvin.executor.evaluation import SIZES, Cell, cells, evaluate_cell, roll
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.traces import trace_family
from xlvin.mdp.families import CARTPOLE_STATES, FAMILIES
from xlvin.mdp.tabular import TabularMDP

DETERMINISTIC = [name for name in FAMILIES if not name.endswith("stochastic") and name != "dense"]
STOCHASTIC = [name for name in FAMILIES if name.endswith("stochastic") or name == "dense"]


class Perfect(nn.Module):
    """Value iteration in the clothes of an executor."""

    config = ExecutorConfig(steps=2)  # of a kind whose sweeps go through `forward`

    def forward(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        return mdp.action_values(values).amax(-1)

    def action_values(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        return mdp.action_values(values)


class Copying(Perfect):
    def forward(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        return values


@pytest.mark.parametrize("family", ["random-deterministic", "grid-stochastic"])
def test_value_iteration_itself_scores_perfectly(family: str) -> None:
    cell = evaluate_cell(Perfect(), family, (10, 3), count=20)  # type: ignore[arg-type]
    assert cell.policy_accuracy == cell.action_accuracy == 1.0
    assert cell.value_error < 1e-6
    assert cell.one_step_error < 1e-9
    assert cell.deterministic == (family == "random-deterministic")


def test_the_copying_predictor_is_measured_like_an_executor_that_copies() -> None:
    cell = evaluate_cell(Copying(), "grid", (10, 3), count=20)  # type: ignore[arg-type]
    assert cell.policy_accuracy == cell.copy_policy_accuracy < 0.9
    assert cell.value_error == cell.copy_value_error > 1.0
    assert cell.one_step_error == cell.copy_one_step_error > 0.01


def test_reward_only_is_hand_computed() -> None:
    """One state, two actions with rewards r: max R misses V* = max R / (1 - gamma) by nine tenths of it."""
    cell = evaluate_cell(Perfect(), "random-deterministic", (1, 2), count=30)  # type: ignore[arg-type]
    assert cell.reward_value_error == pytest.approx(0.81 * cell.copy_value_error, rel=1e-2)
    assert cell.reward_policy_accuracy == 1.0


def test_each_mdp_is_rolled_for_its_own_number_of_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    traced = trace_family("random-deterministic", 12, 4, 2, 0.9, 1e-4, generator)
    assert traced.trace.steps.unique().numel() > 1

    class Counting(Perfect):
        def forward(self, mdp: TabularMDP, values: Tensor) -> Tensor:
            return values + 1.0

    reached = roll(Counting(), traced)  # type: ignore[arg-type]
    assert torch.equal(reached, traced.trace.steps.float().unsqueeze(-1).expand(-1, 4))


def test_a_cell_does_not_depend_on_others_but_on_its_seed() -> None:
    executor = load_executor("random-deterministic")
    first, again = (evaluate_cell(executor, "grid", (5, 2), count=5) for _ in range(2))
    assert first == again
    assert evaluate_cell(executor, "grid", (5, 2), count=5, seed=1) != first


def test_families_with_fixed_actions_keep_them() -> None:
    found = cells(["grid", "cartpole-tree"], SIZES)
    assert [size for family, size in found if family == "grid"] == list(SIZES)
    trees = [size for family, size in found if family == "cartpole-tree"]
    assert trees == [(20, 2), (50, 2), (100, 2), (CARTPOLE_STATES, 2)]


def test_what_diverged_is_none_in_json() -> None:
    diverged = Cell("grid", 5, 2, True, 0.5, float("inf"), float("nan"), *[0.0] * 7).row()
    assert diverged["value_error"] is None
    assert diverged["one_step_error"] is None
    assert diverged["policy_accuracy"] == 0.5


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(XLVINError, match="at least 1"):
        evaluate_cell(Executor(), "grid", (5, 2), count=0)
    with pytest.raises(XLVINError, match="no family"):
        cells(["nowhere"], SIZES)


# Bars far under what docs/experiments/executor.md reports: they catch a broken file or network.


def accuracy(family: str, states: int = 20, actions: int = 8, count: int = 30) -> float:
    executor = load_executor("random-deterministic")
    return evaluate_cell(executor, family, (states, actions), count, seed=2026).policy_accuracy


def test_shipped_executor_on_its_own_family() -> None:
    assert accuracy("random-deterministic", count=200) >= 0.995


def test_shipped_executor_on_sizes_it_has_never_seen() -> None:
    assert accuracy("random-deterministic", 100, 20, count=10) >= 0.99


def test_shipped_executor_on_other_deterministic_families() -> None:
    others = [
        name for name in DETERMINISTIC if FAMILIES[name].actions is None and name != "random-deterministic"
    ]
    assert len(others) >= 10
    assert fmean(accuracy(family) for family in others) >= 0.99


def test_shipped_executor_on_stochastic_families() -> None:
    assert len(STOCHASTIC) >= 11
    assert fmean(accuracy(family, count=20) for family in STOCHASTIC) >= 0.98


def test_shipped_executor_ranks_single_actions() -> None:
    cell = evaluate_cell(load_executor("random-deterministic"), "grid", (20, 8), count=50, seed=2026)
    assert cell.action_accuracy >= 0.99


def test_shipped_cartpole_executor() -> None:
    executor = load_executor("cartpole-tree")
    own = evaluate_cell(executor, "cartpole-tree", (127, 2), count=50, seed=2026)
    assert own.policy_accuracy >= 0.995
    assert own.one_step_error < 0.01 * min(own.copy_one_step_error, own.reward_one_step_error)
    other = evaluate_cell(executor, "random-deterministic", (20, 8), count=50, seed=2026)
    assert other.policy_accuracy >= 0.9
    assert other.action_accuracy >= 0.9
