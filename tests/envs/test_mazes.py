import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from xlvin.envs.maze_world import MazeWorld, observe, scenes
from xlvin.envs.mazes import MazeEnv
from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES, generate, optimal_actions

MAZES = generate(30, 8, 4)


def test_the_world_and_the_environment_agree_step_by_step() -> None:
    world = MazeWorld(MAZES, 40, MAZES.starts(3), step_limit=6, seed=1)
    envs = [MazeEnv(mazes=MAZES, step_limit=6) for _ in range(40)]
    for env, place in zip(envs, world.place.tolist(), strict=True):
        env.reset(options={"place": place})
    generator = torch.Generator().manual_seed(0)
    best = optimal_actions(MAZES).flatten(2)
    ends = {"terminated": 0, "truncated": 0, "success": 0}
    for _ in range(60):
        # Half of the moves are good ones, or hardly anyone would arrive.
        maze, cell = world.place // 64, world.place % 64
        random = torch.randint(8, (40,), generator=generator)
        good = best[maze, :, cell].float().argmax(1)
        action = torch.where(torch.rand(40, generator=generator) < 0.8, good, random)
        before = world.observe()
        outcome = world.step(action)
        for number, env in enumerate(envs):
            assert np.array_equal(env._observation(), before[number].numpy())
            seen, reward, terminated, truncated, info = env.step(np.int64(action[number]))
            assert env.place == outcome.place[number]
            assert np.array_equal(seen, observe(scenes(MAZES), outcome.place[number : number + 1])[0].numpy())
            assert reward == float(outcome.reward[number])
            assert (terminated, truncated) == (
                bool(outcome.terminated[number]),
                bool(outcome.truncated[number]),
            )
            assert info["distance"] == MAZES.distance.flatten()[env.place]
            ends["terminated"] += terminated
            ends["truncated"] += truncated
            ends["success"] += bool(outcome.success[number])
            if terminated or truncated:
                assert MAZES.distance.flatten()[world.place[number]] == 3
                env.reset(options={"place": int(world.place[number])})
            else:
                assert world.place[number] == env.place
    assert ends["terminated"] > ends["success"] > 10
    assert ends["truncated"] > 0


def test_rewards_and_ends() -> None:
    env = MazeEnv(mazes=MAZES, level=1)
    best = optimal_actions(MAZES).flatten(2)
    _, info = env.reset(seed=0)
    assert info["distance"] == 1
    action = best[env.place // 64, :, env.place % 64].float().argmax()
    _, reward, terminated, truncated, info = env.step(np.int64(action))
    assert (reward, terminated, truncated, info["distance"]) == (1.0, True, False, 0)
    env.reset(seed=0)
    walls = MAZES.walls.flatten()
    blocked = [a for a, (r, c) in enumerate(MOVES.tolist()) if walls[env.place + 8 * r + c]]
    if blocked:
        assert env.step(np.int64(blocked[0]))[1:4] == (-1.0, True, False)


def test_it_is_registered_and_passes_the_checks_of_gymnasium() -> None:
    env = gymnasium.make("xlvin/Maze-v0", size=8, level=5, mazes=50, render_mode="rgb_array")
    check_env(env.unwrapped)
    observation, info = env.reset(seed=1)
    again, _ = env.reset(seed=1)
    assert np.array_equal(observation, again)
    assert observation.shape == (3, 8, 8)
    assert info["distance"] == 5


def test_the_picture_shows_walls_goal_and_agent() -> None:
    env = MazeEnv(mazes=MAZES, render_mode="rgb_array")
    env.reset(seed=2)
    frame = env.render()
    assert frame is not None
    assert (frame.shape, frame.dtype) == ((256, 256, 3), np.uint8)
    row, column = divmod(env.place % 64, 8)
    assert tuple(frame[32 * row + 16, 32 * column + 16]) == (213, 94, 0)
    assert tuple(frame[2, 2]) == (58, 66, 78)
    row, column = divmod(int(MAZES.goal[env.place // 64]), 8)
    assert tuple(frame[32 * row + 16, 32 * column + 16 + 9]) == (0, 158, 115)
    assert MazeEnv(mazes=MAZES).render() is None


def test_places_says_where_paths_lead() -> None:
    env = MazeEnv(mazes=MAZES, level=2)
    env.reset(seed=0)
    best = optimal_actions(MAZES).flatten(2)
    path, place = [], env.place
    while place % 64 != MAZES.goal[place // 64]:
        path.append(int(best[place // 64, :, place % 64].float().argmax()))
        place += int(MOVES[path[-1], 0] * 8 + MOVES[path[-1], 1])
    row, column = divmod(place % 64, 8)
    here = divmod(env.place % 64, 8)
    found = env.places([[], path, [*path, 0]])
    assert found.tolist() == [
        [(here[1] + 0.5) / 8, (here[0] + 0.5) / 8],
        *[[(column + 0.5) / 8, (row + 0.5) / 8]] * 2,
    ]


def test_bad_worlds_are_refused() -> None:
    with pytest.raises(XLVINError, match="choose another level"):
        MazeEnv(mazes=MAZES, level=60)
    with pytest.raises(XLVINError, match="choose another level"):
        MazeWorld(MAZES, 4, MAZES.starts(60))
    with pytest.raises(XLVINError, match="at least one"):
        MazeWorld(MAZES, 0, MAZES.starts(1))
    with pytest.raises(XLVINError, match="choose rgb_array"):
        MazeEnv(mazes=MAZES, render_mode="human")
    with pytest.raises(XLVINError, match="no start"):
        MazeEnv(mazes=MAZES).reset(options={"place": 0})


def test_the_world_can_be_seeded() -> None:
    worlds = [MazeWorld(MAZES, 16, MAZES.starts(2), seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(worlds[0].place, worlds[1].place)
    assert not torch.equal(worlds[0].place, worlds[2].place)
