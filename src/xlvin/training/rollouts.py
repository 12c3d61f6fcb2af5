"""Collecting data: many seeds, each with its own environments and random streams, one batched policy call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.envs.choices import Action
from xlvin.envs.environment import Environment
from xlvin.errors import RunFailedError, XLVINError
from xlvin.training.seeding import derive_seed, generator

Array = NDArray[Any]
# (observations [S, E, ...], uniform numbers [S, E]) -> actions [S, E]; for vectors both are [S, E, d]
Policy = Callable[[Array, Array], Array]
# Returns that single precision cannot hold teach nothing.
LARGEST = 1e38


@dataclass(frozen=True)
class Segment:
    """Consecutive steps of one episode: T actions between T + 1 observations."""

    observations: Array  # [T + 1, ...]; the last one is the true final observation
    actions: Array  # [T] int64; vectors [T, d] float32
    rewards: Array  # [T] float32
    terminated: bool  # the last step ended the episode; False: cut by a time limit or by the rollout


class Actor:
    """One environment of one seed, and the segment that it is recording."""

    def __init__(self, environment: Environment, purpose: str, seed: int, number: int) -> None:
        self.environment, self.seed = environment, seed
        self._purpose, self._number = purpose, number
        self.observation: Array = np.zeros(environment.shapes.observation, environment.shapes.dtype)
        self.round, self.episode = 0, -1
        self.total = 0.0  # the episode's return so far

    def restart(self) -> None:
        """Begin the next episode."""
        self.episode += 1
        self.total = 0.0
        self._go_to([])

    def replay(self, actions: Sequence[Action], expected: Array) -> None:
        """Return to where these actions led in the current episode."""
        try:
            self._go_to(actions)
            repeated = np.array_equal(self.observation, expected) and len(self.taken()) == len(actions)
        except RunFailedError:  # what is left of it goes wrong elsewhere in its world
            repeated = False
        if not repeated:
            warnings.warn(
                f"{self.environment.name} did not repeat itself from the same seed and actions; "
                "the resumed run goes on from a new episode and will differ from one that was never stopped.",
                stacklevel=2,
            )
            self.restart()

    def begin_segment(self) -> None:
        """Forget what was recorded; the next segment starts here."""
        self._start = len(self.environment.taken)
        self._observations, self._terminated = [self.observation], False
        self._rewards: list[float] = []

    def step(self, action: Action) -> bool:
        """Act; returns whether the episode ended."""
        try:
            self.observation, reward, self._terminated, truncated = self.environment.step(action)
        except RunFailedError as error:
            raise self._failure(error) from error
        self._observations.append(self.observation)
        self._rewards.append(reward)
        self.total += reward
        if not abs(self.total) < LARGEST:  # also where it is not a number
            raise self._failure(self._complaint(f"the reward {reward}"))
        return self._terminated or truncated

    def segment(self) -> list[Segment]:
        """What was recorded: one segment, or none if there was no step."""
        if not self._rewards:
            return []
        actions = self.taken(self._start)
        rewards = np.array(self._rewards, np.float32)
        return [Segment(np.array(self._observations), actions, rewards, self._terminated)]

    def taken(self, start: int = 0) -> Array:
        """The episode's actions from the step `start` on, [T] int64; vectors [T, d] float32."""
        shapes, taken = self.environment.shapes, self.environment.taken[start:]
        if shapes.vectors:
            return np.array(taken, np.float32).reshape(-1, shapes.actions)
        return np.array(taken, np.int64)

    def check(self) -> None:
        """Stop before an observation that is not finite reaches the network."""
        if not np.isfinite(self.observation).all():
            raise self._failure(self._complaint("a non-finite observation"))

    def _go_to(self, actions: Sequence[Action]) -> None:
        seed = derive_seed(self.seed, f"{self._purpose} episode", self._number, self.episode)
        try:
            self.observation = self.environment.replay(seed, actions)
        except RunFailedError as error:
            raise self._failure(error) from error
        self.begin_segment()

    def _complaint(self, what: str) -> str:
        environment = self.environment
        return (
            f"{environment.name} gave {what} at step {len(environment.taken)} "
            f"of the episode seeded {environment.seed}."
        )

    def _failure(self, cause: object) -> RunFailedError:
        return RunFailedError(
            f"The {self._purpose} of seed {self.seed} stopped in round {self.round + 1}: "
            f"{str(cause).removesuffix('.')}; mend the environment, and the same command goes on."
        )


