"""The planning bed with dice: gambles, which pay for those who will see how they came out.

As in `planning_bed` nothing but a plan finds the right action. In a state of decision every action is a
gamble or a sure thing. A gamble leads to one of two states, heads or tails; what pays in one costs in the
other, but whoever stands there sees which it is. A sure thing leads to a state that pays a little, whatever
is done.

    Q(gamble) = E max_a r(s', a) > 0        with a model of both outcomes
    Q(gamble) = max_a E r(s', a) = 0        with a model of their mean
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from xlvin.executor.artefact import load_executor, load_provenance
from xlvin.experiments.planning_arms import (
    PRETRAINED,
    ExecutedLearner,
    ExecutedTree,
    Learner,
    PlannedLearner,
    Sizes,
)
from xlvin.experiments.planning_bed import BedConfig, fresh, policy, shared_sizes, uniform_value
from xlvin.latent.losses import transe_loss
from xlvin.latent.stochastic import StochasticTransitionModel, mixture_loss
from xlvin.latent.transition import TransitionModel
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import optimal_actions, value_iteration
from xlvin.planner.aligned import AlignedPlanner
from xlvin.provenance import provenance
from xlvin.randomness import draw
from xlvin.report.records import Record
from xlvin.training.adam import Adam
from xlvin.training.seeding import derive_seed
from xlvin.training.stack import Stack

DECISIONS, GAMBLES, SURE = 24, 6, 6  # states of decision, pairs of heads and tails, states that surely pay
LABELS = 8
STOCHASTIC = "erdos-renyi-stochastic"
CONFIG = BedConfig(states=DECISIONS + 2 * GAMBLES + SURE + 1, seeds=20)


@dataclass(frozen=True)
class SampledSizes(Sizes):
    """Sizes of networks whose transition model has several outcomes for an action."""

    samples: int = 1

    def transition(self) -> TransitionModel:
        """A fresh T."""
        if self.samples == 1:
            return TransitionModel(self.latent, self.actions, self.hidden)
        return StochasticTransitionModel(self.latent, self.actions, self.hidden, self.samples)


@dataclass(frozen=True)
class Arm:
    """A wiring, the samples of its transition model, and the executor that runs over its tree."""

    aligned: bool
    samples: int
    executor: str = STOCHASTIC

    def build(self, sizes: SampledSizes) -> Learner:
        """A fresh learner."""
        executor = load_executor(self.executor)
        if not self.aligned:
            return ExecutedLearner(sizes, ExecutedTree(sizes, executor))
        planner = AlignedPlanner(executor, sizes.transition(), sizes.depth, sizes.discount)
        return PlannedLearner(sizes, planner)


ARMS: dict[str, Arm] = {
    "aligned-1": Arm(True, 1),
    "aligned-2": Arm(True, 2),
    "aligned-3": Arm(True, 3),
    "aligned-3-deterministic-executor": Arm(True, 3, PRETRAINED),
    "paper-1": Arm(False, 1),
    "paper-3": Arm(False, 3),
}


@dataclass(frozen=True)
class BedCell:
    """One arm at one depth."""

    arm: str
    depth: int
    config: BedConfig = CONFIG
    device: str = "cpu"

    @property
    def name(self) -> str:
        """version/environment/agent, as in the records."""
        return f"bed/depth-{self.depth}/{self.arm}"


class Problem(NamedTuple):
    """What a learner is given, and what it is held against; for one seed, or stacked [seeds, ...]."""

    observation: Tensor  # [S, o]
    reward: Tensor  # [S, A]
    value: Tensor  # [S], of the uniform policy
    labelled: Tensor  # [M] int64, states whose optimal action is told
    label: Tensor  # [M] int64, that action
    optimal: Tensor  # [S, A] bool, which actions are optimal


def draw_problem(config: BedConfig, seed: int) -> tuple[Problem, TabularMDP]:
    """The problem of a seed, and the MDP behind it, out of which transitions are drawn."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "stochastic bed"))
    mdp = gambles(config, generator)
    final = value_iteration(mdp).final
    code = torch.randn(config.states, config.observation, generator=generator)
    mixing = torch.randn(config.observation, config.observation, generator=generator)
    labelled = torch.randperm(DECISIONS, generator=generator)[:LABELS]
    problem = Problem(
        observation=(code @ mixing / config.observation**0.5).tanh(),
        reward=mdp.reward[0],
        value=uniform_value(mdp)[0],
        labelled=labelled,
        label=mdp.action_values(final)[0, labelled].argmax(-1),
        optimal=optimal_actions(mdp, final)[0],
    )
    return problem, mdp


def gambles(config: BedConfig, generator: torch.Generator) -> TabularMDP:
    """One MDP: states of decision, then heads and tails by pairs, then sure things, then the end.

    A gamble pays u ~ U(0.5, 1.5) for half of the actions and costs as much for the others, in heads and tails
    the other way round; a sure thing pays w ~ U(0, 1.2).
    """
    actions, last = config.actions, config.states - 1
    successor = torch.full((1, config.states, actions, 2), last)
    pair = DECISIONS + 2 * torch.randint(GAMBLES, (DECISIONS, actions, 1), generator=generator)
    sure = DECISIONS + 2 * GAMBLES + torch.randint(SURE, (DECISIONS, actions, 1), generator=generator)
    risky = torch.rand((DECISIONS, actions, 1), generator=generator) < 0.5
    successor[0, :DECISIONS] = torch.where(risky, pair + torch.arange(2), sure)
    reward = torch.zeros(1, config.states, actions)
    sign = 2.0 * (torch.rand(GAMBLES, actions, generator=generator).argsort(1) % 2) - 1.0
    stake = sign * (0.5 + torch.rand(GAMBLES, 1, generator=generator))
    reward[0, DECISIONS : DECISIONS + 2 * GAMBLES] = torch.stack((stake, -stake), 1).flatten(0, 1)
    reward[0, DECISIONS + 2 * GAMBLES : last] = 1.2 * torch.rand(SURE, 1, generator=generator)
    return TabularMDP(successor, torch.full(successor.shape, 0.5), reward, config.discount)


