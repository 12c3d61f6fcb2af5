"""The agent that a command is about: one seed of a run, or an agent's own file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlvin.agents.base import Agent
from xlvin.errors import XLVINError
from xlvin.training.api import load, open_member
from xlvin.training.seeding import derive_seed


@dataclass(frozen=True, eq=False)
class Member:
    """An agent, and what is known of its training."""

    agent: Agent
    environment: str | None  # None: the file of an agent does not say
    seed: int | None

    @property
    def notes(self) -> dict[str, Any]:
        """What is known, for metadata and JSON."""
        known = {"environment": self.environment, "seed": self.seed}
        return {name: value for name, value in known.items() if value is not None}


def member(source: Path, seed: int | None) -> Member:
    """The agent of `seed` in a run's folder (None: of the first), or of an agent's file."""
    if source.is_file():
        return Member(load(source, seed), None, None)
    config, agent, seed = open_member(source, seed)
    return Member(agent, config.environment, seed)


def episode_start(seed: int, chosen: int | None) -> int:
    """The seed of the episode to look at: the chosen one, or one that the training of `seed` has not seen."""
    if chosen is not None and not 0 <= chosen < 2**31:
        raise XLVINError(f"The episode's seed is {chosen}; give a number from 0 to {2**31 - 1}.")
    return derive_seed(seed, "show") if chosen is None else chosen
