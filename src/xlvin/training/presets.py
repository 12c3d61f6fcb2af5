"""Settings by environment, agent and version, each with its source.

"paper" holds what the paper states; where it is silent, what its authors' published skeleton does. "tuned"
holds what a search with equal effort for every agent found, on seeds that are not the reported ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.training.config import Budget, PPOConfig, TrainConfig

Version = Literal["paper", "tuned"]

# Section 4.1: hidden features F, thinking time K, and the data each environment grants.
CONTROL: dict[str, tuple[int, int, Budget]] = {
    "CartPole-v0": (64, 2, Budget(total=10, per_round=10)),
    "Acrobot-v1": (32, 2, Budget(total=100, per_round=5)),
    "MountainCar-v0": (16, 2, Budget(total=100, per_round=5)),
    "LunarLander-v3": (64, 3, Budget(total=250, per_round=5)),
}

# Kostrikov's PPO (the paper's footnote 1) with the skeleton's Monte-Carlo returns and Adam rate.
PAPER = PPOConfig(
    learning_rate=1e-3,
    epochs=4,
    minibatches=4,
    clip=0.1,
    clip_value=True,
    entropy_coef=0.01,
    value_coef=0.5,
    max_grad_norm=0.5,
    discount=0.99,
    gae_lambda=1.0,
    transe_coef=0.001,
)
PAPER_EPOCHS = {"CartPole-v0": 100}  # section 4.1

# Ours: a start that works on any small control task; rewards are scaled to keep values near one.
GENERAL = PPOConfig(learning_rate=1e-3, epochs=10, minibatches=4, gae_lambda=0.95, reward_scale=0.1)
TUNED: dict[str, dict[str, dict[str, Any]]] = {}


def preset(environment: str, agent: str, version: Version = "tuned") -> TrainConfig:
    """The configuration of an agent on an environment; general settings where none are listed."""
    hidden, depth, budget = CONTROL.get(environment, (64, 2, Budget()))
    network = AgentConfig(**named(agent), hidden=hidden, depth=depth)
    if version == "paper":
        network = replace(network, initialisation="torch", inputs="raw")
        ppo = replace(PAPER, epochs=PAPER_EPOCHS.get(environment, PAPER.epochs))
    else:
        ppo = replace(GENERAL, **TUNED.get(environment, {}).get(agent, {}))
    return TrainConfig(environment, agent, network, budget, ppo)
