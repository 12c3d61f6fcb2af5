"""What a training run is: every number that decides its result, in frozen dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from xlvin.agents.base import AgentConfig
from xlvin.errors import XLVINError


@dataclass(frozen=True)
class Budget:
    """How much data a run may see. Every environment step that training uses counts."""

    unit: Literal["trajectories", "transitions"] = "trajectories"
    """Complete episodes, or single steps."""
    total: int = 100
    """Episodes or steps in all, per seed."""
    per_round: int = 5
    """Episodes collected at a time, one per environment; or steps per environment and round."""
    environments: int = 8
    """Parallel environments per seed when counting transitions."""

    def __post_init__(self) -> None:
        if self.unit not in ("trajectories", "transitions"):
            raise XLVINError(f"A budget counts trajectories or transitions, not {self.unit!r}.")
        if min(self.total, self.per_round, self.environments) < 1:
            raise XLVINError("Budget: total, per-round and environments must all be at least 1.")

    @property
    def actors(self) -> int:
        """Environments per seed."""
        return min(self.per_round if self.unit == "trajectories" else self.environments, self.total)

    @property
    def steps(self) -> int:
        """Steps per environment and round when counting transitions."""
        return min(self.per_round, self.total // self.actors)

    @property
    def rounds(self) -> int:
        """Rounds of collecting and learning; what does not fill a round is not used."""
        return self.total // (self.actors if self.unit == "trajectories" else self.actors * self.steps)


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation and the auxiliary losses beside it."""

    learning_rate: float = 1e-3
    """Adam's step."""
    anneal: bool = False
    """Let the learning rate fall linearly to zero over the rounds (or epochs, if there is one round)."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon (Kostrikov)."""
    epochs: int = 10
    """Passes over the data of a round."""
    minibatches: int = 4
    """Parts into which each pass splits the data."""
    clip: float = 0.2
    """PPO's epsilon."""
    clip_value: bool = False
    """Clip the value's move as well (Kostrikov)."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Largest gradient norm of a seed's update."""
    discount: float = 0.99
    """gamma."""
    gae_lambda: float = 0.95
    """Mixes bootstrapped and Monte-Carlo returns; 1 is Monte-Carlo."""
    recompute: bool = False
    """Estimate advantages anew before every epoch, with the current critic."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this for learning."""
    transe_coef: float = 0.001
    """lambda, the weight of the TransE loss (section 3.2)."""
    reward_coef: float = 1.0
    """Weight of the reward model's grounding, for agents that have one."""
    novelty_coef: float = 0.0
    """Weight of an exploration bonus: latent distance to the nearest past state, zero on average."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not math.isfinite(value):
                raise XLVINError(f"{name} is {value}; give a finite number.")
        for name in ("learning_rate", "adam_epsilon", "clip", "max_grad_norm"):
            if getattr(self, name) <= 0.0:
                raise XLVINError(f"{name} is {getattr(self, name)}; give a positive number.")
        if min(self.epochs, self.minibatches) < 1:
            raise XLVINError("Epochs and minibatches must be at least 1.")
        if not (0.0 <= self.discount <= 1.0 and 0.0 <= self.gae_lambda <= 1.0):
            raise XLVINError("Discount and gae-lambda must lie between 0 and 1.")


@dataclass(frozen=True)
class TrainConfig:
    """One training run: an agent on an environment, for several seeds side by side."""

    environment: str = "CartPole-v0"
    """A Gymnasium environment's name."""
    agent: str = "xlvin-r"
    """The agent's name."""
    network: AgentConfig = field(default_factory=AgentConfig)
    """The agent's shape."""
    budget: Budget = field(default_factory=Budget)
    """The data."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """How it learns."""
    seeds: int = 1
    """How many seeds to train side by side."""
    first_seed: int = 0
    """The first of them; the others follow."""
    evaluation_episodes: int = 100
    """Greedy episodes on fresh starts after training, per seed."""

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.first_seed < 0 or self.evaluation_episodes < 1:
            raise XLVINError("Seeds and evaluation episodes must be at least 1, the first seed at least 0.")

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds themselves."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TrainConfig:
        """The configuration that `dataclasses.asdict` and JSON have stored."""
        try:
            network, budget, ppo = stored["network"], stored["budget"], stored["ppo"]
            parts = {
                "network": AgentConfig.from_dict(network),
                "budget": Budget(**budget),
                "ppo": PPOConfig(**ppo),
            }
            return cls(**{**stored, **parts})
        except (TypeError, KeyError, AttributeError) as error:
            raise XLVINError(
                f"A stored configuration does not fit this version of xlvin ({error})."
            ) from error
