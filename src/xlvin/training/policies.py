"""How stacked agents choose actions while they collect data, and while they are evaluated."""

from __future__ import annotations

import torch
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.training.recording import Recorder
from xlvin.training.rollouts import Array, Policy
from xlvin.training.stack import Stack


def sampling_policy(stack: Stack, agent: Agent) -> Policy:
    """Draw actions from the policy by inverting its distribution function at the given uniform numbers."""
    device = stack.flat.device

    @torch.no_grad()
    def distribution(observations: Tensor) -> Tensor:
        """P(action <= a) for every action but the last, [S, E, A - 1]."""
        logits: Tensor = stack.apply(agent, observations).logits
        return logits.softmax(-1).cumsum(-1)[..., :-1]

    recorded = Recorder(distribution)

    def act(observations: Array, uniform: Array) -> Array:
        cumulated = recorded(torch.from_numpy(observations).to(device)).cpu().numpy()
        chosen: Array = (cumulated < uniform[..., None]).sum(-1)
        return chosen

    return act


def greedy_policy(stack: Stack, agent: Agent) -> Policy:
    """Always the most probable action."""
    device = stack.flat.device

    @torch.no_grad()
    def most_probable(observations: Tensor) -> Tensor:
        chosen: Tensor = stack.apply(agent, observations).logits.argmax(-1)
        return chosen

    recorded = Recorder(most_probable)

    def act(observations: Array, uniform: Array) -> Array:
        chosen: Array = recorded(torch.from_numpy(observations).to(device)).cpu().numpy()
        return chosen

    return act
