"""A world model in observation space: what an action does to an observation, what it pays, what it ends."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, silu, smooth_l1_loss

from xlvin.randomness import draw

# Larger moves, in units of the usual one, look alike to the reward's network.
JUMP = 10.0


class Members(nn.Module):
    """A linear layer for each of E members: [E, N, inputs] -> [E, N, outputs]."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, rows: Tensor) -> Tensor:
        """One batched product, [E, N, inputs] -> [E, N, outputs]."""
        return rows @ self.weight + self.bias


class Network(nn.Module):
    """Two hidden layers with SiLU beside a linear path, for each member."""

    def __init__(self, members: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = Members(members, inputs, hidden)
        self.second = Members(members, hidden, hidden)
        self.last = Members(members, hidden, outputs)
        self.skip = Members(members, inputs, outputs)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, rows: Tensor) -> Tensor:
        """[E, N, inputs] -> [E, N, outputs]."""
        hidden = silu(self.second(silu(self.first(rows))))
        return cast(Tensor, self.last(hidden) + self.skip(rows))


class Transitions(NamedTuple):
    """Observed steps, [E, N, ...]: every member has its own."""

    observation: Tensor  # [E, N, o]
    action: Tensor  # [E, N] int64
    reward: Tensor  # [E, N]
    next_observation: Tensor  # [E, N, o]
    terminated: Tensor  # [E, N], one or zero


class Imagined(NamedTuple):
    """What comes of an action, [E, N, ...]."""

    observation: Tensor  # [E, N, o]
    reward: Tensor  # [E, N]
    terminated: Tensor  # [E, N] bool


class WorldModel(nn.Module):
    """An ensemble of E members that predict (o, a) -> o' and (o, a, o') -> reward, end of the episode.

    Features move by a predicted difference, except those that only ever take two values (a leg touches the
    ground or not): these are drawn. So is the whole next observation where it is one of finitely many states
    (`discrete`: a one-hot vector). What a last step pays is predicted apart from what other steps pay, as
    crashes and prizes have little to do with them. Everything is scaled by buffers that hold the data's own
    means and mean absolute deviations, and learned with Huber's loss: rare jumps would drown small moves.
    """

    mean: Tensor  # [o]
    scale: Tensor  # [o]
    delta_mean: Tensor  # [o]
    delta_scale: Tensor  # [o]
    reward_mean: Tensor  # []
    reward_scale: Tensor  # []
    binary: Tensor  # [o] bool: features with two values
    low: Tensor  # [o], the smallest value seen
    high: Tensor  # [o], the largest

    coordinates: Tensor | None  # [A, f]

    def __init__(
        self,
        observation: int,
        actions: int,
        members: int = 5,
        hidden: int = 64,
        discrete: bool = False,
        coordinates: Tensor | None = None,
    ) -> None:
        """`coordinates` [A, f] say where actions are, so that the model can compare them; else one-hot."""
        super().__init__()
        self.actions, self.discrete = actions, discrete
        self.register_buffer("coordinates", coordinates, persistent=False)
        read = actions if coordinates is None else coordinates.shape[1]
        self.dynamics = Network(members, observation + read, hidden, observation)
        self.outcome = Network(members, 3 * observation + read, hidden, 3)
        for name in ("mean", "delta_mean"):
            self.register_buffer(name, torch.zeros(observation))
        self.register_buffer("low", torch.full((observation,), -torch.inf))
        self.register_buffer("high", torch.full((observation,), torch.inf))
        for name in ("scale", "delta_scale"):
            self.register_buffer(name, torch.ones(observation))
        self.register_buffer("reward_mean", torch.zeros(()))
        self.register_buffer("reward_scale", torch.ones(()))
        self.register_buffer("binary", torch.zeros(observation, dtype=torch.bool))

    def standardise(self, observation: Tensor) -> Tensor:
        """Observations in units of the data's deviation."""
        return (observation - self.mean) / self.scale

    def inputs(self, observation: Tensor, action: Tensor) -> Tensor:
        """[..., o] and [...] int64 -> [..., o + A] or [..., o + f], what the dynamics reads."""
        return torch.cat((self.standardise(observation), self.read(action)), -1)

    def read(self, action: Tensor) -> Tensor:
        """[...] int64 -> [..., A] one-hot, or [..., f] coordinates."""
        chosen = _one_hot(action, self.actions)
        return chosen if self.coordinates is None else chosen @ self.coordinates

    def forward(self, observation: Tensor, action: Tensor, uniform: Tensor) -> Imagined:
        """One imagined step, [E, N, o] and [E, N] int64; `uniform` [E, N, 2] decides what is drawn."""
        inputs = self.inputs(observation, action)
        successor = self._successor(observation, self.dynamics(inputs), uniform[..., :1])
        step, last, ends = self._outcome(inputs, observation, successor)
        terminated = uniform[..., 1] < ends.sigmoid()
        reward = torch.where(terminated, last, step) * self.reward_scale + self.reward_mean
        return Imagined(successor, reward, terminated)

    def losses(self, data: Transitions) -> Tensor:
        """Of the next observation, the reward and the end; summed over members, [3]."""
        inputs = self.inputs(data.observation, data.action)
        dynamics = self._dynamics_loss(self.dynamics(inputs), data)
        step, last, ends = self._outcome(inputs, data.observation, data.next_observation)
        paid = (data.reward - self.reward_mean) / self.reward_scale
        expected = torch.where(data.terminated > 0.0, last, step)
        rewards = smooth_l1_loss(expected, paid, reduction="none")
        ended = binary_cross_entropy_with_logits(ends, data.terminated, reduction="none")
        return torch.stack((dynamics.mean((1, 2)).sum(), rewards.mean(1).sum(), ended.mean(1).sum()))

    def _successor(self, observation: Tensor, predicted: Tensor, uniform: Tensor) -> Tensor:
        """The next observation [E, N, o] that the dynamics' outputs speak of."""
        if self.discrete:
            return _one_hot(draw(predicted.softmax(-1), uniform), predicted.shape[-1])
        moved = observation + predicted * self.delta_scale + self.delta_mean
        room = self.high - self.low  # a prediction of a prediction may run away
        moved = torch.maximum(torch.minimum(moved, self.high + room), self.low - room)
        drawn = torch.where(uniform < predicted.sigmoid(), self.high, self.low)
        return torch.where(self.binary, drawn, moved)

    def _dynamics_loss(self, predicted: Tensor, data: Transitions) -> Tensor:
        """Per feature, [E, N, o]."""
        if self.discrete:
            return -data.next_observation * predicted.log_softmax(-1)
        delta = (data.next_observation - data.observation - self.delta_mean) / self.delta_scale
        moved = smooth_l1_loss(predicted, delta, reduction="none")
        is_high = (data.next_observation >= self.high).float()
        drawn = binary_cross_entropy_with_logits(predicted, is_high, reduction="none")
        return torch.where(self.binary, drawn, moved)

    def _outcome(self, inputs: Tensor, observation: Tensor, successor: Tensor) -> tuple[Tensor, ...]:
        """Reward of a step that goes on, of one that ends the episode, and the logit of the end."""
        delta = ((successor - observation - self.delta_mean) / self.delta_scale).clamp(-JUMP, JUMP)
        features = torch.cat((inputs, self.standardise(successor), delta), -1)
        return cast(Tensor, self.outcome(features)).unbind(-1)


def _one_hot(index: Tensor, count: int) -> Tensor:
    """[...] int64 -> [..., count]; torch's own looks at the numbers, so that it cannot be recorded."""
    return (index.unsqueeze(-1) == torch.arange(count, device=index.device)).float()
