"""One seed that plays from frames: acts, remembers the round, learns from it; all on its device.

The host hands over the newest frames and is told the actions; everything else stays where it is. Acting is
one launch and a minibatch is one launch where there is a GPU (`xlvin.training.graphs`); a CPU runs the same
code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.envs.atari import SIZE
from xlvin.latent.encoders import ImageEncoder
from xlvin.randomness import draw
from xlvin.training.config import PPOConfig
from xlvin.training.frames.frames import Frames
from xlvin.training.graphs import Graph, on, stream_of
from xlvin.training.learner import Learner
from xlvin.training.minibatches import Minibatch, shuffle
from xlvin.training.objective import Targets
from xlvin.training.returns import advantages, standardise
from xlvin.training.stack import Stack

PIXELS = SIZE * SIZE


class Outcome(NamedTuple):
    """What became of a round's actions; each [T, E]."""

    reward: Tensor  # as scaled for learning
    terminated: Tensor  # bool: no value beyond this step
    ended: Tensor  # bool: the next row belongs to another episode
    weight: Tensor  # one, or zero where the action was not the agent's


class FrameLearner:
    """An agent with the memory of one round: T steps of E games."""

    def __init__(
        self, agent: Agent, ppo: PPOConfig, seed: int, steps: int, games: int, device: torch.device
    ) -> None:
        self.ppo, self.seed, self.steps, self.games, self.device = ppo, seed, steps, games, device
        if isinstance(agent.encoder, ImageEncoder):
            agent.encoder.mixed = mixes_precision(device)
        self.learner = Learner(Stack([agent], device), agent, ppo)
        self.agent = self.learner.agent
        self.frames = Frames(steps, games, device)
        self.stream = stream_of(device)
        self._reserve()
        self._act_once = Graph(self._act, self.stream, [self._step])
        weights, adam = self.learner.stack.flat, self.learner.optimiser
        self._learn_once = Graph(self._learn, self.stream, [self._part, weights, adam.first, adam.second])

    def _reserve(self) -> None:
        """All tensors that the two graphs read and write."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        steps, games, long = self.steps, self.games, torch.int64
        pinned = self.device.type == "cuda"
        self._inbox = torch.zeros(games, PIXELS + 1, dtype=torch.uint8, pin_memory=pinned)  # frames and ages
        self._outbox = torch.zeros(games, dtype=long, pin_memory=pinned)  # actions
        self._arrived = zeros(games, PIXELS + 1, dtype=torch.uint8)
        self._step = zeros(1, dtype=long)
        self._choice = zeros(games, dtype=long)
        self._uniform, self._log_prob, self._value = (zeros(steps + 1, games) for _ in range(3))
        self._action = zeros(steps + 1, games, dtype=long)
        # One row per transition and one per minibatch.
        self._numbers = zeros(steps * games, 6)  # reward, the targets, weight
        parts = self.ppo.epochs * self.ppo.minibatches
        size = -(-steps * games // self.ppo.minibatches)
        self._rows, self._negative = zeros(parts, size, dtype=long), zeros(parts, size, dtype=long)
        self._present, self._scales = zeros(parts, size), zeros(parts, 2)
        self._part = zeros(1, dtype=long)
        self._totals = zeros(1)

    def begin(self, uniform: NDArray[np.float32]) -> None:
        """Start a round; actions will be drawn with these numbers, [T + 1, E]."""
        with on(self.stream):
            self.frames.carry_over()
            self._step.zero_()
            self._uniform.copy_(torch.from_numpy(uniform))

    def look(self, frames: NDArray[np.uint8], age: NDArray[np.uint8]) -> None:
        """See the newest frames [E, 84, 84] with their ages [E], and begin to choose actions."""
        inbox = self._inbox.numpy()
        inbox[:, :PIXELS] = frames.reshape(self.games, -1)
        inbox[:, PIXELS] = age
        with on(self.stream):
            self._arrived.copy_(self._inbox, non_blocking=True)
            self._act_once()
            self._outbox.copy_(self._choice, non_blocking=True)

    def chosen(self) -> NDArray[np.int64]:
        """The actions [E], once they are there."""
        self.wait()
        return self._outbox.numpy()

    def wait(self) -> None:
        """Until the device has done all that it was told."""
        if self.stream is not None:
            self.stream.synchronize()

    def _act(self) -> None:
        pixels, age = self._arrived[:, :PIXELS].view(-1, SIZE, SIZE), self._arrived[:, PIXELS]
        self.frames.write(self._step, pixels, age)
        rows = self._step * self.games + torch.arange(self.games, device=self.device)
        with torch.no_grad():
            output = self.agent(self.frames.stacks(rows))
        log_probs = output.logits.log_softmax(-1)
        action = draw(log_probs.exp(), self._uniform.index_select(0, self._step).T)
        log_prob = log_probs.gather(-1, action.unsqueeze(-1)).T
        self._choice.copy_(action)
        self._action.index_copy_(0, self._step, action.unsqueeze(0))
        self._log_prob.index_copy_(0, self._step, log_prob)
        self._value.index_copy_(0, self._step, output.value.unsqueeze(0))
        self._step += 1

    def learn(self, outcome: Outcome, round_: int, rate: float) -> Tensor:
        """All epochs on the round, at a learning rate.

        Returns the mean loss and its terms [1 + terms] on the device; on a GPU they are still being computed.
        """
        with on(self.stream):
            self._set_targets(Outcome(*(column.to(self.device) for column in outcome)))
            self._set_order(round_, rate)
            self._part.zero_()
            self._totals.zero_()
            for _ in range(len(self._rows)):
                self._learn_once()
            return self._totals / len(self._rows)

    def _set_targets(self, outcome: Outcome) -> None:
        """Advantages and returns of the round, under the critic's values while acting."""
        value, ppo = self._value[:-1], self.ppo
        reward, terminated, ended, weight = outcome
        # Time last; a step that is not the agent's ends what came before it and passes nothing on.
        advantage = advantages(
            reward.T, value.T, self._value[1:].T, terminated.T, ended.T, ppo.discount, ppo.gae_lambda
        ).T
        standard = standardise(advantage.flatten(), weight.flatten()).view_as(advantage)
        targets = Targets(self._log_prob[:-1], value, standard, advantage + value)
        self._numbers.copy_(torch.stack((reward, *targets, weight), -1).flatten(0, 1))

    def _set_order(self, round_: int, rate: float) -> None:
        """Which rows every minibatch takes, and Adam's numbers for its step."""
        count, parts = self.steps * self.games, self.ppo.minibatches
        epochs = [shuffle([self.seed], [count], parts, round_, epoch) for epoch in range(self.ppo.epochs)]
        for buffer, arrays in zip(
            (self._rows, self._negative, self._present), zip(*epochs, strict=True), strict=True
        ):
            buffer.copy_(torch.from_numpy(np.concatenate(arrays, 1)[0]))
        scales = [self.learner.optimiser.scales(rate) for _ in range(len(self._rows))]
        self._scales.copy_(torch.tensor(scales))

    def _learn(self) -> None:
        """One step on the next minibatch."""
        gradient, terms = self.learner.gradient(self._minibatch())
        self.learner.optimiser.descend(gradient, self._scales.index_select(0, self._part)[0])
        if self._totals.shape != terms[0].shape:  # how many terms there are is known now
            self._totals = torch.zeros_like(terms[0])
        self._totals += terms[0]
        self._part += 1

    def _minibatch(self) -> Minibatch:
        rows, negative, present = (
            column.index_select(0, self._part)[0] for column in (self._rows, self._negative, self._present)
        )
        numbers = self._numbers.index_select(0, rows)
        numbers = torch.cat((numbers[:, :-1], (numbers[:, -1] * present).unsqueeze(1)), 1)
        integers = torch.stack((self._action.flatten().index_select(0, rows), negative), -1)
        # The successor is the same game's next observation, which is the true one also at an episode's end.
        now, then = self.frames.stacks(rows), self.frames.stacks(rows + self.games)
        return Minibatch(*(column.unsqueeze(0) for column in (now, then, integers, numbers)))


def mixes_precision(device: torch.device) -> bool:
    """Whether the encoder computes in bfloat16: on a CPU that can; a GPU is fast enough with TF32."""
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())
