"""Where the nodes of a plan stand in a picture, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xlvin.errors import XLVINError

Array = NDArray[Any]

FAMILY_GAP = 0.45  # rows between leaves of different parents, beside the one that each leaf takes


class Level(Protocol):
    """The M imagined states at one depth of a plan."""

    @property
    def value(self) -> Array:
        """What the critic thinks of each, [M]."""

    @property
    def policy(self) -> Array:
        """The actor's probabilities at each, [M, A]."""

    @property
    def parent(self) -> Array:
        """Which state of the level above each follows, [M]."""

    @property
    def action(self) -> Array:
        """After which action, [M]."""

    @property
    def sample(self) -> Array:
        """Which outcome of it, [M]; 0 where there is but one."""

    @property
    def chance(self) -> Array:
        """How probable that outcome is after the action, [M]."""


class Plan(Protocol):
    """A tree of imagined states, as `agent.plan` gives it for one observation."""

    @property
    def levels(self) -> Sequence[Level]:
        """Depth by depth, the root first."""


@dataclass(frozen=True)
class Node:
    """A state of the tree and its place in the picture."""

    depth: int
    value: float
    parent: int = -1  # position in the list of nodes; -1 for the root
    action: int = -1  # the action that leads here; -1 for the root
    sample: int = -1  # which outcome of that action; -1 where there is but one
    probability: float = 1.0  # of that action at the parent, and of this outcome of it
    greedy: bool = True  # whether the path of most probable actions comes through
    hidden: int = 0  # children left out
    row: float = 0.0  # from the top; siblings that are leaves stand one row apart


def arrange(plan: Plan, most_leaves: int) -> list[Node]:
    """The nodes to draw, the root first, each after its parent.

    If the last level has more than `most_leaves` nodes, every node keeps only its most probable children, as
    many as make it fit (one at the least).
    """
    if not plan.levels or len(plan.levels[0].value) != 1:
        raise XLVINError("A plan to draw has one root; plan for a single observation.")
    widest = max((int(np.bincount(level.parent).max()) for level in plan.levels[1:]), default=1)
    for most_children in range(widest, 0, -1):
        nodes = _Arrangement(plan.levels, most_children).nodes
        if sum(node.depth == len(plan.levels) - 1 for node in nodes) <= most_leaves:
            break
    return nodes


class _Arrangement:
    """Walks down the tree and back: leaves take the next free row, parents the middle of their children."""

    def __init__(self, levels: Sequence[Level], most_children: int) -> None:
        self._levels, self._most_children = levels, most_children
        self._free_row = 0.0
        self.nodes: list[Node] = []
        self._place(Node(0, float(levels[0].value[0])), 0)

    def _place(self, node: Node, index: int) -> float:
        """Add a node, number `index` of its level, and all below it; returns its row."""
        position = len(self.nodes)
        self.nodes.append(node)
        children, hidden = self._children(node, index, position)
        rows = [self._place(child, number) for child, number in children]
        if not rows:
            rows, self._free_row = [self._free_row], self._free_row + 1.0
        elif node.depth == len(self._levels) - 2:
            self._free_row += FAMILY_GAP
        row = (rows[0] + rows[-1]) / 2
        self.nodes[position] = replace(node, row=row, hidden=hidden)
        return row

    def _children(self, node: Node, index: int, position: int) -> tuple[list[tuple[Node, int]], int]:
        """The children to draw, in the order of their actions, and how many there are beside them."""
        if node.depth + 1 == len(self._levels):
            return [], 0
        below, policy = self._levels[node.depth + 1], self._levels[node.depth].policy[index]
        numbers = np.flatnonzero(below.parent == index)
        probability = step_probability(policy, below)
        # Of the best action the likeliest outcome comes first, whatever the outcomes of others.
        likely = numbers[np.lexsort((-probability[numbers], -policy[below.action[numbers]]))]
        kept = likely[: self._most_children]
        children = []
        several = below.sample.max() > 0
        for number in kept[np.lexsort((below.sample[kept], below.action[kept]))].tolist():
            action, value = int(below.action[number]), float(below.value[number])
            sample = int(below.sample[number]) if several else -1
            greedy, chance = node.greedy and number == likely[0], float(probability[number])
            child = Node(node.depth + 1, value, position, action, sample, chance, greedy)
            children.append((child, number))
        return children, len(numbers) - len(kept)


def step_probability(policy: Array, level: Level) -> Array:
    """Of the step to every node of a level, [M]; `policy` [A] or [M, A] is that of its parent."""
    taken = policy[level.action] if policy.ndim == 1 else policy[np.arange(len(level.action)), level.action]
    return np.asarray(taken * level.chance)
