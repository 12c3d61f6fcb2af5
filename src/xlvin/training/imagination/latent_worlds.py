"""The latent models of all seeds: the agents' own encoder and T, with heads for what steps pay and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.networks import ModelBasedAgent
from xlvin.errors import XLVINError
from xlvin.latent.latent_world import LatentWorld, Paths, Stretches, unroll
from xlvin.latent.world import Imagined
from xlvin.randomness import seeded
from xlvin.storage import grouped
from xlvin.training.adam import Adam
from xlvin.training.config import ImaginationConfig
from xlvin.training.imagination.latent_learner import LatentLearner
from xlvin.training.imagination.models import WorldModels
from xlvin.training.imagination.worlds import FINAL_RATE, LANDMARKS, mean_and_scale, usual_distance
from xlvin.training.learner import Learner
from xlvin.training.recording import Recorder
from xlvin.training.replay import Replay, Seen
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.stack import Stack, clipped, gradients

BATCH = 64  # stretches in a minibatch
LENGTH = 5  # steps of a stretch
AGENT_RATE = 0.25  # of the heads' learning rate, for encoder and T; at twice that, more fits did harm
AGENT_NORM = 0.5  # the largest gradient norm of encoder and T, as in PPO


class LatentWorlds(WorldModels):
    """One model per seed, stacked; states are embeddings."""

    def __init__(self, config: ImaginationConfig, seeds: Sequence[int], learner: Learner) -> None:
        agent = learner.agent
        if not isinstance(agent, ModelBasedAgent) or agent.transition.samples > 1:
            raise XLVINError(
                "Imagination in latent space needs an agent whose transition model knows one successor; "
                'choose xlvin-latent-imagine, or the model "observation".'
            )
        self.config, self.seeds, self.agents = config, tuple(seeds), learner.stack
        shape, members = agent.config, []
        for seed in self.seeds:
            with seeded(derive_seed(seed, "world model")):
                members.append(LatentWorld(shape.observation[0], shape.latent, shape.actions, config.hidden))
        self.heads, self.model = Stack(members, learner.stack.flat.device), members[0]
        # Adam leaves weights alone that no gradient has ever reached: those of the policy and the value.
        self.agent_optimiser = Adam(self.agents.flat, 1e-8)
        self.head_optimiser = Adam(self.heads.flat, 1e-8)
        still = {id(agent.transition.output.weight), id(agent.transition.output.bias)}
        self._last_of_t = [name for name, weight in agent.named_parameters() if id(weight) in still]
        self._recorded_gradient = Recorder(self._gradient)

    def learner(self, learner: Learner) -> LatentLearner:
        """The same agents, who learn from embeddings."""
        return LatentLearner(learner)

    @torch.no_grad()
    def place(self, observation: Tensor) -> Tensor:
        """States of the model for observations [S, ..., o]: their embeddings [S, ..., k]."""
        return cast(Tensor, self.agents.call(lambda agent, seen: agent.embed(seen), observation))

    def imagine(self, embedding: Tensor, action: Tensor, uniform: Tensor) -> Imagined:
        """What comes of actions [S, B] in states [S, B, k]; `uniform` [S, B, 2] decides what is drawn."""
        successor = self.agents.call(move, embedding, action)
        return Imagined(*self.heads.apply(self.model, embedding, action, successor, uniform[..., 1]))

    def distance(
        self, state: Tensor, action: Tensor, successor: Tensor, landmarks: Tensor, unit: Tensor
    ) -> Tensor:
        """How far successors [S, B, k] are from the nearest landmark, in units [S, 1]; [S, B]."""
        return torch.cdist(successor, landmarks).amin(-1) / unit

    def landmarks(self, replay: Replay, round_: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Some seen states [S, M, k], and the mean distance of other seen ones to them [S, 1]."""
        drawn = []
        for seed, seen in zip(self.seeds, replay.seeds, strict=True):
            rows = generator(seed, "landmarks", round_, iteration).integers(0, len(seen), 2 * LANDMARKS)
            drawn.append(seen.next_observation[torch.from_numpy(rows).to(seen.action.device)])
        known, others = torch.split(self.place(torch.stack(drawn)), LANDMARKS, 1)
        units = [usual_distance(other, landmark) for other, landmark in zip(others, known, strict=True)]
        return known.contiguous(), torch.stack(units).unsqueeze(1)

    def fit(self, replay: Replay, round_: int, last: bool = False) -> NDArray[np.float32]:
        """Learn from minibatches of stretches; returns the mean loss [S]."""
        config, device = self.config, self.agents.flat.device
        for index, seen in enumerate(replay.seeds):
            self._scale(index, seen)
        if round_ == 0:
            self._start_still()
        steps = config.first_model_steps if round_ == 0 else config.model_steps
        uniform = np.stack(
            [generator(seed, "model", round_).random((steps, BATCH), np.float32) for seed in self.seeds], 1
        )
        counts = torch.tensor([len(seen) for seen in replay.seeds], device=device).view(-1, 1)
        rows = (torch.from_numpy(uniform).to(device) * counts).long()  # [steps, S, BATCH]
        rest = [remaining(seen) for seen in replay.seeds]
        total = torch.zeros(len(self.seeds), device=device)
        for step in range(steps):
            data = (stretches(*each) for each in zip(replay.seeds, rest, rows[step], strict=True))
            together = Stretches(*(torch.stack(column) for column in zip(*data, strict=True)))
            of_agents, of_heads, loss = self._recorded_gradient(together)
            rate = config.model_rate * (1.0 - (1.0 - FINAL_RATE) * step / steps)
            self.heads.flat.mul_(1.0 - rate * config.weight_decay)
            self.head_optimiser.step(of_heads, rate)
            self.agent_optimiser.step(of_agents, AGENT_RATE * rate)
            total += loss
        mean: NDArray[np.float32] = (total / max(1, steps)).cpu().numpy()
        return mean

    def _gradient(self, data: Stretches) -> tuple[Tensor, Tensor, Tensor]:
        followed = self.agents.call(paths, data)
        losses = self.heads.call(lambda model, *both: model.losses(*both), followed, data)
        of_agents, of_heads = gradients(losses.sum(), (self.agents, self.heads))
        return clipped(of_agents, AGENT_NORM), of_heads, losses.detach().sum(1)

    def _scale(self, index: int, seen: Seen) -> None:
        """Set a seed's units by its data."""
        frozen, states = self.heads.frozen, seen.observation
        frozen["mean"][index], frozen["scale"][index] = mean_and_scale(states)
        frozen["delta_scale"][index] = mean_and_scale(seen.next_observation - states)[1]
        frozen["reward_mean"][index], frozen["reward_scale"][index] = mean_and_scale(seen.reward)

    @torch.no_grad()
    def _start_still(self) -> None:
        """Let T move nothing at first: its random moves are larger than those of most worlds, and add up."""
        for name in self._last_of_t:
            self.agents.trainable[name].zero_()

    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint; encoder and T are stored with the agents."""
        tensors = {f"weights.{name}": weight.detach() for name, weight in self.heads.weights.items()}
        tensors |= {f"agents.{name}": tensor for name, tensor in self.agent_optimiser.state().items()}
        return tensors | {f"heads.{name}": tensor for name, tensor in self.head_optimiser.state().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        groups = grouped(state)
        self.heads.load(groups["weights"])
        self.agent_optimiser.restore(groups["agents"])
        self.head_optimiser.restore(groups["heads"])


def remaining(seen: Seen) -> Tensor:
    """How many steps of its segment are left at every transition, itself included; [N]."""
    number = torch.arange(len(seen), device=seen.action.device)
    ends = torch.cat((number[seen.first], number.new_tensor([len(seen)])))
    return ends[torch.searchsorted(ends, number, right=True)] - number


def stretches(seen: Seen, rest: Tensor, rows: Tensor) -> Stretches:
    """The stretches that begin at transitions `rows` [N], of which `rest` [all] steps are left."""
    ahead = torch.arange(LENGTH, device=rows.device)
    steps = (rows.unsqueeze(1) + ahead).clamp(max=len(seen) - 1)
    return Stretches(
        seen.observation[rows],
        seen.action[steps],
        seen.reward[steps],
        seen.next_observation[steps],
        seen.terminated[steps],
        (ahead < rest[rows].unsqueeze(1)).float(),
    )


def move(agent: ModelBasedAgent, embedding: Tensor, action: Tensor) -> Tensor:
    """Where actions [B] lead from states [B, k], by T."""
    return embedding + agent.transition.translation(embedding, action)


def paths(agent: ModelBasedAgent, data: Stretches) -> Paths:
    """What the agent sees and imagines along stretches."""
    start = agent.embed(data.observation)
    imagined = unroll(agent.transition, start, data.action)
    return Paths(start, imagined, agent.embed(data.next_observation))
