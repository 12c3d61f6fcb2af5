"""The tree of imagined states (algorithm 1), in full or along a rollout policy.

Nodes come level by level, root first; inside a level the children of a node lie together, in the order of the
actions. The node dimension leads ([N, B, ...]), so that levels are contiguous slices: in a full tree the
children of the first n nodes are the nodes 1 to n * A, with no index in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from xlvin.latent.transition import TransitionModel

# A rollout policy: embeddings [..., k] to action logits [..., A].
Prior = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Tree:
    """Imagined states, and how each was reached."""

    embedding: Tensor  # [N, B, k], the root first
    parent: Tensor  # [N - 1, B] int64: index among the N nodes, of every node but the root
    action: Tensor  # [N - 1, B] int64: the action that leads there from the parent
    sizes: tuple[int, ...]  # nodes per level: 1, then A or the beam, ...

    def nodes_above(self, depth: int) -> int:
        """How many nodes are less than `depth` steps away from the root."""
        return sum(self.sizes[:depth])


def grow(transition: TransitionModel, level: Tensor) -> Tensor:
    """All successors of a level, [M, B, k] -> [M * A, B, k]."""
    features = transition.think(transition.read(level).unsqueeze(1) + transition.action_rows.unsqueeze(1))
    return (level.unsqueeze(1) + transition.output(features)).flatten(0, 1)


def expand(transition: TransitionModel, root: Tensor, depth: int) -> Tree:
    """Every action from every node, down to `depth`; root [B, k]."""
    levels = [root.unsqueeze(0)]
    for _ in range(depth):
        levels.append(grow(transition, levels[-1]))
    edge = torch.arange(sum(len(level) for level in levels) - 1, device=root.device)
    edge = edge.unsqueeze(1).expand(-1, len(root))
    return Tree(
        torch.cat(levels),
        edge // transition.actions,
        edge % transition.actions,
        tuple(len(level) for level in levels),
    )


def expand_beam(transition: TransitionModel, root: Tensor, depth: int, beam: int, prior: Prior) -> Tree:
    """The `beam` most probable paths per level under the rollout policy; root [B, k].

    The cost is linear in the depth. Which paths are kept is a choice, not a function to differentiate: no
    gradient reaches the prior from here.
    """
    actions = transition.actions
    level = root.unsqueeze(0)
    score = level.new_zeros(1, len(root))
    levels, parents, taken = [level], [], []
    for first in _firsts(actions, depth, beam):
        paths = prior(level.detach()).log_softmax(-1).detach().movedim(-1, 1)  # [M, A, B]
        paths = (score.unsqueeze(1) + paths).flatten(0, 1)
        if len(paths) > beam:
            score, chosen = paths.topk(beam, dim=0)
        else:
            score = paths
            chosen = torch.arange(len(paths), device=root.device).unsqueeze(1).expand(paths.shape)
        parent, action = chosen // actions, chosen % actions
        at = parent.unsqueeze(-1)
        read = transition.read(level)
        read = read.gather(0, at.expand(-1, -1, read.shape[-1]))
        features = transition.think(read + transition.action_rows[action])
        level = level.gather(0, at.expand(-1, -1, level.shape[-1])) + transition.output(features)
        levels.append(level)
        parents.append(parent + first)
        taken.append(action)
    return Tree(torch.cat(levels), torch.cat(parents), torch.cat(taken), tuple(map(len, levels)))


def _firsts(actions: int, depth: int, beam: int) -> list[int]:
    """The index of the first node of each level but the last."""
    sizes = [1]
    for _ in range(depth - 1):
        sizes.append(min(beam, sizes[-1] * actions))
    return [0, *accumulate(sizes)][:depth]
