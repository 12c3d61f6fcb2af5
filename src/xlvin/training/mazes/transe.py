"""TransE alone: an encoder and a transition model that learn where moves lead, before any reward."""

from __future__ import annotations

import torch
from torch import nn

from xlvin.agents.networks import ModelBasedAgent
from xlvin.envs.maze_world import observe, scenes
from xlvin.latent.losses import transe_loss
from xlvin.mdp.mazes import MOVES, Mazes


def train_transe(
    agent: ModelBasedAgent,
    mazes: Mazes,
    iterations: int,
    learning_rate: float = 1e-3,
    groups: int = 32,
    states: int = 32,
    seed: int = 0,
) -> list[float]:
    """Descend equation 4 on random moves from random cells of training mazes; returns the losses.

    A batch holds `groups` mazes with `states` states each, and negatives come from the same maze: states of
    another maze are told apart by its walls alone, and would leave the cells of one maze where they are.
    """
    device = mazes.device
    agent.to(device)
    generator = torch.Generator(device).manual_seed(seed)
    empty, offset, free = scenes(mazes), mazes.offsets(), (mazes.distance > 0).flatten(1).float()
    weights = [weight for weight in agent.parameters() if weight.requires_grad]
    optimiser = torch.optim.Adam(weights, learning_rate)
    losses = []
    for _ in range(iterations):
        maze = torch.randint(len(mazes), (groups,), generator=generator, device=device)
        cell = torch.multinomial(free[maze], states, True, generator=generator)
        place = (maze.unsqueeze(1) * mazes.cells + cell).flatten()
        action = torch.randint(len(MOVES), place.shape, generator=generator, device=device)
        embedding = agent.embed(observe(empty, place))
        successor = agent.embed(observe(empty, place + offset[action]))
        predicted = embedding + agent.transition.translation(embedding, action)
        negative = embedding.view(groups, states, -1).roll(1, 1).flatten(0, 1)
        loss = transe_loss(predicted, successor, negative).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist() if losses else []
