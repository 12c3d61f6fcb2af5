"""Greedy scores on fresh episodes that no training has seen."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.envs.atari import is_atari
from xlvin.training.devices import usable_device
from xlvin.training.frames.evaluation import evaluate_games
from xlvin.training.policies import greedy_policy
from xlvin.training.rollouts import Actors, Policy
from xlvin.training.stack import Stack

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
    if is_atari(environment):
        return evaluate_games(agents, environment, seeds, episodes, device)
    copies = [copy.deepcopy(agent).cpu() for agent in agents]
    policy = greedy_policy(Stack(copies, usable_device(device)), copies[0])
    return returns_of(policy, environment, seeds, episodes)


def returns_of(policy: Policy, environment: str, seeds: Sequence[int], episodes: int) -> NDArray[np.float64]:
    """Undiscounted returns [S, episodes] of a policy, on the starts that every evaluation of a seed gets.

    Its actions are those that the environment takes.
    """
    actors = Actors(environment, seeds, min(PARALLEL, episodes), {}, "evaluation", bins=None)
    try:
        rounds = [actors.trajectories(policy, round_) for round_ in range(-(-episodes // actors.count))]
    finally:
        actors.close()
    returns = [[[segment.rewards.sum() for segment in of_seed] for of_seed in round_] for round_ in rounds]
    return np.concatenate(np.array(returns, np.float64), 1)[:, :episodes]
