"""Imitation of shortest ways: a planner learns the moves that lead to the goal from every cell of many mazes.

With A*(s) the moves on a shortest way from cell s, the loss is a cross entropy,

    any    L = -E_s log sum_{a in A*(s)} pi(a | s)    whichever shortest way the policy prefers is right
    first  L = -E_s log pi(min A*(s) | s)             one of them is the label, the first as MOVES has them

over all cells from which a way leads to the goal. Tamar et al. (2016) and Lee et al. (2018) have one label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from xlvin.errors import RunFailedError, XLVINError
from xlvin.mdp.mazes import Mazes, optimal_actions
from xlvin.planner.grid.base import GridPlanner, MapPlanner
from xlvin.training.mazes.imitating_agent import ImitatingAgent, Step
from xlvin.training.seeding import derive_seed

# Called after every optimiser step with (step, of how many, loss).
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class ImitationConfig:
    """How a planner imitates."""

    epochs: int = 40
    """Passes over the training mazes."""
    batch: int = 64
    """Mazes per optimiser step, with all their cells."""
    cells: int = 16
    """Cells per maze for planners that see one position at a time; others see all of them."""
    label: Literal["any", "first"] = "any"
    """Which shortest way is right, see above."""
    learning_rate: float = 5e-3
    """Adam's highest rate; it is reached after a tenth of training and then falls to zero (one cycle)."""
    transe_coef: float = 0.001
    """Weight of TransE for agents with a learned model (section 3.2)."""
    clip: float = 1.0
    """Largest norm of a gradient."""
    seed: int = 0
    """Seed of the order of mazes."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "cells"):
            if getattr(self, name) < 1:
                raise XLVINError(f"The {name} of imitation are {getattr(self, name)}; give at least 1.")
        for name in ("learning_rate", "clip"):
            if not (getattr(self, name) > 0.0 and math.isfinite(getattr(self, name))):
                raise XLVINError(f"The {name} of imitation is {getattr(self, name)}; give a positive number.")
        if self.label not in ("any", "first"):
            raise XLVINError(f'Unknown label "{self.label}"; choose any or first.')


def imitate(
    planner: GridPlanner,
    mazes: Mazes,
    config: ImitationConfig | None = None,
    progress: Progress | None = None,
) -> GridPlanner:
    """Train a planner on all mazes, where they live; returns it."""
    config = config or ImitationConfig()
    planner = planner.to(mazes.device).train()
    steps = config.epochs * -(-len(mazes) // config.batch)
    optimiser = torch.optim.Adam(planner.parameters(), config.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, steps, pct_start=0.1)
    generator = torch.Generator(mazes.device).manual_seed(derive_seed(config.seed, "imitated cells"))
    for step, batch in enumerate(_batches(mazes, config), 1):
        loss = _loss(planner, batch, config, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(planner.parameters(), config.clip)
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps:
            if not math.isfinite(told := loss.item()):
                raise RunFailedError(f"The loss became {told} at step {step}; try a lower learning rate.")
            if progress:
                progress(step, steps, told)
    return planner.eval()


def imitation_loss(logits: Tensor, optimal: Tensor, label: Literal["any", "first"] = "any") -> Tensor:
    """The mean cross entropy over rows that have an optimal move.

    Logits [..., 8] and which moves are optimal [..., 8] bool -> a scalar.
    """
    known = optimal.any(-1)
    if label == "first":  # argmax finds the first of equal numbers
        optimal = torch.zeros_like(optimal).scatter_(-1, optimal.byte().argmax(-1, keepdim=True), True)
    right = logits.masked_fill(~optimal, -torch.inf).masked_fill(~known.unsqueeze(-1), 0.0)
    missed = logits.logsumexp(-1) - right.logsumexp(-1)
    return (missed * known).sum() / known.sum().clamp(min=1)


@dataclass(frozen=True, eq=False)
class Walks:
    """Where a policy leads from every cell of N mazes."""

    reached: Tensor  # [N, H, W] bool: at the goal, without touching a wall
    moves: Tensor  # [N, H, W] int64: how many moves that took; without meaning where it was not reached


@torch.no_grad()
def greedy_actions(planner: GridPlanner, mazes: Mazes, batch: int = 256) -> Tensor:
    """The most probable move in every cell from which a way leads to the goal, [N, H, W] int64."""
    planner.eval()
    maps = mazes.maps()
    if isinstance(planner, MapPlanner):
        return torch.cat([planner.forward_all(part).logits.argmax(1) for part in torch.split(maps, batch)])
    chosen = torch.zeros_like(mazes.distance, dtype=torch.int64)
    starts = (mazes.distance > 0).flatten().nonzero().squeeze(-1)
    for part in torch.split(starts, 8 * batch):
        logits = planner(maps[part // mazes.cells], part % mazes.cells).logits
        chosen.flatten()[part] = logits.argmax(-1)
    return chosen


def walk(mazes: Mazes, actions: Tensor) -> Walks:
    """Follow a policy [N, H, W] from every cell until the goal, a wall or a circle.

    A successor's successor is found by indexing once: log2(H W) doublings follow every way to its end.
    """
    goal = mazes.goal.unsqueeze(1)
    cells = torch.arange(mazes.cells, device=mazes.device).expand(len(mazes), -1)
    over = mazes.walls.flatten(1) | (cells == goal)
    following = torch.where(over, cells, cells + mazes.offsets()[actions.flatten(1)])
    taken = (~over).long()
    for _ in range(math.ceil(math.log2(mazes.cells))):
        taken = taken + taken.gather(1, following)
        following = following.gather(1, following)
    return Walks((following == goal).view_as(mazes.walls), taken.view_as(mazes.walls))


def score(planner: GridPlanner, mazes: Mazes, batch: int = 256) -> dict[str, float]:
    """Greedy walks from all cells that have a way to the goal, in per cent: "success" and "optimal".

    As in Lee et al. (2018) both are shares of a maze's cells, averaged over mazes; the goal does not count.
    """
    walks = walk(mazes, greedy_actions(planner, mazes, batch))
    starts = mazes.distance > 0
    optimal = walks.reached & (walks.moves == mazes.distance)
    many = starts.flatten(1).sum(1).clamp(min=1)

    def share(good: Tensor) -> float:
        return 100.0 * ((good & starts).flatten(1).sum(1) / many).mean().item()

    return {"success": share(walks.reached), "optimal": share(optimal)}


def _batches(mazes: Mazes, config: ImitationConfig) -> Iterator[Mazes]:
    """Mazes in a new order every epoch."""
    for epoch in range(config.epochs):
        seed = derive_seed(config.seed, "imitation", epoch)
        order = torch.randperm(len(mazes), generator=torch.Generator().manual_seed(seed)).to(mazes.device)
        for index in torch.split(order, config.batch):
            yield mazes[index]


def _loss(planner: GridPlanner, mazes: Mazes, config: ImitationConfig, generator: torch.Generator) -> Tensor:
    """The loss on all cells of the mazes, or on some where a planner sees one position at a time."""
    maps, optimal = mazes.maps(), optimal_actions(mazes).flatten(2).transpose(1, 2)  # [B, HW, 8]
    if isinstance(planner, MapPlanner):
        return imitation_loss(
            planner.forward_all(maps).logits.flatten(2).transpose(1, 2), optimal, config.label
        )
    starts = (mazes.distance > 0).flatten(1).float()
    cells = starts.multinomial(config.cells, True, generator=generator).flatten()
    number = torch.arange(len(mazes), device=mazes.device).repeat_interleave(config.cells)
    maps, optimal = maps[number], optimal[number, cells]
    if not isinstance(planner, ImitatingAgent):
        return imitation_loss(planner(maps, cells).logits, optimal, config.label)
    action = torch.randint(optimal.shape[-1], cells.shape, device=cells.device, generator=generator)
    negative = torch.randint(len(cells), cells.shape, device=cells.device, generator=generator)
    step = Step(action, cells + mazes.offsets()[action], negative)
    output, model_loss = planner.with_model_loss(maps, cells, step)
    return imitation_loss(output.logits, optimal, config.label) + config.transe_coef * model_loss
