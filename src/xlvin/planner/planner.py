"""The planner: imagine the tree around a state, execute value iteration over it, return the root's result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.errors import XLVINError
from xlvin.executor.network import Processor
from xlvin.latent.transition import TransitionModel
from xlvin.planner.execution import Step, Wiring, execute
from xlvin.planner.tree import Prior, Tree, expand, expand_beam, grow


@dataclass(frozen=True, eq=False)
class PlanLevel:
    """The nodes at one depth of a plan; M is A^d in a full tree, at most the beam in a sparse one."""

    embedding: Tensor  # [B, M, k], h
    executed: Tensor  # [B, M, w], chi after the last step
    parent: Tensor  # [B, M] int64: index into the level above; 0 at the root
    action: Tensor  # [B, M] int64: the action from the parent; -1 at the root


@dataclass(frozen=True, eq=False)
class Plan:
    """A tree with what the executor made of it, for people to look at."""

    levels: tuple[PlanLevel, ...]  # the root first

    @property
    def depth(self) -> int:
        """K."""
        return len(self.levels) - 1


class Planner(nn.Module):
    """chi = Execute(Expand(h)): from an embedding [B, k] to the executed embedding [B, w].

    Latents enter the frozen processor through the trainable `project`, edges carry [onehot(a), gamma] through
    the trainable `edge`, and the projected nodes are added again before every step after the first.
    """

    def __init__(
        self,
        processor: Processor,
        transition: TransitionModel,
        depth: int,
        discount: float = 0.99,
        wiring: Wiring = "executor",
        beam: int | None = None,
        prior: Prior | None = None,
        max_leaves: int | None = None,
    ) -> None:
        super().__init__()
        self.processor = processor.requires_grad_(False)
        self.transition = transition
        self.depth, self.discount, self.beam, self.max_leaves = depth, discount, beam, max_leaves
        self.prior = prior
        self.step = Step(processor, wiring)
        width = processor.config.width
        self.project = nn.Linear(transition.width, width)
        self.edge = nn.Linear(transition.actions + 1, width)

    def forward(self, embedding: Tensor) -> Tensor:
        """The root's executed embedding, [B, k] -> [B, w]."""
        if self.depth == 0:
            return cast(Tensor, self.project(embedding))
        if self.beam is not None:
            tree = self._expand(embedding)
            return execute(self.step, tree, self.project(tree.embedding), self.edges())[0]
        return self._execute_full(embedding)

    def edges(self) -> Tensor:
        """e_a = W_edge (edge [onehot(a), gamma]) + b, [A, w]."""
        columns = self.edge.weight.T
        return cast(Tensor, self.processor.edge(columns[:-1] + (self.discount * columns[-1] + self.edge.bias)))

    def tree(self, embedding: Tensor) -> Plan:
        """The whole plan for states [B, k]: every node, after the literal number of steps."""
        tree = self._expand(embedding)
        executed = execute(self.step, tree, self.project(tree.embedding), self.edges(), all_nodes=True)
        root = torch.zeros_like(tree.parent[:1])
        if self.depth == 0:
            root = torch.zeros(1, len(embedding), dtype=torch.int64, device=embedding.device)
        parent, action = torch.cat((root, tree.parent)), torch.cat((root - 1, tree.action))
        levels, first, above = [], 0, 0
        for size in tree.sizes:
            part = slice(first, first + size)
            levels.append(
                PlanLevel(
                    tree.embedding[part].transpose(0, 1),
                    executed[part].transpose(0, 1),
                    (parent[part] - above).T,
                    action[part].T,
                )
            )
            first, above = first + size, first
        return Plan(tuple(levels))

    def _expand(self, embedding: Tensor) -> Tree:
        if self.beam is None or self.depth == 0:
            return expand(self.transition, embedding, self.depth)
        assert self.prior is not None
        return expand_beam(self.transition, embedding, self.depth, self.beam, self.prior)

    def _execute_full(self, embedding: Tensor) -> Tensor:
        processor, transition = self.processor, self.transition
        levels = [embedding.unsqueeze(0)]
        for _ in range(self.depth - 1):
            levels.append(grow(transition, levels[-1]))
        sizes = [len(level) for level in levels]
        nodes = self.project(torch.cat(levels))
        edges = self.edges()
        sender = processor.sender(nodes)
        received = processor.receiver(nodes)
        inner = sum(sizes[:-1])
        # Leaves
        composed = processor.sender.weight @ self.project.weight  # [w, k]
        leaf_edges = edges + composed @ transition.output.bias
        first = transition.read(levels[-1]).flatten(0, 1)
        features = transition.think(first + transition.action_rows.unsqueeze(1))  # [A, R, F]
        sent = linear(features, composed @ transition.output.weight) + leaf_edges.unsqueeze(1)
        last = nodes[inner:].flatten(0, 1)
        leaves = self.step.dense(last, (sender + received)[inner:].flatten(0, 1), sent, 0)
        state = leaves.unflatten(0, (sizes[-1], -1))
        if inner:
            sent = sender[1:].unflatten(0, (inner, -1)) + edges.unsqueeze(1)
            state = torch.cat((self.step.dense(nodes[:inner], received[:inner], sent, 1), state))
        for size in reversed(sizes[1:]):
            start = state + nodes[: len(state)]
            inner = len(state) - size
            sent = processor.sender(start[1:]).unflatten(0, (inner, -1)) + edges.unsqueeze(1)
            state = self.step.dense(start[:inner], processor.receiver(start[:inner]), sent, 1)
        return state[0]