class BedLoss(nn.Module):
    """Reward, value and transition losses, which teach a learner its model, and perhaps the labels'."""

    def __init__(self, learner: Learner, config: BedConfig, labels: bool) -> None:
        super().__init__()
        self.learner, self.config, self.labels = learner, config, labels

    def forward(self, problem: Problem, successor: Tensor, negative: Tensor) -> Tensor:
        """The loss [], with a drawn successor and a random state s~ for every state and action, [S, A]."""
        config, model = self.config, self.learner.model
        h = self.learner.encoder(problem.observation)
        reward = 0.5 * (model.reward(h) - problem.reward).square().mean()
        value = 0.5 * (model.value(h).squeeze(-1) - problem.value).square().mean()
        transitions = self._transitions(h, h[successor], h[negative])
        loss: Tensor = config.reward_coef * reward + config.value_coef * value
        loss = loss + config.transe_coef * transitions
        if self.labels:
            loss = loss + cross_entropy(self.learner.logits(h[problem.labelled]), problem.label)
        return loss

    def _transitions(self, h: Tensor, successor: Tensor, negative: Tensor) -> Tensor:
        transition = self.learner.model.transition
        if not isinstance(transition, StochasticTransitionModel):
            return transe_loss(transition.successors(h), successor, negative).mean()
        predicted, chances = transition.outcomes(h)
        assert chances is not None
        each = predicted.view(*chances.shape, -1)  # [S, A, M, k]
        return mixture_loss(each, chances.log(), successor, negative).mean()


def solve(cell: BedCell) -> list[dict[str, Any]]:
    """Train a cell's arm on every seed, all side by side; an entry of the record for each."""
    config, arm = cell.config, ARMS[cell.arm]
    drawn = [draw_problem(config, seed) for seed in config.seed_list]
    problems = [problem for problem, _ in drawn]
    stacked = Problem(*(torch.stack(part).to(cell.device) for part in zip(*problems, strict=True)))
    sizes = SampledSizes(*shared_sizes(config, cell.depth), arm.samples)
    learners = [fresh(partial(arm.build, sizes), seed) for seed in config.seed_list]
    stack = Stack(learners, cell.device)
    losses = [BedLoss(learners[0], config, labels) for labels in (False, True)]
    adam = Adam(stack.flat, epsilon=1e-8)
    streams = [torch.Generator().manual_seed(derive_seed(seed, "transitions")) for seed in config.seed_list]
    for step in range(config.steps):
        successor, negative = (part.to(cell.device) for part in _draw([m for _, m in drawn], streams))
        loss = losses[step >= config.steps - config.label_steps]
        found = stack.apply(loss, stacked, successor, negative, prefix="learner.")
        adam.step(stack.gradient(found.sum()), config.learning_rate * (1.0 - step / config.steps))
    with torch.no_grad():
        logits = stack.call(policy, stacked.observation).cpu()
    pairs = zip(config.seed_list, logits, problems, strict=True)
    return [{"seed": seed, **_accuracy(answer, problem)} for seed, answer, problem in pairs]


def _draw(mdps: list[TabularMDP], streams: list[torch.Generator]) -> tuple[Tensor, Tensor]:
    """A successor of every state and action, and a random state beside it, [seeds, S, A] each."""
    successors, negatives = [], []
    for mdp, stream in zip(mdps, streams, strict=True):
        uniform = torch.rand(mdp.reward[0].shape, generator=stream).unsqueeze(-1)
        which = draw(mdp.probability[0], uniform).unsqueeze(-1)
        successors.append(mdp.successor[0].gather(-1, which).squeeze(-1))
        negatives.append(torch.randint(mdp.states, mdp.reward[0].shape, generator=stream))
    return torch.stack(successors), torch.stack(negatives)


def _accuracy(logits: Tensor, problem: Problem) -> dict[str, float]:
    """Share of decisions with an optimal greedy action: the score where it was not told, and where it was."""
    right = problem.optimal.gather(-1, logits.argmax(-1, keepdim=True)).squeeze(-1).float()[:DECISIONS]
    told = torch.zeros_like(right).index_fill(0, problem.labelled, 1.0).bool()
    return {"score": round(right[~told].mean().item(), 6), "labelled": round(right[told].mean().item(), 6)}


def measure(experiment: str, cell: BedCell) -> Record:
    """Solve a cell, and tell all about it."""
    started = time.perf_counter()
    seeds = solve(cell)
    return Record(
        experiment=experiment,
        version="bed",
        environment=f"depth-{cell.depth}",
        agent=cell.arm,
        seeds=seeds,
        config=resolved(cell),
        command=f"xlvin reproduce {experiment} --only {cell.name}",
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )


def resolved(cell: BedCell) -> dict[str, Any]:
    """All that decides a cell's result."""
    arm = ARMS[cell.arm]
    named = {"depth": cell.depth, "labels": LABELS}
    digest = load_provenance(arm.executor)["sha256"]
    return asdict(cell.config) | named | asdict(arm) | {"executor_sha256": digest}


def cells(depths: tuple[int, ...], seeds: int | None, device: str) -> list[BedCell]:
    """Every arm at every depth."""
    config = CONFIG if seeds is None else replace(CONFIG, seeds=seeds)
    return [BedCell(arm, depth, config, device) for depth in depths for arm in ARMS]
