"""Collected segments as tensors."""

import numpy as np
import torch

from xlvin.training.experience import Experience
from xlvin.training.rollouts import Segment


def segment(first: int, steps: int, terminated: bool) -> Segment:
    """Observations number themselves: first, first + 1, ..."""
    observations = np.arange(first, first + steps + 1, dtype=np.float32)[:, None]
    actions, rewards = np.arange(steps), np.arange(first, first + steps, dtype=np.float32)
    return Segment(observations, actions, rewards, terminated)


def test_every_observation_is_stored_once_and_padding_is_marked() -> None:
    experience = Experience.from_segments(
        [[segment(10, 2, True), segment(20, 1, False)], [segment(30, 1, True)]], "cpu"
    )
    assert experience.pool.squeeze(-1).tolist() == [[10, 11, 12, 20, 21], [30, 31, 0, 0, 0]]
    assert experience.state.tolist() == [[0, 1, 3], [0, 0, 0]]
    assert experience.action.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert experience.reward.tolist() == [[10, 11, 20], [30, 0, 0]]
    assert experience.terminated.tolist() == [[False, True, False], [True, False, False]]
    assert experience.ended.tolist() == [[False, True, True], [True, False, False]]
    assert experience.weight.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert experience.count == (3, 1)


def test_pairs_never_cross_the_end_of_an_episode() -> None:
    generator = np.random.default_rng(0)
    segments, first = [], 0
    for _ in range(20):
        steps = int(generator.integers(1, 6))
        segments.append(segment(first, steps, bool(generator.integers(2))))
        first += 1000  # so that a pair across episodes would differ by more than one
    experience = Experience.from_segments([segments], "cpu")
    state = experience.pool[0, experience.state[0], 0]
    successor = experience.pool[0, experience.state[0] + 1, 0]
    assert torch.equal(successor, state + 1)
    final = [float(s.observations[-1, 0]) for s in segments]
    assert successor[experience.ended[0]].tolist() == final  # the true last observation, not a reset


def test_bytes_stay_bytes() -> None:
    images = np.zeros((2, 3, 36, 36), np.uint8)
    one = Segment(images, np.zeros(1, np.int64), np.zeros(1, np.float32), True)
    assert Experience.from_segments([[one]], "cpu").pool.dtype == torch.uint8
