"""Agents that learn in the space of their embeddings, where encoder and transition model are given."""

from __future__ import annotations

import torch
from torch import Tensor

from xlvin.agents.base import Agent, Batch, Output
from xlvin.agents.networks import ModelBasedAgent
from xlvin.training.learner import Learner
from xlvin.training.objective import Objective


class LatentObjective(Objective):
    """PPO's terms for samples whose observations are embeddings; the model has losses of its own."""

    def speak(self, observation: Tensor) -> Output:
        """What the agent says about embeddings [N, k]."""
        return self.agent.decide(observation)

    def ground(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """Nothing: what T itself has imagined cannot teach it."""
        return {}


class LatentLearner(Learner):
    """The agents of another learner, who learn from embeddings what to do and how good they are.

    Encoder and T stay as they are: imagined steps must not bend the model that imagined them. Imagined
    steps have an optimiser of their own: the momentum of the one for real data would keep moving them.
    """

    def __init__(self, learner: Learner) -> None:
        agent, config = learner.agent, learner.config
        super().__init__(learner.stack, agent, config, LatentObjective(agent, config))
        self._learned = _beside_the_model(self.agent).to(self.stack.flat.device)  # [P], one or zero

    @torch.no_grad()
    def speak(self, observations: Tensor) -> Output:
        """What the agents say about embeddings [S, M, k]."""
        output: Output = self.stack.call(lambda agent, embedding: agent.decide(embedding), observations)
        return output

    def _slope(self, loss: Tensor) -> Tensor:
        return super()._slope(loss) * self._learned


def _beside_the_model(agent: Agent) -> Tensor:
    """One for every trainable number that is in neither encoder nor T, zero for others; [P]."""
    model = {id(weight) for weight in agent.encoder.parameters()}
    if isinstance(agent, ModelBasedAgent):
        model |= {id(weight) for weight in agent.transition.parameters()}
    trainable = [weight for weight in agent.parameters() if weight.requires_grad]
    return torch.cat([torch.full((weight.numel(),), float(id(weight) not in model)) for weight in trainable])
