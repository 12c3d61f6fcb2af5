"""The tree of value prediction networks (Oh et al. 2017), over the same latent model as the planner."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel
from xlvin.planner.backup import ActionValues
from xlvin.planner.tree import grow


class PredictionTree(nn.Module):
    """Predict rewards, ends and values in the latent tree, and average what every depth says:

        Q^d(z, a) = r(z, a) + gamma c(z, a) V^d(z + T(z, a))
        V^d(z)    = V(z) / d + (d - 1) / d max_b Q^(d-1)(z, b)

    r and c, the probability that the episode goes on, are MLPs with one hidden layer and an output per
    action; V is linear. All actions are followed at every node.
    """

    def __init__(
        self, transition: TransitionModel, depth: int, discount: float = 0.99, outcome_hidden: int = 64
    ) -> None:
        super().__init__()
        if depth < 1:
            raise XLVINError(
                f"The prediction tree has depth {depth}; it needs at least 1 to value an action."
            )
        self.transition = transition
        self.depth, self.discount = depth, discount
        self.reward, self.lasting = (
            nn.Sequential(
                nn.Linear(transition.width, outcome_hidden),
                nn.ReLU(),
                nn.Linear(outcome_hidden, transition.actions),
            )
            for _ in range(2)
        )
        self.value = nn.Linear(transition.width, 1)

    def forward(self, embedding: Tensor) -> ActionValues:
        """Q^K of the states [B, k]."""
        levels = grow(self.transition, embedding, self.depth)
        sizes, inner = [len(level) for level in levels], torch.cat(levels[:-1])
        rewards = cast(Tensor, self.reward(inner)).movedim(-1, 1).split_with_sizes(sizes[:-1])  # [M, A, B]
        lasting = cast(Tensor, self.lasting(inner)).sigmoid().movedim(-1, 1).split_with_sizes(sizes[:-1])
        values = cast(Tensor, self.value(torch.cat(levels[1:]))).squeeze(-1).split_with_sizes(sizes[1:])
        beyond = values[-1]  # [M A, B], V^d of the children of a level
        for level in reversed(range(self.depth)):
            q = rewards[level] + self.discount * lasting[level] * beyond.view(rewards[level].shape)
            if level > 0:
                steps = self.depth - level + 1
                beyond = torch.lerp(values[level - 1], q.amax(1), (steps - 1) / steps)
        return ActionValues(q[0].T, rewards[0][0].T)
