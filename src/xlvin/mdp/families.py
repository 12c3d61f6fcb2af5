"""Synthetic families of MDPs, drawn in batches and reproducible from a generator.

A family is one function that draws a batch and one line in `FAMILIES`. A family that walks on graphs is one
function that builds a graph of a given size and one line in `GRAPHS`: it exists in a deterministic form,
where each action leads to one neighbour, and as "<name>-stochastic", where each action leads to a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import networkx as nx
import torch
from torch import Generator, Tensor

from xlvin.errors import XLVINError, unknown
from xlvin.mdp.tabular import TabularMDP

# (count, states, actions, discount, generator) -> MDPs
Draw = Callable[[int, int, int, float, Generator], TabularMDP]
# (states, seed) -> a graph on the nodes 0 ... states - 1
BuildGraph = Callable[[int, int], nx.Graph]


@dataclass(frozen=True)
class Family:
    """A documented distribution over MDPs."""

    summary: str
    draw: Draw
    actions: int | None = None
    """The one number of actions that its members have; None if any will do."""


def find(family: str) -> Family:
    """The family of this name."""
    if family not in FAMILIES:
        raise unknown("family of MDPs called", family, FAMILIES)
    return FAMILIES[family]


def sample(
    family: str, count: int, states: int, actions: int, discount: float, generator: Generator
) -> TabularMDP:
    """Draw `count` MDPs of a family, on the generator's device."""
    chosen = find(family)
    if min(count, states, actions) < 1:
        raise XLVINError(
            f"Cannot draw {count} MDPs of {states} states and {actions} actions; give at least 1."
        )
    if chosen.actions not in (None, actions):
        raise XLVINError(
            f'MDPs of the family "{family}" have {chosen.actions} actions; {actions} were asked for.'
        )
    return chosen.draw(count, states, actions, discount, generator)


def random_deterministic(
    count: int, states: int, actions: int, discount: float, generator: Generator
) -> TabularMDP:
    """The paper's appendix: T(s, a) ~ Uniform(S), R(s, a) ~ N(0, 1)."""
    shape = (count, states, actions)
    successor = torch.randint(states, shape, generator=generator, device=generator.device)
    return TabularMDP.deterministic(successor, _normal_rewards(shape, generator), discount)


def dense(count: int, states: int, actions: int, discount: float, generator: Generator) -> TabularMDP:
    """P(.|s, a) ~ Dirichlet(1) over all states, R(s, a) ~ N(0, 1)."""
    transition = _dirichlet((count, states, actions, states), generator)
    return TabularMDP.stochastic(transition, _normal_rewards((count, states, actions), generator), discount)


CARTPOLE_STATES = 2**11 - 1  # a complete binary tree of depth 10


def cartpole_tree(count: int, states: int, actions: int, discount: float, generator: Generator) -> TabularMDP:
    """A crude CartPole, unrolled: state s of the binary tree leads to 2 s + 1 (left) and 2 s + 2 (right).

    The root stands at x ~ U(-0.05, 0.05), as CartPole starts. A step moves x by 0.1 and then amplifies it by
    5 %. |x| > 0.5 is terminal: entering earns 0, and so does staying there for ever. Every other step earns
    1. A step out of the tree stays where it is and earns 1: there the pole is still up.
    """
    x = torch.empty(count, 1, device=generator.device).uniform_(-0.05, 0.05, generator=generator)
    step = torch.tensor([-0.1, 0.1], device=x.device)
    levels = [x]
    while 2 ** len(levels) - 1 < states:
        x = x.unsqueeze(-1)
        # What follows a fall is a fall: terminal positions are handed down.
        x = torch.where(x.abs() > 0.5, x, 1.05 * (x + step)).flatten(1)
        levels.append(x)
    fallen = torch.cat(levels, 1)[:, :states].abs() > 0.5  # [B, S]

    own = torch.arange(states, device=x.device).unsqueeze(-1)
    child = 2 * own + torch.tensor([1, 2], device=x.device)  # [S, 2]
    child = torch.where(child < states, child, own).expand(count, -1, -1)
    successor = torch.where(fallen.unsqueeze(-1), own, child)
    reward = 1.0 - fallen.float().gather(1, successor.flatten(1)).view(successor.shape)
    return TabularMDP.deterministic(successor, reward, discount)


def graph_walk(
    build: BuildGraph,
    support: int,
    count: int,
    states: int,
    actions: int,
    discount: float,
    generator: Generator,
) -> TabularMDP:
    """Walks on `count` graphs: (s, a) leads to `support` neighbours of s, drawn with replacement.

    Their probabilities are Dirichlet(1), so a support of one is deterministic. A node without neighbours
    leads to itself. R(s, a) ~ N(0, 1).
    """
    device = generator.device
    seeds = torch.randint(2**31, (count,), generator=generator, device=device).tolist()
    graphs = [build(states, seed) if states > 1 else nx.empty_graph(1) for seed in seeds]
    neighbours, degree = (table.to(device) for table in _neighbours(graphs, states))
    shape = (count, states, actions, support)
    pick = torch.rand(shape, generator=generator, device=device) * degree.view(count, states, 1, 1)
    # Rounding can lift the product to the degree itself.
    pick = torch.minimum(pick.long(), degree.view(count, states, 1, 1) - 1)
    successor = neighbours.gather(-1, pick.flatten(2)).view(shape)
    return TabularMDP(
        successor, _dirichlet(shape, generator), _normal_rewards(shape[:3], generator), discount
    )


