"""Hindsight in mazes (Andrychowicz et al. 2017): every move is learned from as if another cell were the goal.

A goal does not change where moves lead, only what they earn. So what an agent has tried on one level tells,
with other goals, of all levels: Q-learning puts long ways together from single moves.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Generator, Tensor, nn

from xlvin.agents.base import Agent, Batch, Output
from xlvin.envs.maze_world import observe, scenes
from xlvin.errors import XLVINError
from xlvin.mdp.mazes import GOAL_REWARD, STEP_REWARD, WALL_REWARD, Mazes
from xlvin.storage import check_tensors, grouped
from xlvin.training.config import PPOConfig


@dataclass(frozen=True)
class HindsightConfig:
    """How an agent learns from moves that it has made, with other goals."""

    updates: int = 1000
    """Steps of the optimiser after each round."""
    batch: int = 256
    """Moves in each of them, drawn from all that are remembered; every one gets a goal of its own."""
    memory: int = 1_000_000
    """Moves that are remembered, the latest."""
    temperature: float = 0.05
    """What a difference of one between two logits means for the returns of their moves."""
    margin: float = 1.0
    """By how much less than the best move any move is worth at most. How bad a wall is has to be known no
    better than that, and the network has better things to tell apart."""
    target_mix: float = 0.02
    """The share of new weights that the target network takes on after each step."""

    def __post_init__(self) -> None:
        if min(self.updates, self.batch, self.memory) < 1:
            raise XLVINError("Updates, batch and memory of hindsight must all be at least 1.")
        if min(self.temperature, self.margin, self.target_mix) <= 0.0 or self.target_mix > 1.0:
            raise XLVINError(
                "Temperature, margin and target mix of hindsight must be above 0, the mix up to 1."
            )


class Hindsight:
    """The moves that an agent has made, and the loss of one step of learning from them.

    Q(s, a) is V(s) + temperature * (logit of a - highest logit): the agent's own heads, and a policy that
    takes better moves with a higher probability.
    """

    def __init__(self, agent: nn.Module, mazes: Mazes, config: HindsightConfig, ppo: PPOConfig) -> None:
        self.agent, self.config, self.ppo = cast(Agent, agent), config, ppo
        self.target = copy.deepcopy(agent).requires_grad_(False)
        self.moves = torch.zeros(0, 2, dtype=torch.int64, device=mazes.device)  # [M, 2]: place and action
        self._mazes, self._scenes, self._offsets = mazes, scenes(mazes), mazes.offsets()
        self._free = (~mazes.walls).flatten(1).float()

    def remember(self, place: Tensor, action: Tensor) -> None:
        """Add moves, of any equal shapes, to the memory."""
        moves = torch.stack((place.flatten(), action.flatten()), 1)
        self.moves = torch.cat((self.moves, moves))[-self.config.memory :]

    def loss(self, generator: Generator) -> Tensor:
        """Squared error of Q on moves drawn from the memory, and TransE on them, []."""
        config, count = self.config, self.config.batch
        drawn = torch.randint(len(self.moves), (count,), generator=generator, device=self.moves.device)
        place, action = self.moves[drawn].unbind(1)
        goal = self._goals(place, generator)
        observation = observe(self._scenes, place, goal)
        successor = place + self._offsets[action]
        next_observation = observe(self._scenes, successor, goal)
        earned = self._earned(successor, goal)
        output: Output = self.agent(observation)
        advantage = config.temperature * (output.logits - output.logits.amax(-1, keepdim=True))
        q = output.value + advantage.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        target = torch.maximum(self._returns(earned, next_observation), output.value.detach() - config.margin)
        # Negatives of TransE: any other moves of the batch, which is in random order.
        negative = torch.arange(count, device=place.device).roll(1)
        batch = Batch(observation, action, self.ppo.reward_scale * earned, next_observation, negative)
        losses = self.agent.auxiliary_losses(output, batch).values()
        return (q - target).square().mean() + self.ppo.transe_coef * sum(loss.mean() for loss in losses)

    @torch.no_grad()
    def follow(self) -> None:
        """Move the target network towards the agent."""
        for follower, weight in zip(self.target.parameters(), self.agent.parameters(), strict=True):
            follower.lerp_(weight, self.config.target_mix)

    def state(self) -> dict[str, Tensor]:
        """What a continued run needs."""
        return {"moves": self.moves} | {
            f"target.{n}": weight for n, weight in self.target.state_dict().items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue where `state` was taken."""
        groups = grouped(tensors)
        check_tensors("The checkpoint", groups["target"], self.target.state_dict())
        self.target.load_state_dict(groups["target"])
        self.moves = tensors["moves"].to(self.moves.device)

    def _goals(self, place: Tensor, generator: Generator) -> Tensor:
        """For every place [B] a free cell of its maze other than itself, [B]."""
        cells = self._mazes.cells
        chance = self._free[place // cells].scatter(1, (place % cells).unsqueeze(1), 0.0)
        return torch.multinomial(chance, 1, generator=generator).squeeze(1)

    def _earned(self, successor: Tensor, goal: Tensor) -> Tensor:
        """What moves into places [B] earn with these goals, [B]."""
        reward = torch.where(self._mazes.walls.flatten()[successor], WALL_REWARD, STEP_REWARD)
        return torch.where(successor % self._mazes.cells == goal, GOAL_REWARD, reward)

    @torch.no_grad()
    def _returns(self, earned: Tensor, next_observation: Tensor) -> Tensor:
        """What moves are worth that earned so much [B] and led there [B, 3, H, W], [B]."""
        following: Output = self.target(next_observation)
        scale = self.ppo.reward_scale
        lasting = scale * earned + self.ppo.discount * following.value * (earned == STEP_REWARD)
        # No return lies outside of what a wall and a goal earn.
        return lasting.clamp(scale * WALL_REWARD, scale * GOAL_REWARD)
