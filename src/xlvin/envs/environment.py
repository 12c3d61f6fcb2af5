"""One Gymnasium environment behind the interface that rollouts use.

Observations leave as arrays a network can take (see `xlvin.observations`). Episodes are started with explicit
seeds and remember their actions, so an environment's state can be stored as (seed, actions) and restored by
playing them again.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray

from xlvin.binning import centres
from xlvin.envs.actions import action_names, vector_names
from xlvin.envs.atari import LONGEST_GAME, AtariGame, is_atari
from xlvin.envs.choices import Action, choices
from xlvin.envs.own import import_source, place
from xlvin.errors import RunFailedError, XLVINError
from xlvin.observations import DISCRETE, SMALLEST_IMAGE, converter

Array = NDArray[Any]

# An environment without a time limit of its own gets this one, so that every trajectory ends.
LONGEST_EPISODE = 10_000
# Features that may be larger than this are taken as unbounded.
UNBOUNDED = 1e6
# What the code of an environment may end with; an interrupt is not its fault.
FAULTS = (Exception, SystemExit)


@dataclass(frozen=True)
class Shapes:
    """All that an agent learns about its environment beforehand."""

    given: tuple[int, ...]  # an observation as the environment gives it; () for a discrete state
    observation: tuple[int, ...]  # as a network reads it: (features,) or (channels, height, width)
    dtype: str  # "float32" or "uint8"
    actions: int  # how many there are to choose from; of vectors, how many numbers each has
    bounds: tuple[tuple[float, float], ...] = ()  # (low, high) of every feature of a vector, maybe infinite
    bins: tuple[int, ...] = ()  # of each dimension, where the actions are the cells of a grid over vectors
    low: tuple[float, ...] = ()  # of each dimension of continuous actions
    high: tuple[float, ...] = ()

    @property
    def vectors(self) -> bool:
        """Whether an action is a vector instead of a number."""
        return bool(self.low) and not self.bins


class Environment:
    """A single environment. Its actions are numbers, or vectors where they are continuous and not binned.

    bins: of each dimension of continuous actions, see `xlvin.binning`; () chooses by the number of
        dimensions, None leaves them vectors. Discrete actions are what they are.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any] | None = None, bins: Sequence[int] | None = ()
    ) -> None:
        self.name = name
        self._env, self._limit = _make(name, dict(options or {}))
        space, own = self._env.observation_space, choices(name, self._env.action_space, bins)
        self.shapes = Shapes(
            *_observation(name, space), own.count, _bounds(space), own.bins, own.low, own.high
        )
        self._convert = converter(self.shapes.given, self.shapes.observation, self.shapes.dtype)
        self._take = own.take
        self.seed = 0
        self.taken: list[Any] = []  # as `step` was given them
        self.given: Any = None  # the latest observation as the environment gave it

    def reset(self, seed: int) -> Array:
        """Start an episode; the same seed and the same actions give the same episode."""
        self.seed, self.taken = seed, []
        try:
            started = self._env.reset(seed=seed)
            if not isinstance(started, tuple) or len(started) != 2:
                raise TypeError("reset must return (observation, info), as Gymnasium has it")
            return self._read(started[0])
        except FAULTS as error:
            raise self._failure("at the reset", error) from error

    def step(self, action: Action) -> tuple[Array, float, bool, bool]:
        """Act; returns the true next observation, reward, terminated, truncated."""
        self.taken.append(action)
        try:
            stepped = self._env.step(self._take(action))
            if len(stepped) != 5:
                raise TypeError(
                    "step must return (observation, reward, terminated, truncated, info), as Gymnasium has it"
                )
            observation, reward, terminated, truncated, _ = stepped
            if terminated is None or truncated is None:
                raise TypeError("step must say whether the episode has terminated or was truncated")
            late = len(self.taken) >= self._limit
            return self._read(observation), _number(reward), bool(terminated), bool(truncated) or late
        except FAULTS as error:
            raise self._failure(f"at step {len(self.taken)}", error) from error

    def replay(self, seed: int, actions: Sequence[Action]) -> Array:
        """Return to the point that `actions` lead to from `reset(seed)`, or to where the episode ends."""
        observation, ended = self.reset(seed), False
        for action in actions:
            if ended:
                break
            observation, _, terminated, truncated = self.step(action)
            ended = terminated or truncated
        return observation

    def render(self) -> Array | None:
        """The current frame as [height, width, 3], if the environment was made with a render mode."""
        frame = None if self._env.render_mode is None else self._env.render()
        return frame if isinstance(frame, np.ndarray) else None

    @property
    def fps(self) -> float | None:
        """Frames per second that the environment is meant to be seen at, where it says so."""
        return self._env.metadata.get("render_fps")

    @property
    def action_names(self) -> list[str]:
        """What the actions are called, where the environment or we know; else their numbers."""
        if self.shapes.bins:
            return vector_names(centres(self.shapes.bins, self.shapes.low, self.shapes.high))
        return action_names(self.name, self._env.unwrapped, self.shapes.actions)

    def places(self, paths: Sequence[Sequence[int]]) -> Array | None:
        """Where sequences of actions would lead from here, [N, 2] as fractions (x, y) of the frame.

        For environments that offer a method of this name; None for all others.
        """
        places = getattr(self._env.unwrapped, "places", None)
        return None if places is None else np.asarray(places(paths), np.float64).reshape(-1, 2)

    def close(self) -> None:
        """Release the environment."""
        self._env.close()

    def _read(self, observation: Any) -> Array:
        self.given = observation
        array = self._convert(observation)
        if array.shape != self.shapes.observation:
            expected = self.shapes.given
            raise ValueError(f"an observation of shape {np.shape(observation)} instead of {expected}")
        return array

    def _failure(self, where: str, error: BaseException) -> RunFailedError:
        told = str(error).removesuffix(".") if isinstance(error, XLVINError) else repr(error)
        return RunFailedError(
            f"{self.name} failed {where} of the episode seeded {self.seed}: {told}{place(error)}."
        )


