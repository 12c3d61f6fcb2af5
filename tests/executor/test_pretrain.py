"""Pretraining: the same bits again, and real learning."""

import math
from dataclasses import replace

import pytest
import torch

from xlvin.errors import RunFailedError, XLVINError
from xlvin.executor.evaluation import evaluate_cell
from xlvin.executor.network import ExecutorConfig
from xlvin.executor.pretrain import HeldOut, PretrainConfig, preset, pretrain

TINY = PretrainConfig(
    states=5,
    actions=3,
    iterations=12,
    batch=4,
    pool=6,
    validations=3,
    validation_count=4,
    executor=ExecutorConfig(width=8),
)


def test_the_same_configuration_gives_the_same_bits() -> None:
    first, metrics = pretrain(TINY)
    threads = torch.get_num_threads()
    torch.manual_seed(99)
    torch.set_num_threads(2)
    try:
        second, again = pretrain(TINY)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert metrics == again
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    other, _ = pretrain(replace(TINY, seed=1))
    assert not torch.equal(first.decoder.weight, other.decoder.weight)


def test_pretraining_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    pretrain(TINY)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("seed", [0, 3])
def test_held_out_mdps_are_not_those_of_training(seed: int) -> None:
    config = replace(TINY, seed=seed)
    generator, count = torch.Generator().manual_seed(seed), config.validation_count
    trained_on = config.trace(count, generator).draw(4 * count, config.skew, generator)
    held_out = HeldOut.draw(config).sweeps
    assert held_out.before.shape == trained_on.before.shape
    assert not torch.isclose(held_out.before, trained_on.before).any()


def test_progress_and_validations_are_told() -> None:
    told: list[tuple[int, float, float]] = []
    _, metrics = pretrain(TINY, lambda *facts: told.append(facts))
    assert [iteration for iteration, _, _ in told] == list(range(1, 13))
    assert all(math.isfinite(loss) and 0.0 <= accuracy <= 1.0 for _, loss, accuracy in told)
    assert [entry["iteration"] for entry in metrics["history"]] == [0, 4, 8, 12]
    assert metrics["one_step_error"] == metrics["history"][-1]["one_step_error"]


def test_a_short_pretraining_learns() -> None:
    config = replace(
        TINY, states=12, actions=4, iterations=600, batch=24, pool=300, executor=ExecutorConfig()
    )
    config = replace(config, level=0.0, spread=0.0, validations=1, validation_count=32)
    executor, metrics = pretrain(config)
    first, last = metrics["history"]
    assert last["one_step_error"] < 0.05 * first["one_step_error"]
    cell = evaluate_cell(executor, "random-deterministic", (12, 4), count=50, seed=7)
    assert cell.one_step_error < 0.2 * min(cell.copy_one_step_error, cell.reward_one_step_error)
    assert cell.policy_accuracy > max(cell.copy_policy_accuracy, cell.reward_policy_accuracy) + 0.1


def test_a_diverging_loss_is_told() -> None:
    with pytest.raises(RunFailedError, match="learning rate"):
        pretrain(replace(TINY, learning_rate=1e30, schedule="constant"))


@pytest.mark.parametrize("family", ["random-deterministic", "cartpole-tree"])
def test_shipped_presets_name_their_family(family: str) -> None:
    assert preset(family).family == family


@pytest.mark.parametrize(
    "wrong",
    [
        {"states": 0},
        {"actions": 0},
        {"iterations": 0},
        {"batch": 0},
        {"discount": 1.0},
        {"discount": -0.1},
        {"beta2": 1.0},
        {"tolerance": 0.0},
        {"learning_rate": math.nan},
        {"schedule": "steps"},
        {"level": -1.0},
        {"spread": math.inf},
        {"seed": -1},
    ],
    ids=str,
)
def test_impossible_configurations_are_refused(wrong: dict) -> None:
    with pytest.raises(XLVINError, match=next(iter(wrong))):
        PretrainConfig(**wrong)


def test_unknown_families_are_refused() -> None:
    with pytest.raises(XLVINError, match='Did you mean "grid"'):
        pretrain(replace(TINY, family="grdi"))
