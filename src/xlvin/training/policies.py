"""How stacked agents choose actions while they collect data, and while they are evaluated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.training.recording import ArrayRecorder
from xlvin.training.rollouts import Array, Policy
from xlvin.training.stack import Stack


def sampling_policy(stack: Stack, agent: Agent) -> Policy:
    """Draw actions from the policy by inverting its distribution function at the given uniform numbers."""
    draw = agent.distribution(torch.zeros(2)).draw

    @torch.no_grad()
    def quantiles(observations: Tensor) -> Tensor:
        logits: Tensor = stack.apply(agent, observations).logits
        return agent.distribution(logits).quantiles()

    recorded = ArrayRecorder(quantiles, stack.flat.device)

    def act(observations: Array, uniform: Array) -> Array:
        return draw(recorded(observations), uniform)

    return act


def exploring_policy(stack: Stack, agent: Agent, epsilon: Callable[[], float]) -> Policy:
    """Any action with probability epsilon, which may change from call to call; otherwise the best one."""
    actions = agent.config.actions

    @torch.no_grad()
    def best(observations: Tensor) -> Tensor:
        values: Tensor = stack.apply(agent, observations).logits
        return values.argmax(-1)

    recorded = ArrayRecorder(best, stack.flat.device)

    def act(observations: Array, uniform: Array) -> Array:
        share = epsilon()
        # Below epsilon the number is uniform again, on a shorter interval.
        random = (uniform / max(share, 1e-12) * actions).astype(np.int64)
        return np.where(uniform < share, random, recorded(observations))

    return act


def greedy_policy(stack: Stack, agent: Agent) -> Policy:
    """Always the most probable action, as the environment takes it."""

    @torch.no_grad()
    def most_probable(observations: Tensor) -> Tensor:
        return agent.distribution(stack.apply(agent, observations).logits).mode()

    recorded = ArrayRecorder(most_probable, stack.flat.device)

    def act(observations: Array, uniform: Array) -> Array:
        return agent.native(recorded(observations))

    return act
