"""Configurations: what they refuse, what a budget buys, what is stored."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import make_agent
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, DQNConfig, ImaginationConfig, PPOConfig, TrainConfig


@pytest.mark.parametrize(
    ("budget", "actors", "rounds", "spent"),
    [
        (Budget(total=10, per_round=10), 10, 1, 10),
        (Budget(total=100, per_round=5), 5, 20, 100),
        (Budget(total=3, per_round=5), 3, 1, 3),
        (Budget(total=13, per_round=5), 4, 3, 12),  # shorter rounds use more
        (Budget(total=9, per_round=5), 4, 2, 8),
        (Budget(total=11, per_round=5), 5, 2, 10),  # they would not: what does not fill a round is not used
        (Budget("transitions", 4096, 128, 8), 8, 4, 4096),
        (Budget("transitions", 5000, 128, 8), 8, 5, 5000),
        (Budget("transitions", 2000, 128, 8), 8, 2, 2000),
        (Budget("transitions", 1_000_000, 128, 8), 8, 976, 999_424),  # Atari
        (Budget("transitions", 100, 128, 8), 8, 1, 96),  # never more than was granted
        (Budget("transitions", 3, 128, 8), 3, 1, 3),
    ],
)
def test_budgets(budget: Budget, actors: int, rounds: int, spent: int) -> None:
    assert (budget.actors, budget.rounds) == (actors, rounds)
    per_round = budget.actors * (budget.steps if budget.unit == "transitions" else 1)
    assert per_round * budget.rounds == budget.used == spent <= budget.total


@pytest.mark.parametrize("fields", [{"total": 0}, {"per_round": 0}, {"environments": -1}, {"unit": "hours"}])
def test_impossible_budgets(fields: dict[str, Any]) -> None:
    with pytest.raises(XLVINError):
        Budget(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"reward_scale": float("inf")},
        {"clip": -0.1},
        {"max_grad_norm": 0.0},
        {"epochs": 0},
        {"minibatches": 0},
        {"discount": 1.1},
        {"gae_lambda": -0.1},
        {"first_discount": 0.999},  # longer than the discount's
        {"first_discount": -0.1},
        {"first_discount": 0.9, "discount": 1.0},
        {"vtrace": True},  # estimates of the first epoch need no correction
    ],
)
def test_impossible_settings(fields: dict[str, Any]) -> None:
    with pytest.raises(XLVINError):
        PPOConfig(**fields)


@pytest.mark.parametrize("part", [PPOConfig, ImaginationConfig, DQNConfig])
def test_no_number_may_be_infinite(part: Any) -> None:
    numbers = [name for name, value in vars(part()).items() if isinstance(value, float)]
    assert len(numbers) >= 4
    for name in numbers:
        for number in (float("nan"), float("inf")):
            with pytest.raises(XLVINError, match=f"{name} is {number}; give a finite number"):
                part(**{name: number})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nor_one_among_several(number: float) -> None:
    with pytest.raises(XLVINError, match=rf"high is \(1.0, {number}\); give finite numbers"):
        AgentConfig(low=(0.0, 0.0), high=(1.0, number))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Budget(total=2.5), r"Budget: total is 2.5; give a whole number\."),  # type: ignore[arg-type]
        (lambda: Budget("hours"), "Budget: unit is 'hours'; choose one of trajectories, transitions"),  # type: ignore[arg-type]
        (lambda: PPOConfig(learning_rate="1e-3"), "learning_rate is '1e-3'; give a number"),  # type: ignore[arg-type]
        (lambda: PPOConfig(epochs=True), "epochs is True; give a whole number"),
        (lambda: PPOConfig(anneal=1), "anneal is 1; give True or False"),  # type: ignore[arg-type]
        (lambda: PPOConfig(first_discount="no"), "give a number or None"),  # type: ignore[arg-type]
        (lambda: TrainConfig(seeds=[0, 1]), r"seeds is \[0, 1\]; give a whole number"),  # type: ignore[arg-type]
        (lambda: TrainConfig(ppo=3), r"ppo is 3; give xlvin.PPOConfig\(...\)"),  # type: ignore[arg-type]
        (lambda: AgentConfig(depth=2.0), "depth is 2.0; give a whole number"),  # type: ignore[arg-type]
        (lambda: AgentConfig(beam="8"), "give a whole number or None"),  # type: ignore[arg-type]
        (lambda: AgentConfig(executor=None), "executor is None; give a text"),  # type: ignore[arg-type]
        (lambda: make_agent(observation=4, actions=2), r"observation is 4; give a tuple .* such as \(2,\)"),  # type: ignore[arg-type]
    ],
)
def test_other_types_are_refused(make: Any, told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        make()
    assert PPOConfig(learning_rate=1).learning_rate == 1  # a whole number is a number


def test_the_horizon_grows_by_equal_factors() -> None:
    ppo = PPOConfig(discount=0.99, first_discount=0.9)
    horizons = [1.0 / (1.0 - ppo.discount_in(round_, 10)) for round_ in range(10)]
    factor = 10.0 ** (1 / 7)  # seven of ten rounds from 10 steps to 100
    assert horizons == pytest.approx([10.0 * factor ** min(round_ + 1, 7) for round_ in range(10)])
    assert ppo.discount_in(0, 1) == pytest.approx(0.99)  # the only round is the last
    assert PPOConfig(discount=0.99).discount_in(0, 10) == 0.99


@pytest.mark.parametrize("fields", [{"seeds": 0}, {"first_seed": -1}, {"evaluation_episodes": 0}])
def test_impossible_runs(fields: dict[str, Any]) -> None:
    with pytest.raises(XLVINError):
        TrainConfig(**fields)


def test_configurations_survive_json() -> None:
    config = TrainConfig(
        "A-v0",
        "ppo",
        AgentConfig("ppo", (3, 84, 84), (84, 84, 3), 6),
        Budget("transitions"),
        PPOConfig(clip=0.1),
        3,
        7,
    )
    assert TrainConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config
    assert config.seed_list == (7, 8, 9)


@pytest.mark.parametrize("stored", [{}, {"network": 3, "budget": {}, "ppo": {}}, {"future": 1}])
def test_foreign_configurations_are_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(XLVINError, match="does not fit this version"):
        TrainConfig.from_dict(stored)
