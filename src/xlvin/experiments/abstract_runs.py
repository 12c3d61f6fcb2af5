"""Agents that plan in an abstract MDP, from a random policy's trajectories to scores, many seeds at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.envs.environment import Shapes
from xlvin.errors import XLVINError, unknown
from xlvin.latent.abstraction import SYSTEMS, AbstractModel, Stage, Steps
from xlvin.planner.abstract import AbstractPlan, PlanConfig, plan
from xlvin.randomness import seeded
from xlvin.training.adam import Adam
from xlvin.training.evaluation import returns_of
from xlvin.training.experience import Experience
from xlvin.training.recording import Recorder
from xlvin.training.rollouts import Actors, Array, Policy
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.stack import Stack

# Steps of a random policy's episode, on average: what an epoch's number of minibatches is reckoned by.
EPISODE = 22


@dataclass(frozen=True)
class AbstractConfig:
    """Every number that decides a run; defaults are those of van der Pol et al. where they are known."""

    system: str
    """One of latent.abstraction.SYSTEMS."""
    trajectories: int
    """Of a random policy, all that is ever seen."""
    environment: str = "CartPole-v0"
    latent: int = 50
    """Features of an embedding."""
    hidden: int = 32
    """Hidden features of every network; an encoder's first layer has twice as many."""
    hinge: float = 1.0
    """xi, how far negatives are pushed."""
    learning_rate: float = 1e-3
    """Adam's step."""
    batch: int = 1024
    """Steps in a minibatch, at most."""
    epochs: int = 100
    """Passes over the data in each stage."""
    inputs: Literal["raw", "bounds", "standard"] = "raw"
    """Units of observations: their own, their bounds where finite, or the data's standard deviation."""
    plan: PlanConfig = field(default_factory=PlanConfig)
    """How the abstract MDP is made and solved."""
    evaluation_episodes: int = 100
    """Greedy ones, from fresh starts."""

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            raise unknown("system", self.system, SYSTEMS)
        counts = (self.trajectories, self.latent, self.hidden, self.batch, self.epochs)
        if min(*counts, self.evaluation_episodes) < 1:
            raise XLVINError("Trajectories, widths, batch, epochs and evaluation episodes: at least 1 each.")

    @property
    def rows(self) -> int:
        """Steps in a minibatch: no more than there are."""
        return min(self.batch, self.trajectories * EPISODE)

    @property
    def updates(self) -> int:
        """Gradient steps in each stage."""
        return self.epochs * math.ceil(self.trajectories * EPISODE / self.rows)


@dataclass(frozen=True, eq=False)
class AbstractAgent:
    """A model and the plan made in it."""

    model: AbstractModel
    plan: AbstractPlan

    @torch.no_grad()
    def __call__(self, observation: Tensor) -> Tensor:
        """Action values, [N, o] -> [N, A]."""
        return self.plan(self.model(observation).unsqueeze(0))[0]


def run(config: AbstractConfig, seeds: Sequence[int]) -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """Collect, learn, plan and evaluate; returns [S, episodes] and the steps that each seed has seen."""
    data, shapes = collect(config, seeds)
    models = learn(config, seeds, data, shapes)
    agents = [
        AbstractAgent(model, make_plan(config, seed, model, data, index))
        for index, (seed, model) in enumerate(zip(seeds, models, strict=True))
    ]
    returns = returns_of(greedy(agents), config.environment, seeds, config.evaluation_episodes)
    return returns, data.count


def collect(config: AbstractConfig, seeds: Sequence[int]) -> tuple[Experience, Shapes]:
    """Trajectories of the uniformly random policy."""
    actors = Actors(config.environment, seeds, config.trajectories, {}, "random policy")
    shapes = actors.shapes
    if len(shapes.observation) != 1:
        actors.close()
        raise XLVINError(f"{config.environment} shows images; abstract models read vectors.")
    try:
        segments = actors.trajectories(lambda _, uniform: (uniform * shapes.actions).astype(np.int64), 0)
    finally:
        actors.close()
    return Experience.from_segments(segments, "cpu"), shapes


