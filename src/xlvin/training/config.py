"""What a training run is: every number that decides its result, in frozen dataclasses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from xlvin.agents.base import AgentConfig
from xlvin.errors import XLVINError
from xlvin.fields import check_fields

# Share of the rounds over which the horizon grows, where it does.
GROWING = 0.7
# Updates of Q-learning between two reports of progress.
PASS = 50


@dataclass(frozen=True)
class Budget:
    """How much data a run may see. Every environment step that training uses counts."""

    unit: Literal["trajectories", "transitions"] = "trajectories"
    """Complete episodes, or single steps."""
    total: int = 100
    """Episodes or steps in all, per seed."""
    per_round: int = 5
    """Episodes collected at a time, one per environment; or steps per environment and round. All rounds are a
    little shorter where more of the total is used in that way."""
    environments: int = 8
    """Parallel environments per seed when counting transitions."""

    def __post_init__(self) -> None:
        check_fields(self, "Budget: ")
        if min(self.total, self.per_round, self.environments) < 1:
            raise XLVINError("Budget: total, per-round and environments must all be at least 1.")

    @property
    def actors(self) -> int:
        """Environments per seed."""
        return self._split[1] if self.unit == "trajectories" else min(self.environments, self.total)

    @property
    def steps(self) -> int:
        """Steps per environment and round when counting transitions."""
        return self._split[1]

    @property
    def rounds(self) -> int:
        """Rounds of collecting and learning."""
        return self._split[0]

    @property
    def used(self) -> int:
        """What the rounds use of the total; what does not fill a round is left."""
        rounds, length = self._split
        return rounds * length * (1 if self.unit == "trajectories" else self.actors)

    @property
    def _split(self) -> tuple[int, int]:
        """Rounds and the length of each: as it is set, or shorter in one round more if that uses more."""
        total = self.total if self.unit == "trajectories" else self.total // self.actors
        length = min(self.per_round, total)
        rounds = total // length
        shorter = total // (rounds + 1)
        return (rounds + 1, shorter) if (rounds + 1) * shorter > rounds * length else (rounds, length)


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
    first_discount: float | None = None
    """gamma before the first round, if another: from there the horizon, 1 / (1 - gamma), grows by equal
    factors and is that of `discount` after 70 % of the rounds. Knowing little, one should not look far."""
    gae_lambda: float = 0.95
    """Mixes bootstrapped and Monte-Carlo returns; 1 is Monte-Carlo."""
    recompute: bool = False
    """Estimate advantages anew before every epoch, with the current critic."""
    vtrace: bool = False
    """Let these estimates, and the critic, speak of the current policy instead of the one that collected the
    data: what follows a step counts by how probable it still is (Espeholt et al. 2018). For many epochs on
    the same data; asks for `recompute`."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this for learning; agents that imagine find their own scale."""
    transe_coef: float = 0.001
    """lambda, the weight of the TransE loss (section 3.2)."""
    reward_coef: float = 1.0
    """Weight of the reward model's grounding, for agents that have one."""
    novelty_coef: float = 0.0
    """Weight of an exploration bonus: latent distance to the nearest past state, zero on average.
    Agents that imagine have their own curiosity instead."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("learning_rate", "adam_epsilon", "clip", "max_grad_norm"):
            if getattr(self, name) <= 0.0:
                raise XLVINError(f"{name} is {getattr(self, name)}; give a positive number.")
        if min(self.epochs, self.minibatches) < 1:
            raise XLVINError("Epochs and minibatches must be at least 1.")
        if not (0.0 <= self.discount <= 1.0 and 0.0 <= self.gae_lambda <= 1.0):
            raise XLVINError("Discount and gae-lambda must lie between 0 and 1.")
        if self.vtrace and not self.recompute:
            raise XLVINError(
                "V-trace corrects estimates made anew in every epoch; turn recompute on as well."
            )
        if self.first_discount is not None and not 0.0 <= self.first_discount <= self.discount < 1.0:
            raise XLVINError(
                f"The first discount, {self.first_discount}, must lie between 0 and the discount, "
                f"{self.discount}, and that below 1; set both, or no first discount."
            )

    def refuse(self, names: Sequence[str], place: str) -> None:
        """Say so if one of these options is set in a place that does not have it."""
        for each in fields(self):
            if each.name in names and getattr(self, each.name) != each.default:
                raise XLVINError(f"{each.name} is not available for {place}; leave it at {each.default}.")

    def discount_in(self, round_: int, rounds: int) -> float:
        """gamma of a round, counted from zero."""
        if self.first_discount is None:
            return self.discount
        done = min(1.0, (round_ + 1) / (GROWING * rounds))
        nearest, farthest = 1.0 - self.first_discount, 1.0 - self.discount
        return 1.0 - math.pow(nearest, 1.0 - done) * math.pow(farthest, done)


@dataclass(frozen=True)
class ImaginationConfig:
    """Learning inside a learned world model, after every round of real data."""

    iterations: int = 0
    """How often a round imagines and learns from it."""
    last_iterations: int = 0
    """The same for the last round, over which the learning rate falls to zero; 0: no imagination at all."""
    branches: int = 40
    """Imagined episodes that run side by side, shared out evenly among the members of the model."""
    horizon: int = 80
    """Steps of every branch; one that ends is followed by another."""
    initial_share: float = 0.5
    """Branches that begin where episodes do, or, if data is counted in transitions, rounds of it; the others
    begin at any seen state."""
    support: float = 10.0
    """Last round: a branch this far from all seen states, in units of their own distance, ends badly."""
    curiosity: float = 3.0
    """Before: a branch this far ends as well as anything seen, where all steps pay alike."""
    learning_rate: float = 1e-3
    """Adam's step on imagined data."""
    epochs: int = 2
    """Passes over imagined data."""
    minibatches: int = 4
    """Parts into which each pass splits it."""
    gae_lambda: float = 0.97
    """Mixes bootstrapped and Monte-Carlo returns of branches."""
    real: bool = True
    """Learn from the real data of the round as well."""
    members: int = 5
    """Networks in the model's ensemble."""
    hidden: int = 128
    """Hidden features of each."""
    first_model_steps: int = 600
    """Gradient steps of the model in the first round."""
    model_steps: int = 300
    """In each later round."""
    model_rate: float = 4e-3
    """The model's learning rate; falls within every round."""
    weight_decay: float = 1e-4
    """Of the model's weights."""
    model: Literal["observation", "latent"] = "observation"
    """An ensemble that predicts observations; or the agent's own encoder and T, with heads for what steps pay
    and what ends: then `members` only has to divide `branches`."""

    def __post_init__(self) -> None:
        check_fields(self, "Imagination: ")
        if min(self.iterations, self.last_iterations, self.first_model_steps, self.model_steps) < 0:
            raise XLVINError("Imagination: iterations and model steps must not be negative.")
        if min(self.branches, self.horizon, self.epochs, self.minibatches, self.members, self.hidden) < 1:
            raise XLVINError(
                "Imagination: branches, horizon, epochs, minibatches, members and hidden are at least 1."
            )
        if self.branches % self.members:
            raise XLVINError(
                f"Imagination: {self.branches} branches cannot be shared evenly by {self.members} members; "
                f"give a multiple of {self.members}."
            )
        if not (0.0 <= self.initial_share <= 1.0 and 0.0 <= self.gae_lambda <= 1.0):
            raise XLVINError("Imagination: initial-share and gae-lambda must lie between 0 and 1.")
        if (
            min(self.learning_rate, self.model_rate, self.support, self.curiosity) <= 0.0
            or self.weight_decay < 0.0
        ):
            raise XLVINError("Imagination: rates, support and curiosity must be positive.")


