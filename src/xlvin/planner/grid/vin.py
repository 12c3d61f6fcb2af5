"""Value iteration network (Tamar et al. 2016): value iteration by convolution and a maximum over channels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES
from xlvin.planner.grid.base import CHANNELS, MapPlanner
from xlvin.planner.maximum import maximum


class VIN(MapPlanner):
    """A reward map r from the maze's map, then `iterations` times

        q_a = W_a * r + U_a * v,    v = max_a q_a    (* is a convolution)

    and a linear policy on the agent's q. Channels are the planner's own actions, not the maze's.

    Initialisation "taps" starts close to value iteration, without knowing what a wall or a goal is: every Q
    channel looks at one neighbour, and the policy is greedy in them. From random weights ("torch") it is a
    matter of luck whether gradients find value iteration.
    """

    def __init__(
        self,
        iterations: int = 10,
        hidden: int = 150,
        channels: int = 10,
        kernel: int = 3,
        initialisation: Literal["taps", "torch"] = "taps",
    ) -> None:
        super().__init__(channels)
        if min(iterations, hidden, channels) < 1 or kernel % 2 == 0:
            raise XLVINError(
                f"A VIN of {iterations} iterations, {hidden} hidden and {channels} Q channels and kernels of "
                f"{kernel} does not exist; give at least 1 each, and an odd kernel."
            )
        self.iterations = iterations
        self.hidden = nn.Conv2d(CHANNELS, hidden, kernel)
        self.reward = nn.Linear(hidden, 1, bias=False)
        self.reward_to_q = nn.Conv2d(1, channels, kernel, padding="same", bias=False)
        self.value_to_q = nn.Conv2d(1, channels, kernel, padding="same", bias=False)
        if initialisation == "taps":
            self._start_from_taps()

    def _start_from_taps(self) -> None:
        """Channel c looks at cell c of its kernel, the policy is greedy in q, and nothing is rewarded yet."""
        channels, size = self.value_to_q.weight.shape[0], self.value_to_q.weight.shape[-1]
        for layer in (self.reward_to_q, self.value_to_q):
            nn.init.normal_(layer.weight, std=0.01)
            taps = torch.eye(size * size)[torch.arange(channels) % size**2]
            layer.weight.data += taps.view_as(layer.weight)
        # With an actor of random signs a goal may come to repel, which a maximum cannot plan with.
        channel = (MOVES[:, 0] + size // 2) * size + MOVES[:, 1] + size // 2
        nn.init.normal_(self.actor.weight, std=0.01)
        near = channel < channels
        self.actor.weight.data[near, channel[near]] += 1.0
        self.reward.weight.data *= 0.05

    def reward_map(self, maps: Tensor) -> Tensor:
        """r [B, 1, H, W] of maps [B, 2, H, W].

        Nothing nonlinear stands between the hidden layer and the reward, so the two are one convolution.
        """
        weight = torch.tensordot(self.reward.weight, self.hidden.weight, 1)
        assert self.hidden.bias is not None
        return conv2d(maps, weight, self.reward(self.hidden.bias), padding="same")

    def plan(self, maps: Tensor) -> Tensor:
        """q [B, channels, H, W] after the last iteration."""
        immediate: Tensor = self.reward_to_q(self.reward_map(maps))
        q = immediate
        for _ in range(self.iterations):
            q = immediate + self.value_to_q(maximum(q, 1).unsqueeze(1))
        return q
