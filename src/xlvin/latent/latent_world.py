"""A world model in latent space: T says where an action leads, heads say what that pays and what it ends."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from xlvin.latent.losses import energy, transe_loss
from xlvin.latent.transition import TransitionModel
from xlvin.latent.world import Imagined, Network


class Stretches(NamedTuple):
    """N stretches of episodes, L steps each; where an episode is over before, their weight is zero."""

    observation: Tensor  # [N, o], where it begins
    action: Tensor  # [N, L] int64
    reward: Tensor  # [N, L]
    next_observation: Tensor  # [N, L, o]
    terminated: Tensor  # [N, L], one or zero
    weight: Tensor  # [N, L], one or zero

    def mean(self, loss: Tensor) -> Tensor:
        """Of losses [N, L] over what has weight, []."""
        return (loss * self.weight).sum() / self.weight.sum()


class Paths(NamedTuple):
    """Stretches in latent space."""

    start: Tensor  # [N, k], z of the first observation
    imagined: Tensor  # [N, L, k], where T leads from there
    seen: Tensor  # [N, L, k], z of what was observed

    @property
    def before(self) -> Tensor:
        """Where each imagined step was made, [N, L, k]."""
        return torch.cat((self.start.unsqueeze(1), self.imagined[:, :-1]), 1)


def unroll(transition: TransitionModel, embedding: Tensor, action: Tensor) -> Tensor:
    """Where actions [N, L] lead from embeddings [N, k] by T alone, [N, L, k]."""
    path = []
    for chosen in action.unbind(1):
        embedding = embedding + transition.translation(embedding, chosen)
        path.append(embedding)
    return torch.stack(path, 1)


def path_loss(paths: Paths, data: Stretches) -> Tensor:
    """How far imagined paths are from where episodes really went, [].

    The first step is TransE (equation 4) with another stretch's start as the negative: both its ends move, so
    that the encoder learns to be predictable and to tell states apart. Later steps are held against what the
    encoder says without moving it: they teach T to stay on course.
    """
    first = transe_loss(paths.imagined[:, 0], paths.seen[:, 0], paths.start.roll(1, 0))
    later = energy(paths.imagined[:, 1:], paths.seen[:, 1:].detach())
    return data.mean(torch.cat((first.unsqueeze(1), later), 1))


class LatentWorld(nn.Module):
    """What has to be known beside encoder and T: (h, a, h') -> reward, end of the episode; and h -> o.

    What a last step pays is predicted apart from what other steps pay. The linear window h -> o is for
    learning alone: TransE sees large moves only, and a cart that creeps out of the picture would not count.
    Everything is scaled by buffers that hold the data's own means and mean absolute deviations, and learned
    with Huber's loss.
    """

    mean: Tensor  # [o]
    scale: Tensor  # [o]
    delta_scale: Tensor  # [o]
    reward_mean: Tensor  # []
    reward_scale: Tensor  # []

    def __init__(self, observation: int, width: int, actions: int, hidden: int) -> None:
        super().__init__()
        self.actions = actions
        self.outcome = Network(1, 2 * width + actions, hidden, 3)
        self.window = nn.Linear(width, observation)
        self.register_buffer("mean", torch.zeros(observation))
        for name in ("scale", "delta_scale"):
            self.register_buffer(name, torch.ones(observation))
        self.register_buffer("reward_mean", torch.zeros(()))
        self.register_buffer("reward_scale", torch.ones(()))

    def forward(self, embedding: Tensor, action: Tensor, successor: Tensor, uniform: Tensor) -> Imagined:
        """What steps [N, k] -> [N, k] by actions [N] int64 come to; `uniform` [N] decides which are last."""
        step, last, ends = self._outcome(embedding, action, successor)
        terminated = uniform < ends.sigmoid()
        reward = torch.where(terminated, last, step) * self.reward_scale + self.reward_mean
        return Imagined(successor, reward, terminated)

    def losses(self, paths: Paths, data: Stretches) -> Tensor:
        """Of the path, of what the window shows of it, of the reward and of the end; [4]."""
        step, last, ends = self._outcome(paths.before, data.action, paths.imagined)
        paid = (data.reward - self.reward_mean) / self.reward_scale
        expected = torch.where(data.terminated > 0.0, last, step)
        rewards = data.mean(smooth_l1_loss(expected, paid, reduction="none"))
        ended = data.mean(binary_cross_entropy_with_logits(ends, data.terminated, reduction="none"))
        return torch.stack((path_loss(paths, data), self._window_loss(paths, data), rewards, ended))

    def _window_loss(self, paths: Paths, data: Stretches) -> Tensor:
        """Where paths are, in units of where states are; and how they move, in units of moves."""
        old = torch.cat((data.observation.unsqueeze(1), data.next_observation[:, :-1]), 1)
        shown = self.window(paths.before)  # in units of states: in those of moves its weights would be huge
        moved = (self.window(paths.imagined) - shown) * (self.scale / self.delta_scale)
        place = smooth_l1_loss(shown, (old - self.mean) / self.scale, reduction="none")
        move = smooth_l1_loss(moved, (data.next_observation - old) / self.delta_scale, reduction="none")
        return data.mean((place + move).mean(-1))

    def _outcome(self, embedding: Tensor, action: Tensor, successor: Tensor) -> tuple[Tensor, ...]:
        """Reward of a step that goes on, of one that ends the episode, and the logit of the end."""
        chosen = (action.unsqueeze(-1) == torch.arange(self.actions, device=action.device)).float()
        features = torch.cat((embedding, chosen, successor), -1)
        rows = features.reshape(1, -1, features.shape[-1])
        return cast(Tensor, self.outcome(rows)).view(*action.shape, 3).unbind(-1)
