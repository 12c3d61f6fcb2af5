"""World models of small discrete worlds: counted instead of learned, and solved instead of sampled.

Where observations are a few numbered states, what followed an action can be counted. A model is then a draw
from the posterior that the counts leave: rarely tried actions differ between draws, which is reason to try
them. In the last round it is the posterior's mean. What a policy is worth in such a model is the
solution of linear equations, so that no noise hides the small differences between actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.latent.world import Imagined
from xlvin.training.config import ImaginationConfig
from xlvin.training.experience import Experience
from xlvin.training.imagination.models import WorldModels
from xlvin.training.minibatches import at
from xlvin.training.objective import Targets
from xlvin.training.replay import Replay, Seen
from xlvin.training.returns import standardise
from xlvin.training.seeding import generator

LARGEST = 4_000_000  # numbers in a table of states x actions x states
# Share of random actions in branches: values are solved for, so branches need not follow the policy.
TRYING = 0.5
# An action less probable than this need not become rarer: it would not be tried in the world any more, and
# PPO's ratio of a vanishing probability to another could be anything.
RARE = 0.05
LONGEST = 0.999  # discount; with 1, a policy that never ends would have no value

Array = NDArray[np.float64]


def countable(states: int, actions: int) -> bool:
    """Whether a table of all transitions is small enough."""
    return states * actions * states <= LARGEST


class Counts(NamedTuple):
    """What one seed has seen of every transition, [n, A, n]."""

    seen: Array  # how often
    reward: Array  # what it pays; of those never seen, what other actions between the two states pay
    ends: Array  # how often it ends the episode, from 0 to 1; of those never seen likewise


class CountedWorlds(WorldModels):
    """E tables per seed, stacked, for n states that are one-hot vectors."""

    exhaustible = True

    def __init__(
        self,
        config: ImaginationConfig,
        seeds: Sequence[int],
        states: int,
        actions: int,
        device: torch.device,
    ) -> None:
        self.config, self.seeds, self.states, self.actions = config, tuple(seeds), states, actions
        each = (len(self.seeds), config.members, states * actions)
        # Changed in place by every fit: recorded steps read them.
        self.tried = torch.zeros(each[0], each[2], dtype=torch.bool, device=device)
        self._cumulative = torch.zeros(*each, states, device=device)
        self._going = torch.zeros(*each, states, device=device)  # chance to go on from a successor
        self._expected = torch.zeros(each, device=device)  # reward of a state and an action
        self._reward = torch.zeros(each[0], each[2], states, device=device)
        self._ends = torch.zeros(each[0], each[2], states, device=device)
        member = torch.arange(config.members, device=device).repeat_interleave(
            config.branches // config.members
        )
        seed = torch.arange(len(self.seeds), device=device).unsqueeze(1)
        self._rows = (seed * config.members + member) * each[2]  # [S, B], where a branch's table begins
        self._pairs = seed * each[2]  # [S, 1], where a seed's table begins

    def imagine(self, observation: Tensor, action: Tensor, uniform: Tensor) -> Imagined:
        """What comes of actions [S, B] in states [S, B, n]; a branch stays with one member.

        `uniform` [S, B, 2] decides what is drawn. An action that was never tried leads nowhere.
        """
        pair = observation.argmax(-1) * self.actions + action
        chances = self._cumulative.flatten(0, 2)[self._rows + pair]  # [S, B, n]
        successor = (chances <= uniform[..., :1]).sum(-1)
        transition = (self._pairs + pair) * self.states + successor
        terminated = uniform[..., 1] < self._ends.flatten()[transition]
        drawn = successor.unsqueeze(-1) == torch.arange(self.states, device=successor.device)
        return Imagined(drawn.float(), self._reward.flatten()[transition], terminated)

    def behaviour(self, chances: Tensor) -> Tensor:
        """How branches act where a policy's chances are [..., A]: half of the time at random."""
        return torch.lerp(chances, torch.full_like(chances, 1.0 / self.actions), TRYING)

    def distance(
        self, state: Tensor, action: Tensor, successor: Tensor, landmarks: Tensor, unit: Tensor
    ) -> Tensor:
        """Infinite where an action was never tried, else zero; [S, B]."""
        pair = self._pairs + state.argmax(-1) * self.actions + action
        return torch.where(self.tried.flatten()[pair], 0.0, torch.inf)

    def landmarks(self, replay: Replay, round_: int, iteration: int) -> tuple[Tensor, Tensor]:
        """None: states are the same or not."""
        nothing = self._expected.new_zeros(len(self.seeds), 1)
        return nothing.unsqueeze(-1), nothing

    def fit(self, replay: Replay, round_: int, last: bool = False) -> NDArray[np.float32]:
        """Count all data and draw every member from the posterior, or in the last round take its mean.

        Returns how surprising a seen successor is on average, -log of its frequency, [S].
        """
        surprises = []
        for index, (seed, seen) in enumerate(zip(self.seeds, replay.seeds, strict=True)):
            counts = count(seen, self.states, self.actions)
            weight = evidence(counts.seen)
            random = None if last else generator(seed, "posterior", round_)
            self._keep(index, counts, chances(weight, self.config.members, random))
            total = counts.seen.sum(-1, keepdims=True)
            frequency = np.where(counts.seen > 0.0, counts.seen / np.maximum(total, 1.0), 1.0)
            surprises.append(-(counts.seen * np.log(frequency)).sum() / max(1.0, total.sum()))
        return np.array(surprises, np.float32)

    def _keep(self, index: int, counts: Counts, drawn: Array) -> None:
        """Set a seed's tables; the chances `drawn` [E, n, A, n] are zero where an action was never tried."""
        cumulative = np.cumsum(drawn, -1)
        cumulative /= np.maximum(cumulative[..., -1:], 1e-300)  # ends in exactly one
        never = counts.seen.sum(-1) == 0.0
        beyond = np.arange(self.states) >= np.arange(self.states)[:, None]  # stays where it is
        cumulative = np.where(never[..., None], beyond[:, None], cumulative)
        tables = (
            (self.tried, ~never),
            (self._cumulative, cumulative),
            (self._going, drawn * (1.0 - counts.ends)),
            (self._expected, (drawn * counts.reward).sum(-1)),
            (self._reward, counts.reward),
            (self._ends, counts.ends),
        )
        for table, values in tables:
            own = torch.from_numpy(np.ascontiguousarray(values))
            table[index].copy_(own.reshape(table[index].shape))

    def action_values(self, policy: Tensor, scale: Tensor, beyond: Tensor, discount: float) -> Tensor:
        """What actions are worth in every model under a policy [S, n, A], [S, E, n, A].

        Rewards are multiplied by `scale` [S, 1]; what was never tried ends at a state worth `beyond` [S, 1].
        """
        discount, (seeds, members, _) = min(discount, LONGEST), self._expected.shape
        reward = self._expected * scale.unsqueeze(1)
        reward = torch.where(self.tried.unsqueeze(1), reward, discount * beyond.unsqueeze(1))
        reward = reward.view(seeds, members, self.states, self.actions)
        going = self._going.view(seeds, members, self.states, self.actions, self.states)
        moves = torch.einsum("sna,senam->senm", policy, going)
        paid = (policy.unsqueeze(1) * reward).sum(-1, keepdim=True)
        still = torch.eye(self.states, device=policy.device)
        value = torch.linalg.solve(still - discount * moves, paid)  # [S, E, n, 1]
        ahead: Tensor = (going @ value.unsqueeze(2)).squeeze(-1)
        return reward + discount * ahead

    def targets(
        self,
        policy: Callable[[int], Tensor],
        experience: Experience,
        sampled: Targets,
        scale: Tensor,
        beyond: Tensor,
        discount: float,
    ) -> Targets:
        """Those of imagined steps [S, N], branch by branch, without the noise of samples."""
        chances = policy(self.states)
        values = self.action_values(chances, scale, beyond, discount)
        value = (values * chances.unsqueeze(1)).sum(-1, keepdim=True)
        state = at(experience.pool, experience.state).argmax(-1)

        def of_steps(table: Tensor, index: Tensor) -> Tensor:
            """From a table [S, E, ...], for the steps of every member."""
            return table.flatten(2).gather(2, index.view(*table.shape[:2], -1)).flatten(1)

        advantage = of_steps(values - value, state * self.actions + experience.action)
        advantage = standardise(advantage, experience.weight)
        rare = sampled.old_log_prob < math.log(RARE)
        advantage = torch.where(rare, advantage.clamp(min=0.0), advantage)
        return sampled._replace(advantage=advantage, target=of_steps(value, state))

    def state(self) -> dict[str, Tensor]:
        """Nothing for a checkpoint: every fit counts anew."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From nothing."""


