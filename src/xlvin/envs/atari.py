"""Atari games as Kostrikov's PPO plays them, one game at a time or many at once on ale-py's native threads.

Actions repeat for four frames, a frame is the pixelwise maximum of the last two, in grey, 84 x 84; games
begin with 1 to 30 idle frames; for learning, a lost life ends an episode while the game goes on. After that,
FIRE and the action after it are pressed in games that know FIRE, since some wait for it.

`AtariGames` runs E games in step. Presses that are not the agent's are ordinary steps whose rows carry no
weight. Every end is followed by such a row, so that the frame after an episode's last action, which is its
true final one, is kept and not taken for the first of the next episode.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from xlvin.errors import XLVINError

Array = NDArray[Any]

SIZE, STACK, SKIP, NOOPS = 84, 4, 4, 30
LONGEST_GAME = 27_000  # steps: half an hour at 60 frames a second
NOOP, FIRE, AFTER_FIRE = 0, 1, 2


@dataclass(frozen=True)
class Game:
    """What an environment's name says about the game."""

    rom: str
    sticky: float  # probability that the console repeats the previous action: 0.25 in v5, 0 in NoFrameskip-v4
    full_actions: bool


def is_atari(name: str) -> bool:
    """Whether a name is one of ale-py's: "ALE/Freeway-v5", "FreewayNoFrameskip-v4"."""
    return name.startswith("ALE/") or name.endswith("NoFrameskip-v4")


@cache
def find_game(name: str) -> Game:
    """The game of that name."""
    register(name)
    if name not in gymnasium.registry:
        near = difflib.get_close_matches(name, filter(is_atari, gymnasium.registry), 1)
        hint = f'Did you mean "{near[0]}"?' if near else 'Names look like "ALE/Pong-v5".'
        raise XLVINError(f'There is no Atari game "{name}". {hint}')
    options: dict[str, Any] = gymnasium.spec(name).kwargs
    return Game(options["game"], options["repeat_action_probability"], options["full_action_space"])


def register(name: str) -> None:
    """Make ale-py's games known to Gymnasium, and the emulator quiet."""
    try:
        import ale_py
    except ImportError as error:
        raise XLVINError(
            f"{name} is an Atari game; install its emulator with `pip install 'xlvin[atari]'`."
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)


class Finished(NamedTuple):
    """A game that was played to its end."""

    number: int  # which of the E
    score: float  # the game's own
    clipped: float  # the sum of its rewards' signs


@dataclass(frozen=True, eq=False)
class Received:
    """What E games answer to one step."""

    frames: Array  # [E, 84, 84] uint8
    age: Array  # [E] uint8: earlier frames of the same episode that belong to the stack, 0 to 3
    waiting: Array  # [E] bool: the next action will not be the agent's
    reward: Array  # [E] float32, the game's own
    terminated: Array  # [E] bool: a life or the game is lost
    truncated: Array  # [E] bool: the game ran into its time limit
    finished: tuple[Finished, ...]  # games that ended with this step


class AtariGames:
    """E games in step, on native threads: `send` returns at once, `receive` waits."""

    def __init__(self, name: str, games: int, threads: int = 0) -> None:
        game = find_game(name)
        from ale_py.vector_env import AtariVectorEnv

        # Whole games only; lives, clipping and presses are looked after here. After its end a game answers
        # the next step with the first frame of another.
        self._env = AtariVectorEnv(
            game.rom,
            games,
            num_threads=threads,
            max_num_frames_per_episode=LONGEST_GAME * SKIP,
            repeat_action_probability=game.sticky,
            full_action_space=game.full_actions,
            autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
            img_height=SIZE,
            img_width=SIZE,
            stack_num=1,
            frameskip=SKIP,
            noop_max=NOOPS,
            use_fire_reset=False,
            reward_clipping=False,
        )
        self.games = games
        space: Any = self._env.single_action_space
        self.actions = int(space.n)
        self._presses = [FIRE, AFTER_FIRE] if has_fire(name) else []

    def reset(self, seeds: Array) -> Received:
        """Start a game in each, from positive seeds [E]."""
        frames, info = self._env.reset(seed=np.maximum(1, seeds))
        self._lives = info["lives"]
        self._score, self._clipped = np.zeros(self.games), np.zeros(self.games)
        self._age = np.zeros(self.games, np.uint8)
        self._queue: list[list[int]] = [list(self._presses) for _ in range(self.games)]
        nothing = np.zeros(self.games, bool)
        return self._received(frames, np.zeros(self.games, np.float32), nothing, nothing, ())

    def send(self, actions: Array) -> None:
        """Act in every game, [E]; where a game is waiting, its press goes instead."""
        chosen = actions.astype(np.int64)
        self._pressed = np.array([bool(queue) for queue in self._queue])
        for index in np.flatnonzero(self._pressed):
            chosen[index] = self._queue[index].pop(0)
        self._env.send(chosen)

    def receive(self) -> Received:
        """What came of it."""
        frames, reward, over, truncated, info = self._env.recv()
        reward, lives = reward.astype(np.float32), info["lives"]
        self._score += reward
        self._clipped += np.sign(reward)
        self._age = np.where(self._pressed, 0, np.minimum(self._age + 1, STACK - 1)).astype(np.uint8)
        ended = over | truncated
        # Some games show no life left for a while before they end: that is not one life less to play.
        lost = (lives < self._lives) & (lives > 0) & ~ended
        self._lives = lives
        finished = []
        for index in np.flatnonzero(ended | lost):
            self._queue[index] = [NOOP, *self._presses]  # at a game's end the first of them starts another
            if ended[index]:
                score, clipped = float(self._score[index]), float(self._clipped[index])
                finished.append(Finished(int(index), score, clipped))
                self._score[index] = self._clipped[index] = 0.0
        return self._received(frames, reward, over | lost, truncated & ~over, tuple(finished))

    def close(self) -> None:
        """Stop the threads, which end with the object that they belong to."""
        self._env.close()
        del self._env

    def _received(
        self,
        frames: Array,
        reward: Array,
        terminated: Array,
        truncated: Array,
        finished: tuple[Finished, ...],
    ) -> Received:
        waiting = np.array([bool(queue) for queue in self._queue])
        return Received(frames[:, 0], self._age, waiting, reward, terminated, truncated, finished)


