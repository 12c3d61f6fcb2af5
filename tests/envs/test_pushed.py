"""CartPole in gusts of wind: Gymnasium's own, but for the gusts."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from xlvin.envs.environment import Environment, time_limit
from xlvin.envs.pushed import PushedCartPoleEnv
from xlvin.errors import XLVINError

NAME = "xlvin/PushedCartPole-v0"


def test_gymnasium_finds_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The checker thinks that infinite bounds are a slip; they are CartPole's own.
        warnings.filterwarnings("ignore", message=".*(infinity|not set).*")
        check_env(gymnasium.make(f"xlvin.envs.pushed:{NAME}").unwrapped, skip_render_check=True)


def test_without_gusts_it_is_cartpole() -> None:
    calm, plain = PushedCartPoleEnv(chance=0.0), gymnasium.make("CartPole-v1").unwrapped
    calm.reset(seed=1)
    plain.reset(seed=1)
    for action in (0, 1, 1, 0, 1):
        ours, theirs = calm.step(action), plain.step(action)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:4] == theirs[1:4]


@pytest.mark.parametrize("action", [0, 1])
def test_an_action_has_three_outcomes(action: int) -> None:
    env, found = PushedCartPoleEnv(chance=0.5), {}
    for seed in range(60):
        env.reset(seed=seed)
        env.state = np.array((0.0, 0.0, 0.01, 0.0))
        observation, *_, info = env.step(action)
        found.setdefault(info["gust"], []).append(observation)
    assert set(found) == {-20.0, 0.0, 20.0}
    assert all((np.stack(same) == same[0]).all() for same in found.values())
    left, none, right = (found[gust][0] for gust in (-20.0, 0.0, 20.0))
    assert left[1] < none[1] < right[1]  # the cart's velocity
    np.testing.assert_allclose(right - none, none - left, rtol=1e-4, atol=1e-6)
    assert 0.3 < 1.0 - len(found[0.0]) / 60 < 0.7


def test_the_seed_decides_the_gusts() -> None:
    def gusts(seed: int) -> list[float]:
        env = PushedCartPoleEnv()
        env.reset(seed=seed)
        blown, over = [], False
        while not over:
            _, _, over, _, info = env.step(len(blown) % 2)
            blown.append(info["gust"])
        return blown

    assert gusts(3) == gusts(3)
    assert gusts(3) != gusts(4)


def test_agents_find_it_by_its_name() -> None:
    environment = Environment(NAME)
    assert environment.shapes.observation == (4,)
    assert environment.action_names == ["push left", "push right"]
    assert time_limit(NAME) == 200
    environment.close()


@pytest.mark.parametrize("options", [{"chance": 1.5}, {"chance": -0.1}, {"push": float("nan")}])
def test_impossible_gusts_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(XLVINError, match="gust"):
        PushedCartPoleEnv(**options)
