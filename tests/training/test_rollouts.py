"""Collecting data: whole episodes, single steps, exact continuation, independent seeds."""

from functools import partialmethod
from itertools import chain
from typing import Any

import numpy as np
import pytest

from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.training.rollouts import Actors, Segment
from xlvin.training.seeding import derive_seed

from ..environments import CORRIDOR, FORGETFUL, Forgetful


def spread(actions: int) -> Any:
    """A policy that chooses uniformly by the random number that it is given."""
    return lambda observations, uniform: np.minimum((uniform * actions).astype(int), actions - 1)


def make(name: str = CORRIDOR, seeds: tuple[int, ...] = (3, 4), count: int = 3) -> Actors:
    return Actors(name, seeds, count, {}, "training")


def same(left: Segment, right: Segment) -> bool:
    return (
        all(
            np.array_equal(getattr(left, name), getattr(right, name))
            for name in ("observations", "actions", "rewards")
        )
        and left.terminated == right.terminated
    )


def replayed(name: str, actors: Actors, s: int, e: int, round_: int, segment: Segment) -> None:
    """The environment itself gives this episode for these actions."""
    environment = Environment(name)
    observation = environment.reset(derive_seed(actors.seeds[s], "training episode", e, round_))
    assert np.array_equal(observation, segment.observations[0])
    for t, action in enumerate(segment.actions):
        observation, reward, terminated, truncated = environment.step(int(action))
        assert np.array_equal(observation, segment.observations[t + 1])
        assert reward == pytest.approx(float(segment.rewards[t]))
        assert (terminated or truncated) == (t == len(segment.actions) - 1)
    assert terminated == segment.terminated


def test_trajectories_are_exactly_one_complete_episode_per_environment() -> None:
    actors = make()
    for round_ in range(3):
        segments = actors.trajectories(spread(3), round_)
        assert [len(of_seed) for of_seed in segments] == [3, 3]
        for s, of_seed in enumerate(segments):
            for e, segment in enumerate(of_seed):
                replayed(CORRIDOR, actors, s, e, round_, segment)


def test_some_corridors_terminate_and_some_are_cut_by_the_time_limit() -> None:
    segments = [s for of_seed in make(count=20).trajectories(spread(3), 0) for s in of_seed]
    assert {s.terminated for s in segments} == {True, False}
    assert {len(s.actions) for s in segments if not s.terminated} == {6}
    assert all(s.observations[-1, 0] in (0, 4) for s in segments if s.terminated)


def test_transitions_go_on_across_rounds() -> None:
    rounds = make(seeds=(3,), count=2)
    once = make(seeds=(3,), count=2)
    pieces = [rounds.transitions(lambda o, u: np.full(u.shape, 1), 4, r) for r in range(3)]
    whole, finished = once.transitions(lambda o, u: np.full(u.shape, 1), 12, 0)
    # Standing still, every episode is cut after six steps: 12 steps in each of two environments.
    assert [len(s.actions) for s in whole[0]] == [6, 6, 6, 6]
    assert finished == [[pytest.approx(-0.6)] * 4]
    assert [sorted(len(s.actions) for s in segments[0]) for segments, _ in pieces] == [
        [4, 4],
        [2, 2, 2, 2],
        [4, 4],
    ]
    assert [len(returns[0]) for _, returns in pieces] == [0, 2, 2]
    assert [value for _, returns in pieces for value in returns[0]] == [pytest.approx(-0.6)] * 4
    first, second, third = (segments[0] for segments, _ in pieces)
    for e in range(2):  # two episodes of six steps: four and two of them, then two and four
        for whole_episode, begin, end in (
            (whole[0][e], first[e], second[e]),
            (whole[0][2 + e], second[2 + e], third[e]),
        ):
            joined = np.concatenate((begin.observations, end.observations[1:]))
            assert np.array_equal(whole_episode.observations, joined)


def test_a_segment_that_the_rollout_cuts_is_not_terminated() -> None:
    (segments,), _ = make(seeds=(0,), count=4).transitions(lambda o, u: np.full(u.shape, 1), 3, 0)
    assert [(len(s.actions), s.terminated) for s in segments] == [(3, False)] * 4


@pytest.mark.parametrize("name", ["CartPole-v0", "LunarLander-v3", CORRIDOR])
def test_restored_environments_go_on_as_if_never_stopped(name: str) -> None:
    policy = spread(2)
    original = make(name, seeds=(0, 7), count=2)
    original.transitions(policy, 35, 0)
    stored = original.state()
    expected, returns = original.transitions(policy, 30, 1)
    restored = make(name, seeds=(0, 7), count=2)
    restored.restore(stored, 1)
    found, found_returns = restored.transitions(policy, 30, 1)
    assert found_returns == returns
    for left, right in zip(chain(*expected), chain(*found), strict=True):
        assert same(left, right)


def test_a_stored_state_is_a_copy() -> None:
    actors = make()
    actors.transitions(spread(3), 2, 0)
    stored = actors.state()
    before = {name: array.copy() for name, array in stored.items()}
    actors.transitions(spread(3), 5, 1)
    assert all(np.array_equal(before[name], stored[name]) for name in stored)


def test_an_environment_that_does_not_repeat_itself_is_told_of() -> None:
    actors = make(FORGETFUL, seeds=(0,), count=1)
    actors.transitions(spread(3), 3, 0)
    stored = actors.state()
    with pytest.warns(UserWarning, match="did not repeat itself"):
        make(FORGETFUL, seeds=(0,), count=1).restore(stored, 1)


def test_an_episode_that_ends_elsewhere_when_repeated_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    actors = make(FORGETFUL, seeds=(0,), count=1)
    actors.transitions(spread(3), 6, 0)
    stored = actors.state()

    def step(env: Forgetful, action: int, ends: int) -> Any:
        env.repeated = getattr(env, "repeated", 0) + 1
        if env.repeated == 4:
            raise IndexError("beyond the end")
        return env._observe(), 0.0, env.repeated == ends, False, {}

    for ends in (3, 9):  # before it would fail, and after
        monkeypatch.setattr(Forgetful, "step", partialmethod(step, ends=ends))
        with pytest.warns(UserWarning, match="did not repeat itself"):
            make(FORGETFUL, seeds=(0,), count=1).restore(stored, 1)


@pytest.mark.parametrize(
    "change",
    [{"action": np.array([5] * 6)}, {"action": np.zeros(2, int)}, {"length": np.full(6, -1)}],
)
def test_senseless_states_are_refused(change: dict[str, np.ndarray]) -> None:
    actors = make()
    actors.transitions(spread(3), 1, 0)
    with pytest.raises(XLVINError, match="no sense"):
        make().restore(actors.state() | change, 1)


@pytest.mark.parametrize("mode", ["trajectories", "transitions"])
def test_a_seeds_data_does_not_depend_on_its_companions(mode: str) -> None:
    def collect(seeds: tuple[int, ...]) -> list[list[Segment]]:
        actors = make(seeds=seeds)
        found: list[list[Segment]] = [[] for _ in seeds]
        for round_ in range(2):
            if mode == "trajectories":
                segments = actors.trajectories(spread(3), round_)
            else:
                segments, _ = actors.transitions(spread(3), 9, round_)
            for into, of_seed in zip(found, segments, strict=True):
                into.extend(of_seed)
        return found

    together, alone = collect((5, 6, 7))[1], collect((6,))[0]
    assert len(together) == len(alone)
    assert all(same(left, right) for left, right in zip(together, alone, strict=True))
    other = collect((8,))[0]
    assert not all(same(left, right) for left, right in zip(alone, other, strict=False))
