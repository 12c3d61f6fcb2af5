"""The reader on small files in every published layout, and on the published files where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from numpy.typing import NDArray

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES, generate, optimal_actions
from xlvin.mdp.vin_data import Demonstrations, read_demonstrations

PUBLISHED = Path(__file__).parent.parent.parent.parent / "shared" / "data" / "vin"
COUNT, SIZE = 12, 8


class World:
    """Mazes with one shortest path each, as arrays that the writers below lay out."""

    def __init__(self) -> None:
        self.mazes = generate(COUNT, SIZE, 3, winding=1.0)
        best = optimal_actions(self.mazes)
        self.paths: list[NDArray[np.int64]] = []
        self.actions: list[NDArray[np.int64]] = []
        for number in range(COUNT):
            place = divmod(int(self.mazes.distance[number].flatten().argmax()), SIZE)
            path, actions = [place], []
            while self.mazes.distance[number][place] > 0:
                action = int(best[number, :, place[0], place[1]].byte().argmax())
                place = (place[0] + int(MOVES[action, 0]), place[1] + int(MOVES[action, 1]))
                path.append(place)
                actions.append(action)
            self.paths.append(np.array(path))
            self.actions.append(np.array(actions))
        self.walls = self.mazes.walls.numpy()
        self.goal = 10 * np.eye(SIZE * SIZE)[self.mazes.goal.numpy()].reshape(COUNT, SIZE, SIZE)
        self.lengths = [len(actions) for actions in self.actions]

    def per_step(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.repeat(array, self.lengths, 0)

    @property
    def steps(self) -> NDArray[np.int64]:
        return np.concatenate([path[:-1] for path in self.paths])

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.concatenate(self.actions)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def write_training(world: World, path: Path, wall: int = 0) -> Path:
    maps = np.where(world.walls, wall, 1 - wall)
    content = {
        "im_data": world.per_step(maps).reshape(-1, SIZE * SIZE).astype(np.uint8),
        "value_data": world.per_step(world.goal).reshape(-1, SIZE * SIZE).astype(np.uint8),
        "state_xy_data": world.steps.astype(np.uint8),
        "label_data": world.labels[:, None].astype(np.uint8),
    }
    scipy.io.savemat(path, content)
    return path


def write_test(world: World, path: Path, base: int = 1, transposed: bool = True) -> Path:
    axes = (0, 2, 1) if transposed else (0, 1, 2)
    states = np.empty((COUNT, 1), object)
    for number, states_of_one in enumerate(world.paths):
        states[number, 0] = (states_of_one + base).astype(float)
    content = {
        "all_im_data": (1.0 - world.walls.transpose(axes)).reshape(COUNT, -1),
        "all_value_data": world.goal.transpose(axes).reshape(COUNT, -1),
        "all_states_xy": states,
    }
    scipy.io.savemat(path, content)
    return path


def write_npz(world: World, path: Path, wall: int = 1) -> Path:
    maps = np.where(world.walls, wall, 1 - wall)
    images = world.per_step(np.stack((maps, world.goal), 1))
    rows, columns, labels = world.steps[:, :1], world.steps[:, 1:], world.labels[:, None]
    half = len(images) // 2
    parts = [
        array[part] for part in (slice(half), slice(half, None)) for array in (images, rows, columns, labels)
    ]
    np.savez_compressed(path, *parts)
    return path


def check(found: Demonstrations, world: World, steps: slice = slice(None)) -> None:
    """The steps are the world's, in mazes that have its content."""
    assert len(found) == len(world.labels[steps])
    maze = np.repeat(np.arange(COUNT), world.lengths)[steps]
    assert torch.equal(found.mazes.walls[found.maze], world.mazes.walls[maze])
    assert torch.equal(found.mazes.goal[found.maze], world.mazes.goal[maze])
    assert torch.equal(found.mazes.distance[found.maze], world.mazes.distance[maze])
    assert found.position.tolist() == (world.steps[:, 0] * SIZE + world.steps[:, 1])[steps].tolist()
    assert found.action.tolist() == world.labels[steps].tolist()
    assert len(set(found.mazes.fingerprints())) == len(found.mazes)


