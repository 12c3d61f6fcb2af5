"""Learning inside a learned model: agents act in it from real states, PPO learns from what they imagine.

After every round of real data the world models are fitted to all of it. Then, many times over, B branches run
for H steps with the current policy. A branch that ends is followed by another from a seen state, so that
every step counts. A branch that strays too far from everything seen ends as well, since the model knows
nothing there: before the last round with the best return seen, which sends the agent to look; in the last
round with the worst that can be, which keeps it where the model holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.binning import centres
from xlvin.envs.environment import Shapes
from xlvin.errors import XLVINError
from xlvin.observations import DISCRETE
from xlvin.randomness import draw
from xlvin.storage import grouped
from xlvin.training.config import ImaginationConfig, PPOConfig
from xlvin.training.experience import Experience
from xlvin.training.imagination.counted_worlds import CountedWorlds, countable
from xlvin.training.imagination.latent_worlds import LatentWorlds
from xlvin.training.imagination.models import WorldModels
from xlvin.training.imagination.worlds import Worlds
from xlvin.training.learner import Learner
from xlvin.training.minibatches import Minibatches
from xlvin.training.objective import Targets
from xlvin.training.recording import Recorder
from xlvin.training.replay import Replay
from xlvin.training.returns import advantages, standardise
from xlvin.training.seeding import generator

# The metric that says what rewards were multiplied by.
REWARD_SCALE = "reward scale"
# Rewards are scaled so that returns are of this size.
RETURN_SIZE = 10.0
# Returns reach no further than this many steps when their size is guessed.
LONG = 100
# Where only actions cost and none has paid yet: a find is worth this many times the dearest one for LONG.
FIND = 10.0


class Units(NamedTuple):
    """What rewards are multiplied by, and what returns can be after that; [S, 1] each."""

    reward: Tensor
    lowest: Tensor  # the lowest reward for ever, if that is negative
    highest: Tensor
    worst: Tensor  # the usual costs for ever
    best: Tensor  # the best return seen; where only actions cost and none was good, more than they cost


class Step(NamedTuple):
    """One imagined step of every branch, [S, B, ...]."""

    observation: Tensor
    action: Tensor  # int64
    log_prob: Tensor
    value: Tensor  # of the observation, by the critic
    successor: Tensor
    reward: Tensor  # as the environment would pay it
    terminated: Tensor  # bool
    distance: Tensor  # of the successor to what was seen


class Imagination:
    """World models of all seeds, and how their agents learn inside them."""

    def __init__(
        self,
        learner: Learner,
        config: ImaginationConfig,
        ppo: PPOConfig,
        seeds: Sequence[int],
        shapes: Shapes,
    ) -> None:
        if len(shapes.observation) != 1:
            raise XLVINError(
                "Imagination needs observations that are vectors or states; for images choose agent xlvin-r "
                "and leave the options of imagination out."
            )
        if shapes.vectors:
            raise XLVINError(
                "Imagination draws among actions that can be counted; for continuous ones choose ppo-imagine."
            )
        self.config, self.ppo, self.seeds = config, ppo, tuple(seeds)
        self.discount = ppo.discount  # of the round; the trainer sets it
        device = learner.stack.flat.device
        features = shapes.observation[0]
        self.worlds = self._worlds(learner, shapes)
        self.learner = self.worlds.learner(learner)
        self._own_optimiser = self.learner is not learner
        self.replay = Replay(len(self.seeds), (features,), device)
        self._actions = shapes.actions
        self._recorded_step = Recorder(self._step)

    def _worlds(self, learner: Learner, shapes: Shapes) -> WorldModels:
        config, seeds, device = self.config, self.seeds, learner.stack.flat.device
        if config.model == "latent":
            return LatentWorlds(config, seeds, learner)
        discrete, size = shapes.given == DISCRETE, (shapes.observation[0], shapes.actions)
        if discrete and countable(*size):
            return CountedWorlds(config, seeds, *size, device)
        return Worlds(config, seeds, *size, discrete, device, _coordinates(shapes))

    def learn(
        self, round_: int, last: bool, report: Callable[[int], None] | None
    ) -> dict[str, NDArray[np.float32]]:
        """Fit the models to all data, then improve the agents inside them; returns what happened."""
        metrics = {"model": self.worlds.fit(self.replay, round_, last)}
        units, iterations = self.units(), self.config.last_iterations if last else self.config.iterations
        metrics[REWARD_SCALE] = units.reward[:, 0].cpu().numpy()
        for iteration in range(iterations):
            steps, ended, strayed = self._imagine(round_, iteration, last)
            beyond = units.worst if last else units.best
            experience, sampled = self._experience(steps, ended, strayed, units, beyond)
            targets = self.worlds.targets(
                self._policy, experience, sampled, units.reward, beyond, self.discount
            )
            self._improve(experience, targets, round_, iteration, iterations if last else 0)
            metrics |= {
                "imagined reward": experience.reward.mean(1).cpu().numpy(),
                "strayed": strayed.float().mean((1, 2)).cpu().numpy(),
            }
            if report:
                report((self.ppo.epochs if self.config.real else 0) + iteration + 1)
        return metrics

    def _policy(self, states: int) -> Tensor:
        """What the agents do in every one of n states, [S, n, A]."""
        every = torch.eye(states, device=self.learner.stack.flat.device)
        return self.learner.evaluate(every.expand(len(self.seeds), -1, -1).contiguous()).logits.softmax(-1)

    def units(self) -> Units:
        """By all data so far."""
        rows, horizon = [], 1.0 / max(1.0 - self.discount, 1e-6)
        for seen in self.replay.seeds:
            reward = seen.reward
            size = reward.abs().mean()
            # Without any reward yet there is no size; a huge scale would blow up the model's errors.
            scale = RETURN_SIZE / min(horizon, LONG) / torch.where(size < 1e-6, 1.0, size)
            lowest, highest = reward.min().clamp(max=0.0), reward.max().clamp(min=0.0)
            worst = reward.clamp(max=0.0).mean()
            best = seen.best_return(self.discount)
            if self.worlds.exhaustible:
                best = torch.where(size < 1e-6, 1.0, best)  # nothing has paid yet: what is unknown may
                scale = RETURN_SIZE / torch.maximum(best.abs(), size * min(horizon, LONG))
            if seen.only_actions_cost:
                if best <= 0.0:  # to do nothing may be free: without a find there is no reason to move
                    best = -FIND * LONG * lowest
                    highest = torch.maximum(highest, best / horizon)
                # A prize says more of the size of returns than what steps cost.
                scale = torch.minimum(scale, RETURN_SIZE / best)
            rows.append(
                scale
                * torch.stack(
                    (torch.ones_like(best), lowest * horizon, highest * horizon, worst * horizon, best)
                )
            )
        return Units(*torch.stack(rows, 1).unsqueeze(-1))

    def _imagine(self, round_: int, iteration: int, last: bool) -> tuple[Step, Tensor, Tensor]:
        """H steps of B branches, [S, B, H, ...]; which ended a branch, and which strayed from the seen."""
        config, device = self.config, self.learner.stack.flat.device
        shape = (config.horizon, 5, config.branches)
        drawn = [
            generator(seed, "imagination", round_, iteration).random(shape, np.float32) for seed in self.seeds
        ]
        uniform = torch.from_numpy(np.stack(drawn, 1)).to(device).transpose(2, 3)  # [H, S, B, 5]
        starts = self._starts(uniform[..., 0], uniform[..., 1])
        landmarks, unit = self.worlds.landmarks(self.replay, round_, iteration)
        limit = self._limit(last)
        state, steps, ends, strays = starts[0], [], [], []
        for time in range(config.horizon):
            step = Step(
                *(
                    part.clone()
                    for part in self._recorded_step(state, uniform[time, ..., 2:], landmarks, unit)
                )
            )
            strayed = (step.distance > limit) & ~step.terminated
            ended = step.terminated | strayed
            steps.append(step)
            ends.append(ended)
            strays.append(strayed)
            state = torch.where(ended.unsqueeze(-1), starts[(time + 1) % config.horizon], step.successor)
        together = Step(*(torch.stack(parts, 2) for parts in zip(*steps, strict=True)))
        return together, torch.stack(ends, 2), torch.stack(strays, 2)

    def _limit(self, last: bool) -> Tensor:
        """How far from what was seen a branch may go, [S, 1].

        To look for what is beyond pays where all steps pay alike, or by what was done alone: elsewhere
        rewards show the way, and what the agent does not know is no better than what it does.
        """
        config = self.config
        look = self.worlds.exhaustible
        limits = [
            config.support if last else config.curiosity if look or seen.no_state_pays else torch.inf
            for seen in self.replay.seeds
        ]
        return torch.tensor(limits, device=self.learner.stack.flat.device).unsqueeze(1)

    def _starts(self, which: Tensor, where: Tensor) -> Tensor:
        """Seen states for uniform numbers [H, S, B]: a share of them initial ones; [H, S, B, o]."""
        columns = []
        for index, seen in enumerate(self.replay.seeds):
            anywhere, initial = seen.observation, seen.starts
            begin = (which[:, index] < self.config.initial_share).unsqueeze(-1)
            at_start = initial[(where[:, index] * len(initial)).long()]
            columns.append(torch.where(begin, at_start, anywhere[(where[:, index] * len(anywhere)).long()]))
        return self.worlds.place(torch.stack(columns)).transpose(0, 1).contiguous()

    @torch.no_grad()
    def _step(self, state: Tensor, uniform: Tensor, landmarks: Tensor, unit: Tensor) -> Step:
        """Act in states [S, B, o] and imagine what comes of it; `uniform` [S, B, 3] decides what is drawn."""
        output = self.learner.speak(state)
        log_probs = output.logits.log_softmax(-1)
        action = draw(self.worlds.behaviour(log_probs.exp()), uniform[..., :1])
        log_prob = log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        imagined = self.worlds.imagine(state, action, uniform[..., 1:])
        distance = self.worlds.distance(state, action, imagined.observation, landmarks, unit)
        return Step(state, action, log_prob, output.value, *imagined, distance)

    def _experience(
        self, steps: Step, ended: Tensor, strayed: Tensor, units: Units, beyond: Tensor
    ) -> tuple[Experience, Targets]:
        """What was imagined, as if it were real, with advantages; `beyond` [S, 1] values the unknown."""
        flat = Step(*(part.flatten(1, 2) for part in steps))

        def possible(value: Tensor) -> Tensor:
            return torch.minimum(torch.maximum(value, units.lowest), units.highest)

        final = self.learner.evaluate(steps.successor[:, :, -1].contiguous()).value.clone()
        following = torch.cat((steps.value[:, :, 1:], final.unsqueeze(2)), 2).flatten(1)
        ended = ended.clone()
        ended[:, :, -1] = True  # cut here, with the critic's value beyond
        terminated = flat.terminated | strayed.flatten(1)
        reward = flat.reward * units.reward
        value = possible(flat.value)
        advantage = advantages(
            reward + self.discount * beyond * strayed.flatten(1),
            value,
            possible(following),
            terminated,
            ended.flatten(1),
            self.discount,
            self.config.gae_lambda,
        )
        weight, count = torch.ones_like(reward), reward.shape[1]
        targets = Targets(
            flat.log_prob, flat.value, standardise(advantage, weight), possible(advantage + value)
        )
        pool = torch.stack((flat.observation, flat.successor), 2).flatten(1, 2)
        state = torch.arange(0, 2 * count, 2, device=pool.device).expand(len(self.seeds), -1)
        counts = (count,) * len(self.seeds)
        return Experience(
            pool, state, flat.action, reward, terminated, ended.flatten(1), weight, counts
        ), targets

    def _improve(
        self, experience: Experience, targets: Targets, round_: int, iteration: int, anneal: int
    ) -> None:
        """PPO on imagined experience; over `anneal` iterations, if any, the learning rate falls to zero."""
        config = self.config
        batches = Minibatches(experience, experience.reward, targets, self.seeds, config.minibatches)
        rate = config.learning_rate * (1.0 - iteration / anneal if anneal else 1.0)
        for epoch in range(config.epochs):
            # Epochs of real data come first in the numbering.
            for minibatch in batches.shuffled(round_, self.ppo.epochs + iteration * config.epochs + epoch):
                self.learner.learn(minibatch, rate)

    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint."""
        tensors = {f"worlds.{name}": tensor for name, tensor in self.worlds.state().items()}
        if self._own_optimiser:
            tensors |= {f"learner.{name}": part for name, part in self.learner.optimiser.state().items()}
        return tensors | {f"replay.{name}": tensor for name, tensor in self.replay.state().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        groups = grouped(state)
        self.replay.restore(groups["replay"], self._actions)
        self.worlds.restore(groups["worlds"])
        if self._own_optimiser:
            self.learner.optimiser.restore(groups["learner"])


def _coordinates(shapes: Shapes) -> Tensor | None:
    """Where binned actions are in their box, from -1 to 1 in every dimension, [A, d]; None for others."""
    if not shapes.bins:
        return None
    ones = (1.0,) * len(shapes.bins)
    return torch.from_numpy(centres(shapes.bins, [-one for one in ones], ones))
