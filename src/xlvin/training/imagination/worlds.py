"""The world models of all seeds: how they are fitted to what was seen, and asked what comes next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.latent.world import Imagined, Transitions, WorldModel
from xlvin.randomness import seeded
from xlvin.storage import grouped
from xlvin.training.adam import Adam
from xlvin.training.config import ImaginationConfig
from xlvin.training.imagination.models import WorldModels
from xlvin.training.recording import Recorder
from xlvin.training.replay import Replay, Seen
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.stack import Stack

BATCH = 64  # transitions in a member's minibatch
RIDGE = 1e-4  # of the least-squares start
FINAL_RATE = 0.1  # of the learning rate, at the end of every fit
LANDMARKS = 256  # seen states against which an imagined one is held


class Worlds(WorldModels):
    """One ensemble per seed, stacked; states are observations."""

    def __init__(
        self,
        config: ImaginationConfig,
        seeds: Sequence[int],
        features: int,
        actions: int,
        discrete: bool,
        device: torch.device,
        coordinates: Tensor | None = None,
    ) -> None:
        self.config, self.seeds = config, tuple(seeds)
        members = []
        for seed in self.seeds:
            with seeded(derive_seed(seed, "world model")):
                members.append(
                    WorldModel(features, actions, config.members, config.hidden, discrete, coordinates)
                )
        self.stack, self.model = Stack(members, device), members[0]
        self.optimiser = Adam(self.stack.flat, 1e-8)
        self._recorded_gradient = Recorder(self._gradient)

    def imagine(self, observation: Tensor, action: Tensor, uniform: Tensor) -> Imagined:
        """What comes of actions [S, B] in states [S, B, o]; a branch stays with one member.

        `uniform` [S, B, 2] decides what is drawn.
        """

        def by_member(values: Tensor) -> Tensor:
            return values.view(len(self.seeds), self.config.members, -1, *values.shape[2:])

        imagined = self.stack.apply(self.model, by_member(observation), by_member(action), by_member(uniform))
        return Imagined(*(part.flatten(1, 2) for part in imagined))

    def standardise(self, index: int, observation: Tensor) -> Tensor:
        """A seed's observations [..., o] to measure distances by: features with two values do not count."""
        frozen = self.stack.frozen
        standard = (observation - frozen["mean"][index]) / frozen["scale"][index]
        return standard * ~frozen["binary"][index]

    def distance(
        self, state: Tensor, action: Tensor, successor: Tensor, landmarks: Tensor, unit: Tensor
    ) -> Tensor:
        """How far successors [S, B, o] are from the nearest landmark, in units [S, 1]; [S, B]."""
        frozen = self.stack.frozen
        mean, scale, binary = (frozen[name].unsqueeze(1) for name in ("mean", "scale", "binary"))
        return torch.cdist((successor - mean) / scale * ~binary, landmarks).amin(-1) / unit

    def landmarks(self, replay: Replay, round_: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Some seen states [S, M, o], and the mean distance of other seen ones to them [S, 1]."""
        chosen, units = [], []
        for index, (seed, seen) in enumerate(zip(self.seeds, replay.seeds, strict=True)):
            stream = generator(seed, "landmarks", round_, iteration)
            rows = torch.from_numpy(stream.integers(0, len(seen), (2, LANDMARKS))).to(seen.action.device)
            known, others = self.standardise(index, seen.next_observation[rows])
            chosen.append(known)
            units.append(usual_distance(others, known))
        return torch.stack(chosen), torch.stack(units).unsqueeze(1)

    def fit(self, replay: Replay, round_: int, last: bool = False) -> NDArray[np.float32]:
        """Let every member learn from minibatches of its own; returns the mean loss [S]."""
        config, device = self.config, self.stack.flat.device
        for index, seen in enumerate(replay.seeds):
            self._scale(index, seen)
            if round_ == 0 and not self.model.discrete:
                self._start_linear(index, seen)
        steps = config.first_model_steps if round_ == 0 else config.model_steps
        shape = (steps, config.members, BATCH)
        uniform = np.stack(
            [generator(seed, "model", round_).random(shape, np.float32) for seed in self.seeds], 1
        )
        counts = torch.tensor([len(seen) for seen in replay.seeds], device=device).view(-1, 1, 1)
        rows = (torch.from_numpy(uniform).to(device) * counts).long()  # [steps, S, E, BATCH]
        total = torch.zeros(len(self.seeds), device=device)
        for step in range(steps):
            gradient, loss = self._recorded_gradient(_pick(replay, rows[step]))
            rate = config.model_rate * (1.0 - (1.0 - FINAL_RATE) * step / steps)
            self.stack.flat.mul_(1.0 - rate * config.weight_decay)
            self.optimiser.step(gradient, rate)
            total += loss
        mean: NDArray[np.float32] = (total / max(1, steps)).cpu().numpy()
        return mean

    def _gradient(self, data: Transitions) -> tuple[Tensor, Tensor]:
        losses = self.stack.call(lambda model, seen: model.losses(seen), data)
        return self.stack.gradient(losses.sum()), losses.detach().sum(1) / self.config.members

    def _scale(self, index: int, seen: Seen) -> None:
        """Set a seed's units by its data."""
        frozen, states = self.stack.frozen, seen.observation
        columns = {"": states, "delta_": seen.next_observation - states, "reward_": seen.reward}
        for name, values in columns.items():
            frozen[f"{name}mean"][index], frozen[f"{name}scale"][index] = mean_and_scale(values)
        every = torch.cat((states, seen.next_observation))  # some features change only when an episode ends
        low, high = every.amin(0), every.amax(0)
        frozen["low"][index], frozen["high"][index] = low, high
        frozen["binary"][index] = ((every == low) | (every == high)).all(0)

    @torch.no_grad()
    def _start_linear(self, index: int, seen: Seen) -> None:
        """Set the linear path of a seed's dynamics to the least-squares solution."""
        units = {name: tensor[index] for name, tensor in self.stack.frozen.items()}
        delta = (seen.next_observation - seen.observation - units["delta_mean"]) / units["delta_scale"]
        standard = (seen.observation - units["mean"]) / units["scale"]
        inputs = torch.cat((standard, self.model.read(seen.action)), -1)
        ridge = RIDGE * len(inputs) * torch.eye(inputs.shape[1], device=inputs.device)
        solution = torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ (delta * ~units["binary"]))
        self.stack.trainable["dynamics.skip.weight"][index] = solution
        self.stack.trainable["dynamics.skip.bias"][index] = 0.0

    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint."""
        tensors = {f"weights.{name}": weight.detach() for name, weight in self.stack.weights.items()}
        return tensors | {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        groups = grouped(state)
        self.stack.load(groups["weights"])
        self.optimiser.restore(groups["optimiser"])


def mean_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and mean absolute deviation of values [N, ...], the latter one where it is zero."""
    mean = values.mean(0)
    deviation = (values - mean).abs().mean(0)
    return mean, torch.where(deviation < 1e-6, 1.0, deviation)


def usual_distance(others: Tensor, known: Tensor) -> Tensor:
    """The mean distance of states [N, o] to the nearest of the known ones [M, o], []."""
    distances = torch.cdist(others, known)
    nearest = torch.where(distances < 1e-6, torch.inf, distances).amin(1)  # not to themselves
    return nearest[nearest.isfinite()].mean().clamp(min=1e-6).nan_to_num(1.0)


def _pick(replay: Replay, rows: Tensor) -> Transitions:
    """Seen transitions by their number, [S, E, N]."""
    columns = (
        [getattr(seen, name)[chosen] for name in Transitions._fields]
        for seen, chosen in zip(replay.seeds, rows, strict=True)
    )
    return Transitions(*(torch.stack(column) for column in zip(*columns, strict=True)))
