"""PPO with a Gaussian policy over continuous actions: the baseline that needs no bins."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xlvin.agents.base import Agent, AgentConfig, Output, initialise
from xlvin.agents.distributions import Gaussian
from xlvin.errors import XLVINError

# The logarithm of the first deviation, in halves of the range of an action.
FIRST_DEVIATION = -0.5


class GaussianAgent(Agent):
    """Encoder and linear heads for value and means; deviations do not depend on the state.

    Means and deviations are in the environment's units: a network that says zero means the middle of the
    range. What is drawn beyond the bounds is learned from as drawn, and acted out at the bound.
    """

    middle: Tensor  # [d]
    reach: Tensor  # [d], half of the range

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        low = config.low or (-1.0,) * config.actions
        high = config.high or (1.0,) * config.actions
        if config.bins or len(low) != config.actions or len(high) != config.actions:
            raise XLVINError("A Gaussian policy has no bins, and one low and one high per dimension.")
        self.actor = nn.Linear(config.latent, config.actions)
        self.critic = nn.Linear(config.latent, 1)
        self.log_std = nn.Parameter(torch.full((config.actions,), FIRST_DEVIATION))
        self._low, self._high = np.array(low, np.float32), np.array(high, np.float32)
        # Not stored with the weights: the configuration has them.
        self.register_buffer("middle", torch.from_numpy((self._low + self._high) / 2), persistent=False)
        self.register_buffer(
            "reach", torch.from_numpy((self._high - self._low) / 2).clamp(min=1e-6), persistent=False
        )
        initialise(self, [self.actor], self.critic)

    def decide(self, embedding: Tensor) -> Output:
        """Means and logarithms of deviations in the place of logits, [B, 2 d]."""
        mean = self.middle + self.reach * self.actor(embedding)
        deviation = (self.log_std + self.reach.log()).expand_as(mean)
        return Output(torch.cat((mean, deviation), -1), self.critic(embedding).squeeze(-1), embedding)

    def distribution(self, logits: Tensor) -> Gaussian:
        """The policy, from what `decide` gives in the place of logits."""
        return Gaussian(logits)

    def _choose(self, logits: NDArray[np.float32], deterministic: bool) -> NDArray[np.float32]:
        policy = self.distribution(torch.from_numpy(logits))
        if deterministic:
            return policy.mode().numpy()
        return torch.normal(policy.mean, policy.log_std.exp()).numpy()

    def native(self, chosen: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the environment takes: vectors within its bounds."""
        return np.clip(chosen, self._low, self._high)
