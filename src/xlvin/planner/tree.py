"""The tree of imagined states (algorithm 1), in full or along a rollout policy.

Nodes come level by level, the root first, and the node dimension leads ([N, B, ...]), so that a level is a
contiguous slice. In a full tree the children of a node lie together, in the order of the actions: level
d + 1 viewed as [A^d, A, B, ...] is sorted by parent and action, with no index in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.latent.transition import TransitionModel, think

# A rollout policy: embeddings [..., k] to action logits [..., A].
Prior = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Tree:
    """Imagined states, and how each was reached."""

    nodes: Tensor  # [N, B, k], embeddings, level by level
    parent: Tensor  # [N - 1, B] int64: for every node but the root, which of the N is its parent
    action: Tensor  # [N - 1, B] int64: and which action leads there
    sizes: tuple[int, ...]  # nodes per level

    def above(self, depth: int) -> int:
        """How many nodes are less than `depth` steps away from the root."""
        return sum(self.sizes[:depth])


def grow(transition: TransitionModel, root: Tensor, depth: int) -> list[Tensor]:
    """The embeddings of every level down to `depth`, [A^d, B, k] each; root [B, k]."""
    levels = [root.unsqueeze(0)]
    for _ in range(depth):
        levels.append(transition.successors(levels[-1], dim=-3).flatten(0, 1))
    return levels


def expand(transition: TransitionModel, root: Tensor, depth: int) -> Tree:
    """Every action from every node, down to `depth`; root [B, k]."""
    levels = grow(transition, root, depth)
    nodes = torch.cat(levels)
    edge = _counting(nodes[1:, :, 0])
    return Tree(nodes, edge // transition.actions, edge % transition.actions, tuple(map(len, levels)))


def expand_beam(transition: TransitionModel, root: Tensor, depth: int, beam: int, prior: Prior) -> Tree:
    """The `beam` most probable paths to every level, under a rollout policy; root [B, k].

    Time and memory grow with depth * beam. A level with room for everything keeps everything. Which paths are
    kept is a choice, not a function with a gradient: the prior must learn from a loss of its own.
    """
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


def _counting(like: Tensor) -> Tensor:
    """0, 1, ... down every column, in the shape of `like`, [N, B]."""
    return torch.arange(len(like), device=like.device).unsqueeze(1).expand(like.shape)
