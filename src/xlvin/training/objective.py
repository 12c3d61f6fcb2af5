"""The combined loss of section 3.2, for one agent: PPO + transe_coef * TransE (+ other auxiliary terms)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, Batch, Output
from xlvin.training.config import PPOConfig
from xlvin.training.losses import clipped_value_loss, policy_loss, value_loss, weighted_mean


class Targets(NamedTuple):
    """What PPO holds against each transition."""

    old_log_prob: Tensor  # [N], of the action when it was taken
    old_value: Tensor  # [N]
    advantage: Tensor  # [N], standardised
    target: Tensor  # [N], the return that the critic should predict


class Sample(NamedTuple):
    """A minibatch of one seed."""

    batch: Batch
    targets: Targets
    weight: Tensor  # [N], zero for padding


class WeightedTerms(nn.Module):
    """A loss that is a sum of named terms with weights; which terms there are depends on the agent."""

    def __init__(self, agent: Agent, weights: dict[str, float]) -> None:
        super().__init__()
        self.agent = agent
        self.names: tuple[str, ...] = ()  # of the terms; known once they were computed
        self._weights = weights
        self._coefficients = torch.empty(0)  # [terms]; kept, since a CUDA graph cannot fetch them

    def combined(self, names: Iterable[str], means: Tensor) -> tuple[Tensor, Tensor]:
        """What to descend [], and its terms without their weights, which are these means [terms]."""
        if self.names != (names := tuple(names)):
            self.names = names
            self._coefficients = torch.tensor([self._weights[name] for name in names], device=means.device)
        return (means * self._coefficients).sum(-1), means.detach()


class Objective(WeightedTerms):
    """`forward(sample)` gives the loss and its terms, averaged over the sample."""

    def __init__(self, agent: Agent, config: PPOConfig) -> None:
        weights = {
            "policy": 1.0,
            "value": config.value_coef,
            "entropy": -config.entropy_coef,
            "transe": config.transe_coef,
            "pixels": config.transe_coef,  # in the place of TransE
            "reward": config.reward_coef,
        }
        super().__init__(agent, weights)
        self.config = config

    def forward(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """What to descend [], and its terms without their weights [terms]."""
        config, batch, targets = self.config, sample.batch, sample.targets
        output = self.speak(batch.observation)
        chosen = self.agent.distribution(output.logits)
        log_prob = chosen.log_prob(batch.action)
        if config.clip_value:
            critic = clipped_value_loss(output.value, targets.old_value, targets.target, config.clip)
        else:
            critic = value_loss(output.value, targets.target)
        terms = {
            "policy": policy_loss(log_prob, targets.old_log_prob, targets.advantage, config.clip),
            "value": critic,
            "entropy": chosen.entropy(),
            **self.ground(output, batch),
        }
        # One product and one sum for all terms: [terms, N] x [N].
        return self.combined(terms, weighted_mean(torch.stack(list(terms.values())), sample.weight))

    def speak(self, observation: Tensor) -> Output:
        """What the agent says about observations [N, ...]."""
        return cast(Output, self.agent(observation))

    def ground(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """The losses that train the agent's model, each [N]."""
        return self.agent.auxiliary_losses(output, batch)