class Actors:
    """S seeds x E environments that act with one policy each; `bins` as in `Environment`."""

    def __init__(
        self,
        name: str,
        seeds: Sequence[int],
        count: int,
        options: dict[str, Any],
        purpose: str,
        bins: Sequence[int] | None = (),
    ) -> None:
        self.seeds, self.count, self.purpose = tuple(seeds), count, purpose
        self.all = [  # seed by seed
            Actor(Environment(name, options, bins), purpose, seed, number)
            for seed in seeds
            for number in range(count)
        ]
        self.shapes = self.all[0].environment.shapes
        # Uniform numbers of a step: one for every environment, or for every number of its vector.
        self._draws = (count, self.shapes.actions) if self.shapes.vectors else (count,)

    def trajectories(self, policy: Policy, round_: int) -> list[list[Segment]]:
        """One complete episode in each environment; a list of segments per seed."""
        streams = self._streams(round_)
        for actor in self.all:
            actor.episode = round_ - 1
            actor.restart()
        observations, running = self._observe(), [True] * len(self.all)
        while any(running):
            uniform = np.array([stream.random(self._draws) for stream in streams])
            actions = self._act(policy, observations, uniform)
            for index, actor in enumerate(self.all):
                if running[index]:
                    running[index] = not actor.step(actions[index])
            observations = self._observe()
        segments: list[list[Segment]] = [[] for _ in self.seeds]
        for index, actor in enumerate(self.all):
            segments[index // self.count] += actor.segment()
        return segments

    def transitions(
        self, policy: Policy, steps: int, round_: int
    ) -> tuple[list[list[Segment]], list[list[float]]]:
        """`steps` steps in each environment, across episodes; segments and finished returns per seed."""
        streams = self._streams(round_)
        segments: list[list[Segment]] = [[] for _ in self.seeds]
        finished: list[list[float]] = [[] for _ in self.seeds]
        for actor in self.all:
            if actor.episode < 0:
                actor.restart()
            actor.begin_segment()
        observations = self._observe()
        uniform = np.array([stream.random((steps, *self._draws)) for stream in streams])
        for step in range(steps):
            actions = self._act(policy, observations, uniform[:, step])
            ended = [index for index, actor in enumerate(self.all) if actor.step(actions[index])]
            observations = self._observe()  # before a new episode covers what the last step gave
            for index in ended:
                actor = self.all[index]
                segments[index // self.count] += actor.segment()
                finished[index // self.count].append(actor.total)
                actor.restart()
            if ended:
                observations = self._observe()
        for index, actor in enumerate(self.all):
            segments[index // self.count] += actor.segment()
        return segments, finished

    def state(self) -> dict[str, Array]:
        """Where every environment stands, as the seed and the actions of its current episode."""
        taken = [actor.taken() for actor in self.all]
        return {
            "episode": np.array([actor.episode for actor in self.all]),
            "total": np.array([actor.total for actor in self.all]),
            "observation": np.array([actor.observation for actor in self.all]),
            "length": np.array([len(actions) for actions in taken]),
            "action": np.concatenate(taken),
        }

    def restore(self, state: dict[str, Array], round_: int) -> None:
        """Return every environment to its state before a round by playing its episode again."""
        length, action = state["length"], state["action"]
        known = np.isfinite(action) if self.shapes.vectors else (action >= 0) & (action < self.shapes.actions)
        if (
            (length < 0).any()
            or length.sum() != len(action)
            or not known.all()
            or (state["episode"] < 0).any()
        ):
            raise XLVINError("The stored episodes make no sense; train anew in another folder.")
        taken = np.split(action, np.cumsum(length)[:-1])
        for index, actor in enumerate(self.all):
            actor.round, actor.episode = round_, int(state["episode"][index])
            actor.total = float(state["total"][index])
            actor.replay(taken[index].tolist(), state["observation"][index])

    def close(self) -> None:
        """Release every environment."""
        for actor in self.all:
            actor.environment.close()

    def _streams(self, round_: int) -> list[np.random.Generator]:
        for actor in self.all:
            actor.round = round_
        return [generator(seed, f"{self.purpose} actions", round_) for seed in self.seeds]

    def _observe(self) -> Array:
        """What every environment shows, [S * E, ...]."""
        observations = np.array([actor.observation for actor in self.all])
        if not np.isfinite(observations).all():
            for actor in self.all:
                actor.check()
        return observations

    def _act(self, policy: Policy, observations: Array, uniform: Array) -> list[Action]:
        """The policy's actions, [S * E]; the random numbers are [S, E] or, for vectors, [S, E, d]."""
        batch = observations.reshape(*uniform.shape[:2], *observations.shape[1:])
        actions: list[Action] = policy(batch, uniform).reshape(-1, *uniform.shape[2:]).tolist()
        return actions
