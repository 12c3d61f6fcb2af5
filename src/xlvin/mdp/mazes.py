"""Grid mazes as deterministic MDPs, thousands at a time, with exact distances and values.

A maze is a grid of free cells and walls with one goal; its border is wall, as in the published data of Tamar
et al. (2016). Eight moves lead to the neighbouring cells. As in that data only the target of a diagonal move
has to be free: it may pass between two walls. A move into the goal earns `GOAL_REWARD`, one into a wall
`WALL_REWARD`, and both end the episode; any other move earns `STEP_REWARD`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.tabular import TabularMDP

MOVES = torch.tensor([(-1, 0), (1, 0), (0, 1), (0, -1), (-1, 1), (-1, -1), (1, 1), (1, -1)])
"""Steps (row, column) of the actions, [8, 2], in the order of the published data."""
MOVE_NAMES = ("N", "S", "E", "W", "NE", "NW", "SE", "SW")
GOAL_REWARD, STEP_REWARD, WALL_REWARD = 1.0, -0.01, -1.0

Part = Literal["train", "test"]
# One map in so many belongs to the test part.
TEST_ONE_IN = 8
# Shares of walls inside the border: of plain mazes, and of those that are to have long ways.
PLAIN_WALLS, WINDING_WALLS = (0.05, 0.6), (0.35, 0.55)


@dataclass(frozen=True, eq=False)
class Mazes:
    """A batch of N mazes of H x W cells."""

    walls: Tensor  # [N, H, W] bool; the border is wall
    goal: Tensor  # [N] int64: row * W + column of a free cell
    distance: Tensor  # [N, H, W] int32: moves to the goal, -1 where no way leads there

    def __post_init__(self) -> None:
        if self.walls.dim() != 3 or self.walls.dtype != torch.bool:
            raise XLVINError(
                f"Walls are {self.walls.dtype} of shape {tuple(self.walls.shape)}; give bool [mazes, H, W]."
            )
        if self.goal.shape != self.walls.shape[:1] or self.goal.dtype != torch.int64:
            raise XLVINError(
                f"Goals are {self.goal.dtype} of shape {tuple(self.goal.shape)}; give int64 [N]."
            )
        if self.distance.shape != self.walls.shape:
            raise XLVINError(
                f"Distances have shape {tuple(self.distance.shape)} and walls {tuple(self.walls.shape)}; "
                "both must be the same."
            )

    @classmethod
    def from_walls(cls, walls: Tensor, goal: Tensor) -> Mazes:
        """Mazes with given walls [N, H, W] and goals [N], checked; distances are worked out."""
        unsolved = cls(walls, goal, torch.zeros_like(walls, dtype=torch.int32))
        if not _border_is_wall(walls):
            raise XLVINError("A maze has a free cell in its border; make the outer rows and columns walls.")
        inside = (goal >= 0) & (goal < unsolved.cells)
        if not bool(inside.all()) or bool(walls.flatten(1).gather(1, goal.unsqueeze(1)).any()):
            raise XLVINError("The goal of a maze lies in a wall or outside; put it on a free cell.")
        return replace(unsolved, distance=distances(walls, goal))

    def __len__(self) -> int:
        return len(self.walls)

    def __getitem__(self, index: int | slice | Tensor) -> Mazes:
        """The mazes at `index`, always as a batch."""
        if isinstance(index, int):
            index = slice(index, index + 1 or None)
        return Mazes(self.walls[index], self.goal[index], self.distance[index])

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        return self.walls.shape[1], self.walls.shape[2]

    @property
    def cells(self) -> int:
        """H * W."""
        return self.walls.shape[1] * self.walls.shape[2]

    @property
    def device(self) -> torch.device:
        """Where the mazes live."""
        return self.walls.device

    def to(self, device: torch.device | str) -> Mazes:
        """A copy on another device."""
        return Mazes(self.walls.to(device), self.goal.to(device), self.distance.to(device))

    def maps(self) -> Tensor:
        """What a planner sees of each maze, [N, 2, H, W]: walls, and the goal as a one."""
        height, width = self.shape
        goal = torch.zeros(len(self), height * width, device=self.device)
        goal.scatter_(1, self.goal.unsqueeze(1), 1.0)
        return torch.stack((self.walls.float(), goal.view(-1, height, width)), 1)

    def offsets(self) -> Tensor:
        """What each move adds to a cell's number, [8] int64."""
        return (MOVES[:, 0] * self.shape[1] + MOVES[:, 1]).to(self.device)

    def starts(self, level: int) -> Tensor:
        """Every start of this level, [M] int64: maze * H * W + row * W + column.

        The level of a start is the number of moves on a shortest way to the goal.
        """
        return (self.distance == level).flatten().nonzero().squeeze(-1)

    def levels(self) -> Tensor:
        """How many starts there are at each level, [longest way + 1] int64; level 0 counts the goals."""
        reachable = self.distance[self.distance >= 0]
        return torch.bincount(reachable.long())

    def fingerprints(self) -> list[bytes]:
        """The content of each maze, walls and goal; equal bytes, equal maze."""
        cells = torch.cat((self.walls.flatten(1).to(torch.uint8), _goal_bytes(self.goal)), 1).cpu().numpy()
        return [row.tobytes() for row in cells]


