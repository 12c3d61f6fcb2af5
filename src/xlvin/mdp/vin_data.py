"""Reader of the grid-worlds published with value iteration networks (Tamar et al. 2016) and by later ports.

Three layouts are in use. They disagree on what a wall is, on the order of axes and on where counting starts:

    training .mat  im_data [N, HW] (1 = free), value_data [N, HW], state_xy_data [N, 2], label_data [N, 1]
    test .mat      all_im_data [M, HW] (1 = free, transposed), all_value_data [M, HW] (transposed),
                   all_states_xy: M paths [T, 2] from start to goal, counted from 1
    .npz of ports  arr_0 [N, 2, H, W] (maps with 1 = wall, then goals), arr_1 rows, arr_2 columns,
                   arr_3 labels; the same of the test part in arr_4 to arr_7

Not every file keeps to its layout's habits. So a file is read by its habit only if its own steps agree: each
must lead from a free cell to a free cell. Otherwise the first reading with which all of them do is taken.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES, Mazes, Part

Array = NDArray[Any]
# Steps that decide between readings; all are checked in the end.
PROBED = 2_000


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Mazes with steps of an expert who takes shortest ways."""

    mazes: Mazes  # M different mazes
    maze: Tensor  # [N] int64: in which maze a step is made
    position: Tensor  # [N] int64: from where, row * W + column
    action: Tensor  # [N] int64: number of the move, as in MOVES
    start: Tensor  # [N] bool: whether a path starts here; in files of single steps each may

    def __len__(self) -> int:
        return len(self.maze)


@dataclass(frozen=True)
class Reading:
    """How the numbers of a file are meant."""

    wall: int
    """The number that stands for a wall."""
    transposed: bool
    """Whether the maps' first axis is the column."""
    base: int
    """The number of the first row."""


@dataclass(frozen=True, eq=False)
class _Raw:
    """A file's numbers before they are understood."""

    maps: Array  # [M, H, W]
    goals: Array  # [M, H, W], largest at the goal
    maze: Array  # [N]
    row: Array  # [N]
    column: Array  # [N]
    action: Array  # [N]
    start: Array  # [N] bool
    habit: Reading

    def understood(self, reading: Reading, steps: slice = slice(None)) -> tuple[Array, Array, Array, bool]:
        """Walls, goal maps and positions under a reading, and whether the steps keep to free cells."""
        walls = self.maps == reading.wall
        goals = self.goals
        if reading.transposed:
            walls, goals = walls.swapaxes(1, 2), goals.swapaxes(1, 2)
        height, width = walls.shape[1:]
        place = np.stack((self.row[steps], self.column[steps]), 1) - reading.base
        successor = place + MOVES.numpy()[self.action[steps]]
        both = np.stack((place, successor))
        inside = bool(((both >= 0) & (both < (height, width))).all())
        maze = self.maze[steps]
        fits = inside and not walls[maze, both[..., 0], both[..., 1]].any()
        return walls, goals, place[:, 0] * width + place[:, 1], bool(fits)


def read_demonstrations(path: str | Path, part: Part = "train") -> Demonstrations:
    """Read a published file; `part` chooses one of the two that an .npz file holds."""
    path = Path(path)
    if not path.is_file():
        raise XLVINError(f"There is no file {path}; check the path.")
    raw = _read_npz(path, part) if path.suffix == ".npz" else _read_mat(path)
    reading = next(_agreeing(raw), None)
    if reading is None:
        raise XLVINError(f"In {path} steps lead through walls however it is read; download it anew.")
    walls, goals, position, fits = raw.understood(reading)
    if not fits:
        raise XLVINError(f"In {path} some steps lead through walls; download it anew.")
    mazes, number = _distinct(walls, goals, path)
    return Demonstrations(
        mazes,
        torch.from_numpy(number[raw.maze]),
        torch.from_numpy(position.astype(np.int64)),
        torch.from_numpy(raw.action.astype(np.int64)),
        torch.from_numpy(raw.start),
    )


def _agreeing(raw: _Raw) -> Iterator[Reading]:
    """The readings under which the first steps keep to free cells, the layout's habit first."""
    others = (Reading(*choice) for choice in product((0, 1), (False, True), (0, 1)))
    for reading in (raw.habit, *others):
        if raw.understood(reading, slice(PROBED))[-1]:
            yield reading


