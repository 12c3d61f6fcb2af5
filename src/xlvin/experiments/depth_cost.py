"""What depth and width cost: the time of a plan on full and sparse trees, K = 1 to 10, 2 to 18 actions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from xlvin.executor.artefact import load_executor
from xlvin.latent.transition import TransitionModel
from xlvin.planner.planner import Planner
from xlvin.randomness import seeded

LATENT, HIDDEN = 50, 64  # as in the paper's control agents
EXECUTOR = "random-deterministic"
DEPTHS = tuple(range(1, 11))
REFERENCE = 2  # the depth whose time is 1: the paper's K
# Full trees are timed up to this many leaves, of all states of a batch together.
MOST_LEAVES = 60_000


@dataclass(frozen=True)
class CostCell:
    """One shape of tree, at every depth."""

    actions: int
    batch: int
    beam: int | None  # None: the full tree
    learning: bool  # forward and backward, instead of forward alone
    rounds: int = 9

    @property
    def depths(self) -> tuple[int, ...]:
        """Those that fit; at least the reference does."""
        if self.beam is not None:
            return DEPTHS
        return tuple(depth for depth in DEPTHS if self.batch * self.actions**depth <= MOST_LEAVES)

    @property
    def name(self) -> str:
        """version/environment/agent, as in the records."""
        return f"cost-{_work(self.learning)}/actions-{self.actions}-batch-{self.batch}/{width(self.beam)}"


def width(beam: int | None) -> str:
    """How a tree's width is called."""
    return "full" if beam is None else f"beam-{beam}"


def _work(learning: bool) -> str:
    return "learning" if learning else "acting"


def settings(cell: CostCell) -> dict[str, Any]:
    """All that decides what is timed."""
    shape = {"latent": LATENT, "hidden": HIDDEN, "executor": EXECUTOR}
    return asdict(cell) | shape | {"depths": list(cell.depths)}


def time_plans(cell: CostCell) -> list[dict[str, Any]]:
    """An entry per round: milliseconds of CPU time at each depth, and the deepest over K = 2 as its score.

    Depths take turns, so that a busy machine disturbs all alike; the first round warms up.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        plans = [_plan(cell, depth) for depth in cell.depths]
        rounds = [[_milliseconds(plan) for plan in plans] for _ in range(cell.rounds + 1)][1:]
    finally:
        torch.set_num_threads(threads)
    reference = cell.depths.index(REFERENCE)
    return [
        {
            "seed": number,
            "score": round(spent[-1] / spent[reference], 4),
            "ms": [round(each, 4) for each in spent],
        }
        for number, spent in enumerate(rounds)
    ]


def _plan(cell: CostCell, depth: int) -> Callable[[], object]:
    with seeded(0):
        prior = None if cell.beam is None else nn.Linear(LATENT, cell.actions)
        planner = Planner(
            load_executor(EXECUTOR).processor,
            TransitionModel(LATENT, cell.actions, HIDDEN),
            depth,
            beam=cell.beam,
            prior=prior,
        )
        states = torch.randn(cell.batch, LATENT, requires_grad=cell.learning)

    def act() -> object:
        with torch.inference_mode():
            return planner(states)

    def learn() -> object:
        planner.zero_grad()
        return planner(states).sum().backward()

    return learn if cell.learning else act


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return 1e3 * (time.process_time() - started)
