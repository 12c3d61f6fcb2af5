"""Settings without effect are found by name."""

from typing import Any

import pytest

from xlvin.training.api import configure, override
from xlvin.training.effects import without_effect

from ..environments import AIM


@pytest.mark.parametrize(
    ("agent", "settings", "idle"),
    [
        ("ppo", {"imagination": {"iterations": 3}}, ["imagination.iterations"]),
        ("ppo", {"imagination": {"iterations": 3, "last_iterations": 3}}, []),
        ("ppo", {"updates": 3, "depth": 5, "clip": 0.3}, ["network.depth", "values.updates"]),
        ("ppo", {"transe_coef": 9.0, "gae_lambda": 0.5}, ["ppo.transe_coef"]),
        ("atreec", {"depth": 5, "executor": "cartpole-tree"}, ["network.executor"]),
        ("xlvin-r", {"depth": 5, "sharpness": 3.0, "bins": 5}, ["network.sharpness", "network.bins"]),
        ("xlvin-aligned", {"sharpness": 3.0}, []),
        ("dqn", {"clip": 0.1, "updates": 3, "learning_rate": 0.1}, ["ppo.clip"]),
        ("xlvin-imagine", {"reward_scale": 0.3, "imagination": {"horizon": 4}}, ["ppo.reward_scale"]),
        ("ppo", {"environments": 3}, ["budget.environments"]),
        ("ppo", {"value_coef": 9.0, "reward_coef": 9.0}, ["ppo.reward_coef"]),
        ("xlvin-r", {"value_coef": 9.0, "reward_coef": 9.0}, ["ppo.reward_coef"]),
        ("xlvin-aligned", {"value_coef": 9.0, "reward_coef": 9.0}, []),
        ("atreec", {"value_coef": 9.0, "reward_coef": 9.0, "transe_coef": 9.0}, []),
        ("xlvin-dqn", {"value_coef": 9.0, "transe_coef": 9.0}, ["ppo.value_coef"]),
        ("treeqn", {"value_coef": 9.0, "reward_coef": 9.0}, ["ppo.value_coef"]),
        ("vpn", {"value_coef": 9.0, "reward_coef": 9.0, "transe_coef": 9.0}, ["ppo.transe_coef"]),
    ],
)
def test_what_does_not_matter_is_named(agent: str, settings: dict[str, Any], idle: list[str]) -> None:
    start = configure("CartPole-v0", agent)
    assert without_effect(start, override(start, settings)) == idle


def test_bins_matter_where_actions_are_continuous() -> None:
    start = configure(AIM, "ppo")
    assert without_effect(start, override(start, {"bins": 5})) == []
