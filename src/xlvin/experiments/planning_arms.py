"""The networks of the planning bed: one encoder and one latent model, and many ways from them to a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import cast

import torch
from torch import Tensor, nn

from xlvin.executor.artefact import load_executor
from xlvin.executor.network import Executor
from xlvin.executor.pretrain import PretrainConfig, pretrain
from xlvin.latent.encoders import MLPEncoder
from xlvin.latent.transition import TransitionModel
from xlvin.planner.aligned import AlignedPlanner
from xlvin.planner.backup import ActionValues, ScalarTree
from xlvin.planner.planner import Planner
from xlvin.planner.tree import grow

PRETRAINED = "random-deterministic"


@dataclass(frozen=True)
class Sizes:
    """What the networks of all arms share."""

    observation: int
    actions: int
    discount: float
    depth: int
    latent: int
    hidden: int
    sharpness: float  # beta, the weight of rewards or planned values among the logits

    def transition(self) -> TransitionModel:
        """A fresh T."""
        return TransitionModel(self.latent, self.actions, self.hidden)


class LatentModel(nn.Module):
    """T, and linear heads for the value and the rewards of a state, where no planner has them."""

    def __init__(self, transition: TransitionModel) -> None:
        super().__init__()
        self.transition = transition
        self.value = nn.Linear(transition.width, 1)
        self.reward = nn.Linear(transition.width, transition.actions)


class ExecutedTree(Planner):
    """The paper's planner, beside heads that it does not read."""

    def __init__(self, sizes: Sizes, executor: Executor) -> None:
        super().__init__(executor.processor, sizes.transition(), sizes.depth, sizes.discount)
        self.value = nn.Linear(sizes.latent, 1)
        self.reward = nn.Linear(sizes.latent, sizes.actions)


class FreelyProjectedTree(AlignedPlanner):
    """The aligned planner with x(s, a) a learned projection of h: not bound to the plane of W_node [V, R].

    Since x is linear in V, a change of V moves it along the first column of W_node.
    """

    def __init__(self, executor: Executor, transition: TransitionModel, depth: int, discount: float) -> None:
        super().__init__(executor, transition, depth, discount)
        self.project = nn.Linear(transition.width, transition.actions * executor.config.width)

    def forward(self, embedding: Tensor) -> ActionValues:
        """As the aligned planner's; Q lacks the root's own value, which all actions share."""
        executor, processor, actions = self.executor, self.executor.processor, self.transition.actions
        discount = self.executor_discount
        edge = processor.edge(executor.edge_encoder(torch.stack((torch.ones_like(discount), discount))))
        inputs = [
            self.project(level).unflatten(-1, (actions, -1))  # x, [M, B, A, w]
            for level in grow(self.transition, embedding, self.depth)
        ]
        children = inputs[-1]
        for depth in reversed(range(self.depth)):
            x = inputs[depth]
            family = children.unflatten(0, (-1, actions))  # [M, A, B, A, w]
            sent = family.diagonal(dim1=1, dim2=3).movedim(-1, -2)  # each child's own action, [M, B, A, w]
            message = processor.activate(processor.sender(sent) + processor.receiver(x) + edge)
            candidates = cast(Tensor, processor.norm(x + message))
            change = executor.decoder(processor.reduce(candidates)).unsqueeze(-2)  # [M, B, 1, 1]
            children = x + change * executor.node_encoder.weight[:, 0]
        return ActionValues(executor.decoder(candidates).squeeze(-1).squeeze(0), self.reward(embedding))


Model = LatentModel | ExecutedTree | AlignedPlanner | ScalarTree


class Learner(nn.Module):
    """Encoder, latent model with grounded heads, and a policy that is linear in h."""

    def __init__(self, sizes: Sizes, model: Model) -> None:
        super().__init__()
        self.sizes, self.model = sizes, model
        self.encoder = MLPEncoder(sizes.observation, sizes.hidden, sizes.latent)
        extra = model.processor.config.width if isinstance(model, ExecutedTree) else 0
        self.actor = nn.Linear(sizes.latent + extra, sizes.actions)

    def logits(self, embedding: Tensor) -> Tensor:
        """The policy of embedded states, [B, k] -> [B, A]."""
        return cast(Tensor, self.actor(embedding))


