"""The agents of the paper: XLVIN, its model-free twin PPO, and ATreeC with a scalar tree."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, AgentConfig, Batch, Output, initialise
from xlvin.agents.imagination import ImaginedLevel, ImaginedTree
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor
from xlvin.executor.network import Executor, ExecutorConfig, Processor
from xlvin.latent.losses import transe_loss
from xlvin.latent.transition import TransitionModel
from xlvin.planner.backup import ScalarTree
from xlvin.planner.planner import Plan, PlanLevel, Planner
from xlvin.planner.tree import grow

UNTRAINED = "untrained"
# Nodes that `plan` plans from at a time; a tree hangs on each of them.
CHUNK = 256


class PPOAgent(Agent):
    """Encoder and linear heads: XLVIN without transition and executor (section 4.2)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self.actor = nn.Linear(config.latent, config.actions)
        self.critic = nn.Linear(config.latent, 1)
        initialise(self, [self.actor], self.critic)

    def decide(self, embedding: Tensor) -> Output:
        """Heads on h."""
        return Output(self.actor(embedding), self.critic(embedding).squeeze(-1), embedding)


class ModelBasedAgent(Agent):
    """An agent whose planner has a latent transition model, trained by TransE."""

    @property
    @abstractmethod
    def transition(self) -> TransitionModel:
        """T."""

    @abstractmethod
    def imagine(self, embedding: Tensor) -> Plan:
        """The tree around states [B, k] with what the planner makes of it."""

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE (equation 4) on (s, a, s') with negatives from the same rollouts."""
        predicted = output.embedding + self.transition.translation(output.embedding, batch.action)
        successor = self.embed(batch.next_observation)
        return {"transe": transe_loss(predicted, successor, output.embedding[batch.negative])}

    @torch.inference_mode()
    def plan(self, observation: Any) -> ImaginedTree:
        """The tree that the agent imagines around one observation, with what it thinks of every node.

        A node's value and policy are the agent's own when it plans from there, K steps on.
        """
        batch, single = self._read(observation)
        if not single:
            raise XLVINError("A plan starts at one observation; give them one at a time.")
        root = self.embed(torch.from_numpy(batch).to(next(self.parameters()).device))
        levels = []
        for level in self.imagine(root).levels:
            outputs = [self.decide(nodes) for nodes in torch.split(level.embedding[0], CHUNK)]
            value = torch.cat([output.value for output in outputs])
            policy = torch.cat([output.logits.softmax(-1) for output in outputs])
            arrays = (level.embedding[0], level.executed[0], value, policy, level.parent[0], level.action[0])
            levels.append(ImaginedLevel(*(array.cpu().numpy().copy() for array in arrays)))
        return ImaginedTree(tuple(levels))


class XLVINAgent(ModelBasedAgent):
    """Expand a latent tree, execute value iteration over it, read policy and value from (h, chi).

    The processor is the one that `config.executor` names, unless another is given.
    """

    def __init__(self, config: AgentConfig, processor: Processor | None = None) -> None:
        super().__init__(config)
        if processor is None:
            executor = Executor() if config.executor == UNTRAINED else load_executor(config.executor)
            processor = executor.processor
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
        initialise(self, [self.actor], self.critic)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the planner."""
        return self.planner.transition

    @property
    def executor(self) -> ExecutorConfig:
        """The shape of the frozen executor."""
        return self.planner.processor.config

    def decide(self, embedding: Tensor) -> Output:
        """Heads on concat(h, chi)."""
        features = torch.cat((embedding, self.planner(embedding)), -1)
        return Output(self.actor(features), self.critic(features).squeeze(-1), embedding)

    def imagine(self, embedding: Tensor) -> Plan:
        """The tree with chi of every node after all K steps."""
        return self.planner.tree(embedding)

    def _prior(self, embedding: Tensor) -> Tensor:
        """The actor before any planning (chi of an empty tree): the rollout policy of sparse expansion."""
        return cast(Tensor, self.actor(torch.cat((embedding, self.planner.project(embedding)), -1)))


class ATreeCAgent(ModelBasedAgent):
    """The same tree with scalars on it: policy logits are backed-up action values (Farquhar et al. 2018)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        transition = TransitionModel(config.latent, config.actions, config.hidden)
        self.tree = ScalarTree(transition, config.depth, config.discount)
        self.critic = nn.Linear(config.latent, 1)
        initialise(self, [self.tree.reward[-1], self.tree.value], self.critic)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the tree."""
        return self.tree.transition

    def decide(self, embedding: Tensor) -> Output:
        """Logits are the root's backed-up Q; the critic reads the encoder."""
        backup = self.tree(embedding)
        return Output(backup.value, self.critic(embedding).squeeze(-1), embedding)

    def imagine(self, embedding: Tensor) -> Plan:
        """The tree with Q of every node, backed up from a tree of its own."""
        levels, batch, actions = [], len(embedding), self.config.actions
        for depth, nodes in enumerate(grow(self.transition, embedding, self.tree.depth)):
            q = torch.cat([self.tree(part).value for part in torch.split(nodes.flatten(0, 1), CHUNK)])
            number = torch.arange(len(nodes), device=nodes.device).expand(batch, -1)
            parent, action = (number // actions, number % actions) if depth else (number - 1, number - 1)
            executed = q.view(len(nodes), batch, actions).transpose(0, 1)
            levels.append(PlanLevel(nodes.transpose(0, 1), executed, parent, action))
        return Plan(tuple(levels))

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE, and the reward model grounded in observed rewards."""
        predicted = self.tree.reward(output.embedding).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        grounding = 0.5 * (predicted - batch.reward).square()
        return {**super().auxiliary_losses(output, batch), "reward": grounding}
