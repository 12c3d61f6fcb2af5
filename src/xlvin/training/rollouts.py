"""Collecting data: many seeds, each with its own environments and random streams, in one batched policy call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.envs.environment import Environment
from xlvin.errors import RunFailedError
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

    def __init__(self, name: str, seeds: Sequence[int], count: int, options: dict[str, Any], purpose: str) -> None:
        self.seeds, self.count, self.purpose = tuple(seeds), count, purpose
        self.environments = [[Environment(name, options) for _ in range(count)] for _ in seeds]
        self.shapes = self.environments[0][0].shapes
        self._observations = np.zeros((len(seeds), count, *self.shapes.observation), self.shapes.dtype)
        self._episode = np.full((len(seeds), count), -1)
        self._returns = np.zeros((len(seeds), count))

    def trajectories(self, policy: Policy, round_: int) -> list[list[Segment]]:
        """One complete episode in each environment; a list of segments per seed."""
        streams = [generator(seed, self.purpose + " actions", round_) for seed in self.seeds]
        for s, e in np.ndindex(self._episode.shape):
            self._episode[s, e] = round_ - 1
            self._restart(s, e)
        logs = [[_Log(self._observations[s, e]) for e in range(self.count)] for s in range(len(self.seeds))]
        running = [(s, e) for s, e in np.ndindex(self._episode.shape)]
        while running:
            actions = self._act(policy, streams)
            running = [(s, e) for s, e in running if not self._step(s, e, int(actions[s, e]), logs[s][e])]
            self._check(round_)
        return [[log.segment() for log in seed_logs] for seed_logs in logs]

    def transitions(self, policy: Policy, steps: int, round_: int) -> tuple[list[list[Segment]], list[list[float]]]:
        """`steps` steps in each environment, across episodes; segments and finished returns per seed."""
        streams = [generator(seed, self.purpose + " actions", round_) for seed in self.seeds]
        segments: list[list[Segment]] = [[] for _ in self.seeds]
        finished: list[list[float]] = [[] for _ in self.seeds]
        for s, e in np.ndindex(self._episode.shape):
            if self._episode[s, e] < 0:
                self._restart(s, e)
        logs = [[_Log(self._observations[s, e]) for e in range(self.count)] for s in range(len(self.seeds))]
        for _ in range(steps):
            actions = self._act(policy, streams)
            for s, e in np.ndindex(self._episode.shape):
                if self._step(s, e, int(actions[s, e]), logs[s][e]):
                    segments[s].append(logs[s][e].segment())
                    finished[s].append(float(self._returns[s, e]))
                    self._restart(s, e)
                    logs[s][e] = _Log(self._observations[s, e])
            self._check(round_)
        for s, e in np.ndindex(self._episode.shape):
            if logs[s][e].actions:
                segments[s].append(logs[s][e].segment())
        return segments, finished

    def state(self) -> dict[str, Array]:
        """Where every environment stands, as the seed and the actions of its current episode."""
        flat = [environment for row in self.environments for environment in row]
        return {
            "episode": self._episode.copy(),
            "returns": self._returns.copy(),
            "lengths": np.array([len(environment.taken) for environment in flat]),
            "actions": np.array([a for environment in flat for a in environment.taken], dtype=np.int64),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Return every environment to a stored state by playing its episode again."""
        self._episode, self._returns = state["episode"].copy(), state["returns"].copy()
        ends = np.cumsum(state["lengths"])
        for index, (s, e) in enumerate(np.ndindex(self._episode.shape)):
            if self._episode[s, e] < 0:
                continue
            taken = state["actions"][ends[index] - state["lengths"][index] : ends[index]].tolist()
            self._observations[s, e] = self.environments[s][e].replay(self._episode_seed(s, e), taken)

    def close(self) -> None:
        """Release every environment."""
        for row in self.environments:
            for environment in row:
                environment.close()

    def _act(self, policy: Policy, streams: list[np.random.Generator]) -> Array:
        return policy(self._observations, np.stack([stream.random(self.count) for stream in streams]))

    def _episode_seed(self, s: int, e: int) -> int:
        return derive_seed(self.seeds[s], self.purpose + " episode", e, int(self._episode[s, e]))

    def _restart(self, s: int, e: int) -> None:
        self._episode[s, e] += 1
        self._returns[s, e] = 0.0
        self._observations[s, e] = self.environments[s][e].reset(self._episode_seed(s, e))

    def _step(self, s: int, e: int, action: int, log: _Log) -> bool:
        observation, reward, terminated, truncated = self.environments[s][e].step(action)
        log.add(action, reward, observation, terminated)
        self._observations[s, e] = observation
        self._returns[s, e] += reward
        return terminated or truncated

    def _check(self, round_: int) -> None:
        """Stop before a NaN reaches the network; one pass over all environments."""
        if np.isfinite(self._observations).all() and np.isfinite(self._returns).all():
            return
        for s, e in np.ndindex(self._episode.shape):
            for what, values in (("observation", self._observations[s, e]), ("reward", self._returns[s, e])):
                if not np.isfinite(values).all():
                    environment = self.environments[s][e]
                    raise RunFailedError(
                        f"{environment.name} gave a non-finite {what} in round {round_}, seed {self.seeds[s]}, "
                        f"step {len(environment.taken)} of the episode seeded {environment.seed}; "
                        "mend the environment and run the same command to go on."
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
