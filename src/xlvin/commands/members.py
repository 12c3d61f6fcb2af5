"""The agent that a command is about: one seed of a run, or an agent's own file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlvin.agents.base import Agent
from xlvin.training.api import load
from xlvin.training.run import open_run


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
    config, _ = open_run(source)
    return Member(load(source, seed), config.environment, config.first_seed if seed is None else seed)