class ExecutedLearner(Learner):
    """The paper's policy, linear in (h, chi)."""

    def logits(self, embedding: Tensor) -> Tensor:
        """The policy of embedded states, [B, k] -> [B, A]."""
        return cast(Tensor, self.actor(torch.cat((embedding, self.model(embedding)), -1)))


class RewardLearner(Learner):
    """The control: predicted rewards sway the policy, and nothing is planned."""

    def logits(self, embedding: Tensor) -> Tensor:
        """The policy of embedded states, [B, k] -> [B, A]."""
        predicted: Tensor = self.model.reward(embedding)
        return self.sizes.sharpness * predicted + super().logits(embedding)


class PlannedLearner(Learner):
    """Planned action values sway the policy."""

    def logits(self, embedding: Tensor) -> Tensor:
        """The policy of embedded states, [B, k] -> [B, A]."""
        planned: Tensor = self.model(embedding).value
        return self.sizes.sharpness * planned + super().logits(embedding)


@cache
def _weak(iterations: int) -> Executor:
    """An executor that has hardly begun to learn."""
    return pretrain(PretrainConfig(iterations=iterations, validations=1))[0]


def _random() -> Executor:
    return Executor()


def _pretrained() -> Executor:
    return load_executor(PRETRAINED)


def _unplanned(kind: type[Learner], sizes: Sizes) -> Learner:
    return kind(sizes, LatentModel(sizes.transition()))


def _paper(executor: Callable[[], Executor], sizes: Sizes) -> Learner:
    return ExecutedLearner(sizes, ExecutedTree(sizes, executor()))


def _aligned_planner(executor: Callable[[], Executor], sizes: Sizes) -> AlignedPlanner:
    return AlignedPlanner(executor(), sizes.transition(), sizes.depth, sizes.discount)


def _aligned(executor: Callable[[], Executor], sizes: Sizes) -> Learner:
    return PlannedLearner(sizes, _aligned_planner(executor, sizes))


def _scalar(sizes: Sizes) -> Learner:
    return PlannedLearner(sizes, ScalarTree(sizes.transition(), sizes.depth, sizes.discount))


def _decoder_relearned(sizes: Sizes) -> Learner:
    planner = _aligned_planner(_pretrained, sizes)
    planner.executor.decoder = nn.Linear(planner.executor.config.width, 1)
    return PlannedLearner(sizes, planner)


def _unfrozen(sizes: Sizes) -> Learner:
    planner = _aligned_planner(_pretrained, sizes)
    planner.executor.requires_grad_(True)
    return PlannedLearner(sizes, planner)


def _freely_projected(sizes: Sizes) -> Learner:
    planner = FreelyProjectedTree(_pretrained(), sizes.transition(), sizes.depth, sizes.discount)
    return PlannedLearner(sizes, planner)


@dataclass(frozen=True)
class Arm:
    """A way to learn the policy."""

    build: Callable[[Sizes], Learner]
    plans: bool = True  # whether depth means something
    without: str = ""  # the auxiliary loss that is left out, if one is


ARMS: dict[str, Arm] = {
    "none": Arm(partial(_unplanned, Learner), plans=False),
    "reward-head": Arm(partial(_unplanned, RewardLearner), plans=False),
    "paper-random": Arm(partial(_paper, _random)),
    "paper-pretrained": Arm(partial(_paper, _pretrained)),
    "aligned-random": Arm(partial(_aligned, _random)),
    "aligned-pretrained": Arm(partial(_aligned, _pretrained)),
    "scalar-tree": Arm(_scalar),
}
ABLATIONS: dict[str, Arm] = {
    "executor-of-300-iterations": Arm(partial(_aligned, partial(_weak, 300))),
    "executor-of-100-iterations": Arm(partial(_aligned, partial(_weak, 100))),
    "decoder-relearned": Arm(_decoder_relearned),
    "free-projection": Arm(_freely_projected),
    "executor-unfrozen": Arm(_unfrozen),
    "without-reward-loss": Arm(partial(_aligned, _pretrained), without="reward"),
    "without-value-loss": Arm(partial(_aligned, _pretrained), without="value"),
    "without-transe-loss": Arm(partial(_aligned, _pretrained), without="transe"),
}
