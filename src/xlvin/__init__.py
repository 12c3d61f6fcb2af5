"""eXecuted Latent Value Iteration Networks: implicit planning with a frozen value-iteration executor.

result = xlvin.train("CartPole-v0", trajectories=10, seeds=5)
action, _ = result.agent.predict(observation)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlvin.agents.base import Agent, AgentConfig
    from xlvin.agents.registry import make_agent
    from xlvin.agents.tree import ImaginedTree
    from xlvin.errors import RunFailedError, XLVINError
    from xlvin.executor.artefact import load_executor
    from xlvin.executor.network import Executor
    from xlvin.latent.transition import TransitionModel
    from xlvin.planner.planner import Planner
    from xlvin.training.api import load, train
    from xlvin.training.config import Budget, DQNConfig, ImaginationConfig, PPOConfig, TrainConfig
    from xlvin.training.run import Result

__version__ = "0.1.0"

# Where each public name lives. It is imported when first asked for: torch takes seconds, `xlvin --help` none.
_HOMES = {
    "Agent": "agents.base",
    "AgentConfig": "agents.base",
    "Budget": "training.config",
    "DQNConfig": "training.config",
    "Executor": "executor.network",
    "ImaginationConfig": "training.config",
    "ImaginedTree": "agents.tree",
    "PPOConfig": "training.config",
    "Planner": "planner.planner",
    "Result": "training.run",
    "RunFailedError": "errors",
    "TrainConfig": "training.config",
    "TransitionModel": "latent.transition",
    "XLVINError": "errors",
    "load": "training.api",
    "load_executor": "executor.artefact",
    "make_agent": "agents.registry",
    "train": "training.api",
}

__all__ = [
    "Agent",
    "AgentConfig",
    "Budget",
    "DQNConfig",
    "Executor",
    "ImaginationConfig",
    "ImaginedTree",
    "PPOConfig",
    "Planner",
    "Result",
    "RunFailedError",
    "TrainConfig",
    "TransitionModel",
    "XLVINError",
    "load",
    "load_executor",
    "make_agent",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'xlvin' has no attribute {name!r}")
    return getattr(importlib.import_module(f"xlvin.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
