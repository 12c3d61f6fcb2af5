"""The planner: imagine the tree around a state, execute value iteration over it, keep the root's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.errors import XLVINError
from xlvin.executor.network import Processor
from xlvin.latent.stochastic import StochasticTransitionModel
from xlvin.latent.transition import TransitionModel, think
from xlvin.planner.execution import Step, execute
from xlvin.planner.execution import Wiring as Wiring
from xlvin.planner.pieces import in_pieces, piece_size
from xlvin.planner.tree import Prior, Tree, check_root, expand, expand_beam, grow_weighed


@dataclass(frozen=True, eq=False)
class PlanLevel:
    """The nodes at one depth of a plan; M is A^d in a full tree, at most the beam in a sparse one.

    `sample` and `chance` are of models with several outcomes for an action.
    """

    embedding: Tensor  # [B, M, k], h
    executed: Tensor  # [B, M, w], chi
    parent: Tensor  # [B, M] int64: index into the level above; -1 at the root
    action: Tensor  # [B, M] int64: the action from the parent; -1 at the root
    value: Tensor | None = None  # [B, M], the values that the plan has on its nodes, if it has any
    sample: Tensor | None = None  # [B, M] int64: which outcome of the action; -1 at the root
    chance: Tensor | None = None  # [B, M]: its probability, given parent and action; 1 at the root


@dataclass(frozen=True, eq=False)
class Plan:
    """A tree and what the executor made of it, to look at."""

    levels: tuple[PlanLevel, ...]  # the root first

    @property
    def depth(self) -> int:
        """K."""
        return len(self.levels) - 1


class Planner(nn.Module):
    """chi = Execute(Expand(h)), from embeddings [B, k] to executed embeddings [B, w].

    Latents enter the processor through the trainable layer `project`, edges carry [onehot(a), gamma] through
    the trainable layer `edge`. The processor is frozen: gradients pass through it and leave it as it was.

    depth: K, levels of the tree and steps of the executor; 0 returns the projected embedding.
    transition: T; where it has several outcomes for an action, all of them are children, and the action's
        message is their expectation.
    wiring: how messages meet at a node, see `xlvin.planner.execution`.
    beam, prior: follow the `beam` most probable paths under the rollout policy `prior` instead of all paths.
    normalise: layer normalisation after every step, as the paper has it in mazes; its parameters are trained.
    max_leaves: how many leaves of a full tree may be in memory at once; the backward pass then expands them
        anew. By default a CPU works in pieces that fit its cache, other devices on everything at once.
    """

    edge_features: Tensor

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
        normalise: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(processor, Processor):
            raise XLVINError("A planner runs a processor; give that of an executor, `executor.processor`.")
        if not isinstance(depth, int) or depth < 0:
            raise XLVINError(f"The planner's depth is {depth}; it must be a whole number from 0 on.")
        if wiring not in ("executor", "skeleton"):
            raise XLVINError(f'Unknown wiring "{wiring}"; choose executor or skeleton.')
        if (beam is None) != (prior is None):
            raise XLVINError("A beam and a rollout policy (prior) go together; give both or neither.")
        if (beam is not None and beam < 1) or (max_leaves is not None and max_leaves < 1):
            raise XLVINError(
                f"Beam {beam} and max_leaves {max_leaves} must be at least 1 where they are given."
            )
        self.processor = processor.requires_grad_(False)
        self.transition = transition
        self.depth, self.beam, self.max_leaves = depth, beam, max_leaves
        self.prior, self.wiring = prior, wiring
        self.project = nn.Linear(transition.width, processor.config.width)
        self.edge = nn.Linear(transition.actions + 1, processor.config.width)
        self.norm = nn.LayerNorm(processor.config.width) if normalise else nn.Identity()
        features = torch.cat(
            (torch.eye(transition.actions), torch.full((transition.actions, 1), discount)), 1
        )
        self.register_buffer("edge_features", features, persistent=False)

    def forward(self, embedding: Tensor) -> Tensor:
        """The executed embeddings of states [B, k], [B, w]."""
        if self.depth == 0:
            check_root(self.transition, embedding)
            return cast(Tensor, self.project(embedding))
        if self.beam is None:
            return self._execute_full(embedding)
        tree = self._expand(embedding)
        return execute(self.step, tree, self.project(tree.nodes), self._edges(), norm=self.norm)[0]

    def tree(self, embedding: Tensor) -> Plan:
        """The whole plan of states [B, k]: every node, after all K steps."""
        tree = self._expand(embedding)
        executed = execute(
            self.step, tree, self.project(tree.nodes), self._edges(), every_node=True, norm=self.norm
        )
        root = torch.full((1, len(embedding)), -1, device=embedding.device)
        columns = [tree.nodes, executed, torch.cat((root, tree.parent)), torch.cat((root, tree.action))]
        if tree.sample is not None and tree.chance is not None:
            certain = tree.chance.new_ones(1, len(embedding))
            columns += [torch.cat((root, tree.sample)), torch.cat((certain, tree.chance))]
        levels = []
        for depth, parts in enumerate(
            zip(*(column.split_with_sizes(tree.sizes) for column in columns), strict=True)
        ):
            nodes, chi, parent, action, *drawn = (part.transpose(0, 1) for part in parts)
            above = tree.above(depth - 1) if depth else 0
            levels.append(PlanLevel(nodes, chi, parent - above, action, None, *drawn))
        return Plan(tuple(levels))

    @property
    def step(self) -> Step:
        """One update of the executor, in this planner's wiring."""
        return Step(self.processor, self.wiring, self.transition.actions)

    def _expand(self, embedding: Tensor) -> Tree:
        if self.beam is None or self.prior is None or self.depth == 0:
            return expand(self.transition, embedding, self.depth)
        return expand_beam(self.transition, embedding, self.depth, self.beam, self.prior)

    def _edges(self) -> Tensor:
        """W_edge e_a + b, [A, w]."""
        return cast(Tensor, self.processor.edge(self.edge(self.edge_features)))

    def _execute_full(self, embedding: Tensor) -> Tensor:
        """Algorithms 1 and 2 on the full tree, for the root alone: after step t, level K - t is done with."""
        levels, weighed = grow_weighed(self.transition, embedding, self.depth - 1)
        chances: Sequence[Tensor | None] = [chance.unsqueeze(-1) for chance in weighed]
        chances = chances or [None] * (self.depth - 1)
        nodes = [self.project(level) for level in levels]  # [A^d, B, w]
        edges = self._edges().unsqueeze(1)  # [A, 1, w]
        last = self._update_last(levels[-1], nodes[-1], edges)
        state = [*self._update(nodes, edges, chances), last]
        for _ in range(self.depth - 1):
            again = [own + initial for own, initial in zip(state, nodes, strict=False)]
            state = self._update(again, edges, chances)
        return state[0].squeeze(0)

    def _update(self, state: list[Tensor], edges: Tensor, chances: Sequence[Tensor | None]) -> list[Tensor]:
        """One step on every level but the last, whose nodes only send."""
        step, updated = self.step, []
        for (node, children), chance in zip(pairwise(state), chances, strict=False):
            sent = self._family(self.processor.sender(children), node.shape[1:], edges)
            updated.append(self.norm(step.dense(node, self.processor.receiver(node), sent, 1, chance)))
        return updated

    def _family(self, sent: Tensor, shape: torch.Size, edges: Tensor) -> Tensor:
        """What children [M A, ...] send, with their edges, as [M, A, ...] or [M, A, samples, ...]."""
        actions, samples = self.transition.actions, self.transition.samples
        if samples == 1:
            return sent.view(-1, actions, *shape) + edges
        return sent.view(-1, actions, samples, *shape) + edges.unsqueeze(1)

    def _update_last(self, level: Tensor, nodes: Tensor, edges: Tensor) -> Tensor:
        """The first step on the level above the leaves: embeddings [M, B, k], projected nodes [M, B, w].

        Leaves are neither stored nor projected. What one sends, W_sender project(h + T(h, a)), is linear in
        its parent's h and in T's features; the parent's part joins what the parent receives.
        """
        processor, transition = self.processor, self.transition
        send = processor.sender.weight @ self.project.weight  # [w, k]
        received = linear(nodes, processor.receiver.weight + processor.sender.weight)
        rows = (transition.state(level), nodes, received)
        shared: tuple[Tensor, ...] = (
            transition.action.weight.unsqueeze(1),
            edges + linear(transition.output.bias, send),
            send @ transition.output.weight,
            *transition.core,
        )
        function: Callable[..., Tensor] = _update_from_leaves
        if isinstance(transition, StochasticTransitionModel):
            shared, function = (*shared, transition.weigh.weight), _update_from_sampled_leaves
        flat = [row.flatten(0, 1) for row in rows]
        piece = piece_size(flat[0], transition.branches, self.max_leaves)
        updated = in_pieces(partial(function, self.step), flat, shared, piece)
        return cast(Tensor, self.norm(updated.view(nodes.shape)))


