"""Planning in an abstract MDP: sampled embeddings are its states, value iteration its solution.

Where XLVIN expands a tree from the current state and executes value iteration in latent space, this planner
solves one tabular MDP beforehand and looks up what to do (van der Pol et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import value_iteration

# Sweeps that move no value by this much change no decision.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class PlanConfig:
    """How the abstract MDP is made and solved."""

    states: int = 1024
    """Sampled embeddings, at most."""
    temperature: float = 0.1
    """Of the softmax over negative distances that spreads a step over states."""
    discount: float = 0.9
    """gamma."""
    sweeps: int = 500
    """Of value iteration, at most."""

    def __post_init__(self) -> None:
        if min(self.states, self.sweeps) < 1 or not self.temperature > 0.0:
            raise XLVINError("A plan needs at least one state, one sweep and a positive temperature.")


@dataclass(frozen=True, eq=False)
class AbstractPlan:
    """The solved MDPs of a batch."""

    states: Tensor  # [B, M, k] embeddings
    action_values: Tensor  # [B, M, A]

    def __call__(self, embedding: Tensor) -> Tensor:
        """The action values of the nearest abstract state, [B, N, k] -> [B, N, A]."""
        nearest = torch.cdist(embedding, self.states).argmin(-1)
        index = nearest.unsqueeze(-1).expand(-1, -1, self.action_values.shape[-1])
        return self.action_values.gather(1, index)


def abstract_mdp(
    states: Tensor, successors: Tensor, rewards: Tensor, terminal: Tensor, config: PlanConfig
) -> TabularMDP:
    """The MDP over embeddings `states` [B, M, k] that a latent model imagines.

        P(j | i, a) = softmax_j(-d(x_j, x_i + T(x_i, a)) / tau),  R(i, a) = sum_j P(j | i, a) r(x_j)

    `successors` [B, M, A, k] are x_i + T(x_i, a), `rewards` [B, M] r(x_j) of arriving, d(x, y) =
    ||x - y||^2 / 2. States that are `terminal` [B, M] lead to themselves and pay nothing.
    """
    batch, count, actions, _ = successors.shape
    distance = 0.5 * torch.cdist(successors.flatten(1, 2), states).square()
    transition = (-distance / config.temperature).softmax(-1).view(batch, count, actions, count)
    stay = torch.eye(count, device=states.device).unsqueeze(1)
    ended = terminal[:, :, None, None]
    reward = torch.einsum("bian,bn->bia", transition, rewards)
    return TabularMDP.stochastic(
        torch.where(ended, stay, transition), torch.where(ended[..., 0], 0.0, reward), config.discount
    )


def plan(
    states: Tensor, successors: Tensor, rewards: Tensor, terminal: Tensor, config: PlanConfig
) -> AbstractPlan:
    """Solve the abstract MDP by value iteration; arguments as in `abstract_mdp`."""
    mdp = abstract_mdp(states, successors, rewards, terminal, config)
    values = value_iteration(mdp, TOLERANCE, config.sweeps).final
    return AbstractPlan(states, mdp.action_values(values))
