"""Speed of the planner, side by side with an edge-list planner in the same process, on one thread.

    python benchmarks/planner.py [--json] [--repeats 15]

Both compute the same function (checked before timing). Ratios are medians over rounds in which the competitors
take turns, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.executor.network import ExecutorConfig, Processor
from xlvin.latent.encoders import MLPEncoder
from xlvin.latent.transition import TransitionModel
from xlvin.planner.planner import Planner

LATENT, HIDDEN, WIDTH = 50, 64, 50


class EdgeListPlanner(nn.Module):
    """The planner as a general graph network would do it: all nodes, an edge list, K steps on everything.

    Each edge carries its own features; a message is one linear layer on (sender, receiver, edge).
    """

    def __init__(self, planner: Planner) -> None:
        super().__init__()
        transition, processor = planner.transition, planner.processor
        self.depth, self.actions, self.wiring = planner.depth, transition.actions, planner.step.wiring
        self.processor = processor
        self.register_buffer("edge_features", planner.edge_features)
        first = nn.Linear(transition.width + transition.actions, transition.hidden.in_features)
        with torch.no_grad():
            first.weight.copy_(torch.cat((transition.state.weight, transition.action.weight.T), 1))
            first.bias.copy_(transition.state.bias)
        self.transition = nn.Sequential(
            first, nn.ReLU(), transition.hidden, transition.norm, nn.ReLU(), transition.output
        )
        self.project, self.edge = planner.project, planner.edge
        message = (processor.sender.weight, processor.receiver.weight, processor.edge.weight)
        self.register_buffer("message", torch.cat(message, 1))

    def forward(self, embedding: Tensor) -> Tensor:
        onehot, levels, senders, receivers, first = torch.eye(self.actions), [embedding], [], [], 0
        for _ in range(self.depth):
            level = levels[-1].repeat_interleave(self.actions, 0)
            taken = onehot.repeat(len(levels[-1]), 1)
            receivers.append(torch.arange(first, first + len(levels[-1])).repeat_interleave(self.actions))
            first += len(levels[-1])
            senders.append(torch.arange(first, first + len(level)))
            levels.append(level + self.transition(torch.cat((level, taken), 1)))
        nodes = self.project(torch.cat(levels))
        sender, receiver = torch.cat(senders), torch.cat(receivers)
        edges = self.edge(self.edge_features.repeat(len(sender) // self.actions, 1))
        state = nodes
        for step in range(self.depth):
            start = state + nodes if step else state
            ends = (start.index_select(0, sender), start.index_select(0, receiver), edges)
            message = self.processor.activate(
                linear(torch.cat(ends, 1), self.message, self.processor.edge.bias)
            )
            if self.wiring == "skeleton":
                state = start + torch.zeros_like(start).index_add(0, receiver, message)
            else:
                candidate = start.index_select(0, receiver) + message
                place = receiver.unsqueeze(1).expand_as(candidate)
                state = start.scatter_reduce(0, place, candidate, "amax", include_self=False)
        return state[: len(embedding)]


def compare(competitors: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(repeats + 1):
        for name, run in competitors.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def make_planner(actions: int, depth: int, **options: object) -> Planner:
    torch.manual_seed(0)
    return Planner(
        Processor(ExecutorConfig(WIDTH)), TransitionModel(LATENT, actions, HIDDEN), depth, **options
    )
