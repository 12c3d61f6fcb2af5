"""Execute (algorithm 2): the frozen processor X passes messages from children to their parents.

One step updates a node with features u from its children u_a, reached by edges e_a:

    m_a = act(W_sender u_a + W_receiver u + W_edge e_a + b)
    u'  = reduce_a norm(u + m_a)          wiring "executor": as the processor was pretrained
    u'  = norm(u + sum_a m_a)             wiring "skeleton": as the authors' skeleton deploys it

The products are taken outside: `sent` is W_sender u_a + W_edge e_a + b, `received` is W_receiver u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from xlvin.executor.network import Processor
from xlvin.planner.maximum import maximum, segment_maximum
from xlvin.planner.tree import Tree

Wiring = Literal["executor", "skeleton"]


@dataclass(frozen=True, eq=False)
class Family:
    """Who is whose child, among rows of nodes."""

    parent: Tensor  # [E] int64: the parent of each sender
    children: Tensor  # [N, 1]: how many children each receiver has


@dataclass(frozen=True, eq=False)
class Step:
    """One update of nodes from their children."""

    processor: Processor
    wiring: Wiring

    def dense(self, node: Tensor, received: Tensor, sent: Tensor, dim: int) -> Tensor:
        """Every node has a child per action: node, received [..., w], sent with the actions at `dim`.

        `sent` is consumed.
        """
        if self._max_first:
            return node + self.processor.activate(received + maximum(sent, dim))
        message = self.processor.activate(sent.add_(received.unsqueeze(dim)))
        if self.wiring == "skeleton":
            return self._norm(node + message.sum(dim))
        candidate = self._norm(node.unsqueeze(dim) + message)
        if self.processor.config.reduction == "max":
            return maximum(candidate, dim)
        return self.processor.reduce(candidate, dim)

    def sparse(self, node: Tensor, received: Tensor, sent: Tensor, family: Family) -> Tensor:
        """Any node has any children: node, received [N, w], sent [E, w].

        The update of a node without children has no meaning, and may be infinite.
        """
        parent = family.parent
        if self._max_first:
            return node + self.processor.activate(received + segment_maximum(sent, parent, len(node)))
        message = self.processor.activate(sent + received.index_select(0, parent))
        if self.wiring == "skeleton":
            return self._norm(node + torch.zeros_like(node).index_add(0, parent, message))
        candidate = self._norm(node.index_select(0, parent) + message)
        if self.processor.config.reduction == "max":
            return segment_maximum(candidate, parent, len(node))
        total = torch.zeros_like(node).index_add(0, parent, candidate)
        return total if self.processor.config.reduction == "sum" else total / family.children.clamp(min=1.0)

    @property
    def _max_first(self) -> bool:
        # u + act(.) grows with the message: the largest message can be found before both, once per node.
        config = self.processor.config
        return self.wiring == "executor" and config.reduction == "max" and not config.layer_norm

    def _norm(self, node: Tensor) -> Tensor:
        return cast(Tensor, self.processor.norm(node))


def execute(
    step: Step,
    tree: Tree,
    nodes: Tensor,
    edges: Tensor,
    every_node: bool = False,
    norm: nn.Module | None = None,
) -> Tensor:
    """As many steps as the tree is deep, over its projected nodes [N, B, w]; returns the nodes, root first.

    `edges` [A, w] is W_edge e_a + b. The projected nodes are added again before every step but the first;
    nodes without children stay as they were projected. The root can see no more than the first K - d updates
    of a node at depth d; the others are left out unless `every_node` asks for them. `norm` is applied to what
    each step has updated.
    """
    processor, depth, batch = step.processor, len(tree.sizes) - 1, nodes.shape[1]
    nodes = nodes.flatten(0, 1)  # rows, of all states of the batch
    parent = (tree.parent * batch + torch.arange(batch, device=nodes.device)).flatten()
    children = nodes.new_zeros(len(nodes), 1).index_add(0, parent, nodes.new_ones(len(parent), 1))
    is_parent, reached_by = children > 0, edges.index_select(0, tree.action.flatten())
    state = nodes
    for t in range(depth):
        levels = depth if every_node else depth - t
        inner, last = batch * tree.above(levels), batch * tree.above(levels + 1)
        start = state + nodes[: len(state)] if t else state
        sent = processor.sender(start[batch:last]) + reached_by[: last - batch]
        receiver, family = start[:inner], Family(parent[: last - batch], children[:inner])
        updated = step.sparse(receiver, processor.receiver(receiver), sent, family)
        updated = updated if norm is None else norm(updated)
        updated = torch.where(is_parent[:inner], updated, nodes[:inner])
        state = torch.cat((updated, nodes[inner:])) if every_node else updated
    return state.view(-1, batch, state.shape[-1])
