"""Small environments as a user would register them, good ones and faulty ones."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CORRIDOR, PICTURE = "xlvin-tests/Corridor-v0", "xlvin-tests/Picture-v0"
DEPTHS = "xlvin-tests/Depths-v0"
FAULTY = "xlvin-tests/Faulty-v0"
NAN_REWARD, NAN_OBSERVATION, CRASH, CRASH_ON_RESET, WRONG_SHAPE, LAST_NAN = (
    f"xlvin-tests/{name}-v0"
    for name in ("NaNReward", "NaNObservation", "Crash", "CrashOnReset", "WrongShape", "LastNaN")
)
DICT, FORGETFUL = "xlvin-tests/Dict-v0", "xlvin-tests/Forgetful-v0"
MAP = "xlvin-tests/Map-v0"
AIM, AIM_2D = "xlvin-tests/Aim-v0", "xlvin-tests/Aim2D-v0"


class Corridor(gymnasium.Env[Any, Any]):
    """Five cells; the right end pays 1 and terminates, the left end terminates, cells cost 0.1.

    Gives the same array every time, changed in place, as some environments do.
    """

    observation_space = spaces.Box(-1.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.moves = int(self.np_random.integers(1, 4)), 0
        self.buffer = np.zeros(2, np.float32)
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place += action - 1
        self.moves += 1
        reward = 1.0 if self.place == 4 else -0.1
        return self._observe(), reward, self.place in (0, 4), False, {}

    def _observe(self) -> np.ndarray:
        self.buffer[:] = self.place, self.moves
        return self.buffer


class Map(Corridor):
    """The corridor seen from above; says where actions would lead, as fractions of the picture."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own way

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def places(self, paths: list[list[int]]) -> list[tuple[float, float]]:
        return [((self.place + sum(action - 1 for action in path) + 0.5) / 5, 0.5) for path in paths]

    def render(self) -> np.ndarray:
        picture = np.full((20, 100, 3), 240, np.uint8)
        picture[2:18, 20 * self.place + 2 : 20 * self.place + 18] = (30, 90, 200)
        return picture


class Picture(gymnasium.Env[Any, Any]):
    """A bright square that moves left or right over a dark image, [height, width, channels] in bytes."""

    observation_space = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(2, 6))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place += 2 * action - 1
        return self._observe(), float(action), self.place in (0, 7), False, {}

    def _observe(self) -> np.ndarray:
        image = np.zeros((36, 40, 3), np.uint8)
        image[10:20, 5 * self.place : 5 * self.place + 5] = 255
        return image


class Depths(Picture):
    """The same numbers where larger ones could be: no bytes."""

    observation_space = spaces.Box(0, 1000, (36, 40, 3), np.int16)

    def _observe(self) -> np.ndarray:
        return super()._observe().astype(np.int16)


class Faulty(Corridor):
    """Does something wrong at the second step of its third episode (or in its reset)."""

    def __init__(self, fault: str = "none") -> None:
        self.fault, self.episodes = fault, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        self.episodes += 1
        observation, info = super().reset(seed=seed)
        self.place = 2
        if self.fault == "reset" and self.episodes == 3:
            raise OSError("the simulator is gone")
        return observation, info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        observation, reward, _, _, info = super().step(1)
        terminated = self.moves == 3
        if self.episodes < 3:
            return observation, reward, terminated, False, info
        if self.fault == "last" and terminated:
            observation = np.full(2, np.nan, np.float32)
        if self.moves == 2:
            if self.fault == "crash":
                raise ZeroDivisionError("the pole is nowhere")
            if self.fault == "shape":
                observation = np.zeros(3, np.float32)
            if self.fault == "reward":
                reward = float("nan")
            if self.fault == "observation":
                observation = np.array([1.0, np.inf], np.float32)
        return observation, reward, terminated, False, info


class Dictionary(Corridor):
    observation_space = spaces.Dict({"place": spaces.Discrete(5)})  # type: ignore[assignment]


class Forgetful(Corridor):
    """Its episodes do not depend on the seed."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        Forgetful.resets += 1
        super().reset(seed=seed)
        self.moves = 100 * Forgetful.resets
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.moves += 1
        return self._observe(), 0.0, False, False, {}


class Aim(gymnasium.Env[Any, Any]):
    """One step: a vector is to be hit that the observation shows; the further off, the worse."""

    def __init__(self, low: Any = (-2.0,), high: Any = (6.0,), shape: tuple[int, ...] | None = None) -> None:
        ends = [np.array(end, np.float32) for end in (low, high)]
        self.action_space = spaces.Box(*(ends if shape is None else [end.reshape(shape) for end in ends]))
        self.observation_space = spaces.Box(-1.0, 1.0, (self.action_space.low.size,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.target = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape).astype(np.float32)
        return self.target, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        low, high = self.action_space.low, self.action_space.high
        standard = (action - (low + high) / 2) / ((high - low) / 2)
        return self.target, -float(np.square(standard - self.target).mean()), True, False, {}


def register(name: str, environment: Any, **options: Any) -> None:
    if name not in gymnasium.registry:
        gymnasium.register(name, environment, **options)


register(AIM, Aim)
register(AIM_2D, Aim, kwargs={"low": (-2.0, 0.0), "high": (6.0, 1.0)})
register(CORRIDOR, Corridor, max_episode_steps=6)
register(MAP, Map, max_episode_steps=6)
register(PICTURE, Picture, max_episode_steps=5)
register(DEPTHS, Depths, max_episode_steps=5)
register(DICT, Dictionary)
register(FORGETFUL, Forgetful, max_episode_steps=50)
register(FAULTY, Faulty, max_episode_steps=6)
for name, fault in {
    NAN_REWARD: "reward",
    NAN_OBSERVATION: "observation",
    CRASH: "crash",
    CRASH_ON_RESET: "reset",
    WRONG_SHAPE: "shape",
    LAST_NAN: "last",
}.items():
    register(name, Faulty, kwargs={"fault": fault}, max_episode_steps=6)
