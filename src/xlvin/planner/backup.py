"""The scalar tree of TreeQN and ATreeC (Farquhar et al. 2018), over the same latent model as the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel
from xlvin.planner.tree import grow


@dataclass(frozen=True, eq=False)
class ActionValues:
    """What the scalar tree says about the root's actions."""

    value: Tensor  # [B, A], Q(z, a) after the backup
    reward: Tensor  # [B, A], the predicted immediate rewards, to be grounded on observed ones


class ScalarTree(nn.Module):
    """Predict rewards and values in the latent tree, back them up to the root:

        Q(z, a)     = r(z, a) + gamma V_lambda(z + T(z, a))
        V_lambda(z) = (1 - lambda) V(z) + lambda sum_a softmax(Q(z, .))_a Q(z, a)     inside the tree
        V_lambda(z) = V(z)                                                            at the leaves

    r is an MLP with one hidden layer and an output per action, V is linear.
    """

    def __init__(
        self,
        transition: TransitionModel,
        depth: int,
        discount: float = 0.99,
        td_lambda: float = 0.8,
        reward_hidden: int = 64,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise XLVINError(f"The scalar tree has depth {depth}; it needs at least 1 to value an action.")
        self.transition = transition
        self.depth, self.discount, self.td_lambda = depth, discount, td_lambda
        self.reward = nn.Sequential(
            nn.Linear(transition.width, reward_hidden),
            nn.ReLU(),
            nn.Linear(reward_hidden, transition.actions),
        )
        self.value = nn.Linear(transition.width, 1)

    def forward(self, embedding: Tensor) -> ActionValues:
        """Back the tree up to the states [B, k]."""
        transition, actions = self.transition, self.transition.actions
        levels = grow(transition, embedding, self.depth - 1)
        sizes = [len(level) for level in levels]
        nodes = torch.cat(levels)  # [N, B, k], all but the leaves
        # Per level [M, A, B] and [M, B].
        rewards = cast(Tensor, self.reward(nodes)).movedim(-1, 1).split_with_sizes(sizes)
        values = cast(Tensor, self.value(nodes)).squeeze(-1).split_with_sizes(sizes)
        # A leaf's value is linear in T's features: its embedding need not exist.
        weight = self.value.weight @ transition.output.weight
        bias = self.value.weight @ transition.output.bias
        gain = linear(transition.features(levels[-1], dim=-3), weight, bias).squeeze(-1)  # [M, A, B]
        backed_up = values[-1].unsqueeze(1) + gain
        for depth in reversed(range(self.depth)):
            q = rewards[depth] + self.discount * backed_up  # [M, A, B]
            if depth > 0:
                expected = (q.softmax(1) * q).sum(1)
                mixed = torch.lerp(values[depth], expected, self.td_lambda)  # [M, B]
                backed_up = mixed.view(-1, actions, len(embedding))
        return ActionValues(q[0].T, rewards[0][0].T)
