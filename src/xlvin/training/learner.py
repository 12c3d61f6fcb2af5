"""The agents of all seeds as one thing that speaks and learns: weights, loss, optimiser."""

from __future__ import annotations

import torch
from torch import Tensor

from xlvin.agents.base import Agent, Output
from xlvin.training.adam import Adam
from xlvin.training.config import PPOConfig
from xlvin.training.minibatches import Minibatch
from xlvin.training.objective import Objective
from xlvin.training.recording import Recorder
from xlvin.training.stack import Stack, clipped

# Observations evaluated in one call; bounds memory when a tree hangs on each of them.
CHUNK = 4096


class Learner:
    """Stacked agents, and how a minibatch changes them."""

    def __init__(
        self, stack: Stack, agent: Agent, config: PPOConfig, objective: Objective | None = None
    ) -> None:
        self.stack, self.agent, self.config = stack, agent, config
        self.objective = objective or Objective(agent, config)
        self.optimiser = Adam(self.stack.flat, config.adam_epsilon)
        self._recorded_outputs = Recorder(self.speak)
        self._recorded_gradient = Recorder(self.gradient)

    def evaluate(self, observations: Tensor) -> Output:
        """What the agents say about any number of observations [S, M, ...]; valid until the next call."""
        if observations.shape[1] <= CHUNK:
            return Output(*self._recorded_outputs(observations))
        outputs = [self.speak(chunk) for chunk in torch.split(observations, CHUNK, 1)]
        return Output(*(torch.cat(parts, 1) for parts in zip(*outputs, strict=True)))

    def learn(self, minibatch: Minibatch, learning_rate: float) -> Tensor:
        """One step down the objective; returns the loss and its terms, [S, 1 + terms]."""
        terms: Tensor
        gradient, terms = self._recorded_gradient(minibatch)
        self.optimiser.step(gradient, learning_rate)
        return terms

    def gradient(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """The gradient [S, P], clipped for each seed, and the loss with its terms [S, 1 + terms]."""
        loss, terms = self.stack.apply(self.objective, minibatch.sample(), prefix="agent.")
        gradient = clipped(self._slope(loss.sum(0)), self.config.max_grad_norm)
        return gradient, torch.cat((loss.detach().unsqueeze(1), terms), 1)

    def _slope(self, loss: Tensor) -> Tensor:
        """The gradient [S, P] before it is clipped."""
        return self.stack.gradient(loss)

    @torch.no_grad()
    def speak(self, observations: Tensor) -> Output:
        """What the agents say about observations [S, M, ...]."""
        output: Output = self.stack.apply(self.agent, observations)
        return output
