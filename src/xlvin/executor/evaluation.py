"""How well an executor runs value iteration on MDPs it has not seen: families x sizes.

It lives on its own predictions: from V = 0, for as many steps as value iteration takes. Two predictors that
know nothing of planning stand beside it: "copy" says V_{t+1} = V_t, "reward" says V_{t+1}(s) = max_a R(s, a).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from xlvin.errors import XLVINError
from xlvin.executor.network import Executor
from xlvin.executor.rollout import bind
from xlvin.executor.traces import Sweeps, TracedMDPs, trace_family
from xlvin.mdp.families import CARTPOLE_STATES, find
from xlvin.mdp.value_iteration import optimal_actions, policy_accuracy

Size = tuple[int, int]  # states, actions
TRAINING_SIZE: Size = (20, 8)
SIZES: tuple[Size, ...] = (TRAINING_SIZE, *((s, a) for s in (20, 50, 100) for a in (5, 10, 20)))

# MDPs are measured in chunks of about this many nodes, which a core's cache holds at 50 features each.
CHUNK_NODES = 2_000
# Exact sweeps per MDP on which one step is measured, early ones more often, as in pretraining.
SWEEPS, SKEW = 4, 2.0


@dataclass(frozen=True)
class Cell:
    """An executor and the trivial predictors on one family at one size; shares and mean squared errors."""

    family: str
    states: int
    actions: int
    deterministic: bool
    policy_accuracy: float
    """Share of states where one step of lookahead on the executor's final values is optimal."""
    value_error: float
    """Squared error of its final values to V*."""
    one_step_error: float
    """Squared error of one step from exact values V_t to V_{t+1}."""
    action_accuracy: float
    """Share of states where Q(s, a) as decoded per action, from exact V*, prefers an optimal action."""
    copy_policy_accuracy: float
    """The same measures of the trivial predictors follow."""
    copy_value_error: float
    copy_one_step_error: float
    reward_policy_accuracy: float
    reward_value_error: float
    reward_one_step_error: float

    def row(self) -> dict[str, Any]:
        """As JSON takes it."""
        return finite(asdict(self))


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """The same row with None for what has diverged."""
    diverged = {name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
    return row | dict.fromkeys(diverged)


@torch.no_grad()
def roll(executor: Executor, traced: TracedMDPs) -> Tensor:
    """Values [B, S] that the executor reaches from V = 0 on its own predictions.

    Each MDP gets as many steps as value iteration took on it.
    """
    values = reached = torch.zeros_like(traced.trace.final)
    sweep = bind(executor, traced.mdp)
    for step in range(1, int(traced.trace.steps.max()) + 1):
        values = sweep(values)
        reached = torch.where((traced.trace.steps == step).unsqueeze(-1), values, reached)
    return reached


@torch.no_grad()
def measure(executor: Executor, traced: TracedMDPs, sweeps: Sweeps) -> dict[str, float]:
    """All measures of a `Cell`, as means over the MDPs given."""
    mdp, optimal = traced.mdp, traced.trace.final
    chosen = executor.action_values(mdp, optimal).argmax(-1, keepdim=True)
    hits = optimal_actions(mdp, optimal).gather(-1, chosen).float().mean()
    measures = {"action_accuracy": hits.item()}
    final = {
        "": roll(executor, traced),
        "copy_": torch.zeros_like(optimal),
        "reward_": mdp.reward.amax(-1),
    }
    step = {
        "": executor(sweeps.mdp, sweeps.before),
        "copy_": sweeps.before,
        "reward_": sweeps.mdp.reward.amax(-1),
    }
    for who in final:
        measures |= {
            f"{who}policy_accuracy": policy_accuracy(mdp, optimal, final[who]).mean().item(),
            f"{who}value_error": (final[who] - optimal).square().mean().item(),
            f"{who}one_step_error": (step[who] - sweeps.after).square().mean().item(),
        }
    return measures


def evaluate_cell(
    executor: Executor,
    family: str,
    size: Size,
    count: int = 100,
    discount: float = 0.9,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Cell:
    """Measure one cell on `count` fresh MDPs; other cells do not change what it draws."""
    if count < 1:
        raise XLVINError(f"Cannot evaluate on {count} MDPs; give at least 1.")
    states, actions = size
    generator = Generator().manual_seed(zlib.crc32(f"{seed}/{family}/{states}/{actions}".encode()))
    totals: dict[str, float] = {}
    stochastic = False
    for chunk in _chunks(count, max(1, CHUNK_NODES // (states * actions))):
        traced = trace_family(family, chunk, states, actions, discount, tolerance, generator)
        stochastic |= traced.mdp.successor.shape[-1] > 1
        measures = measure(executor, traced, traced.draw(SWEEPS * chunk, SKEW, generator))
        for name, value in measures.items():
            totals[name] = totals.get(name, 0.0) + value * chunk
    means = {name: total / count for name, total in totals.items()}
    return Cell(family, states, actions, not stochastic, **means)


def cells(families: Iterable[str], sizes: Sequence[Size]) -> list[tuple[str, Size]]:
    """Families x sizes. A family with a fixed number of actions keeps it; CartPole trees come whole, too."""
    found = []
    for family in families:
        fixed = find(family).actions
        chosen = list(sizes) if fixed is None else [(states, fixed) for states, _ in sizes]
        if family == "cartpole-tree":
            chosen.append((CARTPOLE_STATES, 2))
        found += [(family, size) for size in dict.fromkeys(chosen)]
    return found


def _chunks(count: int, chunk: int) -> Iterator[int]:
    while count > 0:
        yield min(chunk, count)
        count -= chunk