def _neighbours(graphs: list[nx.Graph], states: int) -> tuple[Tensor, Tensor]:
    """Neighbours [B, S, N], padded with zeros to the widest node, and how many each node has, [B, S]."""
    lists = [[sorted(graph[node]) or [node] for node in range(states)] for graph in graphs]
    degree = torch.tensor([[len(near) for near in nodes] for nodes in lists])
    widest = int(degree.amax())
    padded = [[near + [0] * (widest - len(near)) for near in nodes] for nodes in lists]
    return torch.tensor(padded), degree


def _normal_rewards(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _dirichlet(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Dirichlet(1) over the last dimension: uniform on the simplex."""
    weight = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    return weight / weight.sum(-1, keepdim=True)


def erdos_renyi(states: int, seed: int) -> nx.Graph:
    """Each edge with probability 2 log(S) / S, twice the threshold of connectedness."""
    return nx.gnp_random_graph(states, min(1.0, 2.0 * math.log(states) / states), seed=seed)


def barabasi_albert(states: int, seed: int) -> nx.Graph:
    """Each new node prefers two popular ones."""
    return nx.barabasi_albert_graph(states, min(2, states - 1), seed=seed)


def star(states: int, seed: int) -> nx.Graph:
    """Node 0 is everyone's only neighbour."""
    return nx.star_graph(states - 1)


def tree(states: int, seed: int) -> nx.Graph:
    """Uniform over labelled trees."""
    return nx.random_labeled_tree(states, seed=seed)


def grid(states: int, seed: int) -> nx.Graph:
    """A grid as square as can be, numbered row by row; the last row may be shorter."""
    rows = math.isqrt(states)
    columns = math.ceil(states / rows)
    full = nx.grid_2d_graph(math.ceil(states / columns), columns)
    return nx.convert_node_labels_to_integers(full, ordering="sorted").subgraph(range(states))


def ladder(states: int, seed: int) -> nx.Graph:
    """Two rails with rungs; an odd node lengthens the first rail."""
    rung = math.ceil(states / 2)
    return nx.ladder_graph(rung).subgraph(range(states))


def line(states: int, seed: int) -> nx.Graph:
    """A path."""
    return nx.path_graph(states)


def caveman(states: int, seed: int) -> nx.Graph:
    """A ring of about sqrt(S) cliques; nodes left over join the last clique."""
    size = min(states, max(3, math.isqrt(states)))  # rewired cliques of two would fall apart
    caves = states // size
    graph = nx.connected_caveman_graph(caves, size)
    for node in range(caves * size, states):
        graph.add_edges_from((node, other) for other in range((caves - 1) * size, node))
    return graph


def caterpillar(states: int, seed: int) -> nx.Graph:
    """A spine of half the nodes; the others hang on it at random."""
    return _hang(states, seed, [math.ceil(states / 2)])


def lobster(states: int, seed: int) -> nx.Graph:
    """A caterpillar of two thirds of the nodes; the others hang on its legs at random."""
    return _hang(states, seed, [math.ceil(states / 3), math.ceil(2 * states / 3)])


def _hang(states: int, seed: int, ends: list[int]) -> nx.Graph:
    """A path up to node `ends[0]`; then each layer of nodes hangs on random nodes of the layer before."""
    graph = nx.path_graph(ends[0])
    random = nx.utils.create_py_random_state(seed)
    start = 0
    for end, following in zip(ends, [*ends[1:], states], strict=True):
        graph.add_edges_from((random.randrange(start, end), node) for node in range(end, following))
        start = end
    return graph


SUPPORT = 3  # successors of each state-action pair in the stochastic form of a graph family

GRAPHS: dict[str, tuple[str, BuildGraph]] = {
    "erdos-renyi": ("random graphs, each edge with probability 2 log(S) / S", erdos_renyi),
    "barabasi-albert": ("preferential attachment, two edges per new node", barabasi_albert),
    "star": ("one hub", star),
    "tree": ("uniformly random trees", tree),
    "grid": ("a square grid with four directions", grid),
    "ladder": ("two rails with rungs", ladder),
    "line": ("a path", line),
    "caveman": ("a ring of cliques", caveman),
    "caterpillar": ("a path with legs", caterpillar),
    "lobster": ("a path with legs of two joints", lobster),
}


def _graph_families() -> Iterator[tuple[str, Family]]:
    for name, (summary, build) in GRAPHS.items():
        yield name, Family(f"walks on graphs: {summary}", partial(graph_walk, build, 1))
        yield f"{name}-stochastic", Family(f"random walks: {summary}", partial(graph_walk, build, SUPPORT))


FAMILIES: dict[str, Family] = {
    "random-deterministic": Family("uniform successors, normal rewards (the paper's)", random_deterministic),
    "cartpole-tree": Family("a binary tree of falling poles (the paper's)", cartpole_tree, actions=2),
    "dense": Family("dense random transition probabilities", dense),
    **dict(_graph_families()),
}