def learn(
    config: AbstractConfig, seeds: Sequence[int], data: Experience, shapes: Shapes
) -> list[AbstractModel]:
    """One model per seed, all trained at once, stage after stage."""
    models = []
    for index, seed in enumerate(seeds):
        with seeded(derive_seed(seed, "abstract model")):
            model = AbstractModel(shapes.observation[0], shapes.actions, config.latent, config.hidden)
        model.mean, model.scale = units(
            config, shapes, data.pool[index, data.state[index]], data.weight[index]
        )
        models.append(model)
    stack = Stack(models)
    for number, stage in enumerate(SYSTEMS[config.system]):
        _learn_stage(config, seeds, data, stack, stage, number)
    members = [copy.deepcopy(models[0]) for _ in seeds]
    for index, member in enumerate(members):
        member.load_state_dict(stack.member(index))
    return members


def units(
    config: AbstractConfig, shapes: Shapes, observation: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """What observations [N, o], those of positive weight [N], are shifted and divided by; [o] each."""
    mean, scale = torch.zeros(shapes.observation), torch.ones(shapes.observation)
    if config.inputs == "standard":
        seen = observation[weight > 0.0]
        deviation = seen.std(0)
        return seen.mean(0), torch.where(deviation > 1e-6, deviation, scale)
    if config.inputs == "bounds":
        for feature, (low, high) in enumerate(shapes.bounds):
            if math.isfinite(high - low):
                mean[feature], scale[feature] = (high + low) / 2, (high - low) / 2
    return mean, scale


def _learn_stage(
    config: AbstractConfig, seeds: Sequence[int], data: Experience, stack: Stack, stage: Stage, number: int
) -> None:
    """Descend on minibatches that each seed draws from its own steps."""
    optimiser = Adam(stack.flat, 1e-8)
    streams = [generator(seed, "abstract model", number) for seed in seeds]
    every, counts = torch.arange(len(seeds)).unsqueeze(1), torch.tensor(data.count).unsqueeze(1)
    # CartPole pays for the step that fails as for any other; only if it does not can a plan avoid failing.
    reward = torch.where(data.terminated, 0.0, data.reward)

    def gradient(steps: Steps) -> Tensor:
        losses = stack.call(lambda model, part: model.loss(part, stage, config.hinge), steps)
        return stack.gradient(losses.mean(1).sum())

    recorded = Recorder(gradient)
    for _ in range(config.updates):
        uniform = np.stack([stream.random(config.rows, np.float32) for stream in streams])
        rows = (torch.from_numpy(uniform) * counts).long()
        place = data.state[every, rows]
        steps = Steps(
            data.pool[every, place],
            data.action[every, rows],
            reward[every, rows],
            data.pool[every, place + 1],
        )
        optimiser.step(recorded(steps), config.learning_rate)


@torch.no_grad()
def make_plan(
    config: AbstractConfig, seed: int, model: AbstractModel, data: Experience, index: int
) -> AbstractPlan:
    """Embed some of a seed's observations, last ones included, and solve the MDP between them."""
    count = data.count[index]
    state, last = data.state[index, :count], data.ended[index, :count]
    places = torch.cat((state, state[last] + 1))
    terminal = torch.cat((torch.zeros(count, dtype=torch.bool), data.terminated[index, :count][last]))
    chosen = torch.from_numpy(generator(seed, "abstract states").permutation(len(places)))
    chosen = chosen[: config.plan.states]
    embedding = model(data.pool[index, places[chosen]])
    return plan(
        embedding.unsqueeze(0),
        model.transition.successors(embedding).unsqueeze(0),
        model.rewards(embedding).unsqueeze(0),
        terminal[chosen].unsqueeze(0),
        config.plan,
    )


def greedy(agents: Sequence[AbstractAgent]) -> Policy:
    """The policy that takes every agent's best action."""

    def act(observations: Array, uniform: Array) -> Array:
        pairs = zip(agents, torch.from_numpy(observations), strict=True)
        return np.stack([agent(seen).argmax(-1).numpy() for agent, seen in pairs])

    return act
