"""Settings of agents with a value tail; the paper has none of them, so all of this is ours."""

from __future__ import annotations

from typing import Any

from xlvin.training.config import PPOConfig

Settings = dict[str, Any]  # fields of PPOConfig and DQNConfig, and some of AgentConfig

# Where Q-learning starts on any small control task.
Q_LEARNING = PPOConfig(
    learning_rate=1e-3, max_grad_norm=10.0, reward_scale=0.1, transe_coef=0.01, value_coef=1.0
)
# Oh et al. (2017) learn outcomes and values alone, from which action values follow.
GENERAL: dict[str, Settings] = {"vpn": {"q_coef": 0.0}}

# Quicker steps and targets, which end with small ones.
QUICK: Settings = {"learning_rate": 3e-3, "anneal": True, "n_step": 3, "target_mix": 0.03}

# Found by `xlvin.experiments.tuning` and by hand on seeds from 1,000, the same trials for every agent. By
# environment; then what an agent has of its own.
TUNED: dict[str, Settings] = {
    "CartPole-v0": {**QUICK, "discount": 0.9, "updates": 1000, "inputs": "bounds"},
    "Acrobot-v1": {"novelty_coef": 1.0},
    "MountainCar-v0": {"novelty_coef": 1.0},
    "LunarLander-v3": {
        "learning_rate": 5e-4,
        "updates": 500,
        "batch": 64,
        "n_step": 3,
        "reward_scale": 0.05,
        "depth": 2,  # as with PPO's tail
    },
}
OWN: dict[str, dict[str, Settings]] = {
    "CartPole-v0": {"vpn": {"learning_rate": 1e-3, "n_step": 1}},
    "MountainCar-v0": {"treeqn": QUICK, "xlvin-dqn": QUICK},
}


def value_settings(environment: str, agent: str) -> Settings:
    """What an agent has on an environment instead of the defaults and `Q_LEARNING`."""
    return GENERAL.get(agent, {}) | TUNED.get(environment, {}) | OWN.get(environment, {}).get(agent, {})
