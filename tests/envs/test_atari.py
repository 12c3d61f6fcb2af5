"""Atari as one game and as many on native threads: the same frames, rewards and ends; refusals."""

import builtins
from typing import Any

import numpy as np
import pytest

from xlvin.envs.atari import AtariGame, AtariGames, Received, find_game, is_atari, shrink
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError

SEED = 7


class Stacks:
    """The stack of one of many games, put together by what is said about it."""

    def __init__(self) -> None:
        self.frames = np.zeros((4, 84, 84), np.uint8)

    def push(self, seen: Received) -> None:
        if seen.age[0] == 0:
            self.frames = np.zeros_like(self.frames)
        self.frames = np.concatenate((self.frames[1:], seen.frames[:1]))


def idle_frames(games: AtariGames) -> int:
    """How many idle frames the game of `SEED` begins with; only the emulator knows."""
    return int(games._env.reset(seed=np.array([SEED]))[1]["episode_frame_number"][0])


@pytest.mark.parametrize(
    ("name", "most", "lives"),
    [("BreakoutNoFrameskip-v4", 200, 4), ("FreewayNoFrameskip-v4", 40, 0)],
)
def test_many_games_are_one_game(name: str, most: int, lives: int) -> None:
    many, one, actions = AtariGames(name, 1, threads=1), AtariGame(name), np.random.default_rng(0)
    noops = idle_frames(many)
    seen, stacks, lost, over, steps = many.reset(np.array([SEED])), Stacks(), 0, False, 0
    stacks.push(seen)
    observation, _ = one.reset(seed=SEED, options={"noops": noops})
    total = score = 0.0
    while not over and steps < most:
        while seen.waiting[0]:  # presses that `AtariGame` does by itself
            many.send(np.zeros(1, np.int64))
            seen = many.receive()
            stacks.push(seen)
            score += float(seen.reward[0])
        # Both average areas, in other orders of summation: a grey value may be rounded to its neighbour.
        off = np.abs(stacks.frames.astype(np.int64) - observation)
        assert off.max() <= 1
        assert off.mean() < 1e-3
        assert observation[-1].std() > 5.0  # something is to be seen
        action = actions.integers(many.actions)
        many.send(np.array([action]))
        seen = many.receive()
        stacks.push(seen)
        observation, reward, over, truncated, _ = one.step(action)
        assert bool(seen.finished) == over
        assert not truncated
        total, score, steps = total + reward, score + float(seen.reward[0]), steps + 1
        lost += int(seen.terminated[0]) - int(over)
    assert lost == lives
    assert score == total
    assert over == (name != "FreewayNoFrameskip-v4")
    if over:
        assert seen.finished[0].score == total
    many.close()
    one.close()


@pytest.mark.parametrize("noops", [0, 1, 5])
def test_a_game_begins_with_the_idle_frames_that_are_asked_for(noops: int) -> None:
    game = AtariGame("BreakoutNoFrameskip-v4")
    _, info = game.reset(seed=SEED, options={"noops": noops})
    game.close()
    assert info["episode_frame_number"] == noops


def test_an_end_is_followed_by_a_row_without_weight_and_a_fresh_stack() -> None:
    games, actions = AtariGames("BreakoutNoFrameskip-v4", 3, threads=1), np.random.default_rng(1)
    rows = [games.reset(np.array([1, 2, 3]))]
    for _ in range(150):
        games.send(actions.integers(0, games.actions, 3))
        rows.append(games.receive())
    games.close()
    ends = [(t, e) for t, row in enumerate(rows) for e in range(3) if row.terminated[e]]
    assert len(ends) > 4
    for t, e in ends:
        if t + 4 >= len(rows):
            continue
        assert rows[t].age[e] > 0  # the true final frame belongs to the episode that ended
        assert [bool(rows[t + n].waiting[e]) for n in range(4)] == [True, True, True, False]
        assert [int(rows[t + n].age[e]) for n in (3, 4)] == [0, 1]
    assert [int(row.age[0]) for row in rows[:7]] == [
        0,
        0,
        0,
        1,
        2,
        3,
        3,
    ]  # FIRE and the action behind it first
    finished = [game for row in rows for game in row.finished]
    assert finished
    assert all(game.score >= game.clipped >= 0 for game in finished)


def test_the_same_seeds_and_actions_give_the_same_games() -> None:
    def play(seed: int) -> list[Received]:
        games, actions = AtariGames("AlienNoFrameskip-v4", 2), np.random.default_rng(0)
        rows = [games.reset(np.array([seed, seed + 1]))]
        for _ in range(20):
            games.send(actions.integers(0, games.actions, 2))
            rows.append(games.receive())
        games.close()
        return rows

    first, second, other = play(4), play(4), play(9)
    assert all(np.array_equal(a.frames, b.frames) for a, b in zip(first, second, strict=True))
    assert not all(np.array_equal(a.frames, b.frames) for a, b in zip(first, other, strict=True))


def test_a_time_limit_cuts_a_game_and_does_not_terminate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlvin.envs.atari.LONGEST_GAME", 6)
    games = AtariGames("FreewayNoFrameskip-v4", 2, threads=1)
    games.reset(np.array([1, 2]))
    rows = []
    for _ in range(8):
        games.send(np.zeros(2, np.int64))
        rows.append(games.receive())
    games.close()
    assert [bool(row.truncated.all()) for row in rows] == [False] * 5 + [True] + [False] * 2
    assert not any(row.terminated.any() for row in rows)
    assert [row.waiting.tolist() for row in rows[4:7]] == [[False] * 2, [True] * 2, [False] * 2]
    assert [game.number for game in rows[5].finished] == [0, 1]
    assert [int(row.age[0]) for row in rows[5:]] == [3, 0, 1]


def test_names_say_what_is_played() -> None:
    assert is_atari("ALE/Pong-v5")
    assert not is_atari("CartPole-v1")
    assert find_game("ALE/Pong-v5").sticky == 0.25
    assert find_game("PongNoFrameskip-v4").sticky == 0.0
    with pytest.raises(XLVINError, match="Did you mean"):
        find_game("ALE/Freway-v5")
    with pytest.raises(XLVINError, match="Names look like"):
        find_game("ALE/@@@@@@@@@@@@@@@@@@")


def test_without_the_emulator_one_sentence_tells_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("ale_py"):
            raise ImportError(name)
        return original(name, *rest, **options)

    find_game.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(XLVINError, match=r"xlvin\[atari\]"):
        find_game("ALE/Pong-v5")


def test_a_game_is_an_environment_like_any_other() -> None:
    environment = Environment("ALE/Freeway-v5", {"render_mode": "rgb_array"})
    assert environment.shapes.observation == environment.shapes.given == (4, 84, 84)
    first = environment.reset(3)
    assert (first[:3] == 0).all()
    assert environment.action_names == ["noop", "up", "down"]
    after = [environment.step(1)[0] for _ in range(5)][-1]
    assert np.array_equal(environment.replay(3, [1] * 5), after)
    frame = environment.render()
    assert frame is not None
    assert frame.shape == (210, 160, 3)
    environment.close()


def test_shrinking_averages_areas() -> None:
    screen = np.zeros((210, 160), np.uint8)
    screen[:5] = 200  # two rows of 84 cover exactly five of 210
    small = shrink(screen)
    assert (small[:2] == 200).all()
    assert (small[2:] == 0).all()
    screen[5:6] = 100  # two fifths of the third row
    assert (shrink(screen)[2] == 40).all()
