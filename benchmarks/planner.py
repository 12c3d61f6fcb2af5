"""Speed of the planner (CPU time), side by side with an edge-list planner in the same process, on one thread.

    python benchmarks/planner.py [--json] [--rounds 7]

Both compute the same function (checked before timing). Ratios are medians over rounds in which the two take
turns, so that a busy machine disturbs both alike. "recorded" is `xlvin.planner.inference.Recorder`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.executor.network import ExecutorConfig, Processor
from xlvin.latent.encoders import MLPEncoder
from xlvin.latent.transition import TransitionModel
from xlvin.planner.inference import Recorder
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


class Policy(nn.Module):
    """An agent's network: encoder, perhaps a planner, linear actor and critic."""

    def __init__(self, observation: int, actions: int, planner: Planner | None) -> None:
        super().__init__()
        self.encoder, self.planner = MLPEncoder(observation, HIDDEN, LATENT), planner
        width = LATENT + (WIDTH if planner else 0)
        self.actor, self.critic = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        h = self.encoder(observation)
        features = h if self.planner is None else torch.cat((h, self.planner(h)), -1)
        return self.actor(features), self.critic(features).squeeze(-1)


@dataclass(frozen=True)
class Row:
    case: str
    reference: str
    reference_ms: float
    ours_ms: float
    ratio: float
    """Reference over ours where faster is the point, ours over reference where the bar is a ceiling."""
    bar: str


def race(
    reference: Callable[[], object], ours: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Median CPU milliseconds of both, and the median over rounds of reference / ours, taking turns."""
    times = []
    for _ in range(rounds + 1):
        marks = [time.process_time()]
        for run in (reference, ours):
            run()
            marks.append(time.process_time())
        times.append((1e3 * (marks[1] - marks[0]), 1e3 * (marks[2] - marks[1])))
    times = times[1:]  # the first round warms up
    middle = statistics.median
    return middle(t[0] for t in times), middle(t[1] for t in times), middle(t[0] / t[1] for t in times)


def make_planner(actions: int, depth: int, **options: Any) -> Planner:
    torch.manual_seed(0)
    processor = Processor(ExecutorConfig(WIDTH))
    return Planner(processor, TransitionModel(LATENT, actions, HIDDEN), depth, **options)


def forward(network: nn.Module, states: Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.inference_mode():
            return network(states)

    return run


def forward_backward(network: nn.Module, states: Tensor) -> Callable[[], object]:
    return lambda: network(states).sum().backward()


def full_trees(rounds: int) -> Iterator[Row]:
    for actions, depth, batch, bars in ((9, 2, 256, (3.0, 3.0)), (18, 3, 32, (4.0, 3.5))):
        for wiring in ("executor", "skeleton"):
            planner = make_planner(actions, depth, wiring=wiring)
            edge_list = EdgeListPlanner(planner)
            states = torch.randn(batch, LATENT, requires_grad=True)
            torch.testing.assert_close(planner(states), edge_list(states), rtol=1e-3, atol=1e-3)
            for kind, make, bar in (("forward", forward, bars[0]), ("+ backward", forward_backward, bars[1])):
                case = f"{actions} actions, K {depth}, batch {batch}, {wiring}: {kind}"
                result = race(make(edge_list, states), make(planner, states), rounds)
                yield Row(case, "edge list", *result, f">= {bar:g}")


def sparse_trees(rounds: int, beam: int = 16) -> Iterator[Row]:
    for batch, bar in ((1, "<= 6"), (32, "")):
        shallow, deep = (make_planner(18, depth, beam=beam, prior=nn.Linear(LATENT, 18)) for depth in (2, 10))
        states = torch.randn(batch, LATENT, requires_grad=True)
        for kind, make in (("forward", forward), ("+ backward", forward_backward)):
            two, ten, ratio = race(make(shallow, states), make(deep, states), rounds)
            yield Row(
                f"18 actions, beam {beam}, batch {batch}, K 10: {kind}", "K 2", two, ten, 1 / ratio, bar
            )


def acting(rounds: int) -> Iterator[Row]:
    """One observation, K = 2, 2 actions: the network with a planner against the same without."""
    plain, planning = Policy(4, 2, None), Policy(4, 2, make_planner(2, 2))
    states = torch.randn(1, 4)
    observation = states.numpy()
    recorded, recorded_plain = Recorder(planning), Recorder(plain)
    for name, reference, ours, bar in (
        ("recorded", forward(plain, states), lambda: recorded(observation), "<= 3"),
        ("torch", forward(plain, states), forward(planning, states), ""),
        ("recorded", lambda: recorded_plain(observation), lambda: recorded(observation), ""),
    ):
        reference_name = "no planner, " + ("torch" if bar or name == "torch" else "recorded")
        without, with_planner, ratio = race(reference, ours, 50 * rounds)
        yield Row(f"acting, one observation: {name}", reference_name, without, with_planner, 1 / ratio, bar)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the planner against an edge-list planner.")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="rounds per comparison")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[Row] = []
    if not options.json:
        print(f"{'case':<58}{'against':<22}{'theirs ms':>10}{'ours ms':>10}{'ratio':>8}  bar")
    for row in chain(full_trees(options.rounds), sparse_trees(options.rounds), acting(options.rounds)):
        rows.append(row)
        if not options.json:
            times = f"{row.reference_ms:>10.3f}{row.ours_ms:>10.3f}{row.ratio:>8.2f}"
            print(f"{row.case:<58}{row.reference:<22}{times}  {row.bar}", flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
