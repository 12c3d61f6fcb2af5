"""Execute (algorithm 2): the frozen processor X passes messages from children to their parents.

One step updates a node with features u from its children u_a, reached by edges e_a:

    m_a = act(W_sender u_a + W_receiver u + W_edge e_a + b)
    u'  = reduce_a norm(u + m_a)          wiring "executor": as the processor was pretrained
    u'  = norm(u + sum_a m_a)             wiring "skeleton": as the authors' skeleton deploys it

Where an action has several outcomes u_am with chances p_m, its message is the expectation, as in pretraining:

    m_a = sum_m p_m act(W_sender u_am + W_receiver u + W_edge e_a + b)

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
    action: Tensor  # [E] int64: the action that leads to each sender
    chance: Tensor | None = None  # [E]: among those of its action; None: actions have but one outcome


@dataclass(frozen=True, eq=False)
class Step:
    """One update of nodes from their children."""

    processor: Processor
    wiring: Wiring
    actions: int

    def dense(
        self, node: Tensor, received: Tensor, sent: Tensor, dim: int, chance: Tensor | None = None
    ) -> Tensor:
        """Every node has a child per action: node, received [..., w], sent with the actions at `dim`.

        With chances [..., 1] an action has several children, the samples, at the dimension after it. `sent`
        is consumed.
        """
        if chance is not None:
            each = self.processor.activate(sent.add_(received.unsqueeze(dim).unsqueeze(dim)))
            message = (each * chance).sum(dim + 1)
        elif self._max_first:
            return node + self.processor.activate(received + maximum(sent, dim))
        else:
            message = self.processor.activate(sent.add_(received.unsqueeze(dim)))
        if self.wiring == "skeleton":
            return self._norm(node + message.sum(dim))
        candidate = self._norm(node.unsqueeze(dim) + message)
        if self.processor.config.reduction == "max":
            return maximum(candidate, dim)
        return self.processor.reduce(candidate, dim)

    def sparse(self, node: Tensor, sent: Tensor, family: Family) -> Tensor:
        """Any node has any children: node [N, w], sent [E, w].

        The update of a node without children has no meaning, and may be infinite.
        """
        parent, receive = family.parent, self.processor.receiver
        if family.chance is not None:
            return self._sparse_expected(node, sent, family)
        if self._max_first:
            best = segment_maximum(sent, parent, len(node))
            return node + self.processor.activate(torch.addmm(best, node, receive.weight.T))
        received = receive(node)
        message = self.processor.activate(sent + received.index_select(0, parent))
        if self.wiring == "skeleton":
            return self._norm(node + torch.zeros_like(node).index_add(0, parent, message))
        candidate = self._norm(node.index_select(0, parent) + message)
        if self.processor.config.reduction == "max":
            return segment_maximum(candidate, parent, len(node))
        total = torch.zeros_like(node).index_add(0, parent, candidate)
        return total if self.processor.config.reduction == "sum" else total / family.children.clamp(min=1.0)

    @property
    def passes_by_childless(self) -> bool:
        """Whether `sparse` returns nodes without children as they are, by relu(-inf) = 0."""
        return self._max_first and self.processor.config.activation == "relu"

    def _sparse_expected(self, node: Tensor, sent: Tensor, family: Family) -> Tensor:
        """The same where actions have several outcomes; the chances of those that are there add up to one."""
        assert family.chance is not None
        parent, count = family.parent, self.actions
        pair, chance = parent * count + family.action, family.chance.unsqueeze(-1)  # [E], [E, 1]
        total = chance.new_zeros(len(node) * count, 1).index_add(0, pair, chance)
        received = self.processor.receiver(node).index_select(0, parent)
        each = self.processor.activate(sent + received) * chance
        message = node.new_zeros(len(total), node.shape[-1]).index_add(0, pair, each)
        there = (total > 0.0).view(-1, count, 1)  # [N, A, 1]: which actions have children
        message = (message / total.where(total > 0.0, 1.0)).view(-1, count, node.shape[-1])
        if self.wiring == "skeleton":
            return self._norm(node + message.sum(1))
        candidate = self._norm(node.unsqueeze(1) + message)
        if self.processor.config.reduction == "max":
            return candidate.masked_fill(~there & there.any(1, keepdim=True), -torch.inf).amax(1)
        merged = (candidate * there).sum(1)
        return merged if self.processor.config.reduction == "sum" else merged / there.sum(1).clamp(min=1)

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
    action, chance = tree.action.flatten(), None if tree.chance is None else tree.chance.flatten()
    is_parent, reached_by = children > 0, edges.index_select(0, action)
    certain = chance is None and (norm is None or isinstance(norm, nn.Identity))
    stays = certain and step.passes_by_childless
    childless = torch.where(is_parent, 0.0, nodes) if stays else nodes
    state = nodes
    for t in range(depth):
        inner = batch * tree.above(depth if every_node else depth - t)
        start = state + nodes if t else state
        sent = torch.addmm(reached_by, start[batch:], processor.sender.weight.T)
        updated = step.sparse(start[:inner], sent, Family(parent, children[:inner], action, chance))
        own, childless = nodes[:inner], childless[:inner]
        if stays:  # half the time of a choice, and a fraction of its gradient's
            updated = updated - childless if t else updated
        else:
            parents = is_parent[:inner]
            # Before norm, too: what no child told may be -inf.
            updated = torch.where(parents, updated, own)
            updated = updated if norm is None else torch.where(parents, norm(updated), own)
        if every_node:
            state = torch.cat((updated, nodes[inner:]))
        else:  # the last level has said all it knows
            senders = inner - batch
            state, nodes, parent, action = updated, own, parent[:senders], action[:senders]
            reached_by, chance = reached_by[:senders], None if chance is None else chance[:senders]
    return state.view(-1, batch, state.shape[-1])
