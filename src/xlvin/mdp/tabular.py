"""Tabular Markov decision processes, many at a time.

A batch of B processes with S states and A actions is three tensors. Successors are stored with their
support only: entry d of `successor[b, s, a]` is reached with `probability[b, s, a, d]`. A deterministic
process has D = 1, a dense one D = S, and every sweep over states is one gather.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xlvin.errors import XLVINError


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A batch of discounted MDPs (S, A, R, P, gamma) of equal size."""

    successor: Tensor  # [B, S, A, D] int64, states in [0, S)
    probability: Tensor  # [B, S, A, D], sums to one over D; padding has probability zero
    reward: Tensor  # [B, S, A]
    discount: float  # gamma in [0, 1)

    def __post_init__(self) -> None:
        if not 0.0 <= self.discount < 1.0:
            raise XLVINError(
                f"The discount is {self.discount}; value iteration only converges for 0 <= discount < 1."
            )
        if self.successor.dim() != 4 or 0 in self.successor.shape:
            raise XLVINError(
                f"Successors have shape {tuple(self.successor.shape)}; give [batch, states, actions, "
                "successors] with at least one of each."
            )
        if self.successor.dtype != torch.int64:
            raise XLVINError(f"Successors are {self.successor.dtype}; give int64 state numbers.")
        if self.reward.shape != self.successor.shape[:3] or self.probability.shape != self.successor.shape:
            raise XLVINError(
                f"Rewards {tuple(self.reward.shape)} and probabilities {tuple(self.probability.shape)} "
                f"do not fit successors {tuple(self.successor.shape)}."
            )
        if not torch.isfinite(self.reward).all():
            raise XLVINError("A reward is NaN or infinite; every reward must be a finite number.")
        if self.successor.min() < 0 or self.successor.max() >= self.states:
            raise XLVINError(f"A successor lies outside the states 0 to {self.states - 1}.")
        total = self.probability.sum(-1)
        if (self.probability < 0).any() or not torch.allclose(total, torch.ones_like(total), atol=1e-4):
            raise XLVINError("The successor probabilities of a state-action pair do not sum to one.")

    @classmethod
    def deterministic(cls, successor: Tensor, reward: Tensor, discount: float) -> TabularMDP:
        """Build from a successor table [B, S, A]."""
        successor = successor.unsqueeze(-1)
        return cls(successor, torch.ones_like(successor, dtype=reward.dtype), reward, discount)

    @classmethod
    def stochastic(cls, transition: Tensor, reward: Tensor, discount: float) -> TabularMDP:
        """Build from dense transition probabilities P(s'|s, a), [B, S, A, S]."""
        successor = torch.arange(transition.shape[-1], device=transition.device).expand(transition.shape)
        return cls(successor, transition, reward, discount)

    @property
    def batch(self) -> int:
        """B, the number of processes."""
        return self.successor.shape[0]

    @property
    def states(self) -> int:
        """S."""
        return self.successor.shape[1]

    @property
    def actions(self) -> int:
        """A."""
        return self.successor.shape[2]

    def expectation(self, values: Tensor) -> Tensor:
        """E[V(s') | s, a] for values [B, S]; returns [B, S, A]."""
        if self.successor.shape[-1] == 1:
            return values.gather(1, self.successor.flatten(1)).view(self.reward.shape)
        if self.successor.stride()[:3] == (0, 0, 0):  # one list of successors for all pairs, as if dense
            return torch.einsum("bsad,bd->bsa", self.probability, values[:, self.successor[0, 0, 0]])
        reached = values.gather(1, self.successor.flatten(1)).view(self.successor.shape)
        return (reached * self.probability).sum(-1)

    def action_values(self, values: Tensor) -> Tensor:
        """Q(s, a) = R(s, a) + gamma E[V(s')]; returns [B, S, A]."""
        # In place: a second temporary of this size makes a sweep over thousands of MDPs twice as slow.
        return self.expectation(values).mul_(self.discount).add_(self.reward)

    def transition(self) -> Tensor:
        """The dense P(s'|s, a), [B, S, A, S]."""
        dense = self.probability.new_zeros(*self.reward.shape, self.states)
        return dense.scatter_add_(-1, self.successor, self.probability)

    def select(self, index: Tensor) -> TabularMDP:
        """The sub-batch at `index`."""
        return TabularMDP(self.successor[index], self.probability[index], self.reward[index], self.discount)

    def to(self, device: torch.device | str) -> TabularMDP:
        """A copy on another device."""
        return TabularMDP(
            self.successor.to(device), self.probability.to(device), self.reward.to(device), self.discount
        )
