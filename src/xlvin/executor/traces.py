"""What an executor learns from: single sweeps out of value iteration's traces on synthetic MDPs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import Trace, value_iteration


@dataclass(frozen=True, eq=False)
class Sweeps:
    """One sweep of value iteration on each MDP of a batch."""

    mdp: TabularMDP
    before: Tensor  # [B, S]: V_t
    after: Tensor  # [B, S]: V_{t+1}


@dataclass(frozen=True, eq=False)
class TracedMDPs:
    """MDPs and the traces of value iteration on them."""

    mdp: TabularMDP
    trace: Trace

    def draw(self, count: int, skew: float, generator: Generator) -> Sweeps:
        """`count` sweeps, each of a random MDP at t = floor(T u^skew) of its T sweeps, u ~ U(0, 1).

        Values change most in the first sweeps: a skew above one visits them more often.
        """
        device = generator.device
        member = torch.randint(self.mdp.batch, (count,), generator=generator, device=device)
        early = torch.rand(count, generator=generator, device=device).pow(skew)
        steps = self.trace.steps[member]
        # Rounding can lift the product to T itself.
        t = torch.minimum((early * steps).long(), steps - 1)
        values = self.trace.values
        return Sweeps(self.mdp.select(member), values[t, member], values[t + 1, member])


def trace_family(
    family: str,
    count: int,
    states: int,
    actions: int,
    discount: float,
    tolerance: float,
    generator: Generator,
    level: float = 0.0,
    spread: float = 0.0,
) -> TracedMDPs:
    """Draw `count` MDPs of a family and run value iteration on each until it converges.

    V_0 = 0, or V_0(s) ~ N(l, spread^2) around a level l ~ N(0, level^2) that the states of an MDP share.
    """
    mdp = sample(family, count, states, actions, discount, generator)
    initial = None
    if level > 0.0 or spread > 0.0:
        shared = torch.randn(count, 1, generator=generator, device=generator.device)
        own = torch.randn(count, states, generator=generator, device=generator.device)
        initial = level * shared + spread * own
    return TracedMDPs(mdp, value_iteration(mdp, tolerance, initial=initial))
