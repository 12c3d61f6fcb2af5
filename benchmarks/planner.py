"""Speed of the planner (CPU time), side by side with an edge-list planner in the same process, on one thread.

    python benchmarks/planner.py [--json] [--keep] [--rounds 7] [--only sparse]

Both compute the same function (checked before timing). Ratios are medians over rounds in which the two take
turns, so that a busy machine disturbs both alike. "recorded" is `xlvin.acting.recorded.RecordedNetwork`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from speed import Measured, parser, race, report
from xlvin.acting.recorded import RecordedNetwork
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


def full_trees(rounds: int) -> Iterator[Measured]:
    for actions, depth, batch, bars in ((9, 2, 256, (3.0, 3.0)), (18, 3, 32, (4.0, 3.5))):
        for wiring in ("executor", "skeleton"):
            planner = make_planner(actions, depth, wiring=wiring)
            edge_list = EdgeListPlanner(planner)
            states = torch.randn(batch, LATENT, requires_grad=True)
            torch.testing.assert_close(planner(states), edge_list(states), rtol=1e-3, atol=1e-3)
            for kind, make, bar in (
                ("forward", forward, bars[0]),
                ("with backward", forward_backward, bars[1]),
            ):
                case = f"{actions} actions, K = {depth}, batch {batch}, wiring {wiring}, {kind}"
                ratios, detail = race(make(edge_list, states), make(planner, states), rounds)
                yield Measured(case, ratios, "edge list / ours", bar=f">= {bar:g}", detail=detail)


def sparse_trees(rounds: int, beam: int = 16) -> Iterator[Measured]:
    for batch in (1, 32):
        shallow, deep = (make_planner(18, depth, beam=beam, prior=nn.Linear(LATENT, 18)) for depth in (2, 10))
        states = torch.randn(batch, LATENT, requires_grad=True)
        for kind, make in (("forward", forward), ("with backward", forward_backward)):
            ratios, detail = race(make(shallow, states), make(deep, states), rounds, slower_is_more=True)
            case = f"18 actions, beam {beam}, batch {batch}, {kind}"
            yield Measured(case, ratios, "K = 10 / K = 2", bar="<= 6", detail=detail)


def acting(rounds: int) -> Iterator[Measured]:
    """One observation, K = 2, 2 actions: the network with a planner against the same without."""
    plain, planning = Policy(4, 2, None), Policy(4, 2, make_planner(2, 2))
    states = torch.randn(1, 4)
    observation = states.numpy()
    recorded, recorded_plain = RecordedNetwork(planning), RecordedNetwork(plain)
    for kind, reference, ours, bar in (
        ("both recorded", lambda: recorded_plain(observation), lambda: recorded(observation), "<= 3"),
        ("ours recorded", forward(plain, states), lambda: recorded(observation), "<= 3"),
        ("none recorded", forward(plain, states), forward(planning, states), ""),
    ):
        ratios, detail = race(reference, ours, 50 * rounds, slower_is_more=True)
        medians = tuple(map(statistics.median, (ratios[i : i + 50] for i in range(0, len(ratios), 50))))
        case = f"acting for one observation, {kind}"
        yield Measured(case, medians, "planner / no planner", bar=bar, detail=detail)


PARTS = {"full": full_trees, "sparse": sparse_trees, "acting": acting}


def main() -> None:
    made = parser("Speed of the planner against an edge-list planner.")
    made.add_argument("--rounds", type=int, default=7, help="rounds per comparison")
    made.add_argument("--only", choices=PARTS)
    options = made.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chosen = [part for name, part in PARTS.items() if options.only in (None, name)]
    report((row for part in chosen for row in part(options.rounds)), options, "planner")


if __name__ == "__main__":
    main()
