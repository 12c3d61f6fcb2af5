"""The continual maze (appendix F): PPO on mazes of one level after the other, until one is not passed.

An agent trains on starts of level 1: one move away from the goal. Once it has reached the goal in 95 % of its
last 1,000 episodes it goes on to level 2 and never sees level 1 again; after 1,000,000 episodes without that
it has failed. Everything stays on the device; the host asks for a few numbers a round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, Batch, Output
from xlvin.envs.maze_world import MazeWorld
from xlvin.errors import RunFailedError, XLVINError
from xlvin.mdp.mazes import Mazes
from xlvin.storage import check_tensors, grouped
from xlvin.training.config import PPOConfig
from xlvin.training.mazes.hindsight import Hindsight, HindsightConfig
from xlvin.training.objective import Objective, Sample, Targets
from xlvin.training.returns import advantages
from xlvin.training.seeding import derive_seed


@dataclass(frozen=True)
class ContinualConfig:
    """The protocol, and how an agent learns in it."""

    levels: int = 10
    """Levels to pass."""
    success: float = 0.95
    """Share of the last `window` episodes that must reach the goal."""
    window: int = 1000
    """Episodes over which success is measured."""
    trajectories: int = 1_000_000
    """Episodes after which a level is failed."""
    agents: int = 256
    """Mazes stepped side by side."""
    steps: int = 32
    """Steps of each before the network learns from them."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """How it learns."""
    hindsight: HindsightConfig | None = None
    """How it also learns from its moves with other goals; by default not."""

    def __post_init__(self) -> None:
        if min(self.levels, self.window, self.trajectories, self.agents, self.steps) < 1:
            raise XLVINError("Levels, window, trajectories, agents and steps must all be at least 1.")
        if not 0.0 < self.success <= 1.0:
            raise XLVINError(f"The success that passes a level is {self.success}; give a share from 0 to 1.")
        missing = ("anneal", "first_discount", "recompute", "vtrace", "novelty_coef")
        self.ppo.refuse(missing, "the continual maze")
        if self.agents * self.steps < self.ppo.minibatches:
            raise XLVINError(
                f"A round of {self.agents * self.steps} steps cannot be cut into {self.ppo.minibatches} "
                "minibatches; give fewer of them or more agents."
            )


@dataclass(frozen=True)
class LevelResult:
    """How training on one level goes."""

    level: int
    passed: bool
    success: float  # of the last `window` episodes
    trajectories: int  # episodes used so far
    steps: int  # environment steps used so far
    seconds: float


@dataclass(frozen=True, eq=False)
class Rollout:
    """A round of T steps of B agents."""

    last_value: Tensor  # [B], of where the agents stand after the round
    place: Tensor  # [T, B] int64
    action: Tensor  # [T, B] int64
    log_prob: Tensor  # [T, B]
    value: Tensor  # [T, B]
    reward: Tensor  # [T, B]
    successor: Tensor  # [T, B] int64, the true next place
    terminated: Tensor  # [T, B] bool
    truncated: Tensor  # [T, B] bool
    success: Tensor  # [T, B] bool

    @property
    def ended(self) -> Tensor:
        """[T, B] bool."""
        return self.terminated | self.truncated


class ContinualTrainer:
    """One agent on its way through the levels; it reads images [B, 3, H, W], see `xlvin.agents.mazes`."""

    def __init__(self, agent: nn.Module, mazes: Mazes, config: ContinualConfig, seed: int = 0) -> None:
        self.agent, self.mazes, self.config, self.seed = agent.to(mazes.device), mazes, config, seed
        self.results: list[LevelResult] = []  # of the levels that are over
        self.world = MazeWorld(mazes, config.agents, mazes.starts(1))
        self.objective = Objective(cast(Agent, self.agent), config.ppo)
        self.parameters = [weight for weight in agent.parameters() if weight.requires_grad]
        self.optimiser = torch.optim.Adam(
            self.parameters, config.ppo.learning_rate, eps=config.ppo.adam_epsilon
        )
        self.hindsight = (
            None if config.hindsight is None else Hindsight(self.agent, mazes, config.hindsight, config.ppo)
        )
        self._generator = torch.Generator(mazes.device)
        self._recent = torch.zeros(0, dtype=torch.bool)  # successes of the last `window` episodes
        self._begin_level()

    @property
    def level(self) -> int:
        """The level that the agent is at, or the last one."""
        return min(len(self.results) + 1, self.config.levels)

    @property
    def finished(self) -> bool:
        """Whether the last level is passed, or any is failed."""
        failed = bool(self.results) and not self.results[-1].passed
        return failed or len(self.results) == self.config.levels

    def train_round(self) -> LevelResult:
        """Collect a round of data at the current level and learn from it; says how the level goes."""
        config, started = self.config, time.perf_counter()
        # Each round has random streams of its own, so that a run can be continued at any of them.
        self._generator.manual_seed(derive_seed(self.seed, "round", self.level, self._rounds))
        self.world.reseed(derive_seed(self.seed, "world", self.level, self._rounds))
        rollout = self.collect()
        self.learn(rollout)
        if self.hindsight is not None:
            self.look_back(self.hindsight, rollout)
        self._rounds += 1
        self._steps += rollout.place.numel()
        self._trajectories += int(rollout.ended.sum())
        self._recent = torch.cat((self._recent, rollout.success[rollout.ended]))[-config.window :]
        self._seconds += time.perf_counter() - started
        success = float(self._recent.float().mean()) if len(self._recent) else 0.0
        passed = len(self._recent) == config.window and success >= config.success
        result = LevelResult(
            self.level, passed, success, self._trajectories, self._steps, round(self._seconds, 2)
        )
        if passed or self._trajectories >= config.trajectories:
            self.results.append(result)
            if not self.finished:
                self._begin_level()
        return result

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Let the agents act for a round."""
        rows = []
        for _ in range(self.config.steps):
            place = self.world.place
            output: Output = self.agent(self.world.observe())
            log_probs = output.logits.log_softmax(-1)
            # Gumbel's trick draws from the policy without a word from the host.
            noise = torch.empty_like(log_probs).exponential_(generator=self._generator)
            action = (log_probs - noise.log()).argmax(-1)
            log_prob = log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)
            outcome = self.world.step(action)
            ends = (outcome.terminated, outcome.truncated, outcome.success)
            rows.append((place, action, log_prob, output.value, outcome.reward, outcome.place, *ends))
        columns = [torch.stack(column) for column in zip(*rows, strict=True)]
        return Rollout(self._values(self.world.place), *columns)

    def learn(self, rollout: Rollout) -> None:
        """PPO's epochs over a round."""
        ppo, targets = self.config.ppo, self._targets(rollout)
        reward = rollout.reward * ppo.reward_scale
        columns = [column.flatten() for column in (rollout.place, rollout.successor, rollout.action, reward)]
        for _ in range(ppo.epochs):
            for part in self._uniform(len(columns[0])).argsort().chunk(ppo.minibatches):
                place, successor, action, reward = (column[part] for column in columns)
                negative = (self._uniform(len(part)) * len(part)).long()
                state, next_state = self.world.observe(place), self.world.observe(successor)
                batch = Batch(state, action, reward, next_state, negative)
                held = Targets(*(target[part] for target in targets))
                loss, _ = self.objective(Sample(batch, held, torch.ones_like(reward)))
                self._descend(loss)

    def look_back(self, hindsight: Hindsight, rollout: Rollout) -> None:
        """Learn from all moves so far, those of a round included, as if other cells were the goal."""
        hindsight.remember(rollout.place, rollout.action)
        for _ in range(hindsight.config.updates):
            self._descend(hindsight.loss(self._generator))
            hindsight.follow()

    def state(self) -> dict[str, Tensor]:
        """Everything that a continued run needs beside `results`, as copies on the CPU."""
        counters = [float(self._rounds), float(self._steps), float(self._trajectories), self._seconds]
        tensors = {
            "place": self.world.place,
            "age": self.world.age,
            "recent": self._recent,
            "counters": torch.tensor(counters, dtype=torch.float64),
        }
        tensors |= {f"agent.{name}": tensor for name, tensor in self.agent.state_dict().items()}
        for number, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in moments.items()}
        if self.hindsight is not None:
            tensors |= {f"hindsight.{name}": tensor for name, tensor in self.hindsight.state().items()}
        return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def restore(self, tensors: dict[str, Tensor], results: Sequence[LevelResult]) -> None:
        """Continue where `state` and `results` were taken."""
        self.results = list(results)
        groups = grouped(tensors)
        check_tensors("The checkpoint", groups["agent"], self.agent.state_dict())
        self.agent.load_state_dict(groups["agent"])
        moments = {int(number): moment for number, moment in grouped(groups["optimiser"]).items()}
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        if self.hindsight is not None:
            self.hindsight.restore(groups["hindsight"])
        self._begin_level()
        rounds, steps, trajectories, self._seconds = tensors["counters"].tolist()
        self._rounds, self._steps, self._trajectories = int(rounds), int(steps), int(trajectories)
        self._recent = tensors["recent"].to(self.mazes.device)
        self.world.place, self.world.age = (tensors[name].to(self.mazes.device) for name in ("place", "age"))

    def _begin_level(self) -> None:
        self.world.restart(self.mazes.starts(self.level), derive_seed(self.seed, "starts", self.level))
        self._rounds = self._steps = self._trajectories = 0
        self._seconds = 0.0
        self._recent = torch.zeros(0, dtype=torch.bool, device=self.mazes.device)

    def _descend(self, loss: Tensor) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.config.ppo.max_grad_norm)
        self.optimiser.step()

    def _targets(self, rollout: Rollout) -> Targets:
        """What PPO holds against every step, [T * B] each."""
        ppo = self.config.ppo
        following = torch.cat((rollout.value[1:], rollout.last_value.unsqueeze(0)))
        cut = rollout.truncated.nonzero(as_tuple=True)
        if len(cut[0]):
            following[cut] = self._values(rollout.successor[cut])
        numbers = (rollout.reward * ppo.reward_scale, rollout.value, following)
        reward, value, next_value = (column.T for column in numbers)
        terminated, ended = rollout.terminated.T, rollout.ended.T
        advantage = advantages(reward, value, next_value, terminated, ended, ppo.discount, ppo.gae_lambda).T
        target = advantage + rollout.value
        if not bool(target.isfinite().all()):
            raise RunFailedError(f"A value became infinite at level {self.level}; lower the learning rate.")
        standard = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return Targets(*(column.flatten() for column in (rollout.log_prob, rollout.value, standard, target)))

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count, generator=self._generator, device=self.mazes.device)

    @torch.no_grad()
    def _values(self, place: Tensor) -> Tensor:
        output: Output = self.agent(self.world.observe(place))
        return output.value
