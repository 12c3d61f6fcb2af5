"""Execute (algorithm 2): the frozen processor X passes messages from children to parents.

One step updates a node with features u from its children u_a by

    c_a = norm(u + act(W_sender u_a + W_receiver u + e_a))
    u'  = reduce_a c_a                                                    wiring "executor"
    u'  = norm(u + sum_a act(W_sender u_a + W_receiver u + e_a))          wiring "skeleton"

The first is how the processor was pretrained; the second is how the authors' skeleton deploys it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

from xlvin.executor.network import Processor
from xlvin.planner.tree import Tree

Wiring = Literal["executor", "skeleton"]


@dataclass(frozen=True, eq=False)
class Step:
    """The update of nodes whose senders and receivers are multiplied already."""

    processor: Processor
    wiring: Wiring

    @property
    def _max_commutes(self) -> bool:
        # u + act(.) is monotone in the message, so the max can be taken before it, once per node.
        config = self.processor.config
        return self.wiring == "executor" and config.reduction == "max" and not config.layer_norm

    def dense(self, node: Tensor, received: Tensor, sent: Tensor, dim: int) -> Tensor:
        """Every node has all children: node and received [..., w], sent with an action dimension at `dim`."""
        processor = self.processor
        if self._max_commutes:
            return node + processor.activate(received + sent.amax(dim))
        message = processor.activate(sent + received.unsqueeze(dim))
        if self.wiring == "skeleton":
            return cast(Tensor, processor.norm(node + message.sum(dim)))
        return processor.reduce(cast(Tensor, processor.norm(node.unsqueeze(dim) + message)), dim)

    def sparse(self, node: Tensor, received: Tensor, sent: Tensor, parent: Tensor) -> Tensor:
        """Any node has any children: node and received [N, B, w], sent [E, B, w], parent [E, B].

        A node without children keeps its features.
        """
        processor = self.processor
        at = parent.unsqueeze(-1).expand(sent.shape)
        if self._max_commutes:
            lowest = torch.full_like(node, -torch.inf)
            best = lowest.scatter_reduce(0, at, sent, "amax")
            # For a childless node -inf becomes a zero message here; identity messages need the select.
            return torch.where(best == -torch.inf, node, node + processor.activate(received + best))
        message = processor.activate(sent + received.gather(0, at))
        if self.wiring == "skeleton":
            total = torch.zeros_like(node).scatter_add(0, at, message)
            childless = torch.ones_like(node).scatter(0, at, 0.0)
            return torch.where(childless > 0, node, cast(Tensor, processor.norm(node + total)))
        candidate = cast(Tensor, processor.norm(node.gather(0, at) + message))
        reduction = {"max": "amax", "sum": "sum", "mean": "mean"}[processor.config.reduction]
        return node.scatter_reduce(0, at, candidate, reduction, include_self=False)


def execute(step: Step, tree: Tree, nodes: Tensor, edges: Tensor, all_nodes: bool = False) -> Tensor:
    """Run as many steps as the tree is deep over its projected nodes [N, B, w]; edges [A, w] are e_a.

    Only what the root can still see is updated (a node at depth d needs K - d updates), unless `all_nodes`
    asks for the literal algorithm; the root's row is the same. Returns [N', B, w] with the root first.
    """
    processor, depth = step.processor, len(tree.sizes) - 1
    state = nodes
    for t in range(depth):
        inner = tree.nodes_above(depth if all_nodes else depth - t)
        below = (tree.nodes_above(depth + 1) if all_nodes else tree.nodes_above(depth - t + 1)) - 1
        start = state if t == 0 else state + nodes[: len(state)]
        sent = processor.sender(start[1 : 1 + below]) + edges[tree.action[:below]]
        received = processor.receiver(start[:inner])
        updated = step.sparse(start[:inner], received, sent, tree.parent[:below])
        state = torch.cat((updated, state[inner:])) if all_nodes else updated
    return state