@pytest.mark.parametrize("wall", [0, 1])
def test_training_files(world: World, tmp_path: Path, wall: int) -> None:
    found = read_demonstrations(write_training(world, tmp_path / "a.mat", wall))
    check(found, world)
    assert found.start.all()


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("transposed", [True, False])
def test_test_files_hold_paths(world: World, tmp_path: Path, base: int, transposed: bool) -> None:
    found = read_demonstrations(write_test(world, tmp_path / "a.mat", base, transposed))
    check(found, world)
    assert found.start.sum() == COUNT
    first = torch.tensor([0, *np.cumsum(world.lengths)[:-1].tolist()])
    assert torch.equal(found.start.nonzero().squeeze(-1), first)


@pytest.mark.parametrize("wall", [0, 1])
def test_npz_files_have_two_parts(world: World, tmp_path: Path, wall: int) -> None:
    path, half = write_npz(world, tmp_path / "a.npz", wall), sum(world.lengths) // 2
    check(read_demonstrations(path), world, slice(half))
    check(read_demonstrations(path, "test"), world, slice(half, None))


def test_files_that_make_no_sense_are_refused(world: World, tmp_path: Path) -> None:
    training, testing, ports = (
        write_training(world, tmp_path / "train.mat"),
        write_test(world, tmp_path / "test.mat"),
        write_npz(world, tmp_path / "a.npz"),
    )
    content = {name: array for name, array in scipy.io.loadmat(training).items() if name[0] != "_"}

    def changed(**fields: object) -> Path:
        path = tmp_path / f"changed-{len(list(tmp_path.iterdir()))}.mat"
        scipy.io.savemat(path, content | fields)
        return path

    labels = content["label_data"]
    states = scipy.io.loadmat(testing)["all_states_xy"]
    states[0, 0] = states[0, 0][::2]
    bad = scipy.io.loadmat(testing) | {"all_states_xy": states}
    scipy.io.savemat(tmp_path / "jump.mat", {name: bad[name] for name in bad if name[0] != "_"})
    (tmp_path / "text.mat").write_text("not MATLAB at all, but long enough to look at " * 10)
    (tmp_path / "text.npz").write_text("nor a zip")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for path, sentence in [
        (tmp_path / "none.mat", "There is no file"),
        (tmp_path / "text.mat", "no MATLAB file"),
        (tmp_path / "text.npz", "no .npz file"),
        (tmp_path / "other.npz", "has no arr_0"),
        (tmp_path / "jump.mat", "jumps over cells"),
        (changed(label_data=(labels + 4) % 8), "steps lead through walls"),
        (changed(label_data=labels + 8), "not one of the 8 moves"),
        (changed(label_data=labels[1:]), "differ in number"),
        (changed(value_data=0 * content["value_data"]), "no goal or several"),
        (changed(im_data=content["im_data"][:, 1:]), "not square"),
        (changed(state_xy_data=content["state_xy_data"][:, :1]), "instead of \\[N, 2\\]"),
    ]:
        with pytest.raises(XLVINError, match=sentence):
            read_demonstrations(path)
    with np.load(ports) as arrays:
        np.savez(tmp_path / "flat.npz", *(arrays[f"arr_{number}"].reshape(1, -1) for number in range(8)))
    with pytest.raises(XLVINError, match="instead of \\[N, 2, H, W\\]"):
        read_demonstrations(tmp_path / "flat.npz")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not at hand")
@pytest.mark.parametrize(("size", "steps", "mazes"), [(8, 70_924, 3_261), (16, 202_580, 4_330)])
def test_the_published_files(size: int, steps: int, mazes: int) -> None:
    found = read_demonstrations(PUBLISHED / f"gridworld_{size}.mat")
    assert (len(found), len(found.mazes), found.mazes.shape) == (steps, mazes, (size, size))
    # Their ways are shortest by length, a diagonal move being longer: a few are not shortest in moves.
    optimal = optimal_actions(found.mazes).flatten(2)[found.maze, found.action, found.position]
    assert optimal.float().mean() > 0.998
