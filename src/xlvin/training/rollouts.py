"""Collecting data: many seeds, each with its own environments and random streams, one batched policy call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.envs.environment import Environment
from xlvin.errors import RunFailedError, XLVINError
from xlvin.training.seeding import derive_seed, generator

Array = NDArray[Any]
# (observations [S, E, ...], uniform numbers [S, E]) -> actions [S, E]
Policy = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Segment:
    """Consecutive steps of one episode: T actions between T + 1 observations."""

    observations: Array  # [T + 1, ...]; the last one is the true final observation
    actions: Array  # [T] int64
    rewards: Array  # [T] float32
    terminated: bool  # the last step ended the episode; False: cut by a time limit or by the rollout


class Actors:
    """S seeds x E environments that act with one policy each."""

    def __init__(
        self, name: str, seeds: Sequence[int], count: int, options: dict[str, Any], purpose: str
    ) -> None:
        self.seeds, self.count, self.purpose = tuple(seeds), count, purpose
        self.environments = [[Environment(name, options) for _ in range(count)] for _ in seeds]
        self.shapes = self.environments[0][0].shapes
        self._all = list(np.ndindex(len(self.seeds), count))  # (seed's index, environment)
        self._observations = np.zeros((len(seeds), count, *self.shapes.observation), self.shapes.dtype)
        self._episode = np.full((len(seeds), count), -1)
        self._returns = np.zeros((len(seeds), count))
        self._round = 0

    def trajectories(self, policy: Policy, round_: int) -> list[list[Segment]]:
        """One complete episode in each environment; a list of segments per seed."""
        streams = self._begin(round_)
        for s, e in self._all:
            self._episode[s, e] = round_ - 1
            self._restart(s, e)
        logs = {place: _Log(self._observations[place]) for place in self._all}
        running = self._all
        while running:
            actions = self._act(policy, streams)
            running = [place for place in running if not self._step(place, int(actions[place]), logs[place])]
            self._check()
        return [[logs[s, e].segment() for e in range(self.count)] for s in range(len(self.seeds))]

    def transitions(
        self, policy: Policy, steps: int, round_: int
    ) -> tuple[list[list[Segment]], list[list[float]]]:
        """`steps` steps in each environment, across episodes; segments and finished returns per seed."""
        streams = self._begin(round_)
        segments: list[list[Segment]] = [[] for _ in self.seeds]
        finished: list[list[float]] = [[] for _ in self.seeds]
        for place in self._all:
            if self._episode[place] < 0:
                self._restart(*place)
        logs = {place: _Log(self._observations[place]) for place in self._all}
        for _ in range(steps):
            actions = self._act(policy, streams)
            ended = [place for place in self._all if self._step(place, int(actions[place]), logs[place])]
            self._check()  # before a new episode covers what the last step gave
            for s, e in ended:
                segments[s].append(logs[s, e].segment())
                finished[s].append(float(self._returns[s, e]))
                self._restart(s, e)
                logs[s, e] = _Log(self._observations[s, e])
        for (s, _), log in logs.items():
            if log.actions:
                segments[s].append(log.segment())
        return segments, finished

    def state(self) -> dict[str, Array]:
        """Where every environment stands, as the seed and the actions of its current episode."""
        flat = [self.environments[s][e] for s, e in self._all]
        return {
            "episode": self._episode.copy(),
            "returns": self._returns.copy(),
            "observations": self._observations.copy(),
            "lengths": np.array([len(environment.taken) for environment in flat]),
            "actions": np.array([a for environment in flat for a in environment.taken], dtype=np.int64),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Return every environment to a stored state by playing its episode again."""
        lengths, actions = state["lengths"], state["actions"]
        known = (actions >= 0) & (actions < self.shapes.actions)
        if (lengths < 0).any() or lengths.sum() != len(actions) or not known.all():
            raise XLVINError("The stored episodes make no sense; train anew in another folder.")
        self._episode, self._returns = state["episode"].copy(), state["returns"].copy()
        for place, taken in zip(self._all, np.split(actions, np.cumsum(lengths)[:-1]), strict=True):
            if self._episode[place] >= 0:
                self._replay(place, taken.tolist(), state["observations"][place])

    def close(self) -> None:
        """Release every environment."""
        for s, e in self._all:
            self.environments[s][e].close()

    def _begin(self, round_: int) -> list[np.random.Generator]:
        self._round = round_
        return [generator(seed, self.purpose + " actions", round_) for seed in self.seeds]

    def _act(self, policy: Policy, streams: list[np.random.Generator]) -> Array:
        return policy(self._observations, np.stack([stream.random(self.count) for stream in streams]))

    def _episode_seed(self, s: int, e: int) -> int:
        return derive_seed(self.seeds[s], self.purpose + " episode", e, int(self._episode[s, e]))

    def _restart(self, s: int, e: int) -> None:
        self._episode[s, e] += 1
        self._returns[s, e] = 0.0
        try:
            self._observations[s, e] = self.environments[s][e].reset(self._episode_seed(s, e))
        except RunFailedError as error:
            raise self._failure(s, error) from error

    def _step(self, place: tuple[int, int], action: int, log: _Log) -> bool:
        s, e = place
        try:
            observation, reward, terminated, truncated = self.environments[s][e].step(action)
        except RunFailedError as error:
            raise self._failure(s, error) from error
        log.add(action, reward, observation, terminated)
        self._observations[s, e] = observation
        self._returns[s, e] += reward
        return terminated or truncated

    def _replay(self, place: tuple[int, int], taken: list[int], expected: Array) -> None:
        s, e = place
        environment = self.environments[s][e]
        try:
            found = environment.replay(self._episode_seed(s, e), taken)
        except RunFailedError as error:
            raise self._failure(s, error) from error
        self._observations[place] = found
        if not np.array_equal(found, expected):
            warnings.warn(
                f"{environment.name} did not repeat itself from the same seed and actions; "
                "the resumed run goes on from a new episode and will differ from one that was never stopped.",
                stacklevel=2,
            )
            self._restart(s, e)

    def _check(self) -> None:
        """Stop before a NaN reaches the network; one pass over all environments."""
        if np.isfinite(self._observations).all() and np.isfinite(self._returns).all():
            return
        for s, e in self._all:
            for what, values in (("observation", self._observations[s, e]), ("reward", self._returns[s, e])):
                if not np.isfinite(values).all():
                    environment = self.environments[s][e]
                    raise self._failure(
                        s,
                        f"{environment.name} gave a non-finite {what} at step {len(environment.taken)} "
                        f"of the episode seeded {environment.seed}.",
                    )

    def _failure(self, s: int, cause: object) -> RunFailedError:
        return RunFailedError(
            f"The {self.purpose} of seed {self.seeds[s]} stopped in round {self._round + 1}: {cause}"
        )


class _Log:
    """The growing record of one episode."""

    def __init__(self, observation: Array) -> None:
        self.observations = [observation.copy()]
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.terminated = False

    def add(self, action: int, reward: float, observation: Array, terminated: bool) -> None:
        self.actions.append(action)
        self.rewards.append(reward)
        self.observations.append(observation)
        self.terminated = terminated

    def segment(self) -> Segment:
        return Segment(
            np.stack(self.observations),
            np.array(self.actions, dtype=np.int64),
            np.array(self.rewards, dtype=np.float32),
            self.terminated,
        )