class AtariGame(gymnasium.Env[Array, np.int64]):
    """One whole game as a Gymnasium environment: the same frames, stacked, and the game's own rewards.

    Observations are [4, 84, 84]; what an agent trained on `AtariGames` reads. Lives are played to the last.
    """

    observation_space = spaces.Box(0, 255, (STACK, SIZE, SIZE), np.uint8)

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        find_game(name)
        options: dict[str, Any] = {
            "frameskip": 1,
            "obs_type": "grayscale",
            "max_num_frames_per_episode": LONGEST_GAME * SKIP,
        }
        self._env = gymnasium.make(name, disable_env_checker=True, render_mode=render_mode, **options)
        self.render_mode = render_mode
        self.action_space = self._env.action_space
        self._presses = [FIRE, AFTER_FIRE] if has_fire(name) else []
        self._lives = 0
        self._stack = np.zeros((STACK, SIZE, SIZE), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Any]:
        """Begin a game with 1 to 30 idle frames, or with `options["noops"]` of them."""
        super().reset(seed=seed)
        screen, info = self._env.reset(seed=seed)
        noops = (options or {}).get("noops")
        for _ in range(int(self.np_random.integers(1, NOOPS + 1)) if noops is None else noops):
            screen, _, over, _, info = self._env.step(NOOP)
            if over:
                screen, info = self._env.reset()
        self._lives, frame = info["lives"], shrink(screen)
        for action in self._presses:
            frame = self._repeat(action)[0]
        return self._restack(frame), info

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Act for four frames; a lost life is followed by the presses that start the next one."""
        frame, reward, over, truncated, info = self._repeat(int(action))
        lost = info["lives"] < self._lives and info["lives"] > 0 and not over
        self._lives = info["lives"]
        self._stack = np.concatenate((self._stack[1:], frame[None]))
        if lost and not truncated:
            for press in (NOOP, *self._presses):
                if not (over or truncated):
                    frame, more, over, truncated, info = self._repeat(press)
                    reward += more
            self._lives = info["lives"]
            self._restack(frame)
        return self._stack, reward, over, truncated, info

    def get_action_meanings(self) -> list[str]:
        """What the actions press, such as "UPFIRE"."""
        meanings: list[str] = self._env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        return meanings

    def render(self) -> Any:
        """The screen in colour, [210, 160, 3], if the render mode is "rgb_array"."""
        return self._env.render()

    def close(self) -> None:
        """Stop the emulator."""
        self._env.close()

    def _repeat(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Four frames of an action: the maximum of the last two, shrunk, and what they paid."""
        screens: list[Array] = []
        info: dict[str, Any] = {}
        total, over, truncated = 0.0, False, False
        while len(screens) < SKIP and not (over or truncated):
            screen, reward, over, truncated, info = self._env.step(action)
            screens.append(screen)
            total += float(reward)
        return (
            shrink(np.maximum(*screens[-2:]) if len(screens) > 1 else screens[0]),
            total,
            over,
            truncated,
            info,
        )

    def _restack(self, frame: Array) -> Array:
        """An episode's first observation: the frame after three black ones."""
        self._stack = np.zeros((STACK, SIZE, SIZE), np.uint8)
        self._stack[-1] = frame
        return self._stack


@cache
def has_fire(name: str) -> bool:
    """Whether the game's second action is FIRE, as it is wherever FIRE exists."""
    find_game(name)
    env = gymnasium.make(name, disable_env_checker=True)
    meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    env.close()
    return len(meanings) > AFTER_FIRE and meanings[FIRE] == "FIRE"


def shrink(screen: Array) -> Array:
    """A grey screen [210, 160] as 84 x 84 pixels, each the average of the area that it covers."""
    rows, columns = (_areas(length) for length in screen.shape)
    averages: Array = np.rint(rows @ screen.astype(np.float32) @ columns.T).astype(np.uint8)
    return averages


@cache
def _areas(length: int) -> Array:
    """Which share of every old pixel a new one covers, [84, length]; rows sum to one."""
    scale = length / SIZE
    new, old = np.arange(SIZE)[:, None], np.arange(length)[None]
    overlap = np.minimum((new + 1) * scale, old + 1) - np.maximum(new * scale, old)
    areas: Array = (np.maximum(0.0, overlap) / scale).astype(np.float32)
    return areas
