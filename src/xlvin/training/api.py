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
from xlvin.training.progress import announce, training_progress
from xlvin.training.run import Result, open_run, run
from xlvin.training.trainer import Progress

# Steps per environment and round when a budget counts transitions.
ROUND = 128
# The parts of a configuration; in all but the last, fields are also found by their own name.
PARTS = ("network", "budget", "values", "ppo", "imagination")
SEARCHED = PARTS[:-1]


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
    progress: Progress | bool = False,
    **settings: Any,
) -> Result:
    """Train an agent by name, by default the best there is, on an environment and evaluate it greedily.

    The data budget is a number of complete episodes or of environment steps, for each of `seeds` seeds that
    train side by side. With a `folder` the run is kept there, and the same call resumes it.

    `progress=True` shows on standard error what `xlvin train` shows. A function is called instead after every
    pass over a round's data, with the round (from 0), the passes of it that are done (from 1), and the
    metrics that are known by then: "return" and "steps", arrays with a number for each seed.

    `settings` are fields of PPOConfig, DQNConfig, AgentConfig and Budget by name, such as
    `learning_rate=1e-3, depth=3`. Some of a part's fields are set by a dictionary, as in
    `imagination={"horizon": 40}`, all of them by a configuration, as in `ppo=PPOConfig(...)`.
    """
    config = configure(environment, agent, preset, trajectories, transitions)
    config = override(replace(config, seeds=seeds, first_seed=first_seed), settings)
    if (trajectories is not None or transitions is not None) and {"total", "unit", "budget"} & set(settings):
        raise XLVINError("The budget is set twice; give trajectories, transitions or a total.")
    kept = None if folder is None else Path(folder)
    if not isinstance(progress, bool):
        return run(config, kept, device, progress)
    if progress:
        announce(config, kept)
    with training_progress(config, not progress, device) as shown:
        return run(config, kept, device, shown)


def load(path: str | Path, seed: int | None = None) -> Agent:
    """An agent from its file, or from a run's folder: there the one of `seed`, by default the first."""
    path = Path(path)
    if path.is_dir():
        return open_member(path, seed)[1]
    if seed is not None:
        raise XLVINError(f"{path} holds one agent at most; leave the seed out.")
    return registry.load(path)


def open_member(folder: Path, seed: int | None = None) -> tuple[TrainConfig, Agent, int]:
    """A run's configuration, its agent of `seed`, by default the first, and that seed."""
    config, agents = open_run(folder)
    members = dict(zip(config.seed_list, agents, strict=True))
    chosen = config.first_seed if seed is None else seed
    if chosen not in members:
        raise XLVINError(
            f"The run in {folder} has no seed {chosen!r}; its seeds are {', '.join(map(str, members))}."
        )
    return config, members[chosen], chosen


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
    """Replace fields by their name, wherever in the configuration they are; `discount` is PPO's.

    The name of a part takes a whole configuration, or a dictionary with some of its fields.
    """
    home = {field.name: place for place in SEARCHED for field in fields(getattr(config, place))}
    known = [*home, *PARTS, "evaluation_episodes"]
    whole: dict[str, Any] = {}
    some: dict[str, dict[str, Any]] = {}  # by part: what is set together is checked together
    for name, value in settings.items():
        if name in PARTS and isinstance(value, dict):
            some.setdefault(name, {}).update(value)
        elif name in home:
            some.setdefault(home[name], {})[name] = value
        elif name in known:
            whole[name] = value
        else:
            raise _missing(name, known)
    parts = {name: _with(whole.get(name, getattr(config, name)), changed) for name, changed in some.items()}
    return check_imagination(replace(config, **whole | parts))


def check_imagination(config: TrainConfig) -> TrainConfig:
    """The configuration, unless its agent is to imagine and does not."""
    if config.agent in registry.IMAGINING and config.imagination.last_iterations == 0:
        raise XLVINError(
            f"{config.agent} would not imagine with imagination.last_iterations 0; set them as well, "
            'or choose an agent without "-imagine".'
        )
    return config


def _with(part: Any, settings: dict[str, Any]) -> Any:
    """A part of a configuration with other values of some fields."""
    known = [field.name for field in fields(part)]
    for name in settings:
        if name not in known:
            raise _missing(name, known)
    if isinstance(bins := settings.get("bins"), int | list):  # one number is for all dimensions
        settings = {**settings, "bins": (bins,) if isinstance(bins, int) else tuple(bins)}
    return replace(part, **settings)


def _missing(name: str, known: list[str]) -> XLVINError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f' Did you mean "{near[0]}"?' if near else " See xlvin.TrainConfig for all of them."
    return XLVINError(f'There is no setting "{name}".{hint}')
