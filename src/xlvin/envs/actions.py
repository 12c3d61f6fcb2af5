"""What actions are called, for pictures and pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlvin.mdp.mazes import MOVE_NAMES

# Gymnasium's own descriptions, in the order of the actions; environments by name without their version.
NAMES = {
    "CartPole": ("push left", "push right"),
    "xlvin/PushedCartPole": ("push left", "push right"),
    "FrozenLake": ("left", "down", "right", "up"),
    "Acrobot": ("torque −1", "no torque", "torque +1"),
    "MountainCar": ("push left", "coast", "push right"),
    "xlvin/Maze": MOVE_NAMES,
    "LunarLander": ("do nothing", "left engine", "main engine", "right engine"),
}


def action_names(name: str, env: Any, count: int) -> list[str]:
    """A name for each of `count` actions: the environment's own, ours, or "action 0", "action 1", ...

    An environment names its actions as Atari games do, by a method `get_action_meanings`.
    """
    if hasattr(env, "get_action_meanings"):
        names = [str(meaning).lower() for meaning in env.get_action_meanings()]
    else:
        names = list(NAMES.get(name.rpartition(":")[2].rpartition("-v")[0], ()))
    return names if len(names) == count else [f"action {action}" for action in range(count)]


def vector_names(vectors: NDArray[np.float32]) -> list[str]:
    """What the cells of a grid over continuous actions are called, by their centres [A, d]."""
    return [", ".join(f"{number:+.3g}" for number in vector) for vector in vectors.tolist()]
