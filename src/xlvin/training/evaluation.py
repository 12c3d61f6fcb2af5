"""Greedy scores on fresh episodes that no training has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.training.rollouts import Actors
from xlvin.training.stack import Stack
from xlvin.training.trainer import greedy_policy

# Episodes that run side by side per seed.
PARALLEL = 50


def evaluate(
    agents: Sequence[Agent],
    environment: str,
    seeds: Sequence[int],
    episodes: int,
    device: torch.device | str = "cpu",
) -> NDArray[np.float64]:
    """Undiscounted returns [S, episodes] of the agents' most probable actions.

    Episode starts are derived from each agent's training seed by a stream of their own.
    """
    stack = Stack(agents).to(device)
    actors = Actors(environment, seeds, min(PARALLEL, episodes), {}, "evaluation")
    policy = greedy_policy(stack, agents[0].to(device), torch.device(device))
    returns: list[NDArray[Any]] = []
    for round_ in range(-(-episodes // actors.count)):
        segments = actors.trajectories(policy, round_)
        returns.append(np.array([[segment.rewards.sum() for segment in of_seed] for of_seed in segments]))
    actors.close()
    return np.concatenate(returns, 1)[:, :episodes].astype(np.float64)