def _distinct(walls: Array, goals: Array, path: Path) -> tuple[Mazes, NDArray[np.int64]]:
    """Every maze once, and which of them each of the given ones is."""
    count = len(walls)
    flat = goals.reshape(count, -1)
    if not (np.sum(flat == flat.max(1, keepdims=True), 1) == 1).all():
        raise XLVINError(f"In {path} a maze has no goal or several; download it anew.")
    goal = flat.argmax(1)
    content = np.column_stack((np.packbits(walls.reshape(count, -1), axis=1), goal // 256, goal % 256))
    _, first, number = np.unique(content.astype(np.uint8), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order of their first appearance
    mazes = Mazes.from_walls(
        torch.from_numpy(np.ascontiguousarray(walls[first[order]])), torch.from_numpy(goal[first[order]])
    )
    return mazes, np.argsort(order)[number.reshape(-1)]


def _read_mat(path: Path) -> _Raw:
    try:
        content = scipy.io.loadmat(path)
    except (ValueError, TypeError, NotImplementedError, OSError, zipfile.BadZipFile) as error:
        raise XLVINError(f"{path} is no MATLAB file that can be read ({error}); download it anew.") from error
    if "all_states_xy" in content:
        return _paths(path, _asked(path, content, ("all_im_data", "all_value_data", "all_states_xy")))
    maps, goals, place, action = _asked(
        path, content, ("im_data", "value_data", "state_xy_data", "label_data")
    )
    if place.ndim != 2 or place.shape[1] != 2:
        raise XLVINError(f"In {path} positions have shape {place.shape} instead of [N, 2]; download it anew.")
    maps, goals = _square(path, maps), _square(path, goals)
    return _steps(path, maps, goals, place[:, 0], place[:, 1], action, Reading(0, False, 0))


def _read_npz(path: Path, part: Part) -> _Raw:
    names = tuple(f"arr_{number + (0 if part == 'train' else 4)}" for number in range(4))
    try:
        with np.load(path, allow_pickle=False) as content:
            images, row, column, action = _asked(path, content, names)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise XLVINError(f"{path} is no .npz file that can be read ({error}); download it anew.") from error
    if images.ndim != 4 or images.shape[1] != 2:
        raise XLVINError(
            f"In {path} maps have shape {images.shape} instead of [N, 2, H, W]; download it anew."
        )
    return _steps(path, images[:, 0], images[:, 1], row, column, action, Reading(1, False, 0))


def _asked(path: Path, content: Mapping[str, Array], names: tuple[str, ...]) -> list[Array]:
    if missing := [name for name in names if name not in content]:
        raise XLVINError(f"{path} has no {', '.join(missing)}; give a file of the published VIN data.")
    return [np.asarray(content[name]) for name in names]


def _steps(
    path: Path, maps: Array, goals: Array, row: Array, column: Array, action: Array, habit: Reading
) -> _Raw:
    """Single steps, each with a map of its own."""
    row, column, action = (array.reshape(-1).astype(np.int64) for array in (row, column, action))
    count = len(maps)
    if not count or {len(goals), len(row), len(column), len(action)} != {count}:
        raise XLVINError(f"In {path} maps, positions and labels differ in number; download it anew.")
    if action.min() < 0 or action.max() >= len(MOVES):
        raise XLVINError(f"In {path} a label is not one of the {len(MOVES)} moves; download it anew.")
    return _Raw(maps, goals, np.arange(count), row, column, action, np.ones(count, bool), habit)


def _paths(path: Path, arrays: list[Array]) -> _Raw:
    """Whole paths, one per map."""
    maps, goals = _square(path, arrays[0]), _square(path, arrays[1])
    paths = [np.asarray(states).astype(np.int64) for states in arrays[2].reshape(-1)]
    if not len(paths) or len(paths) != len(maps) or len(paths) != len(goals):
        raise XLVINError(f"In {path} maps and paths differ in number; download it anew.")
    if any(states.ndim != 2 or states.shape[1] != 2 for states in paths):
        raise XLVINError(f"In {path} a path is not a list of (row, column); download it anew.")
    steps = np.concatenate([np.diff(states, axis=0) for states in paths])
    same = (steps[:, None] == MOVES.numpy()).all(-1)
    if not same.any(1).all():
        raise XLVINError(f"In {path} a path jumps over cells; download it anew.")
    lengths = np.array([len(states) - 1 for states in paths])
    place = np.concatenate([states[:-1] for states in paths])
    start = np.zeros(len(place), bool)
    start[(lengths.cumsum() - lengths)[lengths > 0]] = True
    maze = np.repeat(np.arange(len(paths)), lengths)
    return _Raw(maps, goals, maze, place[:, 0], place[:, 1], same.argmax(1), start, Reading(0, True, 1))


def _square(path: Path, flat: Array) -> Array:
    """Maps [N, HW] as [N, H, H]."""
    size = math.isqrt(flat.shape[-1]) if flat.ndim == 2 else 0
    if not size or size * size != flat.shape[-1]:
        raise XLVINError(f"In {path} maps of shape {flat.shape} are not square; download it anew.")
    return flat.reshape(-1, size, size)
