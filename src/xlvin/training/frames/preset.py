"""Settings for Atari: Kostrikov's PPO (the paper's footnote), the same for every agent and game."""

from __future__ import annotations

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.envs.atari import find_game
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, PPOConfig, TrainConfig

# Section 4.1: a million transitions; eight actors of 128 steps (Kostrikov's README).
BUDGET = Budget("transitions", 1_000_000, per_round=128, environments=8)
# Kostrikov's README, and TransE's weight of section 3.2.
KOSTRIKOV = PPOConfig(
    learning_rate=2.5e-4,
    anneal=True,
    adam_epsilon=1e-5,
    epochs=4,
    minibatches=4,
    clip=0.1,
    clip_value=True,
    value_coef=0.5,
    entropy_coef=0.01,
    max_grad_norm=0.5,
    discount=0.99,
    gae_lambda=0.95,
    transe_coef=0.001,
)
# Section 4.1. Ours for all other games: one step ahead, since most have 18 actions.
DEPTH = {"freeway": 2, "enduro": 2, "alien": 1, "hero": 1}
# Kostrikov's encoder ends in 512 features. Ours: half as many in T, of which the paper does not speak.
LATENT, HIDDEN = 512, 256
EVALUATION = 10  # whole games


def atari_preset(environment: str, agent: str) -> TrainConfig:
    """The configuration of an agent on a game."""
    depth = DEPTH.get(find_game(environment).rom, 1)
    network = AgentConfig(**named(agent), latent=LATENT, hidden=HIDDEN, depth=depth)
    if network.kind == "gaussian":
        raise XLVINError(f"Atari games have discrete actions and {agent} draws vectors; choose ppo.")
    return TrainConfig(environment, agent, network, BUDGET, KOSTRIKOV, evaluation_episodes=EVALUATION)
