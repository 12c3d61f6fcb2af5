"""Algorithms 1 and 2 as they are written, for one state: nodes in lists, an explicit set of edges.

Slow on purpose and with as little of the planner's own code as possible: T is evaluated on (h, one-hot a), a
message is one linear layer on (sender, receiver, edge). Where T has several outcomes for an action, each is a
node, and the action's message is the sum of theirs, weighted by their chances.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear, one_hot

from xlvin.latent.transition import TransitionModel
from xlvin.planner.planner import Planner


@dataclass
class Graph:
    levels: list[list[int]] = field(default_factory=list)
    embedding: dict[int, Tensor] = field(default_factory=dict)
    edges: list[tuple[int, int, int]] = field(default_factory=list)  # (parent, child, action)
    chance: dict[int, Tensor] = field(default_factory=dict)  # of a child, among the samples of its action
    sample: dict[int, int] = field(default_factory=dict)

    def add(self, embedding: Tensor) -> int:
        self.embedding[len(self.embedding)] = embedding
        return len(self.embedding) - 1


def translation(transition: TransitionModel, h: Tensor, action: int, sample: int = 0) -> Tensor:
    return transition.output(features(transition, h, action, sample))


def features(transition: TransitionModel, h: Tensor, action: int, sample: int) -> Tensor:
    onehot = one_hot(torch.tensor(action * transition.samples + sample), transition.branches).to(h.dtype)
    weight = torch.cat((transition.state.weight, transition.action.weight.T), 1)
    first = linear(torch.cat((h, onehot)), weight, transition.state.bias).relu()
    second = transition.hidden(first)
    normed = layer_norm(second, second.shape, transition.norm.weight, transition.norm.bias)
    return normed.relu()


def chances(transition: TransitionModel, h: Tensor, action: int) -> Tensor:
    """p(m|h, a), [M]."""
    if transition.samples == 1:
        return h.new_ones(1)
    logits = [transition.weigh(features(transition, h, action, m)) for m in range(transition.samples)]
    return torch.cat(logits).softmax(0)


def expand(planner: Planner, root: Tensor) -> Graph:
    """Algorithm 1; with a beam, only the most probable paths of each level are attached."""
    graph = Graph()
    graph.levels.append([graph.add(root)])
    score = {0: 0.0}
    for _ in range(planner.depth):
        paths = []
        for parent in graph.levels[-1]:
            h = graph.embedding[parent]
            chance = planner.prior(h).log_softmax(-1).tolist() if planner.prior else [0.0] * 99
            paths += [
                (score[parent] + chance[action] + drawn.log().item(), parent, action, sample, drawn)
                for action in range(planner.transition.actions)
                for sample, drawn in enumerate(chances(planner.transition, h, action))
            ]
        if planner.beam is not None:
            paths = sorted(paths, key=lambda path: path[:4], reverse=True)[: planner.beam]
        graph.levels.append([])
        for total, parent, action, sample, drawn in paths:
            h = graph.embedding[parent]
            child = graph.add(h + translation(planner.transition, h, action, sample))
            score[child], graph.chance[child], graph.sample[child] = total, drawn, sample
            graph.levels[-1].append(child)
            graph.edges.append((parent, child, action))
    return graph


def execute(planner: Planner, graph: Graph, discount: float) -> dict[int, Tensor]:
    """Algorithm 2: K times, every node from its neighbourhood; returns all executed embeddings."""
    processor, actions = planner.processor, planner.transition.actions
    weight = torch.cat((processor.sender.weight, processor.receiver.weight, processor.edge.weight), 1)
    initial = {node: planner.project(h) for node, h in graph.embedding.items()}
    neighbourhood = {
        node: [(child, action) for parent, child, action in graph.edges if parent == node]
        for node in graph.embedding
    }
    state = dict(initial)
    for step in range(planner.depth):
        start = state if step == 0 else {node: state[node] + initial[node] for node in state}
        for node, neighbours in neighbourhood.items():
            if not neighbours:
                continue
            messages: dict[int, Tensor] = {}
            for child, action in neighbours:
                share = sum(graph.chance[other] for other, same in neighbours if same == action)
                onehot = one_hot(torch.tensor(action), actions).to(start[node].dtype)
                edge = planner.edge(torch.cat((onehot, onehot.new_tensor([discount]))))
                ends = torch.cat((start[child], start[node], edge))
                message = processor.activate(linear(ends, weight, processor.edge.bias))
                messages[action] = messages.get(action, 0.0) + message * (graph.chance[child] / share)
            if planner.wiring == "skeleton":
                updated = processor.norm(start[node] + sum(messages.values()))
            else:
                each = [processor.norm(start[node] + message) for message in messages.values()]
                candidates = torch.stack(each)
                updated = processor.reduce(candidates, 0)
            state = {**state, node: updated}
    return state


def plan(planner: Planner, states: Tensor, discount: float) -> Tensor:
    """chi of states [B, k], [B, w]."""
    return torch.stack([execute(planner, expand(planner, state), discount)[0] for state in states])
