"""Greedy scores on whole Atari games that no training has seen."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.envs.atari import SIZE, STACK, AtariGames
from xlvin.training.devices import usable_device
from xlvin.training.seeding import derive_seed

# Games that run side by side.
PARALLEL = 10


def evaluate_games(
    agents: Sequence[Agent], name: str, seeds: Sequence[int], episodes: int, device: torch.device | str
) -> NDArray[np.float64]:
    """The game's own scores [S, episodes] of the agents' most probable actions."""
    games = AtariGames(name, min(PARALLEL, episodes))
    try:
        scores = [
            _play(agent, games, seed, episodes, usable_device(device))
            for agent, seed in zip(agents, seeds, strict=True)
        ]
    finally:
        games.close()
    return np.array(scores, np.float64)


@torch.inference_mode()
def _play(agent: Agent, games: AtariGames, seed: int, episodes: int, device: torch.device) -> list[float]:
    """Every one of the games is played as often as the others: the first to end are the shortest."""
    agent = copy.deepcopy(agent).to(device)
    starts = [derive_seed(seed, "evaluation games", number) for number in range(games.games)]
    seen, each = games.reset(np.array(starts)), -(-episodes // games.games)
    scores: list[list[float]] = [[] for _ in range(games.games)]
    stack = torch.zeros(games.games, STACK, SIZE, SIZE, dtype=torch.uint8, device=device)
    while any(len(of_game) < each for of_game in scores):
        stack *= torch.from_numpy(seen.age > 0).to(device).view(-1, 1, 1, 1)  # an episode begins in the dark
        stack = torch.cat((stack[:, 1:], torch.from_numpy(seen.frames).to(device).unsqueeze(1)), 1)
        games.send(agent(stack).logits.argmax(-1).cpu().numpy())
        seen = games.receive()
        for game in seen.finished:
            scores[game.number].append(game.score)
    turns = zip(*(row[:each] for row in scores), strict=True)
    return [score for of_games in turns for score in of_games][:episodes]
