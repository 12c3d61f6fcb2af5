"""The agents of the paper: XLVIN, its model-free twin PPO, and ATreeC with a scalar tree."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, AgentConfig, Batch, Output, initialise
from xlvin.executor.artefact import load_executor
from xlvin.executor.network import Executor
from xlvin.latent.losses import transe_loss
from xlvin.latent.transition import TransitionModel
from xlvin.planner.backup import ScalarTree
from xlvin.planner.planner import Planner

UNTRAINED = "untrained"


class PPOAgent(Agent):
    """Encoder and linear heads: XLVIN without transition and executor (section 4.2)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self.actor = nn.Linear(config.latent, config.actions)
        self.critic = nn.Linear(config.latent, 1)
        initialise(self, self.actor, self.critic)

    def decide(self, embedding: Tensor) -> Output:
        """Heads on h."""
        return Output(self.actor(embedding), self.critic(embedding).squeeze(-1), embedding)


class ModelBasedAgent(Agent):
    """An agent whose planner has a latent transition model, trained by TransE."""

    @property
    @abstractmethod
    def transition(self) -> TransitionModel:
        """T."""

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE (equation 4) on (s, a, s') with negatives from the same rollouts."""
        predicted = output.embedding + self.transition.translation(output.embedding, batch.action)
        successor = self.embed(batch.next_observation)
        return {"transe": transe_loss(predicted, successor, output.embedding[batch.negative])}


class XLVINAgent(ModelBasedAgent):
    """Expand a latent tree, execute value iteration over it, read policy and value from (h, chi)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        executor = Executor() if config.executor == UNTRAINED else load_executor(config.executor)
        processor = executor.processor.requires_grad_(False)
        self.planner = Planner(
            processor,
            TransitionModel(config.latent, config.actions, config.hidden),
            config.depth,
            config.discount,
            config.wiring,
            config.beam,
            None if config.beam is None else self._prior,
        )
        width = config.latent + processor.config.width
        self.actor = nn.Linear(width, config.actions)
        self.critic = nn.Linear(width, 1)
        initialise(self, self.actor, self.critic)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the planner."""
        return self.planner.transition

    def decide(self, embedding: Tensor) -> Output:
        """Heads on concat(h, chi)."""
        features = torch.cat((embedding, self.planner(embedding)), -1)
        return Output(self.actor(features), self.critic(features).squeeze(-1), embedding)

    def _prior(self, embedding: Tensor) -> Tensor:
        """The actor before any planning (chi of an empty tree): the rollout policy of sparse expansion."""
        return self.actor(torch.cat((embedding, self.planner.project(embedding)), -1))


class ATreeCAgent(ModelBasedAgent):
    """The same tree with scalars on it: policy logits are backed-up action values (Farquhar et al. 2018)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        transition = TransitionModel(config.latent, config.actions, config.hidden)
        self.tree = ScalarTree(transition, config.depth, config.discount)
        self.critic = nn.Linear(config.latent, 1)
        initialise(self, None, self.critic)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the tree."""
        return self.tree.transition

    def decide(self, embedding: Tensor) -> Output:
        """Logits are the root's backed-up Q; the critic reads the encoder."""
        backup = self.tree(embedding)
        return Output(backup.value, self.critic(embedding).squeeze(-1), embedding)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE, and the reward model grounded in observed rewards."""
        predicted = self.tree.reward(output.embedding).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        grounding = 0.5 * (predicted - batch.reward).square()
        return {**super().auxiliary_losses(output, batch), "reward": grounding}
