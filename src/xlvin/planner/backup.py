"""The scalar tree of TreeQN and ATreeC (Farquhar et al. 2018), over the same latent model as the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

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
            nn.Linear(transition.width, reward_hidden), nn.ReLU(), nn.Linear(reward_hidden, transition.actions)
        )
        self.value = nn.Linear(transition.width, 1)

    def forward(self, embedding: Tensor) -> ActionValues:
        """Back the tree up to the states [B, k]."""
        transition, actions = self.transition, self.transition.actions
        levels = [embedding.unsqueeze(0)]
        for _ in range(self.depth - 1):
            levels.append(grow(transition, levels[-1]))
        sizes = [len(level) for level in levels]
        nodes = torch.cat(levels)  # [N, B, k], all but the leaves
        rewards = cast(Tensor, self.reward(nodes)).movedim(-1, 1).split(sizes)  # [M, A, B] per level
        values = cast(Tensor, self.value(nodes)).squeeze(-1).split(sizes)  # [M, B] per level
        # A leaf's value is linear in T's features: its embedding need not exist.
        first = transition.read(levels[-1]).unsqueeze(1) + transition.action_rows.unsqueeze(1)
        features = transition.think(first)
        weight = self.value.weight @ transition.output.weight
        gain = features @ weight[0] + self.value.weight[0] @ transition.output.bias
        backed_up = values[-1].unsqueeze(1) + gain
        for depth in reversed(range(self.depth)):
            q = rewards[depth] + self.discount * backed_up  # [M, A, B]
            if depth > 0:
                expected = (q.softmax(1) * q).sum(1)
                backed_up = torch.lerp(values[depth], expected, self.td_lambda).unflatten(0, (-1, actions))
        return ActionValues(q[0].T, rewards[0][0].T)
