"""The agents of the paper, XLVIN, PPO and ATreeC, and the aligned XLVIN that plans on grounded values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, AgentConfig, Batch, Output, Trail, conclude, initialise, make_critic
from xlvin.agents.distributions import make_actor
from xlvin.agents.tree import ImaginedLevel, ImaginedTree
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor, load_provenance
from xlvin.executor.network import Executor, ExecutorConfig, Processor
from xlvin.executor.pretrain import PretrainConfig
from xlvin.latent.losses import transe_loss
from xlvin.latent.stochastic import StochasticTransitionModel, mixture_loss
from xlvin.latent.transition import TransitionModel
from xlvin.planner.aligned import AlignedPlanner
from xlvin.planner.aligned_beam import SparseAlignedPlanner
from xlvin.planner.backup import ScalarTree
from xlvin.planner.planner import Plan, PlanLevel, Planner
from xlvin.planner.prediction import PredictionTree
from xlvin.planner.tree import check_size, grow

UNTRAINED = "untrained"
# Nodes that `plan` plans from at a time; a tree hangs on each of them.
CHUNK = 256


class PPOAgent(Agent):
    """Encoder and linear heads: XLVIN without transition and executor (section 4.2)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self.actor = make_actor(config.latent, config.actions, config.bins)
        self.critic = make_critic(config, config.latent)
        initialise(self, [self.actor], self.critic)

    def decide(self, embedding: Tensor) -> Output:
        """Heads on h."""
        return conclude(self.actor(embedding), self.critic, embedding, embedding)


class ModelBasedAgent(Agent):
    """An agent whose planner has a latent transition model, trained by TransE."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        if config.kept is None:
            check_size(config.actions * config.samples, config.depth - 1)  # leaves are not stored

    @property
    @abstractmethod
    def transition(self) -> TransitionModel:
        """T."""

    @abstractmethod
    def imagine(self, embedding: Tensor) -> Plan:
        """The tree around states [B, k] with what the planner makes of it."""

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE (equation 4) on (s, a, s') with negatives from the same rollouts."""
        h, successor = output.embedding, self.embed(batch.next_observation)
        if isinstance(self.transition, StochasticTransitionModel):
            translations, logits = self.transition.of_action(h, batch.action)
            loss = mixture_loss(h.unsqueeze(-2) + translations, logits, successor, h[batch.negative])
            return {"transe": loss}
        predicted = h + self.transition.translation(h, batch.action)
        return {"transe": transe_loss(predicted, successor, h[batch.negative])}

    @torch.inference_mode()
    def plan(self, observation: Any) -> ImaginedTree:
        """The tree that the agent imagines around one observation, with what it thinks of every node.

        A node's value and policy are the agent's own when it plans from there, K steps on; where the plan has
        values on its nodes, the value is that.
        """
        batch, single = self._read(observation)
        if not single:
            raise XLVINError("A plan starts at one observation; give them one at a time.")
        root = self.embed(torch.from_numpy(batch).to(next(self.parameters()).device))
        levels = []
        for level in self.imagine(root).levels:
            outputs = [self.decide(nodes) for nodes in torch.split(level.embedding[0], CHUNK)]
            value = torch.cat([output.value for output in outputs]) if level.value is None else level.value[0]
            policy = torch.cat([output.logits.softmax(-1) for output in outputs])
            arrays = [level.embedding[0], level.executed[0], value, policy, level.parent[0], level.action[0]]
            if level.sample is None or level.chance is None:
                arrays += [level.action[0].clamp(max=0), torch.ones_like(value)]
            else:
                arrays += [level.sample[0], level.chance[0]]
            levels.append(ImaginedLevel(*(array.cpu().numpy().copy() for array in arrays)))
        return ImaginedTree(tuple(levels))