def join(parts: list[Mazes]) -> Mazes:
    """Several batches of the same size as one."""
    columns = zip(*((part.walls, part.goal, part.distance) for part in parts), strict=True)
    return Mazes(*(torch.cat(column) for column in columns))


def generate(
    count: int,
    size: int,
    seed: int | Generator,
    part: Part | None = None,
    winding: float = 0.5,
    tries: int | None = None,
) -> Mazes:
    """Draw `count` different mazes of `size` x `size` cells, whose goals can be reached from somewhere.

    Inside the border each cell is a wall with a probability that is drawn for each maze; the goal is any free
    cell. Such mazes have few long ways, so a share `winding` of them is drawn differently: the goal is as far
    as possible from a random cell, and the maze is the one with the longest way among `tries` such mazes (by
    default 32 at 8 x 8, fewer in larger mazes, which have longer ways by themselves).

    `part` keeps to the maps of the training or of the test part, see `in_test_part`.
    """
    tries = max(4, 2048 // size**2) if tries is None else tries
    if size < 4 or count < 1 or tries < 1 or not 0.0 <= winding <= 1.0:
        raise XLVINError(
            f"Cannot draw {count} mazes of size {size} (winding {winding}, tries {tries}); give a size of at "
            "least 4, at least one maze and one try, and a share between 0 and 1."
        )
    generator = torch.Generator().manual_seed(seed) if isinstance(seed, int) else seed
    long_ways = round(winding * count)
    known: set[bytes] = set()
    found: list[Mazes] = []
    for missing, best_of in ((long_ways, tries), (count - long_ways, None)):
        failures = 0
        while missing and failures < 5:
            fresh = _unseen(_draw(missing + 16, size, part, best_of, generator), known)
            fresh = fresh[: min(missing, len(fresh))]
            known.update(fresh.fingerprints())
            found.append(fresh)
            missing -= len(fresh)
            failures = 0 if len(fresh) else failures + 1
        if missing:
            raise XLVINError(f"There are not {count} different mazes of size {size}; ask for fewer.")
    return join(found)[torch.randperm(count, generator=generator)]


def in_test_part(walls: Tensor) -> Tensor:
    """Which maps belong to the test part, [N, H, W] bool -> [N] bool.

    The part depends on the walls alone, not on the goal or the seed: a map of one part can never occur in the
    other, however either was drawn. About one map in eight is a test map.
    """
    cells = walls.flatten(1)
    keys = torch.randint(2**31, (cells.shape[1],), generator=torch.Generator().manual_seed(0))
    key = (cells * keys.to(walls.device)).sum(1)
    # A multiplicative hash: neighbouring sums land far from each other.
    return ((key * 2654435761) >> 16) % TEST_ONE_IN == 0


def distances(walls: Tensor, goal: Tensor) -> Tensor:
    """Moves from every cell to the goal, -1 where there is no way.

    Walls [N, H, W] bool with a border of walls, goals [N] int64 -> [N, H, W] int32. A move reaches all eight
    neighbours, so the cells within t moves grow by a 3 x 3 dilation. As the border is wall, cells can be
    shifted as one flat row: what wraps around lands in a wall.
    """
    width, free = walls.shape[2], ~walls.flatten()
    reached = torch.zeros_like(walls.flatten(1)).scatter_(1, goal.unsqueeze(1), True).flatten()
    moves = torch.zeros_like(reached, dtype=torch.int16)
    while True:
        grown = _spread(_spread(reached, 1), width).logical_and_(free)
        if torch.equal(grown, reached):
            return torch.where(reached, moves, -1).int().view(walls.shape)
        moves += ~reached
        reached = grown


def optimal_values(mazes: Mazes, discount: float) -> Tensor:
    """V* of every cell, [N, H, W], in closed form; zero at the goal and in walls, where an episode is over.

    From d moves away the best return is sum_{t < d - 1} gamma^t STEP + gamma^(d - 1) GOAL. Where no way leads
    to the goal it is best to walk on for ever, or, where that is worse or impossible, into a wall.
    """
    if not 0.0 <= discount < 1.0:
        raise XLVINError(f"The discount is {discount}; give a number from 0 to below 1.")
    for_ever = STEP_REWARD / (1.0 - discount)
    before = torch.arange(mazes.cells, dtype=torch.float64) - 1.0  # steps before the one into the goal
    walk = for_ever * (1.0 - discount**before) + discount**before * GOAL_REWARD
    by_distance = walk.float().to(mazes.device)[mazes.distance.clamp(min=1).long()]
    lost = torch.where(_neighbours(~mazes.walls).any(1), for_ever, WALL_REWARD)
    values = torch.where(mazes.distance > 0, by_distance, lost).clamp(min=WALL_REWARD)
    return values.masked_fill(mazes.walls | (mazes.distance == 0), 0.0)


def optimal_actions(mazes: Mazes) -> Tensor:
    """Which moves lie on a shortest way, [N, 8, H, W] bool; none at the goal and where no way leads to it."""
    nearer = mazes.distance.unsqueeze(1) - 1
    return (_neighbours(mazes.distance, -1) == nearer) & (nearer >= 0)


def as_mdp(mazes: Mazes, discount: float) -> TabularMDP:
    """The mazes as tabular MDPs with a state per cell; goal and walls are absorbing and earn nothing."""
    count, (height, width) = len(mazes), mazes.shape
    cells = torch.arange(height * width, device=mazes.device)
    number = cells.view(1, height, width).expand(count, -1, -1)
    target = _neighbours(number).flatten(2).transpose(1, 2)  # [N, HW, 8]
    walls, goal = mazes.walls.flatten(1), mazes.goal.unsqueeze(1)
    over = (walls | (cells == goal)).unsqueeze(-1)
    hit, won = walls.gather(1, target.flatten(1)).view(target.shape), target == goal.unsqueeze(-1)
    reward = torch.where(hit, WALL_REWARD, torch.where(won, GOAL_REWARD, STEP_REWARD))
    successor = torch.where(over, cells.view(1, -1, 1), target)
    return TabularMDP.deterministic(successor, reward.masked_fill(over, 0.0), discount)


def _draw(count: int, size: int, part: Part | None, best_of: int | None, generator: Generator) -> Mazes:
    """About `count` random mazes in which some start exists; with `best_of`, winding ones."""
    walls = _draw_walls(count * (best_of or 1), size, part, best_of is not None, generator)
    # The goal is the free cell with the largest random number.
    lot = torch.rand(len(walls), size * size, generator=generator)
    goal = lot.masked_fill_(walls.flatten(1), -1.0).argmax(1)
    distance = distances(walls, goal)
    if best_of is not None:
        goal = distance.flatten(1).argmax(1)
        distance = distances(walls, goal)
        groups = len(walls) // best_of
        longest = distance.flatten(1).amax(1)[: groups * best_of].view(groups, best_of)
        best = longest.argmax(1) + best_of * torch.arange(groups)
        walls, goal, distance = walls[best], goal[best], distance[best]
    solvable = distance.flatten(1).amax(1) > 0
    return Mazes(walls[solvable], goal[solvable], distance[solvable])


def _draw_walls(count: int, size: int, part: Part | None, winding: bool, generator: Generator) -> Tensor:
    """About `count` random maps of a part with at least one free cell, [M, size, size] bool."""
    drawn = {"train": TEST_ONE_IN / (TEST_ONE_IN - 1), "test": TEST_ONE_IN, None: 1}[part] * count
    low, high = WINDING_WALLS if winding else PLAIN_WALLS
    share = low + (high - low) * torch.rand(round(drawn), 1, 1, generator=generator)
    walls = torch.ones(round(drawn), size, size, dtype=torch.bool)
    walls[:, 1:-1, 1:-1] = torch.rand(round(drawn), size - 2, size - 2, generator=generator) < share
    usable = ~walls.flatten(1).all(1)
    if part is not None:
        usable &= in_test_part(walls) == (part == "test")
    return walls[usable]


def _unseen(mazes: Mazes, known: set[bytes]) -> Mazes:
    """Those that are not known yet, each once."""
    fresh, seen = [], set(known)
    for number, content in enumerate(mazes.fingerprints()):
        if content not in seen:
            seen.add(content)
            fresh.append(number)
    return mazes[torch.tensor(fresh, dtype=torch.int64)]


def _spread(cells: Tensor, step: int) -> Tensor:
    """Cells of a flat row that are true, or a neighbour of which at distance `step` is."""
    spread = cells.clone()
    spread[step:] |= cells[:-step]
    spread[:-step] |= cells[step:]
    return spread


def _neighbours(cells: Tensor, beyond: int = 0) -> Tensor:
    """The number that each move leads to, [N, H, W] -> [N, 8, H, W]; `beyond` outside the grid."""
    height, width = cells.shape[1:]
    padded = torch.nn.functional.pad(cells, (1, 1, 1, 1), value=beyond)
    steps = [(int(row) + 1, int(column) + 1) for row, column in MOVES]
    return torch.stack([padded[:, r : r + height, c : c + width] for r, c in steps], 1)


def _border_is_wall(walls: Tensor) -> bool:
    edges = (walls[:, 0], walls[:, -1], walls[:, :, 0], walls[:, :, -1])
    return all(bool(edge.all()) for edge in edges)


def _goal_bytes(goal: Tensor) -> Tensor:
    """Two bytes per goal."""
    return torch.stack((goal // 256, goal % 256), 1).to(torch.uint8)