@dataclass(frozen=True)
class DQNConfig:
    """Q-learning from replay, for agents whose tail says values.

    What it shares with PPO is PPO's: learning rate, annealing, largest gradient norm, discount, scale of the
    rewards, novelty, and the weights of the losses beside it.
    """

    updates: int = 200
    """Steps of gradient descent per round."""
    batch: int = 32
    """Transitions in each (Mnih et al. 2015), drawn from all data so far."""
    n_step: int = 5
    """Rewards that a target sums before it bootstraps; also how far outcomes are predicted."""
    double: bool = True
    """Let the learning network choose the action that the target network values (van Hasselt et al. 2016)."""
    target_every: int = 1
    """Steps between moves of the target network."""
    target_mix: float = 0.01
    """How far it then moves to the learning network; 1 copies it."""
    epsilon_start: float = 1.0
    """Share of random actions in the first round."""
    epsilon_end: float = 0.05
    """And at the end."""
    epsilon_share: float = 0.2
    """Share of the rounds over which it falls linearly from one to the other."""
    q_coef: float = 1.0
    """Weight of the loss on the action values themselves."""

    def __post_init__(self) -> None:
        check_fields(self, "Values: ")
        if min(self.updates, self.batch, self.n_step, self.target_every) < 1:
            raise XLVINError("Values: updates, batch, n-step and target-every must be at least 1.")
        if not (0.0 <= self.epsilon_start <= 1.0 and 0.0 <= self.epsilon_end <= 1.0):
            raise XLVINError("Values: epsilon-start and epsilon-end must lie between 0 and 1.")
        if not (0.0 < self.epsilon_share <= 1.0 and 0.0 < self.target_mix <= 1.0):
            raise XLVINError("Values: epsilon-share and target-mix must be positive and at most 1.")
        if self.q_coef < 0.0:
            raise XLVINError(f"Values: q-coef is {self.q_coef}; give 0 or more.")

    @property
    def passes(self) -> int:
        """Parts of a round's updates after which progress is reported."""
        return -(-self.updates // PASS)


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
    """The first seed; the others follow."""
    evaluation_episodes: int = 100
    """Greedy episodes on fresh starts after training, per seed."""
    imagination: ImaginationConfig = field(default_factory=ImaginationConfig)
    """How it learns inside its model."""
    values: DQNConfig = field(default_factory=DQNConfig)
    """How it learns action values, where its tail says them."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.seeds < 1 or self.first_seed < 0 or self.evaluation_episodes < 1:
            raise XLVINError("Seeds and evaluation episodes must be at least 1, the first seed at least 0.")

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds themselves."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def passes(self) -> tuple[int, int]:
        """Passes over data, real and imagined, in every round but the last, and in the last."""
        imagination = self.imagination
        if self.network.tail == "values":
            return self.values.passes, self.values.passes
        if imagination.last_iterations == 0:
            return self.ppo.epochs, self.ppo.epochs
        real = self.ppo.epochs if imagination.real else 0
        return real + imagination.iterations, real + imagination.last_iterations

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TrainConfig:
        """The configuration that `dataclasses.asdict` and JSON have stored."""
        try:
            parts = {
                "network": AgentConfig.from_dict(stored["network"]),
                "budget": Budget(**stored["budget"]),
                "ppo": PPOConfig(**stored["ppo"]),
                "imagination": ImaginationConfig(**stored.get("imagination", {})),
                "values": DQNConfig(**stored.get("values", {})),
            }
            return cls(**{**stored, **parts})
        except (TypeError, KeyError, AttributeError) as error:
            raise XLVINError(
                f"A stored configuration does not fit this version of xlvin ({error}); train it anew."
            ) from error
