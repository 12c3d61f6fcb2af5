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

from xlvin.agents.base import Agent, Batch, Output
from xlvin.agents.registry import build
from xlvin.errors import RunFailedError, XLVINError
from xlvin.storage import check_tensors
from xlvin.training.config import TrainConfig
from xlvin.training.experience import Experience
from xlvin.training.minibatches import Minibatch, minibatches
from xlvin.training.moments import Moments
from xlvin.training.novelty import Novelty
from xlvin.training.objective import Objective, Sample, Targets
from xlvin.training.policies import sampling_policy
from xlvin.training.returns import advantages
from xlvin.training.rollouts import Actors
from xlvin.training.seeding import derive_seed
from xlvin.training.stack import Stack

Metrics = dict[str, NDArray[Any]]  # by name, each [S]
Progress = Callable[[int, int, Metrics], None]  # (round, epochs of it done, latest metrics)

# Observations evaluated in one call; bounds memory when a tree hangs on each of them.
CHUNK = 4096


class Trainer:
    """Trains `config.seeds` agents side by side, one round at a time."""

    def __init__(self, config: TrainConfig, device: torch.device | str = "cpu") -> None:
        self.device = usable_device(device)
        self.actors = Actors(config.environment, config.seed_list, config.budget.actors, {}, "training")
        shapes = self.actors.shapes
        network = replace(
            config.network,
            observation=shapes.observation,
            given=shapes.given,
            actions=shapes.actions,
            discount=config.ppo.discount,
        )
        self.config = config = replace(config, network=network)
        members = [build(network, derive_seed(seed, "weights")) for seed in config.seed_list]
        self.stack = Stack(members, self.device)
        self.agent: Agent = members[0]
        self.objective = Objective(self.agent, config.ppo)
        self.optimiser = torch.optim.Adam(
            [self.stack.flat], lr=config.ppo.learning_rate, eps=config.ppo.adam_epsilon, fused=True
        )
        self.observed = Moments(config.seeds, shapes.observation)
        if network.inputs == "bounds":
            self._scale_by_bounds(shapes.bounds)
        self.novelty: Novelty | None = None
        if config.ppo.novelty_coef > 0.0:
            dtype = torch.uint8 if shapes.dtype == "uint8" else torch.float32
            self.novelty = Novelty(self.agent, config.seed_list, shapes.observation, dtype)
        self.round = 0
        self.steps = np.zeros(config.seeds, dtype=np.int64)

    @property
    def finished(self) -> bool:
        """Whether the data budget is spent."""
        return self.round >= self.config.budget.rounds

    def train_round(self, progress: Progress | None = None) -> Metrics:
        """Collect one round of data and learn from it; returns what happened."""
        experience, returns = self._collect()
        self.steps += np.array(experience.count)
        collected = {
            "return": np.array([np.mean(values) if values else np.nan for values in returns]),
            "steps": self.steps.copy(),
        }
        report = None if progress is None else lambda epoch: progress(self.round, epoch, collected)
        metrics = self._learn(experience, report)
        self._check(metrics)
        self.round += 1
        return collected | metrics

    def _collect(self) -> tuple[Experience, list[list[float]]]:
        """A round of data, and the returns of the episodes that ended in it."""
        policy = sampling_policy(self.stack, self.agent, self.device)
        if self.config.budget.unit == "trajectories":
            segments = self.actors.trajectories(policy, self.round)
            returns = [[float(segment.rewards.sum()) for segment in of_seed] for of_seed in segments]
        else:
            segments, returns = self.actors.transitions(policy, self.config.budget.steps, self.round)
        return Experience.from_segments(segments, self.device), returns

    def _learn(self, experience: Experience, report: Callable[[int], None] | None) -> Metrics:
        ppo, seeds = self.config.ppo, self.config.seed_list
        output = self._evaluate(experience.pool)
        log_probs = _at(output.logits.log_softmax(-1), experience.state)
        old_log_prob = log_probs.gather(-1, experience.action.unsqueeze(-1)).squeeze(-1)
        values = output.value
        if self.config.network.standardises:
            self._normalise(experience)
            values = self._evaluate(experience.pool).value
        reward = self._reward(experience)
        totals: dict[str, Tensor] = {}
        for epoch in range(ppo.epochs):
            if ppo.recompute and epoch > 0:
                values = self._evaluate(experience.pool).value
            if ppo.recompute or epoch == 0:
                targets = self._targets(experience, reward, values, old_log_prob)
            self._anneal(epoch)
            for chosen in minibatches(
                seeds, experience.count, ppo.minibatches, self.round, epoch, self.device
            ):
                sample = _sample(experience, reward, targets, chosen)
                terms = self.stack.apply(self.objective, sample, prefix="agent.")
                self._step(terms["total"])
                for name, term in terms.items():
                    totals[name] = totals.get(name, 0.0) + term.detach()
            if report:
                report(epoch + 1)
        updates = ppo.epochs * ppo.minibatches
        return {name: (total / updates).cpu().numpy() for name, total in totals.items()}

    def _reward(self, experience: Experience) -> Tensor:
        """Rewards as scaled for learning, with the novelty bonus if there is one; [S, N]."""
        ppo = self.config.ppo
        if self.novelty is None:
            return experience.reward * ppo.reward_scale
        bonus = self.novelty.bonus(self.stack, experience)
        self.novelty.remember(experience)
        return (experience.reward + ppo.novelty_coef * bonus) * ppo.reward_scale

    def _targets(
        self, experience: Experience, reward: Tensor, values: Tensor, old_log_prob: Tensor
    ) -> Targets:
        """Advantages and returns under the critic's values [S, M] of all observations."""
        ppo, value = self.config.ppo, _at(values, experience.state)
        advantage = advantages(
            reward,
            value,
            _at(values, experience.state + 1),
            experience.terminated,
            experience.ended,
            ppo.discount,
            ppo.gae_lambda,
        )
        return Targets(old_log_prob, value, _standardise(advantage, experience.weight), advantage + value)

    def _step(self, loss: Tensor) -> None:
        """One step of Adam on every seed, each with its own clipped gradient."""
        gradient = self.stack.gradient(loss.sum())
        norm = gradient.norm(dim=1, keepdim=True)
        self.stack.flat.grad = gradient * (self.config.ppo.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        self.optimiser.step()

    def _anneal(self, epoch: int) -> None:
        if self.config.ppo.anneal:
            done = (self.round + epoch / self.config.ppo.epochs) / self.config.budget.rounds
            self.optimiser.param_groups[0]["lr"] = self.config.ppo.learning_rate * (1.0 - done)

    @torch.no_grad()
    def _evaluate(self, observations: Tensor) -> Output:
        """What the agents say about observations [S, M, ...]."""
        outputs = [self.stack.apply(self.agent, chunk) for chunk in torch.split(observations, CHUNK, 1)]
        return (
            outputs[0]
            if len(outputs) == 1
            else Output(*(torch.cat(p, 1) for p in zip(*outputs, strict=True)))
        )

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
                        "lower the learning rate or the scale of the rewards."
                    )

    def state(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, as copies on the CPU."""
        adam = self.optimiser.state.get(self.stack.flat) or self._no_moments()
        tensors = {f"weights.{name}": weight.detach() for name, weight in self.stack.weights.items()}
        tensors |= {f"optimiser.{name}": torch.as_tensor(moment) for name, moment in adam.items()}
        if self.novelty is not None:
            tensors |= {f"novelty.{name}": tensor for name, tensor in self.novelty.state().items()}
        arrays = {f"observed.{name}": array for name, array in self.observed.state().items()}
        arrays |= {"round": np.array(self.round), "steps": self.steps}
        if self.config.budget.unit == "transitions":
            arrays |= {f"actors.{name}": array for name, array in self.actors.state().items()}
        tensors |= {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def _no_moments(self) -> dict[str, Tensor]:
        """Adam's state before its first step."""
        zeros = torch.zeros_like(self.stack.flat)
        return {"step": torch.tensor(0.0), "exp_avg": zeros, "exp_avg_sq": zeros}

    def restore(self, tensors: dict[str, Tensor], source: str = "The checkpoint") -> None:
        """Continue from a stored state, after checking that it is one of this run's."""
        expected = self.state()
        if "actors.actions" in tensors:  # as long as the episodes are
            expected["actors.actions"] = torch.zeros(tensors["actors.actions"].numel(), dtype=torch.int64)
        check_tensors(source, tensors, expected)
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups.setdefault(group, {})[rest] = tensor
        if "actors" in groups:
            self.actors.restore({name: tensor.numpy() for name, tensor in groups["actors"].items()})
        self.stack.load(groups["weights"])
        self.optimiser.state[self.stack.flat] = {
            name: tensor.to(self.device) for name, tensor in groups["optimiser"].items()
        }
        self.observed.restore({name: tensor.numpy() for name, tensor in groups["observed"].items()})
        if self.novelty is not None:
            self.novelty.restore(groups["novelty"])
        self.round = int(tensors["round"])
        self.steps = tensors["steps"].numpy().copy()

    def members(self) -> list[Agent]:
        """The agents as they are now, one per seed, on the CPU."""
        agents = []
        for index in range(self.stack.size):
            agent = copy.deepcopy(self.agent).cpu()
            agent.load_state_dict(self.stack.member(index))
            agents.append(agent.eval())
        return agents


def usable_device(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise XLVINError(f'The device "{name}" cannot be used here; try "cpu".') from error
    return device


def _sample(experience: Experience, reward: Tensor, targets: Targets, chosen: Minibatch) -> Sample:
    """The rows of a minibatch."""
    state = _at(experience.state, chosen.rows)
    batch = Batch(
        _at(experience.pool, state),
        _at(experience.action, chosen.rows),
        _at(reward, chosen.rows),
        _at(experience.pool, state + 1),
        chosen.negative,
    )
    return Sample(batch, Targets(*(_at(column, chosen.rows) for column in targets)), chosen.weight)


def _at(values: Tensor, index: Tensor) -> Tensor:
    """values[s, index[s, n]] for values [S, M, ...] and index [S, N]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), index]


def _standardise(values: Tensor, weight: Tensor) -> Tensor:
    count = weight.sum(1, keepdim=True)
    mean = (values * weight).sum(1, keepdim=True) / count
    variance = ((values - mean).square() * weight).sum(1, keepdim=True) / count
    return (values - mean) / (variance.sqrt() + 1e-8)
