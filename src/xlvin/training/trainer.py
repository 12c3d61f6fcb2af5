"""The training loop: collect, estimate, update; all seeds in step, none aware of the others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.base import Agent, AgentConfig, Output
from xlvin.agents.registry import build
from xlvin.envs.environment import Shapes
from xlvin.errors import RunFailedError, XLVINError
from xlvin.storage import check_tensors, grouped
from xlvin.training.config import TrainConfig
from xlvin.training.devices import usable_device
from xlvin.training.experience import Experience
from xlvin.training.imagination.imagination import Imagination
from xlvin.training.learner import Learner
from xlvin.training.minibatches import Minibatches, at
from xlvin.training.moments import Moments
from xlvin.training.novelty import Novelty
from xlvin.training.objective import Targets
from xlvin.training.policies import sampling_policy
from xlvin.training.returns import advantages, standardise, trusted
from xlvin.training.rollouts import Actors
from xlvin.training.seeding import derive_seed
from xlvin.training.stack import Stack

Metrics = dict[str, NDArray[Any]]  # by name, each [S]
Progress = Callable[[int, int, Metrics], None]  # (round, passes of it done, latest metrics)

# Stored data whose length varies; `Replay.restore` checks it.
REPLAY = ("imagination.replay.", "replay.")


class Trainer:
    """Trains `config.seeds` agents with a policy tail side by side, one round at a time."""

    tail = "policy"
    light = True  # a copy of the state after every round costs next to nothing

    def __init__(self, config: TrainConfig, device: torch.device | str = "cpu") -> None:
        if config.network.tail != self.tail:
            raise XLVINError(
                f"{config.agent} has a {config.network.tail} tail and {type(self).__name__} teaches a "
                f"{self.tail} tail; let xlvin.training.run.make_trainer choose."
            )
        self.device = usable_device(device)
        vectors = config.network.kind == "gaussian"
        self.actors = Actors(
            config.environment,
            config.seed_list,
            config.budget.actors,
            {},
            "training",
            None if vectors else config.network.bins,
        )
        shapes = self.actors.shapes
        if vectors != shapes.vectors:
            raise XLVINError(
                f"{config.environment} has discrete actions and {config.agent} draws vectors; choose ppo."
            )
        self.config = config = replace(config, network=_fitted(config, shapes))
        members = [build(config.network, derive_seed(seed, "weights")) for seed in config.seed_list]
        self.learner = Learner(Stack(members, self.device), members[0], config.ppo)
        self.stack, self.agent = self.learner.stack, self.learner.agent
        self._policy = sampling_policy(self.stack, self.agent)
        self.observed = Moments(config.seeds, shapes.observation)
        if config.network.inputs == "bounds":
            self._scale_by_bounds(shapes.bounds)
        self.novelty: Novelty | None = None
        if config.ppo.novelty_coef > 0.0:
            dtype = torch.uint8 if shapes.dtype == "uint8" else torch.float32
            self.novelty = Novelty(self.agent, config.seed_list, shapes.observation, dtype)
        self.imagination: Imagination | None = None
        if config.imagination.last_iterations > 0:
            self.imagination = Imagination(
                self.learner, config.imagination, config.ppo, config.seed_list, shapes
            )
        self.round = 0
        self.steps = np.zeros(config.seeds, dtype=np.int64)

    @property
    def finished(self) -> bool:
        """Whether the data budget is spent."""
        return self.round >= self.config.budget.rounds

    @property
    def discount(self) -> float:
        """gamma of this round."""
        return self.config.ppo.discount_in(self.round, self.config.budget.rounds)

    def train_round(self, progress: Progress | None = None) -> Metrics:
        """Collect one round of data and learn from it; returns what happened."""
        if self.imagination is not None:
            self.imagination.discount = self.discount
        experience, returns = self._collect()
        self.steps += np.array(experience.count)
        collected = {
            "return": np.array([np.mean(values) if values else np.nan for values in returns]),
            "steps": self.steps.copy(),
        }
        report = None if progress is None else lambda epoch: progress(self.round, epoch, collected)
        metrics = self._improve(experience, report)
        self._check(metrics)
        self.round += 1
        return collected | metrics

    def _improve(self, experience: Experience, report: Callable[[int], None] | None) -> Metrics:
        """Learn from a round of real data, and from what it lets the agents imagine."""
        if self.imagination is None:
            return self._learn(experience, report)
        self.imagination.replay.add(experience)
        metrics: Metrics = {}
        if self.config.imagination.real:
            metrics = self._learn(experience, report)
        elif self.config.network.standardises:
            self._normalise(experience)
        last = self.round + 1 == self.config.budget.rounds
        return metrics | self.imagination.learn(self.round, last, report)

    def _collect(self) -> tuple[Experience, list[list[float]]]:
        """A round of data, and the returns of the episodes that ended in it."""
        if self.config.budget.unit == "trajectories":
            segments = self.actors.trajectories(self._policy, self.round)
            returns = [[float(segment.rewards.sum()) for segment in of_seed] for of_seed in segments]
        else:
            segments, returns = self.actors.transitions(self._policy, self.config.budget.steps, self.round)
        return Experience.from_segments(segments, self.device), returns

    def _learn(self, experience: Experience, report: Callable[[int], None] | None) -> Metrics:
        ppo = self.config.ppo
        output = self.learner.evaluate(experience.pool)
        old_log_prob = self._log_prob(experience, output)
        if self.config.network.standardises:
            self._normalise(experience)
            output = self.learner.evaluate(experience.pool)
        reward, totals = self._reward(experience), torch.zeros(())
        for epoch in range(ppo.epochs):
            if ppo.recompute and epoch > 0:
                output = self.learner.evaluate(experience.pool)
            if ppo.recompute or epoch == 0:
                targets = self._targets(experience, reward, output, old_log_prob)
                batches = Minibatches(experience, reward, targets, self.config.seed_list, ppo.minibatches)
            for minibatch in batches.shuffled(self.round, epoch):
                totals = totals + self.learner.learn(minibatch, self._learning_rate(epoch / ppo.epochs))
            if report:
                report(epoch + 1)
        means = (totals / (ppo.epochs * ppo.minibatches)).cpu().numpy()
        return dict(zip(("total", *self.learner.objective.names), means.T, strict=True))

    def _reward(self, experience: Experience) -> Tensor:
        """Rewards as scaled for learning, with the novelty bonus if there is one; [S, N]."""
        ppo = self.config.ppo
        if self.imagination is not None:
            return experience.reward * self.imagination.units().reward
        if self.novelty is None:
            return experience.reward * ppo.reward_scale
        bonus = self.novelty.bonus(self.stack, experience)
        self.novelty.remember(experience)
        return (experience.reward + ppo.novelty_coef * bonus) * ppo.reward_scale

    def _log_prob(self, experience: Experience, output: Output) -> Tensor:
        """Of the actions taken [S, N], by what the agents say about all observations."""
        policy = self.agent.distribution(at(output.logits, experience.state))
        return policy.log_prob(experience.action)

    def _targets(
        self, experience: Experience, reward: Tensor, output: Output, old_log_prob: Tensor
    ) -> Targets:
        """Advantages and returns by what the agents say about all observations."""
        ppo, value = self.config.ppo, at(output.value, experience.state)
        trust = trusted(self._log_prob(experience, output), old_log_prob) if ppo.vtrace else None
        advantage = advantages(
            reward,
            value,
            at(output.value, experience.state + 1),
            experience.terminated,
            experience.ended,
            self.discount,
            ppo.gae_lambda,
            trust,
        )
        target = value + (advantage if trust is None else trust * advantage)
        return Targets(old_log_prob, value, standardise(advantage, experience.weight), target)

    def _learning_rate(self, share: float) -> float:
        """When this share of the round's learning is done."""
        ppo = self.config.ppo
        done = (self.round + share) / self.config.budget.rounds
        return ppo.learning_rate * (1.0 - done) if ppo.anneal else ppo.learning_rate

    def _normalise(self, experience: Experience) -> None:
        """Let the agents standardise by all that they have seen so far."""
        for index, count in enumerate(experience.count):
            states = experience.pool[index, experience.state[index, :count]]
            self.observed.update(index, states.cpu().numpy())
        mean, scale = self.observed.standardisation()
        self.stack.frozen["normaliser.mean"].copy_(torch.from_numpy(mean))
        self.stack.frozen["normaliser.scale"].copy_(torch.from_numpy(scale))

    def _scale_by_bounds(self, bounds: tuple[tuple[float, float], ...]) -> None:
        """Map features with two finite bounds to [-1, 1], leave others as they are."""
        for index, (low, high) in enumerate(bounds):
            if np.isfinite(high - low) and high > low:
                self.stack.frozen["normaliser.mean"][:, index] = (low + high) / 2
                self.stack.frozen["normaliser.scale"][:, index] = 2 / (high - low)

    def _check(self, metrics: Metrics) -> None:
        """Stop when a loss or a weight is not finite any more."""
        numbers = {f"{name} loss": values for name, values in metrics.items()}
        # A sum of finite numbers that is not finite has overflowed, which is no better.
        numbers["sum of weights"] = self.stack.flat.sum(1).cpu().numpy()
        for name, values in numbers.items():
            for seed, value in zip(self.config.seed_list, values, strict=True):
                if not np.isfinite(value):
                    raise RunFailedError(
                        f"The {name} of seed {seed} became {value} in round {self.round + 1}; "
                        "lower the learning rate or the scale of rewards and observations."
                    )

    def state(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, as copies on the CPU."""
        tensors = {f"weights.{name}": weight.detach() for name, weight in self.stack.weights.items()}
        tensors |= {f"optimiser.{name}": tensor for name, tensor in self.learner.optimiser.state().items()}
        if self.imagination is not None:
            tensors |= {f"imagination.{name}": tensor for name, tensor in self.imagination.state().items()}
        if self.novelty is not None:
            tensors |= {f"novelty.{name}": tensor for name, tensor in self.novelty.state().items()}
        arrays = {f"observed.{name}": array for name, array in self.observed.state().items()}
        arrays |= {"round": np.array(self.round), "steps": self.steps}
        if self.config.budget.unit == "transitions":
            arrays |= {f"actors.{name}": array for name, array in self.actors.state().items()}
        tensors |= {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def restore(self, tensors: dict[str, Tensor], source: str = "The checkpoint") -> None:
        """Continue from a stored state, after checking that it is one of this run's."""
        expected = self.state()
        if "actors.action" in tensors and "actors.action" in expected:  # as long as the episodes are
            stored, known = tensors["actors.action"], expected["actors.action"]
            expected["actors.action"] = known.new_zeros((*stored.shape[:1], *known.shape[1:]))
        fixed = {name: tensor for name, tensor in tensors.items() if not name.startswith(REPLAY)}
        check_tensors(source, fixed, {n: t for n, t in expected.items() if not n.startswith(REPLAY)})
        groups = grouped(tensors)
        if "actors" in groups:
            actors = {name: tensor.numpy() for name, tensor in groups["actors"].items()}
            self.actors.restore(actors, int(tensors["round"]))
        self.stack.load(groups["weights"])
        self.learner.optimiser.restore(groups["optimiser"])
        self.observed.restore({name: tensor.numpy() for name, tensor in groups["observed"].items()})
        if self.imagination is not None:
            self.imagination.restore(groups["imagination"])
        if self.novelty is not None:
            self.novelty.restore(groups["novelty"])
        self.round = int(tensors["round"])
        self.steps = tensors["steps"].numpy().copy()

    def close(self) -> None:
        """Release every environment."""
        self.actors.close()

    def members(self) -> list[Agent]:
        """The agents as they are now, one per seed, on the CPU."""
        agents = []
        for index in range(self.stack.size):
            agent = copy.deepcopy(self.agent).cpu()
            agent.load_state_dict(self.stack.member(index))
            agents.append(agent.eval())
        return agents


def _fitted(config: TrainConfig, shapes: Shapes) -> AgentConfig:
    """The agent's network for an environment's observations and actions."""
    numbers = len(shapes.observation) == 3 and shapes.dtype == "float32"
    return replace(
        config.network,
        observation=shapes.observation,
        given=shapes.given,
        image="float32" if numbers else "uint8",
        actions=shapes.actions,
        discount=config.ppo.discount,
        bins=shapes.bins,
        low=shapes.low,
        high=shapes.high,
    )