def count(seen: Seen, states: int, actions: int) -> Counts:
    """Of one seed's transitions."""
    origin, successor = (part.argmax(-1).cpu().numpy() for part in (seen.observation, seen.next_observation))
    transition = (origin * actions + seen.action.cpu().numpy()) * states + successor
    sums = [
        np.bincount(transition, weights, states * actions * states).reshape(states, actions, states)
        for weights in (None, seen.reward.cpu().numpy(), seen.terminated.cpu().numpy())
    ]
    often = sums[0].astype(np.float64)
    between = np.maximum(often.sum(1, keepdims=True), 1.0)  # by any action
    reward, ends = (
        np.where(often > 0.0, total / np.maximum(often, 1.0), total.sum(1, keepdims=True) / between)
        for total in sums[1:]
    )
    return Counts(often, reward, ends)


def evidence(seen: Array) -> Array:
    """Parameters [n, A, n] of the posterior, a Dirichlet distribution for every action that was tried.

    The prior spreads its weight evenly over all states that any action has led to from a state. It weighs as
    much as an action, tried more than once, has other outcomes on average: nothing in a world without chance.
    """
    tried = seen.sum(-1, keepdims=True)  # [n, A, 1]
    outcomes = (seen > 0.0).sum(-1, keepdims=True)
    prior = float((outcomes - 1)[tried > 1.0].mean()) if (tried > 1.0).any() else 0.0
    near = (seen.sum(1, keepdims=True) > 0.0) & (tried > 0.0)  # [n, A, n]
    weight: Array = np.where(near, seen + prior / np.maximum(near.sum(-1, keepdims=True), 1), 0.0)
    return weight


def chances(weight: Array, members: int, random: np.random.Generator | None) -> Array:
    """Of all transitions, [E, n, A, n], drawn or on average; zero for actions that were never tried."""
    if random is None:
        drawn = np.broadcast_to(weight, (members, *weight.shape)).copy()
    else:
        drawn, possible = np.zeros((members, *weight.shape)), weight > 0.0
        drawn[:, possible] = random.standard_gamma(weight[possible], (members, int(possible.sum())))
    drawn /= np.maximum(drawn.sum(-1, keepdims=True), 1e-300)
    return drawn
