"""The aligned planner on a sparse tree: deep or wide without the A^K nodes of a full one.

Every node that is expanded has all its children, as value iteration wants them; but of the children of a
level only the most promising are expanded further. The others are leaves, and keep V = v(h).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.executor.network import Executor
from xlvin.latent.transition import TransitionModel
from xlvin.planner.aligned import AlignedPlanner, ValuedTree
from xlvin.planner.backup import ActionValues
from xlvin.planner.tree import check_root


class _Grown(NamedTuple):
    """A sparse tree: of N nodes of a level that are expanded, all children are in the next."""

    nodes: list[Tensor]  # [N A, B, k] each, the root first
    expanded: list[Tensor]  # [N, B, 1 + A] each, what the heads say of expanded nodes; not of the last level
    children: list[Tensor]  # [N A, B, 1 + A] each, what they say of all nodes; not of the root
    kept: list[Tensor]  # [N, B] each, which nodes are expanded; not of the first and the last level


class SparseAlignedPlanner(AlignedPlanner):
    """As `AlignedPlanner`, with at most `beam` nodes of a level expanded; cost grows with depth * beam * A.

    A path of actions a_0, ..., a_d from the root promises the return that the grounded heads predict,

        r(s_0, a_0) + gamma r(s_1, a_1) + ... + gamma^d r(s_d, a_d) + gamma^(d + 1) v(s_(d + 1)),

    and the paths with the highest promise are followed. A level with room for everything keeps everything.
    Which paths are kept is a choice without a gradient; values and rewards on them have one.
    """

    def __init__(
        self,
        executor: Executor,
        transition: TransitionModel,
        depth: int,
        beam: int,
        discount: float = 0.99,
        executor_discount: float = 0.9,
    ) -> None:
        super().__init__(executor, transition, depth, discount, executor_discount)
        if beam < 1:
            raise XLVINError(f"The beam is {beam}; give at least 1.")
        if transition.samples > 1:
            raise XLVINError("The sparse aligned planner needs a deterministic model; set samples to 1.")
        self.beam = beam

    def forward(self, embedding: Tensor) -> ActionValues:
        """The planned values and the predicted rewards of every action in states [B, k]."""
        grown = self._grow(embedding)
        below = self._values(grown)[0]
        value = self._back_up(grown.expanded[0], below, grown.children[0], None, per_action=True)
        return ActionValues(value.squeeze(0), grown.expanded[0].squeeze(0)[..., 1:])

    def tree(self, embedding: Tensor) -> ValuedTree:
        """The sparse tree of states [B, k] with the value that the executor decodes at every node."""
        grown = self._grow(embedding)
        below = self._values(grown)
        root = self._back_up(grown.expanded[0], below[0], grown.children[0], None, per_action=False)
        return ValuedTree(tuple(grown.nodes), (root, *below), kept=tuple(grown.kept))

    def _grow(self, embedding: Tensor) -> _Grown:
        check_root(self.transition, embedding)
        level, earned = embedding.unsqueeze(0), embedding.new_zeros(1, len(embedding))
        own = self._ground(level)
        grown = _Grown([level], [own], [], [])
        for depth in range(self.depth):
            nodes = self.transition.successors(level, dim=-3).flatten(0, 1)
            children = self._ground(nodes)
            grown.nodes.append(nodes)
            grown.children.append(children)
            if depth < self.depth - 1:
                chosen, earned = self._choose(own, children, earned, self.discount**depth)
                level, own = _at(nodes, chosen), _at(children, chosen)
                grown.kept.append(chosen)
                grown.expanded.append(own)
        return grown

    def _values(self, grown: _Grown) -> list[Tensor]:
        """V of all nodes of every level below the root, [N A, B] each: backed up where they are expanded."""
        values = [grown.children[-1][..., 0]]
        for depth in reversed(range(1, self.depth)):
            backed = self._back_up(
                grown.expanded[depth], values[0], grown.children[depth], None, per_action=False
            )
            values.insert(0, grown.children[depth - 1][..., 0].scatter(0, grown.kept[depth - 1], backed))
        return values

    @torch.no_grad()
    def _choose(
        self, own: Tensor, children: Tensor, earned: Tensor, discount: float
    ) -> tuple[Tensor, Tensor]:
        """Which children [M A, B] to expand, by number [N, B], and the rewards on the way to each, [N, B]."""
        rewards = own[..., 1:].movedim(-1, 1)  # [M, A, B]
        earned = (earned.unsqueeze(1) + discount * rewards).flatten(0, 1)
        promise = earned + discount * self.discount * children[..., 0]
        chosen = promise.topk(min(self.beam, len(promise)), 0).indices
        return chosen, earned.gather(0, chosen)


def _at(nodes: Tensor, chosen: Tensor) -> Tensor:
    """nodes[chosen[n, b], b], [N, B, ...]."""
    return nodes.gather(0, chosen.unsqueeze(-1).expand(*chosen.shape, nodes.shape[-1]))
