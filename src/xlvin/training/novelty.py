"""An exploration bonus from the latent space: how far a new state is from all seen in earlier rounds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.training.experience import Experience
from xlvin.training.seeding import generator
from xlvin.training.stack import Stack

MEMORY = 512  # observations kept per seed


class Novelty:
    """Remembers a uniform sample of past observations of every seed and scores new ones against it."""

    def __init__(
        self, agent: Agent, seeds: Sequence[int], shape: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        """For observations of a shape and type; the memory is where the agent is."""
        self._seeds = tuple(seeds)
        device = next(agent.parameters()).device
        self.memory = torch.zeros(len(self._seeds), MEMORY, *shape, dtype=dtype, device=device)
        self.seen = 0  # rounds that the memory has sampled from

    @torch.no_grad()
    def bonus(self, stack: Stack, experience: Experience) -> Tensor:
        """Distance of every successor to its nearest neighbour in memory, over the mean, minus one; [S, N].

        Zero on average, so that it neither pays nor fines for long episodes; zero in the first round.
        """
        if self.seen == 0:
            return torch.zeros_like(experience.reward)
        known = stack.call(lambda agent, seen: agent.embed(seen), self.memory)
        pool = stack.call(lambda agent, seen: agent.embed(seen), experience.pool)
        nearest = torch.cdist(pool, known).amin(-1)
        distance = nearest.gather(1, experience.state + 1) * experience.weight
        mean = distance.sum(1, keepdim=True) / experience.weight.sum(1, keepdim=True)
        return (distance / (mean + 1e-8) - 1.0) * experience.weight

    def remember(self, experience: Experience) -> None:
        """Let the round's states take their share of the memory."""
        for index, (seed, count) in enumerate(zip(self._seeds, experience.count, strict=True)):
            stream = generator(seed, "novelty", self.seen)
            share = MEMORY if self.seen == 0 else max(1, MEMORY // (self.seen + 1))
            slots = torch.from_numpy(stream.permutation(MEMORY)[:share]).to(self.memory.device)
            rows = torch.from_numpy(stream.integers(0, count, share)).to(self.memory.device)
            self.memory[index, slots] = experience.pool[index, experience.state[index, rows]]
        self.seen += 1

    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint."""
        return {"memory": self.memory, "seen": torch.tensor(self.seen)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        self.memory.copy_(state["memory"])
        self.seen = int(state["seen"])
