"""Training from Python and from the command line: choose a configuration, run it, load what came of it."""

from __future__ import annotations

import difflib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from xlvin.agents import registry
from xlvin.agents.base import Agent
from xlvin.errors import XLVINError
from xlvin.training import presets
from xlvin.training.config import Budget, TrainConfig
from xlvin.training.run import Result, open_run, run
from xlvin.training.trainer import Progress

# Steps per environment and round when a budget counts transitions.
ROUND = 128


def train(
    environment: str,
    agent: str | None = None,
    *,
    trajectories: int | None = None,
    transitions: int | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    folder: str | Path | None = None,
    device: str = "cpu",
    preset: presets.Version = "tuned",
    progress: Progress | None = None,
    **settings: Any,
) -> Result:
    """Train an agent by name, by default the best there is, on an environment and evaluate it greedily.

    The data budget is a number of complete episodes or of environment steps, for each of `seeds` seeds that
    train side by side. With a `folder` the run is kept there, and the same call resumes it. `settings` are
    fields of PPOConfig, DQNConfig, AgentConfig and Budget by name, such as `learning_rate=1e-3, depth=3`, and
    `imagination=ImaginationConfig(...)`.
    """
    config = configure(environment, agent, preset, trajectories, transitions)
    config = override(replace(config, seeds=seeds, first_seed=first_seed), settings)
    return run(config, None if folder is None else Path(folder), device, progress)


def load(path: str | Path, seed: int | None = None) -> Agent:
    """An agent from its file, or from a run's folder: there the one of `seed`, by default the first."""
    path = Path(path)
    if not path.is_dir():
        if seed is not None:
            raise XLVINError(f"{path} holds one agent at most; leave the seed out.")
        return registry.load(path)
    config, agents = open_run(path)
    members = dict(zip(config.seed_list, agents, strict=True))
    if seed is not None and seed not in members:
        raise XLVINError(
            f"The run in {path} has no seed {seed}; its seeds are {', '.join(map(str, members))}."
        )
    return members[config.first_seed if seed is None else seed]


def configure(
    environment: str,
    agent: str | None = None,
    preset: presets.Version = "tuned",
    trajectories: int | None = None,
    transitions: int | None = None,
) -> TrainConfig:
    """A preset with a data budget of its own; without an agent's name, of the best there is."""
    if not isinstance(environment, str):
        raise XLVINError("The environment is given by its registered name, such as env.spec.id.")
    if preset not in ("tuned", "paper"):
        raise XLVINError(f'There is no preset "{preset}"; choose tuned or paper.')
    if trajectories is not None and transitions is not None:
        raise XLVINError("A budget counts trajectories or transitions; give one of them.")
    config = presets.preset(environment, agent or presets.default_agent(environment, preset), preset)
    if trajectories is not None:
        budget = config.budget if config.budget.unit == "trajectories" else Budget()
        config = replace(config, budget=replace(budget, total=trajectories))
    if transitions is not None:
        config = replace(config, budget=Budget("transitions", transitions, ROUND))
    return config


def override(config: TrainConfig, settings: dict[str, Any]) -> TrainConfig:
    """Replace fields by their name, wherever in the configuration they are; `discount` is PPO's."""
    places: dict[str, Any] = {name: getattr(config, name) for name in ("network", "budget", "values", "ppo")}
    home = {field.name: place for place, part in places.items() for field in fields(part)}
    for name, value in settings.items():
        if name in ("evaluation_episodes", "imagination"):
            config = replace(config, **{name: value})
        elif name not in home:
            near = difflib.get_close_matches(name, [*home, "evaluation_episodes", "imagination"], 1)
            hint = f' Did you mean "{near[0]}"?' if near else " See xlvin.TrainConfig for all of them."
            raise XLVINError(f'There is no setting "{name}".{hint}')
        else:
            part: Any = getattr(config, home[name])
            config = replace(config, **{home[name]: replace(part, **{name: value})})
    return config
