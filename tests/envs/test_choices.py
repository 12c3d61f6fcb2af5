"""Continuous action spaces as choices, and those that cannot be."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from xlvin.envs.choices import choices
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError

from ..environments import AIM, AIM_2D


def box(low: Any, high: Any, **options: Any) -> spaces.Box:
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), **options)


@pytest.mark.parametrize(("dimensions", "count"), [(1, 11), (2, 25), (3, 27), (6, 729)])
def test_bins_by_the_number_of_dimensions(dimensions: int, count: int) -> None:
    own = choices("Thing-v0", box([-1.0] * dimensions, [3.0] * dimensions), ())
    assert own.count == count
    grid = np.array([own.take(cell) for cell in range(count)])
    assert len(np.unique(grid, axis=0)) == count
    assert grid.dtype == np.float32
    for end in (-1.0, 1.0, 3.0):  # both ends and the middle
        assert (grid == end).all(1).sum() == 1


def test_bins_can_be_chosen_one_for_all_or_one_for_each() -> None:
    space = box([0.0, -1.0], [1.0, 1.0])
    assert choices("Thing-v0", space, (3,)).bins == (3, 3)
    own = choices("Thing-v0", space, (2, 4))
    assert own.bins == (2, 4)
    assert own.take(5).tolist() == pytest.approx([1.0, -1.0 + 2.0 / 3.0])


def test_a_cell_is_given_anew_each_time() -> None:
    own = choices("Thing-v0", box([0.0], [1.0]), (3,))
    own.take(1)[0] = 7.0  # as an environment might
    assert own.take(1).tolist() == [0.5]


def test_vectors_are_cut_at_the_bounds() -> None:
    own = choices("Thing-v0", box([0.0, -1.0], [1.0, 1.0]), None)
    assert (own.count, own.bins) == (2, ())
    assert own.take([5.0, -0.25]).tolist() == [1.0, -0.25]
    assert own.take([5.0, -0.25]).dtype == np.float32


@pytest.mark.parametrize(
    ("space", "bins", "told"),
    [
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), (), "without bounds.*RescaleAction"),
        (box([-1.0, -np.inf], [1.0, 0.0]), (), "without bounds"),
        (box([-1.0] * 7, [1.0] * 7), (), "7 dimensions, 2,187 joint.*--network.bins.*ppo-gaussian"),
        (box([-1.0] * 2, [1.0] * 2), (100, 100), "10,000 joint"),
        (box([-1.0] * 2, [1.0] * 2), (3, 1), "at least 2"),
        (box([-1.0] * 2, [1.0] * 2), (3, 3, 3), "2 dimensions and 3 numbers"),
        (box([[-1.0]], [[1.0]]), (), "TransformAction"),
        (spaces.Box(0, 5, (2,), np.int64), (), "TransformAction"),
        (spaces.MultiDiscrete([2, 3]), (), "TransformAction"),
        (spaces.Discrete(3, start=1), (), "from 1"),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_a_sentence(space: Any, bins: Any, told: str) -> None:
    with pytest.raises(XLVINError, match=told) as caught:
        choices("Thing-v0", space, bins)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bins", [(), (3,), None])
def test_an_episode_can_be_played_again(bins: Any) -> None:
    original, again = (Environment("Pendulum-v1", bins=bins) for _ in range(2))
    original.reset(3)
    stream = np.random.default_rng(0)
    for _ in range(5):
        vector = stream.normal(size=1).tolist()
        action = vector if bins is None else int(stream.integers(original.shapes.actions))
        observation = original.step(action)[0]
    assert np.array_equal(again.replay(original.seed, original.taken), observation)


def test_cells_are_called_by_their_centres() -> None:
    names = Environment(AIM_2D, bins=(3, 2)).action_names
    assert names[:3] == ["-2, +0", "-2, +1", "+2, +0"]
    assert Environment(AIM).shapes.bins == (11,)


def test_discrete_actions_are_what_they_are() -> None:
    for bins in ((), (5,), None):
        environment = Environment("CartPole-v1", bins=bins)
        assert (environment.shapes.actions, environment.shapes.bins, environment.shapes.vectors) == (
            2,
            (),
            False,
        )
    assert gymnasium.make("CartPole-v1").action_space.n == 2
