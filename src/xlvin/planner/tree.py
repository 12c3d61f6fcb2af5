"""The tree of imagined states (algorithm 1), in full or along a rollout policy.

Nodes come level by level, the root first, and the node dimension leads ([N, B, ...]), so that a level is a
contiguous slice. In a full tree the children of a node lie together, in the order of the actions: level
d + 1 viewed as [A^d, A, B, ...] is sorted by parent and action, with no index in between. Where the model of
transitions has M samples for an action, they are children of their own: read A M for A, with the samples of
an action together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel, think

# A rollout policy: embeddings [..., k] to action logits [..., A].
Prior = Callable[[Tensor], Tensor]
# Nodes of a level that a full tree may have; twice as many and their embeddings alone fill gigabytes.
MOST = 2**24


@dataclass(frozen=True, eq=False)
class Tree:
    """Imagined states, and how each was reached."""

    nodes: Tensor  # [N, B, k], embeddings, level by level
    parent: Tensor  # [N - 1, B] int64: for every node but the root, which of the N is its parent
    action: Tensor  # [N - 1, B] int64: and which action leads there
    sizes: tuple[int, ...]  # nodes per level
    sample: Tensor | None = None  # [N - 1, B] int64: and which sample of it; None: actions have but one
    chance: Tensor | None = None  # [N - 1, B]: how probable that is among the samples of the action

    def above(self, depth: int) -> int:
        """How many nodes are less than `depth` steps away from the root."""
        return sum(self.sizes[:depth])


def check_size(branches: int, depth: int) -> None:
    """Refuse a full tree that no memory holds."""
    if depth * math.log(max(branches, 1)) > math.log(MOST):
        raise XLVINError(
            f"A full tree with {branches} branches at every node and {depth} or more levels is too large; "
            "choose a smaller depth or give a beam, which xlvin networks have."
        )


def check_root(transition: TransitionModel, root: Tensor) -> None:
    """Refuse states that are not [B, k], or none: other dimensions would be taken for levels of the tree."""
    if root.dim() != 2 or root.shape[1] != transition.width:
        raise XLVINError(
            f"The states to plan from have shape {tuple(root.shape)}; give a batch of embeddings, "
            f"[B, {transition.width}]."
        )
    if root.shape[0] == 0:
        raise XLVINError("There is no state to plan from; give a batch of at least one.")


def grow(transition: TransitionModel, root: Tensor, depth: int) -> list[Tensor]:
    """The embeddings of every level down to `depth`, [A^d, B, k] each; root [B, k]."""
    return grow_weighed(transition, root, depth)[0]


def grow_weighed(transition: TransitionModel, root: Tensor, depth: int) -> tuple[list[Tensor], list[Tensor]]:
    """The same, and for every level but the root's the chances of its samples, [A^d, A, M, B] each.

    Where actions have one outcome, there are no chances.
    """
    check_root(transition, root)
    check_size(transition.branches, depth)
    levels, chances = [root.unsqueeze(0)], []
    for _ in range(depth):
        successors, chance = transition.outcomes(levels[-1], dim=-3)
        levels.append(successors.flatten(0, 1))
        chances += [] if chance is None else [chance]
    return levels, chances


def expand(transition: TransitionModel, root: Tensor, depth: int) -> Tree:
    """Every action from every node, down to `depth`; root [B, k]."""
    levels, chances = grow_weighed(transition, root, depth)
    nodes, sizes = torch.cat(levels), tuple(map(len, levels))
    edge = _counting(nodes[1:, :, 0])
    parent, branch = edge // transition.branches, edge % transition.branches
    if not chances:
        return Tree(nodes, parent, branch, sizes)
    chance = torch.cat([chance.flatten(0, 2) for chance in chances])
    return Tree(nodes, parent, branch // transition.samples, sizes, branch % transition.samples, chance)


def expand_beam(transition: TransitionModel, root: Tensor, depth: int, beam: int, prior: Prior) -> Tree:
    """The `beam` most probable paths to every level, under a rollout policy; root [B, k].

    Time and memory grow with depth * beam. A level with room for everything keeps everything. Which paths are
    kept is a choice, not a function with a gradient: the prior must learn from a loss of its own.
    """
    check_root(transition, root)
    if transition.samples > 1:
        return _expand_sampled_beam(transition, root, depth, beam, prior)
    actions, batch = transition.actions, len(root)
    column = torch.arange(batch, device=root.device)
    level, score = root.unsqueeze(0), root.new_zeros(1, batch)
    levels, parents, taken, first = [level], [], [], 0
    for _ in range(depth):
        with torch.no_grad():
            paths = prior(level).log_softmax(-1) + score.unsqueeze(-1)  # [M, B, A]
            paths = paths.transpose(0, 1).flatten(1)  # [B, M * A]
            if paths.shape[1] > beam:
                best, chosen = paths.topk(beam)
            else:
                best, chosen = paths, _counting(paths.T).T
            score, parent, action = best.T, (chosen // actions).T, (chosen % actions).T
        rows = (parent * batch + column).flatten()
        start = level.flatten(0, 1).index_select(0, rows)
        sums = transition.state(start) + transition.action(action.flatten())
        parents.append(parent + first)
        taken.append(action)
        first += len(level)
        level = (start + transition.output(think(sums, *transition.core))).view(-1, batch, level.shape[-1])
        levels.append(level)
    return Tree(torch.cat(levels), torch.cat(parents), torch.cat(taken), tuple(map(len, levels)))


def _expand_sampled_beam(
    transition: TransitionModel, root: Tensor, depth: int, beam: int, prior: Prior
) -> Tree:
    """The same where actions have several outcomes: their chances count in the probability of a path."""
    branches, samples = transition.branches, transition.samples
    level, score = root.unsqueeze(0), root.new_zeros(1, len(root))
    levels, columns, first = [level], [], 0
    for _ in range(depth):
        successors, chances = transition.outcomes(level, dim=-3)  # [M, A samples, B, k], [M, A, samples, B]
        assert chances is not None
        with torch.no_grad():
            policy = prior(level).log_softmax(-1).movedim(-1, 1).unsqueeze(2)  # [M, A, 1, B]
            paths = (policy + chances.log() + score.view(-1, 1, 1, len(root))).flatten(0, 2)
            if len(paths) > beam:
                score, chosen = paths.topk(beam, 0)
            else:
                score, chosen = paths, _counting(paths)
        chance = chances.flatten(0, 2).gather(0, chosen)
        branch = chosen % branches
        columns.append((chosen // branches + first, branch // samples, branch % samples, chance))
        first += len(level)
        level = successors.flatten(0, 1).gather(0, chosen.unsqueeze(-1).expand(-1, -1, root.shape[-1]))
        levels.append(level)
    parent, action, sample, chance = (torch.cat(column) for column in zip(*columns, strict=True))
    return Tree(torch.cat(levels), parent, action, tuple(map(len, levels)), sample, chance)


def _counting(like: Tensor) -> Tensor:
    """0, 1, ... down every column, in the shape of `like`, [N, B]."""
    return torch.arange(len(like), device=like.device).unsqueeze(1).expand(like.shape)