class XLVINAgent(ModelBasedAgent):
    """Expand a latent tree, execute value iteration over it, read policy and value from (h, chi).

    The processor is the one that `config.executor` names, unless another is given.
    """

    def __init__(self, config: AgentConfig, processor: Processor | None = None) -> None:
        super().__init__(config)
        if config.wiring == "aligned":
            raise XLVINError("An aligned XLVIN is another network; build agents with xlvin.make_agent.")
        if processor is None:
            executor = Executor() if config.executor == UNTRAINED else load_executor(config.executor)
            processor = executor.processor
        self.planner = Planner(
            processor,
            _transition(config),
            config.depth,
            config.discount,
            config.wiring,
            config.kept,
            None if config.kept is None else self._prior,
            normalise=config.normalise,
        )
        width = config.latent + processor.config.width
        self.actor = make_actor(width, config.actions, config.bins)
        self.critic = make_critic(config, width)
        initialise(self, [self.actor, *_even(self.transition)], self.critic)

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
        return conclude(self.actor(features), self.critic, features, embedding)

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
        self.critic = make_critic(config, config.latent)
        initialise(self, [self.tree.reward[-1], self.tree.value], self.critic)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the tree."""
        return self.tree.transition

    def decide(self, embedding: Tensor) -> Output:
        """Logits are the root's backed-up Q; the critic, if there is one, reads the encoder."""
        return conclude(self.tree(embedding).value, self.critic, embedding, embedding)

    def imagine(self, embedding: Tensor) -> Plan:
        """The tree with Q of every node, backed up from a tree of its own."""
        return scalar_plan(self.tree, grow(self.transition, embedding, self.tree.depth))

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE, and the reward model grounded in observed rewards."""
        grounding = _reward_loss(self.tree.reward(output.embedding), batch)
        return {**super().auxiliary_losses(output, batch), "reward": grounding}

    def trail_losses(self, output: Output, trail: Trail) -> dict[str, Tensor]:
        """TransE of the first step, rewards grounded along the actions taken, as deep as the tree."""
        state, grounding = output.embedding, torch.zeros_like(output.value)
        for step in range(min(self.tree.depth, trail.action.shape[1])):
            action = trail.action[:, step]
            foreseen = self.tree.reward(state).gather(-1, action.unsqueeze(-1)).squeeze(-1)
            grounding = grounding + 0.5 * trail.taken[:, step] * (foreseen - trail.reward[:, step]).square()
            state = state + self.transition.translation(state, action)
        return {**super().auxiliary_losses(output, trail.first), "reward": grounding}


class AlignedXLVINAgent(ModelBasedAgent):
    """Ground the tree's nodes in rewards and returns, and let the whole frozen executor plan on them.

    Logits are sharpness * Q of the plan plus a linear head on h. The critic is the value head of the nodes,
    so that PPO's value loss grounds it in returns. The executor is the one that `config.executor` names,
    unless another is given.
    """

    def __init__(self, config: AgentConfig, executor: Executor | None = None) -> None:
        super().__init__(config)
        if config.tail != "policy":
            raise XLVINError("The aligned wiring has a policy tail only; for action values choose xlvin-dqn.")
        if config.normalise:
            raise XLVINError("The aligned wiring runs the executor as pretrained; leave normalise out.")
        taught = PretrainConfig.discount  # an agent from a file brings the true one with its weights
        if executor is None and config.executor != UNTRAINED:
            executor = load_executor(config.executor)
            taught = load_provenance(config.executor)["discount"]
        parts = (executor or Executor(), _transition(config), config.depth)
        discounts = (config.discount, taught)
        self.planner = (
            AlignedPlanner(*parts, *discounts)
            if config.kept is None
            else SparseAlignedPlanner(*parts, config.kept, *discounts)
        )
        self.actor = make_actor(config.latent, config.actions, config.bins)
        # Logits depend on both heads of the nodes; so the critic, which is one of them, starts small too.
        small = [self.actor, self.planner.reward, self.planner.value, *_even(self.transition)]
        initialise(self, small, None)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the planner."""
        return self.planner.transition

    @property
    def executor(self) -> ExecutorConfig:
        """The shape of the frozen executor."""
        return self.planner.executor.config

    def decide(self, embedding: Tensor) -> Output:
        """Planned action values sway the policy; the critic reads h alone."""
        planned = self.planner(embedding).value
        logits = self.config.sharpness * planned + self.actor(embedding)
        return Output(logits, self.planner.value(embedding).squeeze(-1), embedding)

    def imagine(self, embedding: Tensor) -> Plan:
        """The tree with the values decoded on it, and Q of every node, planned from it."""
        tree = self.planner.tree(embedding)
        return scalar_plan(self.planner, tree.embedding, tree.value, tree.chance, tree.kept)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """TransE, and the nodes' rewards grounded in observed ones."""
        grounding = _reward_loss(self.planner.reward(output.embedding), batch)
        return {**super().auxiliary_losses(output, batch), "reward": grounding}


def _transition(config: AgentConfig) -> TransitionModel:
    """A fresh T with as many outcomes of an action as configured."""
    if config.samples > 1:
        return StochasticTransitionModel(config.latent, config.actions, config.hidden, config.samples)
    return TransitionModel(config.latent, config.actions, config.hidden)


def _even(transition: TransitionModel) -> list[nn.Module]:
    """What starts small, so that all outcomes of an action are equally probable at first."""
    return [transition.weigh] if isinstance(transition, StochasticTransitionModel) else []


def _reward_loss(predicted: Tensor, batch: Batch) -> Tensor:
    """(r(h, a) - r)^2 / 2 for the actions taken, [N], of predictions for all actions [N, A]."""
    taken = predicted.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
    return 0.5 * (taken - batch.reward).square()


def scalar_plan(
    planner: ScalarTree | AlignedPlanner | PredictionTree,
    levels: Sequence[Tensor],
    values: Sequence[Tensor] | None = None,
    chances: Sequence[Tensor] = (),
    kept: Sequence[Tensor] = (),
) -> Plan:
    """A tree [M, B, k] with Q of every node, planned from it; perhaps values [M, B] and chances.

    Every node has all children, unless `kept` [N, B] says which ones do, from level 1 on.
    """
    found, batch, actions = [], levels[0].shape[1], planner.transition.actions
    branches, samples = planner.transition.branches, planner.transition.samples
    for depth, nodes in enumerate(levels):
        q = torch.cat([planner(part).value for part in torch.split(nodes.flatten(0, 1), CHUNK)])
        number = torch.arange(len(nodes), device=nodes.device).expand(batch, -1)
        parent, branch = (number // branches, number % branches) if depth else (number - 1, number - 1)
        if depth > 1 and kept:
            parent = kept[depth - 2].T.gather(1, parent)
        executed = q.view(len(nodes), batch, actions).transpose(0, 1)
        value = None if values is None else values[depth].transpose(0, 1)
        level = PlanLevel(nodes.transpose(0, 1), executed, parent, branch, value)
        if samples > 1:
            chance = chances[depth - 1].flatten(0, 2).T if depth else torch.ones_like(level.embedding[..., 0])
            action, sample = (branch // samples, branch % samples) if depth else (branch, branch)
            level = replace(level, action=action, sample=sample, chance=chance)
        found.append(level)
    return Plan(tuple(found))