def _update_from_leaves(
    step: Step,
    first: Tensor,  # [R, F], T's first layer without the action
    node: Tensor,  # [R, w]
    received: Tensor,  # [R, w]
    action_rows: Tensor,  # [A, 1, F]
    edges: Tensor,  # [A, 1, w]
    send: Tensor,  # [w, F], from T's features to what a leaf sends
    *core: Tensor,
) -> Tensor:
    features = think(first + action_rows, *core)  # [A, R, F]
    return step.dense(node, received, linear(features, send) + edges, 0)


def _update_from_sampled_leaves(
    step: Step,
    first: Tensor,  # [R, F]
    node: Tensor,  # [R, w]
    received: Tensor,  # [R, w]
    action_rows: Tensor,  # [A M, 1, F]
    edges: Tensor,  # [A, 1, w]
    send: Tensor,  # [w, F]
    *core_and_weigh: Tensor,  # the last one [1, F], from T's features to the logit of a sample
) -> Tensor:
    *core, weigh = core_and_weigh
    features = think(first + action_rows, *core)
    features = features.view(step.actions, -1, *features.shape[1:])  # [A, M, R, F]
    chance = linear(features, weigh).softmax(1)  # [A, M, R, 1]
    return step.dense(node, received, linear(features, send) + edges.unsqueeze(1), 0, chance)