def _number(reward: Any) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the reward must be a number, not {reward!r}") from error


def time_limit(name: str) -> int | None:
    """After how many steps an environment's episodes are cut, as far as its registration says."""
    registered = _import(name)
    spec = gymnasium.registry.get(registered)
    return None if spec is None else spec.max_episode_steps


def shapes_of(name: str, bins: Sequence[int] | None = None) -> Shapes:
    """What an agent learns about an environment beforehand; `bins` as of `Environment`."""
    environment = Environment(name, bins=bins)
    environment.close()
    return environment.shapes


def shows_images(name: str) -> bool:
    """Whether an environment's observations are images."""
    return len(shapes_of(name).observation) == 3


def _import(name: str) -> str:
    """Let an environment register itself; returns its registered name."""
    # Our own environments are registered by the module that holds them.
    home = "pushed" if name.startswith("xlvin/Pushed") else "mazes"
    return import_source(f"xlvin.envs.{home}:{name}" if name.startswith("xlvin/") else name)


def _make(name: str, options: dict[str, Any]) -> tuple[gymnasium.Env[Any, Any], int]:
    """The environment, and after how many steps its episodes are cut."""
    if is_atari(name):
        return AtariGame(name, **options), LONGEST_GAME
    registered = _import(name)
    if options.get("render_mode") == "rgb_array":
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames are wanted, no window
    try:
        with warnings.catch_warnings():
            # CartPole-v0 is the paper's environment; that newer versions exist is no news.
            warnings.filterwarnings("ignore", message=".*is out of date.*")
            warnings.filterwarnings("ignore", message=".*Using the latest versioned environment.*")
            # Simulators imported here may use what Python will drop one day; Box2D does.
            warnings.simplefilter("ignore", DeprecationWarning)
            env = gymnasium.make(registered, disable_env_checker=True, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        hint = "`pip install 'xlvin[box2d]'` may help" if "box2d" in str(error).lower() else "install it"
        raise XLVINError(f"{name} needs an optional package ({error}); {hint}.") from error
    except FAULTS as error:
        if registered not in gymnasium.registry:
            near = difflib.get_close_matches(name, gymnasium.registry, 3)
            hint = (
                f"Did you mean {' or '.join(near)}?"
                if near
                else 'Give the file that registers it, as in "my_env.py:Name-v0".'
            )
            raise XLVINError(f'There is no environment "{name}". {hint}') from error
        reason = " ".join(str(error).split()) or repr(error)
        raise XLVINError(f"{name} could not be made: {reason}{place(error)}") from error
    limits = [env.spec.max_episode_steps] if env.spec and env.spec.max_episode_steps else []
    # What these two look after, `Environment` does itself: two calls less per step.
    while isinstance(env, TimeLimit | OrderEnforcing):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return env, min(limits, default=LONGEST_EPISODE)


def _observation(name: str, space: spaces.Space[Any]) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """The shape an environment gives, the shape a network reads, and the type of its numbers."""
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise XLVINError(
                f"{name} numbers its states from {space.start}; wrap it so that they start at 0."
            )
        return DISCRETE, (int(space.n),), "float32"
    if not isinstance(space, spaces.Space):
        raise XLVINError(f"{name} does not say what it observes; give it an observation_space.")
    if not isinstance(space, spaces.Box):
        raise XLVINError(
            f"{name} observes a {type(space).__name__} space; wrap it with gymnasium.wrappers."
            "FlattenObservation in a file of your own, as docs/tutorials/environment.md shows."
        )
    if space.shape == DISCRETE or 0 in space.shape:
        raise XLVINError(
            f"{name} observes arrays of shape {space.shape}; wrap it with gymnasium.wrappers."
            "TransformObservation so that they are vectors of at least one number."
        )
    if len(space.shape) == 3:
        channels_first = space.shape[0] <= space.shape[2]
        image = space.shape if channels_first else (space.shape[2], *space.shape[:2])
        if min(image[1:]) >= SMALLEST_IMAGE:
            whole = space.dtype is not None and space.dtype.kind in "iu"
            is_bytes = whole and space.low.min() >= 0 and space.high.max() <= 255
            return space.shape, image, "uint8" if is_bytes else "float32"
    return space.shape, (int(np.prod(space.shape)),), "float32"


def _bounds(space: spaces.Space[Any]) -> tuple[tuple[float, float], ...]:
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return ()
    low = np.where(np.abs(space.low) < UNBOUNDED, space.low, -np.inf)
    high = np.where(np.abs(space.high) < UNBOUNDED, space.high, np.inf)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))
