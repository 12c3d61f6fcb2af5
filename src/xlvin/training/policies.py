"""How stacked agents choose actions while they collect data, and while they are evaluated."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.training.rollouts import Policy
from xlvin.training.stack import Stack


def sampling_policy(stack: Stack, agent: Agent, device: torch.device) -> Policy:
    """Draw actions from the policy by inverting its distribution function at the given uniform numbers."""

    @torch.no_grad()
    def act(observations: NDArray[Any], uniform: NDArray[Any]) -> NDArray[Any]:
        logits = stack.apply(agent, torch.from_numpy(observations).to(device)).logits
        cumulated = logits.softmax(-1).cumsum(-1).cpu().numpy()[..., :-1]
        chosen: NDArray[Any] = (cumulated < uniform[..., None]).sum(-1)
        return chosen

    return act


def greedy_policy(stack: Stack, agent: Agent, device: torch.device) -> Policy:
    """Always the most probable action."""

    @torch.no_grad()
    def act(observations: NDArray[Any], uniform: NDArray[Any]) -> NDArray[Any]:
        logits = stack.apply(agent, torch.from_numpy(observations).to(device)).logits
        chosen: NDArray[Any] = logits.argmax(-1).cpu().numpy()
        return chosen

    return act
