"""What an agent imagines around one observation, as NumPy arrays to look at, draw or store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ImaginedLevel:
    """The M nodes at one depth of the tree."""

    embedding: Array  # [M, k], h
    executed: Array  # [M, w], chi after the K steps of this plan; of scalar plans [M, A], each node's Q
    value: Array  # [M], the agent's value of the node, planned from it; if aligned, as decoded in this tree
    policy: Array  # [M, A], the agent's probabilities at the node, planned from it
    parent: Array  # [M] int64: index into the level above; -1 at the root
    action: Array  # [M] int64: the action from the parent; -1 at the root
    sample: Array  # [M] int64: which outcome of it, 0 where there is but one; -1 at the root
    chance: Array  # [M]: the probability of that outcome, given parent and action


@dataclass(frozen=True, eq=False)
class ImaginedTree:
    """Levels of imagined states, the observation's own first."""

    levels: tuple[ImaginedLevel, ...]

    @property
    def depth(self) -> int:
        """K, how many steps ahead the tree reaches."""
        return len(self.levels) - 1
