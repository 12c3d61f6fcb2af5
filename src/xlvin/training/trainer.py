"""The training loop: collect, estimate, update; all seeds in step, none aware of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.base import Agent, Batch, Normaliser
from xlvin.agents.registry import build
from xlvin.errors import RunFailedError
from xlvin.training.config import TrainConfig
from xlvin.training.experience import Experience
from xlvin.training.novelty import Novelty
from xlvin.training.objective import Objective, Sample
from xlvin.training.returns import advantages
from xlvin.training.rollouts import Actors, Policy
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.stack import Stack

Metrics = dict[str, NDArray[Any]]  # by name, each [S]
Progress = Callable[[int, int, Metrics], None]  # (round, epochs of it done, latest metrics)

# Observations evaluated in one call; bounds memory when a tree hangs on each of them.
CHUNK = 4096


class Trainer:
    """Trains `config.seeds` agents side by side, one round at a time."""

    def __init__(self, config: TrainConfig, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.actors = Actors(config.environment, config.seed_list, config.budget.actors, {}, "training")
        shapes = self.actors.shapes
        network = replace(
            config.network,
            observation=shapes.observation,
            actions=shapes.actions,
            discount=config.ppo.discount,
        )
        self.config = config = replace(config, network=network)
        members = [build(network, derive_seed(seed, "weights")) for seed in config.seed_list]
        self.stack = Stack(members).to(self.device)
        self.agent: Agent = members[0].to(self.device)
        self.objective = Objective(self.agent, config.ppo)
        self.optimiser = torch.optim.Adam(
            [self.stack.flat], lr=config.ppo.learning_rate, eps=config.ppo.adam_epsilon, fused=True
        )
        self.observed = Moments(config.seeds, shapes.observation)
        if network.inputs == "bounds":
            self._scale_by_bounds(shapes.bounds)
        self.novelty: Novelty | None = None
        if config.ppo.novelty_coef > 0.0:
            self.novelty = Novelty(self.agent, config.seed_list, shapes.observation, self.device)
        self.round = 0
        self.steps = np.zeros(config.seeds, dtype=np.int64)

    @property
    def finished(self) -> bool:
        """Whether the data budget is spent."""
        return self.round >= self.config.budget.rounds

    def train_round(self, progress: Progress | None = None) -> Metrics:
        """Collect one round of data and learn from it; returns what happened."""
        policy = sampling_policy(self.stack, self.agent, self.device)
        if self.config.budget.unit == "trajectories":
            segments = self.actors.trajectories(policy, self.round)
            returns = [[float(segment.rewards.sum()) for segment in of_seed] for of_seed in segments]
        else:
            segments, returns = self.actors.transitions(policy, self.config.budget.per_round, self.round)
        experience = Experience.from_segments(segments, self.device)
        self.steps += np.array(experience.count)
        collected = {
            "return": np.array([np.mean(values) if values else np.nan for values in returns]),
            "steps": self.steps.copy(),
        }
        report = None if progress is None else lambda epoch: progress(self.round, epoch, collected)
        metrics = self._learn(experience, report)
        for name, values in metrics.items():
            if not np.isfinite(values).all():
                seed = self.config.seed_list[int(np.flatnonzero(~np.isfinite(values))[0])]
                raise RunFailedError(
                    f"The {name} loss of seed {seed} is not finite in round {self.round}; lower the learning rate "
                    "or scale the rewards. The last good checkpoint is kept."
                )
        self.round += 1
        return collected | metrics

    def _learn(self, experience: Experience, report: Callable[[int], None] | None) -> Metrics:
        ppo = self.config.ppo
        reward = experience.reward * ppo.reward_scale
        logits, values = self._evaluate(experience.pool)
        log_probs = logits.log_softmax(-1)
        old_log_prob = _at(log_probs, experience.state).gather(-1, experience.action.unsqueeze(-1)).squeeze(-1)
        if self.config.network.inputs in ("standard", "symlog") and isinstance(self.agent.normaliser, Normaliser):
            self._normalise(experience)
            _, values = self._evaluate(experience.pool)
        if self.novelty is not None:
            bonus = self.novelty.bonus(self.stack, experience)
            reward = reward + ppo.novelty_coef * ppo.reward_scale * bonus
            self.novelty.remember(experience)
        totals: dict[str, Tensor] = {}
        for epoch in range(ppo.epochs):
            if ppo.recompute and epoch > 0:
                _, values = self._evaluate(experience.pool)
            if ppo.recompute or epoch == 0:
                value = _at(values, experience.state)
                next_value = _at(values, experience.state + 1)
                advantage = advantages(
                    reward,
                    value,
                    next_value,
                    experience.terminated,
                    experience.ended,
                    ppo.discount,
                    ppo.gae_lambda,
                )
                target = advantage + value
                advantage = _standardise(advantage, experience.weight)
            self._anneal(epoch)
            for index, negative, weight in self._minibatches(experience, epoch):
                state = _at(experience.state, index)
                batch = Batch(
                    _at(experience.pool, state),
                    _at(experience.action, index),
                    _at(reward, index),
                    _at(experience.pool, state + 1),
                    negative,
                )
                remembered = (_at(column, index) for column in (old_log_prob, value, advantage, target))
                terms = self.stack.apply(self.objective, Sample(batch, *remembered, weight), prefix="agent.")
                self._step(terms["total"])
                for name, term in terms.items():
                    totals[name] = totals.get(name, 0.0) + term.detach()
            if report:
                report(epoch + 1)
        updates = ppo.epochs * ppo.minibatches
        return {name: (total / updates).cpu().numpy() for name, total in totals.items()}

    def _step(self, loss: Tensor) -> None:
        gradient = self.stack.gradient(loss.sum())
        norm = gradient.norm(dim=1, keepdim=True)
        self.stack.flat.grad = gradient * (self.config.ppo.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        self.optimiser.step()

    def _anneal(self, epoch: int) -> None:
        if self.config.ppo.anneal:
            done = (self.round + epoch / self.config.ppo.epochs) / self.config.budget.rounds
            self.optimiser.param_groups[0]["lr"] = self.config.ppo.learning_rate * (1.0 - done)

    @torch.no_grad()
    def _evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [S, M, A] and values [S, M] of all observations."""
        outputs = [self.stack.apply(self.agent, chunk) for chunk in observations.split(CHUNK, 1)]
        return torch.cat([out.logits for out in outputs], 1), torch.cat([out.value for out in outputs], 1)

    def _normalise(self, experience: Experience) -> None:
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

    def _minibatches(self, experience: Experience, epoch: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Row indices, negatives and weights [S, B]; each seed shuffles by its own stream."""
        parts = self.config.ppo.minibatches
        rows: list[list[NDArray[Any]]] = []
        negatives: list[list[NDArray[Any]]] = []
        for seed, count in zip(self.config.seed_list, experience.count, strict=True):
            stream = generator(seed, "minibatches", self.round, epoch)
            rows.append(np.array_split(stream.permutation(count), parts))
            negatives.append([stream.integers(0, max(1, len(part)), len(part)) for part in rows[-1]])
        for part in range(parts):
            size = max(len(of_seed[part]) for of_seed in rows)
            index, negative = (
                np.stack([np.pad(of_seed[part], (0, size - len(of_seed[part]))) for of_seed in of_seeds])
                for of_seeds in (rows, negatives)
            )
            weight = np.stack([np.arange(size) < len(of_seed[part]) for of_seed in rows]).astype(np.float32)
            yield tuple(torch.from_numpy(array).to(self.device) for array in (index, negative, weight))  # type: ignore[misc]

    def state(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, as tensors."""
        adam = self.optimiser.state.get(self.stack.flat, {})
        tensors = {f"weights.{name}": weight.detach() for name, weight in self.stack.weights.items()}
        tensors |= {f"optimiser.{name}": torch.as_tensor(moment) for name, moment in adam.items()}
        if self.novelty is not None:
            tensors |= {f"novelty.{name}": tensor for name, tensor in self.novelty.state().items()}
        arrays = {f"observed.{name}": array for name, array in self.observed.state().items()}
        arrays |= {"round": np.array(self.round), "steps": self.steps}
        if self.config.budget.unit == "transitions":
            arrays |= {f"actors.{name}": array for name, array in self.actors.state().items()}
        return {
            name: tensor.cpu().contiguous()
            for name, tensor in (tensors | {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()}).items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a stored state."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups.setdefault(group, {})[rest] = tensor
        self.stack.load(groups["weights"])
        if "optimiser" in groups:
            self.optimiser.state[self.stack.flat] = {
                name: tensor.to(self.device) for name, tensor in groups["optimiser"].items()
            }
        self.observed.restore({name: tensor.numpy() for name, tensor in groups["observed"].items()})
        if self.novelty is not None:
            self.novelty.restore(groups["novelty"])
        if "actors" in groups:
            self.actors.restore({name: tensor.numpy() for name, tensor in groups["actors"].items()})
        self.round = int(tensors["round"])
        self.steps = tensors["steps"].numpy().copy()

    def members(self) -> list[Agent]:
        """The trained agents, one per seed."""
        agents = []
        for index, seed in enumerate(self.config.seed_list):
            agent = build(self.config.network, derive_seed(seed, "weights"))
            agent.load_state_dict(self.stack.member(index))
            agents.append(agent.eval())
        return agents


class Moments:
    """Running mean and variance of the observations of every seed."""

    def __init__(self, seeds: int, shape: tuple[int, ...]) -> None:
        self.count = np.zeros(seeds)
        self.mean = np.zeros((seeds, *shape))
        self.squares = np.zeros((seeds, *shape))

    def update(self, index: int, values: NDArray[Any]) -> None:
        """Add observations [N, ...] of one seed (Chan et al.'s parallel update)."""
        values = values.astype(np.float64)
        total = self.count[index] + len(values)
        difference = values.mean(0) - self.mean[index]
        self.squares[index] += (
            values.var(0) * len(values) + difference**2 * self.count[index] * len(values) / total
        )
        self.mean[index] += difference * len(values) / total
        self.count[index] = total

    def standardisation(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(mean, 1 / std), each [S, ...]; constant features are left unscaled."""
        count = np.maximum(self.count, 1.0).reshape(-1, *([1] * (self.mean.ndim - 1)))
        std = np.sqrt(self.squares / count)
        return self.mean.astype(np.float32), (1.0 / np.where(std < 1e-6, 1.0, std)).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """From arrays."""
        self.count, self.mean, self.squares = (state[name].copy() for name in ("count", "mean", "squares"))


def sampling_policy(stack: Stack, agent: Agent, device: torch.device) -> Policy:
    """Draw actions from the policy by inverting its distribution function at the given uniform numbers."""

    @torch.no_grad()
    def act(observations: NDArray[Any], uniform: NDArray[Any]) -> NDArray[Any]:
        logits = stack.apply(agent, torch.from_numpy(observations).to(device)).logits
        cumulated = logits.softmax(-1).cumsum(-1).cpu().numpy()[..., :-1]
        chosen: NDArray[Any] = (cumulated < uniform[..., None]).sum(-1)
        return chosen

    return act


def greedy_policy(stack: Stack, agent: Agent, device: torch.device) -> Policy:
    """Always the most probable action."""

    @torch.no_grad()
    def act(observations: NDArray[Any], uniform: NDArray[Any]) -> NDArray[Any]:
        chosen: NDArray[Any] = stack.apply(agent, torch.from_numpy(observations).to(device)).logits.argmax(-1).cpu().numpy()
        return chosen

    return act


def _at(values: Tensor, index: Tensor) -> Tensor:
    """values[s, index[s, n]] for values [S, M, ...] and index [S, N]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), index]


def _standardise(values: Tensor, weight: Tensor) -> Tensor:
    count = weight.sum(1, keepdim=True)
    mean = (values * weight).sum(1, keepdim=True) / count
    variance = ((values - mean).square() * weight).sum(1, keepdim=True) / count
    return (values - mean) / (variance.sqrt() + 1e-8)
