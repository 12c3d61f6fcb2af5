"""Hyperparameter search with equal effort for every agent, on seeds that are never reported.

A random search in two stages: every agent tries the same sampled settings on a few seeds, the best of them
again on more. The seeds begin at 1,000; reported results use seeds from 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import VALUE_BASED, named
from xlvin.experiments.workers import run_jobs
from xlvin.training.config import DQNConfig, TrainConfig
from xlvin.training.presets import CONTROL, GENERAL, with_settings
from xlvin.training.run import run
from xlvin.training.seeding import generator
from xlvin.training.values import presets as value_presets

FIRST_SEED = 1000
EPISODES = 50  # of a seed's greedy score

# What may be tuned: fields of PPOConfig, and of the network those in `presets.NETWORK`.
SPACE: dict[str, tuple[Any, ...]] = {
    "learning_rate": (3e-4, 6e-4, 1e-3, 2e-3, 4e-3),
    "epochs": (5, 10, 20),
    "minibatches": (4, 8),
    "clip": (0.1, 0.2, 0.3),
    "entropy_coef": (0.0, 0.003, 0.01, 0.03),
    "discount": (0.97, 0.99, 0.995),
    "gae_lambda": (0.8, 0.9, 0.95, 0.98),
    "recompute": (False, True),
    "anneal": (False, True),
    "transe_coef": (0.001, 0.01, 0.1, 1.0),
    "inputs": ("raw", "standard", "symlog"),
}
# Environments whose data or rewards ask for another range.
SPECIAL: dict[str, dict[str, tuple[Any, ...]]] = {
    "CartPole-v0": {
        "learning_rate": (3e-4, 5e-4, 1e-3, 2e-3),
        "epochs": (100,),
        "minibatches": (1, 2, 4),
        "discount": (0.9, 0.95),
        "gae_lambda": (0.8, 0.9, 0.95, 1.0),
        "clip": (0.1, 0.2, 0.5),
        "entropy_coef": (0.0, 0.01, 0.03),
        "recompute": (True,),
        "inputs": ("raw", "bounds", "bounds", "bounds"),
    },
    "Acrobot-v1": {"novelty_coef": (0.0, 0.5, 1.0, 2.0)},
    "MountainCar-v0": {"novelty_coef": (0.0, 0.5, 1.0, 2.0)},
    "LunarLander-v3": {
        "learning_rate": (5e-4, 1e-3, 2e-3, 4e-3),
        "epochs": (10,),
        "minibatches": (8, 16),
        "discount": (0.99, 0.995, 0.999),
        "gae_lambda": (0.9, 0.95, 0.98),
        "entropy_coef": (0.0, 0.003, 0.01),
        "recompute": (False,),
        "inputs": ("raw", "bounds", "symlog"),
        "reward_scale": (0.02, 0.05),
    },
}
# Agents with a value tail: fields of DQNConfig as well.
VALUE_SPACE: dict[str, tuple[Any, ...]] = {
    "learning_rate": (3e-4, 1e-3, 3e-3),
    "updates": (100, 200, 400),
    "n_step": (1, 3, 5, 10),
    "target_mix": (0.003, 0.01, 0.03),
    "epsilon_end": (0.01, 0.05),
    "epsilon_share": (0.2, 0.5),
    "discount": (0.97, 0.99, 0.995),
    "reward_scale": (0.1, 1.0),
    "anneal": (False, True),
    "transe_coef": (0.001, 0.01, 0.1, 1.0),
    "inputs": ("standard", "symlog"),
}
SPECIAL_VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "CartPole-v0": {
        "updates": (300, 1000),
        "discount": (0.9, 0.95, 0.99),
        "inputs": ("bounds", "bounds", "standard", "symlog"),
    },
    "Acrobot-v1": {"novelty_coef": (0.0, 1.0)},
    "MountainCar-v0": {"novelty_coef": (0.0, 1.0)},
    "LunarLander-v3": {"reward_scale": (0.02, 0.05)},
}


@dataclass(frozen=True)
class Trial:
    """One agent with one setting on some seeds."""

    environment: str
    agent: str
    settings: dict[str, Any]
    first_seed: int
    seeds: int
    device: str = "cpu"


def sample(environment: str, trial: int, values: bool = False) -> dict[str, Any]:
    """The settings of a trial; the same for every agent with a policy, or for every one with values."""
    stream = generator(trial, f"tuning {environment}")
    spaces = (VALUE_SPACE, SPECIAL_VALUES) if values else (SPACE, SPECIAL)
    space = spaces[0] | spaces[1].get(environment, {})
    return {name: choices[int(stream.integers(len(choices)))] for name, choices in space.items()}


def untuned(environment: str, agent: str) -> TrainConfig:
    """Where every search starts: general settings, a network as wide and a tree as deep as the paper's."""
    hidden, depth, budget = CONTROL[environment]
    start = TrainConfig(
        environment, agent, AgentConfig(**named(agent), hidden=hidden, depth=depth), budget, GENERAL
    )
    if agent in VALUE_BASED:
        general = replace(start, ppo=value_presets.Q_LEARNING, values=DQNConfig())
        return with_settings(general, value_presets.GENERAL.get(agent, {}))
    return start


def run_trial(trial: Trial) -> list[float]:
    """Greedy score of every seed after training."""
    config = with_settings(untuned(trial.environment, trial.agent), trial.settings)
    seeds = replace(config, first_seed=trial.first_seed, seeds=trial.seeds, evaluation_episodes=EPISODES)
    return [float(score) for score in run(seeds, device=trial.device).scores]


def search(
    environments: Sequence[str],
    agents: Sequence[str],
    trials: Sequence[int],
    seeds: int,
    path: Path,
    device: str = "cpu",
    workers: int | None = None,
) -> None:
    """Run sampled trials and append each outcome to `path` as a line of JSON when it is known."""
    jobs = [
        Trial(environment, agent, sample(environment, trial, agent in VALUE_BASED), FIRST_SEED, seeds, device)
        for trial in trials
        for environment in environments
        for agent in agents
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for trial, scores in run_jobs(run_trial, jobs, workers):
            file.write(json.dumps({**asdict(trial), "scores": scores}) + "\n")
            file.flush()
