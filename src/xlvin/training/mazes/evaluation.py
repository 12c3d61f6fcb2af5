"""How well an agent finds its way in mazes it has not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from xlvin.envs.maze_world import STEPS_PER_ROW, observe, reward_of_cells, scenes
from xlvin.errors import XLVINError
from xlvin.mdp.mazes import GOAL_REWARD, STEP_REWARD, Mazes, generate

# Agents that act at a time; a tree hangs on each of them.
CHUNK = 512


@dataclass(frozen=True, eq=False)
class Journeys:
    """Starts in mazes, the same number of every level."""

    mazes: Mazes
    place: Tensor  # [levels, M] int64


def held_out(size: int, levels: int, starts: int, seed: int, mazes: int) -> Journeys:
    """Journeys of levels 1, 2, ... through test mazes, `starts` of each."""
    drawn = generate(mazes, size, seed, "test")
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for level in range(1, levels + 1):
        found = drawn.starts(level)
        if len(found) < starts:
            raise XLVINError(
                f"{mazes} mazes of size {size} have {len(found)} starts of level {level}, not {starts}; ask "
                "for fewer starts or more mazes."
            )
        rows.append(found[torch.randperm(len(found), generator=generator)[:starts]])
    return Journeys(drawn, torch.stack(rows))


@torch.no_grad()
def arrivals(agent: nn.Module, journeys: Journeys, step_limit: int | None = None) -> Tensor:
    """Which journeys end at the goal when the most probable move is always taken, [levels, M] bool."""
    device = next(agent.parameters()).device
    mazes = journeys.mazes.to(device)
    limit = STEPS_PER_ROW * mazes.shape[0] if step_limit is None else step_limit
    empty, rewards, offset = scenes(mazes), reward_of_cells(mazes), mazes.offsets()
    places = torch.split(journeys.place.flatten().to(device), CHUNK)
    arrived = [_walk(agent, empty, rewards, offset, place, limit) for place in places]
    return torch.cat(arrived).view(journeys.place.shape).cpu()


def _walk(
    agent: nn.Module, empty: Tensor, rewards: Tensor, offset: Tensor, place: Tensor, limit: int
) -> Tensor:
    """Who of the agents at `place` [B] arrives within `limit` steps, [B] bool."""
    going = torch.ones_like(place, dtype=torch.bool)
    for step in range(limit):
        move = offset[agent(observe(empty, place)).logits.argmax(-1)]
        place = torch.where(going, place + move, place)
        going &= rewards[place] == STEP_REWARD
        if step % 8 == 7 and not bool(going.any()):  # asking the device costs time
            break
    return rewards[place] == GOAL_REWARD
