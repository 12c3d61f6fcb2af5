"""One environment behind one interface: shapes, conversions, exact replay, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.wrappers import TimeLimit

from xlvin.envs.environment import LONGEST_EPISODE, Environment, shapes_of
from xlvin.errors import RunFailedError, XLVINError

from ..environments import (
    AIM,
    CORRIDOR,
    CRASH,
    CRASH_ON_RESET,
    DEPTHS,
    DICT,
    PICTURE,
    WRONG_SHAPE,
    Corridor,
    register,
)


def test_vectors_images_and_discrete_states() -> None:
    vector, image, discrete = (Environment(name) for name in (CORRIDOR, PICTURE, "FrozenLake-v1"))
    assert (vector.shapes.given, vector.shapes.observation, vector.shapes.dtype) == ((2,), (2,), "float32")
    assert vector.shapes.bounds == ((-1.0, 10.0), (-1.0, 10.0))
    assert (image.shapes.given, image.shapes.observation, image.shapes.dtype) == (
        (36, 40, 3),
        (3, 36, 40),
        "uint8",
    )
    assert (discrete.shapes.given, discrete.shapes.observation, discrete.shapes.actions) == ((), (16,), 4)
    assert image.reset(0).shape == (3, 36, 40)
    assert image.reset(0).sum() == 3 * 10 * 5 * 255
    assert discrete.reset(0).tolist() == [1.0] + [0.0] * 15


def test_the_shapes_of_an_environment_by_its_name() -> None:
    assert shapes_of(PICTURE) == Environment(PICTURE).shapes
    assert (shapes_of(DEPTHS).observation, shapes_of(DEPTHS).dtype) == ((3, 36, 40), "float32")
    assert shapes_of(AIM).vectors
    assert (shapes_of(AIM, (3,)).vectors, shapes_of(AIM, (3,)).actions) == (False, 3)


def test_observations_do_not_change_after_they_were_given() -> None:
    environment = Environment(CORRIDOR)  # reuses one array
    first = environment.reset(0)
    kept = first.copy()
    environment.step(1)
    assert np.array_equal(first, kept)


@pytest.mark.parametrize("name", ["CartPole-v0", "LunarLander-v3", "Acrobot-v1", "FrozenLake-v1"])
def test_replay_leads_to_the_same_future(name: str) -> None:
    generator, original, again = np.random.default_rng(1), Environment(name), Environment(name)
    again.reset(99)
    original.reset(5)
    for _ in range(8):
        last = original.step(int(generator.integers(original.shapes.actions)))
        if last[2] or last[3]:
            original.reset(5)
    observation = again.replay(original.seed, original.taken)
    assert observation.shape == original.shapes.observation
    for _ in range(5):
        action = int(generator.integers(original.shapes.actions))
        (left, *ends), (right, *other) = original.step(action), again.step(action)
        assert np.array_equal(left, right)
        assert ends == other
        if ends[1] or ends[2]:
            break


def test_an_environment_without_a_time_limit_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LONGEST_EPISODE >= 1000
    monkeypatch.setattr("xlvin.envs.environment.LONGEST_EPISODE", 4)
    register("xlvin-tests/Endless-v0", Corridor)
    environment = Environment("xlvin-tests/Endless-v0")
    environment.reset(0)
    assert [environment.step(1)[3] for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("CartPol-v0", "Did you mean CartPole-v0"),
        ("no_such_module:Thing-v0", "no environment"),
        ("Blackjack-v1", "FlattenObservation in a file of your own, as docs/tutorials/environment.md shows"),
        (DICT, "Dict space"),
        ("LunarLander-v2", "LunarLander-v3"),
        ("not a name", "no environment"),
        ("CartPole-v00", "Did you mean CartPole-v0"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(name: str, told: str) -> None:
    with pytest.raises(XLVINError, match=told) as caught:
        Environment(name)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ('MuJoCo, run `pip install "gymnasium[mujoco]"`', r'\[mujoco\]"`\); install it\.$'),
        ("Box2D is not installed", r"; `pip install 'xlvin\[box2d\]'` may help\.$"),
    ],
)
def test_missing_packages_are_named(missing: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise DependencyNotInstalled(missing)

    monkeypatch.setattr(Corridor, "__init__", fail)
    with pytest.raises(XLVINError, match=told):
        Environment(CORRIDOR)


@pytest.mark.parametrize(
    ("which", "space", "told"),
    [
        ("observation_space", Box(0.0, 1.0, ()), r"shape \(\); wrap it"),
        ("observation_space", Box(0.0, 1.0, (3, 0)), r"shape \(3, 0\); wrap it"),
        ("observation_space", None, "give it an observation_space"),
        ("action_space", None, "give it an action_space"),
        ("action_space", MultiDiscrete([2, 3]), r"MultiDiscrete\(\[2 3\]\).*TransformAction"),
    ],
)
def test_spaces_that_no_agent_can_use_are_refused(
    which: str, space: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Corridor, which, space)
    with pytest.raises(XLVINError, match=told) as caught:
        Environment(CORRIDOR)
    assert caught.value.exit_code == 2


def leave(*_: Any) -> None:
    raise SystemExit(7)


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("reset", lambda *_, seed: np.zeros(2, np.float32), r"reset must return \(observation, info\)"),
        ("step", lambda *_: (np.zeros(2), 0.0, True, {}), r"step must return \(observation, reward, term"),
        ("step", lambda *_: (np.zeros(2), 0.0, None, None, {}), "step must say whether the episode"),
        (
            "step",
            lambda *_: (np.zeros(2), np.ones(1), True, False, {}),
            r"the reward must be a number, not arr",
        ),
        ("step", lambda *_: (np.zeros(2), None, True, False, {}), "the reward must be a number, not None"),
        ("step", leave, r"SystemExit\(7\)"),
    ],
)
def test_what_breaks_the_interface_is_named(
    method: str, answer: Callable[..., Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(CORRIDOR)
    environment.reset(0)
    monkeypatch.setattr(Corridor, method, answer)
    with pytest.raises(RunFailedError, match=told):
        getattr(environment, method)(0)


def test_the_stricter_of_several_time_limits_holds() -> None:
    register("xlvin-tests/Short-v0", lambda: TimeLimit(Corridor(), 3), max_episode_steps=50)
    register("xlvin-tests/Shorter-v0", lambda: TimeLimit(Corridor(), 50), max_episode_steps=2)
    for name, steps in {"xlvin-tests/Short-v0": 3, "xlvin-tests/Shorter-v0": 2}.items():
        environment = Environment(name)
        environment.reset(0)
        assert [environment.step(1)[3] for _ in range(steps)] == [False] * (steps - 1) + [True]


def test_options_an_environment_does_not_know_are_refused() -> None:
    with pytest.raises(XLVINError, match="could not be made"):
        Environment("CartPole-v0", {"gravity_of_the_moon": 1.6})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            CRASH,
            r"step 2 of the episode seeded 3.*ZeroDivisionError.*nowhere.* \(environments.py, line \d+\)",
        ),
        (CRASH_ON_RESET, r"reset of the episode seeded 3.*simulator is gone.* \(environments.py, line \d+\)"),
        (WRONG_SHAPE, r"step 2.*shape \(3,\) instead of \(2,\)'\)\.$"),
    ],
)
def test_failures_name_the_place_and_the_cause(name: str, told: str) -> None:
    environment = Environment(name)

    def play() -> None:
        for seed in range(1, 4):  # the third episode fails
            environment.reset(seed)
            for _ in range(3):
                environment.step(0)

    with pytest.raises(RunFailedError, match=told):
        play()
