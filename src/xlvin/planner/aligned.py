"""The aligned planner: the tree feeds the executor what it was pretrained on, and reads what it was taught.

Two linear heads say of every imagined state what a node of the pretraining MDPs carries, a value v(h) and a
reward r(h, a) per action. The whole executor, encoders and decoder included, stays frozen between them and
the policy. From the leaves, where V = v(h), to the root:

    x(s, a) = W_node [V(s), r(s, a)]
    y(s, a) = norm(x(s, a) + act(W_sender x(s_a, a) + W_receiver x(s, a) + W_edge e + b))
    V(s)   <- v(s) + decode(reduce_a y(s, a))                                 at inner nodes
    Q(s, a) = v(s) + decode(y(s, a))                                          at the root, for each action

with s_a = s + T(s, a). Where T has several outcomes for an action, the message act(...) is the expectation
over them, as in pretraining. Nothing but these scalars passes from level to level, so the two products before
a message are one matrix on four numbers: [V(s), r(s, a), V(s_a), r(s_a, a)].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from xlvin.errors import XLVINError
from xlvin.executor.network import Executor, Processor
from xlvin.latent.stochastic import StochasticTransitionModel
from xlvin.latent.transition import TransitionModel, think
from xlvin.planner.backup import ActionValues
from xlvin.planner.pieces import in_pieces, piece_size
from xlvin.planner.tree import grow_weighed


@dataclass(frozen=True, eq=False)
class ValuedTree:
    """A tree with the values that the executor decodes on it, level by level; M is A^d in a full tree."""

    embedding: tuple[Tensor, ...]  # [M, B, k] each
    value: tuple[Tensor, ...]  # [M, B] each: V, at the leaves v(h)
    chance: tuple[Tensor, ...] = ()  # [A^d, A, samples, B] each, where there are several; not of the leaves
    kept: tuple[Tensor, ...] = ()  # [N, B] each, which nodes have children, in a sparse tree; from level 1 on


class AlignedPlanner(nn.Module):
    """Q = Execute(Expand(h)) with grounded nodes, from embeddings [B, k] to action values [B, A].

    `value` and `reward` are the trainable heads; they mean something only if losses ground them in observed
    returns and rewards. The executor is frozen: gradients pass through it and leave it as it was.

    depth: K, levels of the tree; at least 1.
    discount: gamma of the tree.
    executor_discount: gamma of the executor's pretraining, the only one it knows; the values of successors
        are scaled by the ratio of the two.
    max_leaves: how many leaves may be in memory at once, as in `Planner`.
    """

    executor_discount: Tensor

    def __init__(
        self,
        executor: Executor,
        transition: TransitionModel,
        depth: int,
        discount: float = 0.99,
        executor_discount: float = 0.9,
        max_leaves: int | None = None,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise XLVINError(
                f"The aligned planner has depth {depth}; it needs at least 1 to value an action."
            )
        if executor.config.steps != 1:
            raise XLVINError(
                f"The executor takes {executor.config.steps} steps per sweep; the aligned planner needs one "
                "that takes 1."
            )
        if max_leaves is not None and max_leaves < 1:
            raise XLVINError(f"max_leaves is {max_leaves}; give at least 1, or None for no limit.")
        if not executor_discount > 0.0:
            raise XLVINError(f"The executor's discount is {executor_discount}; give a positive number.")
        self.executor = executor.requires_grad_(False)
        self.transition = transition
        self.depth, self.discount, self.max_leaves = depth, discount, max_leaves
        self.value = nn.Linear(transition.width, 1)
        self.reward = nn.Linear(transition.width, transition.actions)
        self.register_buffer("executor_discount", torch.tensor(executor_discount))

    def forward(self, embedding: Tensor) -> ActionValues:
        """The planned values and the predicted rewards of every action in states [B, k]."""
        levels, weighed = grow_weighed(self.transition, embedding, self.depth - 1)
        chances: Sequence[Tensor | None] = weighed or [None] * (self.depth - 1)
        grounded = [self._ground(level) for level in levels]
        value = self._back_up_leaves(levels[-1], grounded[-1], per_action=self.depth == 1)
        for depth in reversed(range(self.depth - 1)):
            own, children, chance = grounded[depth], grounded[depth + 1], chances[depth]
            value = self._back_up(own, value, children, chance, per_action=depth == 0)
        return ActionValues(value.squeeze(0), grounded[0].squeeze(0)[..., 1:])

    def tree(self, embedding: Tensor) -> ValuedTree:
        """The whole tree of states [B, k] with the value that the executor decodes at every node."""
        levels, weighed = grow_weighed(self.transition, embedding, self.depth)
        chances: Sequence[Tensor | None] = weighed or [None] * self.depth
        grounded = [self._ground(level) for level in levels]
        values = [grounded[-1][..., 0]]
        for own, children, chance in zip(grounded[-2::-1], grounded[:0:-1], chances[::-1], strict=True):
            values.insert(0, self._back_up(own, values[0], children, chance, per_action=False))
        return ValuedTree(tuple(levels), tuple(values), tuple(weighed))

    def _ground(self, nodes: Tensor) -> Tensor:
        """[v(h), r(h, 1), ..., r(h, A)], [..., k] -> [..., 1 + A]."""
        return linear(nodes, *self._heads())

    def _heads(self) -> tuple[Tensor, Tensor]:
        """Both heads as one layer: weight [1 + A, k], bias [1 + A]."""
        weight = torch.cat((self.value.weight, self.reward.weight))
        return weight, torch.cat((self.value.bias, self.reward.bias))

    def _back_up(
        self, own: Tensor, value: Tensor, children: Tensor, chance: Tensor | None, per_action: bool
    ) -> Tensor:
        """V [M, B], or per action Q [M, B, A], of nodes from their children.

        `own` [M, B, 1 + A] and `children` [M A, B, 1 + A] are what the heads say; `value` [M A, B] is the
        children's V, backed up before. With chances [M, A, samples, B] each action has several children.
        """
        processor, transition, count = self.executor.processor, self.transition, own.shape[1]
        if chance is None:
            family: tuple[int, ...] = (len(own), transition.actions, count)
            values = value.reshape(family).movedim(1, -1)
            rewards = _of_own_action(children[..., 1:].reshape(*family, -1).movedim(1, -2))
        else:
            family = (len(own), transition.actions, transition.samples, count)
            values = value.reshape(family).movedim(-1, 1)  # [M, B, A, samples]
            every = children[..., 1:].reshape(*family, -1).movedim((3, 2), (1, 2))  # [M, B, samples, A, A]
            rewards = _of_own_action(every).transpose(-2, -1)
            chance = chance.movedim(-1, 1)
        return _sweep(processor, per_action, chance, own, values, rewards, *self._weights())

    def _back_up_leaves(self, level: Tensor, own: Tensor, per_action: bool) -> Tensor:
        """The same for the level above the leaves [M, B, k], which are never stored.

        A leaf's value and rewards are linear in its parent's h and in T's features.
        """
        transition, heads = self.transition, self._heads()[0]
        rows = [part.flatten(0, 1) for part in (transition.state(level), own)]
        shared: tuple[Tensor, ...] = (
            transition.action.weight,
            heads @ transition.output.weight,
            linear(transition.output.bias, heads),
            *transition.core,
            *self._weights(),
        )
        function = partial(_sweep_leaves, self.executor.processor, per_action)
        if isinstance(transition, StochasticTransitionModel):
            shared = (transition.weigh.weight, *shared)
            function = partial(_sweep_sampled_leaves, self.executor.processor, per_action)
        backed_up = in_pieces(
            function, rows, shared, piece_size(rows[0], transition.branches, self.max_leaves)
        )
        return backed_up.view(*own.shape[:2], *backed_up.shape[1:])

    def _weights(self) -> tuple[Tensor, ...]:
        """The executor as `_sweep` takes it: layers in a row are composed."""
        executor, processor, taught = self.executor, self.executor.processor, self.executor_discount
        node, one = executor.node_encoder.weight, torch.ones_like(taught)
        # The executor was taught r + taught V' - V; with V' scaled it says r + discount V' - V.
        scale = torch.stack((self.discount / taught, one))
        message = torch.cat((processor.receiver.weight @ node, processor.sender.weight @ node * scale), 1)
        edge = processor.edge(executor.edge_encoder(torch.stack((one, taught))))
        norm = tuple(processor.norm.parameters())
        return node, message, edge, executor.decoder.weight, executor.decoder.bias, *norm


def _sweep(
    processor: Processor,
    per_action: bool,
    chance: Tensor | None,  # [..., A, M]; None: actions have one outcome, and what follows no dimension M
    own: Tensor,  # [..., 1 + A], v(s) and the rewards of its actions
    successor_value: Tensor,  # [..., A, M], V(s_a)
    successor_reward: Tensor,  # [..., A, M], r(s_a, a)
    node: Tensor,  # [w, 2], reads V(s) and r(s, a)
    message: Tensor,  # [w, 4], reads the same and what the successor sends
    edge: Tensor,  # [w]
    decoder: Tensor,  # [1, w]
    bias: Tensor,  # [1]
    *norm: Tensor,  # scale and shift [w], if the executor normalises
) -> Tensor:
    """One sweep of the executor: V [...], or per action Q [..., A]."""
    value, reward = own[..., :1], own[..., 1:]
    here = torch.stack((value.expand(reward.shape), reward), -1)  # [..., A, 2]
    there = torch.stack((successor_value, successor_reward), -1)  # [..., A, M, 2]
    if chance is None:
        messages = processor.activate(linear(torch.cat((here, there), -1), message, edge))
    else:
        both = torch.cat((here.unsqueeze(-2).expand(there.shape), there), -1)
        messages = (processor.activate(linear(both, message, edge)) * chance.unsqueeze(-1)).sum(-2)
    candidates = linear(here, node) + messages
    if norm:
        scale, shift = norm
        candidates = layer_norm(candidates, candidates.shape[-1:], scale, shift)  # [..., A, w]
    if per_action:
        return value + linear(candidates, decoder, bias).squeeze(-1)
    return (value + linear(processor.reduce(candidates), decoder, bias)).squeeze(-1)


def _sweep_leaves(
    processor: Processor,
    per_action: bool,
    first: Tensor,  # [R, F], T's first layer without the action
    own: Tensor,  # [R, 1 + A]
    action_rows: Tensor,  # [A, F]
    gain: Tensor,  # [1 + A, F], from T's features to what a leaf's grounding adds to its parent's
    offset: Tensor,  # [1 + A]
    *weights: Tensor,  # T's core, and the executor as `_sweep` takes it
) -> Tensor:
    features = think(first.unsqueeze(-2) + action_rows, *weights[:4])  # [R, A, F]
    leaves = own.unsqueeze(-2) + linear(features, gain, offset)  # [R, A, 1 + A]
    rewards = _of_own_action(leaves[..., 1:])
    return _sweep(processor, per_action, None, own, leaves[..., 0], rewards, *weights[4:])


def _sweep_sampled_leaves(
    processor: Processor,
    per_action: bool,
    first: Tensor,  # [R, F]
    own: Tensor,  # [R, 1 + A]
    weigh: Tensor,  # [1, F], from T's features to the logit of a sample
    action_rows: Tensor,  # [A M, F]
    gain: Tensor,  # [1 + A, F]
    offset: Tensor,  # [1 + A]
    *weights: Tensor,
) -> Tensor:
    actions = own.shape[-1] - 1
    features = think(first.unsqueeze(-2) + action_rows, *weights[:4])
    features = features.view(len(own), actions, -1, features.shape[-1])  # [R, A, M, F]
    chance = linear(features, weigh).squeeze(-1).softmax(-1)  # [R, A, M]
    leaves = own.unsqueeze(-2).unsqueeze(-2) + linear(features, gain, offset)  # [R, A, M, 1 + A]
    rewards = _of_own_action(leaves[..., 1:].transpose(-3, -2)).transpose(-2, -1)
    return _sweep(processor, per_action, chance, own, leaves[..., 0], rewards, *weights[4:])


def _of_own_action(reward: Tensor) -> Tensor:
    """r(s_a, a), [..., A], of all the rewards of all successors [..., A, A]."""
    return reward.diagonal(dim1=-2, dim2=-1)
