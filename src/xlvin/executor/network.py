"""The executor: a graph network whose one step is one sweep of value iteration.

Encode-process-decode (Deac et al. 2020). Nodes are state-action pairs with features [V(s), R(s, a)], edges
lead from successors and carry [P(s'|s, a), gamma]:

    x(s, a)  = W_node [V(s), R(s, a)]                                   node encoder
    m(s, a)  = E_s'[ act(W_sender x(s', a) + W_receiver x(s, a) + W_edge e + b) ]
    y(s)     = reduce_a norm(x(s, a) + m(s, a))                         processor
    V'(s)    = V(s) + w_decode y(s)                                     decoder

The three products inside the message are one linear layer on the concatenation (sender, receiver, edge),
kept apart because a planner can then compute each once per node or once per action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from xlvin.errors import XLVINError
from xlvin.mdp.tabular import TabularMDP

Reduction = Literal["max", "sum", "mean"]

# Up to here a message for every successor is cheaper than finding out which units need one.
FEW_SUCCESSORS = 8


@dataclass(frozen=True)
class ExecutorConfig:
    """The shape of an executor."""

    width: int = 50
    """Features per node and message; 50 as the latent state of the paper's agents."""
    reduction: Reduction = "max"
    """How messages of different actions meet at a state. Value iteration takes the max."""
    activation: Literal["relu", "identity"] = "relu"
    """Non-linearity of the message; "identity" is the authors' skeleton."""
    layer_norm: bool = False
    """Normalise every node after the residual."""
    steps: int = 1
    """Processor steps per sweep; the encoded input is added again before each further one."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.steps < 1:
            raise XLVINError(f"Executor width {self.width} and steps {self.steps} must both be at least 1.")
        if self.reduction not in ("max", "sum", "mean"):
            raise XLVINError(f'Unknown reduction "{self.reduction}"; choose max, sum or mean.')
        if self.activation not in ("relu", "identity"):
            raise XLVINError(f'Unknown message activation "{self.activation}"; choose relu or identity.')


class Processor(nn.Module):
    """One latent step of value iteration over a node and its neighbourhood: the paper's X."""

    def __init__(self, config: ExecutorConfig) -> None:
        super().__init__()
        self.config = config
        self.sender = nn.Linear(config.width, config.width, bias=False)
        self.receiver = nn.Linear(config.width, config.width, bias=False)
        self.edge = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width) if config.layer_norm else nn.Identity()

    def activate(self, message: Tensor) -> Tensor:
        """The message's non-linearity."""
        return message.relu() if self.config.activation == "relu" else message

    def reduce(self, candidates: Tensor, dim: int = -2) -> Tensor:
        """Merge one candidate per action into the state's new features."""
        if self.config.reduction == "max":
            return candidates.amax(dim)
        return candidates.sum(dim) if self.config.reduction == "sum" else candidates.mean(dim)

    def forward(self, node: Tensor, neighbour: Tensor, edge: Tensor) -> Tensor:
        """X(h, N(h)) for nodes [..., A, k] and their successors [..., A, k]; returns [..., k].

        A state-level node enters as [..., 1, k]: it receives one message per action.
        """
        message = self.activate(self.sender(neighbour) + self.receiver(node) + self.edge(edge))
        return self.reduce(cast(Tensor, self.norm(node + message)))


class Executor(nn.Module):
    """Node and edge encoders, processor and decoder; `forward` is one sweep on predicted values."""

    def __init__(self, config: ExecutorConfig | None = None) -> None:
        super().__init__()
        self.config = config or ExecutorConfig()
        width = self.config.width
        self.node_encoder = nn.Linear(2, width, bias=False)
        self.edge_encoder = nn.Linear(2, width)
        self.processor = Processor(self.config)
        self.decoder = nn.Linear(width, 1)

    def encode(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """x(s, a), [B, S, A, k], of values [B, S]."""
        return cast(Tensor, self.node_encoder(_node_features(mdp, values)))

    def candidates(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """y(s, a), [B, S, A, k]: what each action offers to its state in the last processor step."""
        processor, encoder = self.processor, self.node_encoder.weight
        # The message is the expectation over successors, so one edge stands for a certain successor:
        # on deterministic MDPs this is the plain sum over neighbours of the published executor.
        certain = torch.tensor([1.0, mdp.discount], device=values.device)
        edge = processor.edge(self.edge_encoder(certain))
        features = _node_features(mdp, values)
        inputs = linear(features, encoder)
        # Two linear layers in a row are one: the first messages need two numbers per node, not k.
        received = linear(features, processor.receiver.weight @ encoder, edge)
        message = self._messages(mdp, features, processor.sender.weight @ encoder, received)
        candidates = processor.norm(inputs + message)
        for _ in range(self.config.steps - 1):
            node = processor.reduce(candidates).unsqueeze(-2) + inputs
            message = self._messages(mdp, node, processor.sender.weight, processor.receiver(node) + edge)
            candidates = processor.norm(node + message)
        return cast(Tensor, candidates)

    def _messages(self, mdp: TabularMDP, source: Tensor, sender: Tensor, received: Tensor) -> Tensor:
        """E_s'[act(sender x(s', a) + received(s, a))], [B, S, A, k], of sources x [B, S, A, f]."""
        reached = _at_successors(mdp, source)  # [B, S, A, D, f]
        if mdp.successor.shape[-1] == 1:
            return self.processor.activate(linear(reached.squeeze(-2), sender) + received)
        if self.config.activation == "identity":
            return linear((mdp.probability.unsqueeze(-2) @ reached).squeeze(-2), sender) + received
        if mdp.successor.shape[-1] <= FEW_SUCCESSORS:
            each = zip(reached.unbind(-2), mdp.probability.unsqueeze(-1).unbind(-2), strict=True)
            return reduce(torch.add, ((linear(x, sender) + received).relu() * p for x, p in each))
        return _expected_relu(mdp.probability, reached, sender, received, linear(source, sender))

    def process(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """The executed embedding y(s), [B, S, k], of values [B, S]."""
        return self.processor.reduce(self.candidates(mdp, values))

    def forward(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """Predict V_{t+1} from V_t, [B, S] -> [B, S]; the decoder reads the difference."""
        return values + cast(Tensor, self.decoder(self.process(mdp, values))).squeeze(-1)

    def action_values(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """Q(s, a) as the decoder reads it from each action's own candidate, [B, S] -> [B, S, A]."""
        return values.unsqueeze(-1) + cast(Tensor, self.decoder(self.candidates(mdp, values))).squeeze(-1)

    def rollout(self, mdp: TabularMDP, steps: int) -> Tensor:
        """Run on its own predictions from V = 0; returns the trace [steps + 1, B, S]."""
        trace = [torch.zeros(mdp.reward.shape[:2], device=mdp.reward.device)]
        for _ in range(steps):
            trace.append(self(mdp, trace[-1]))
        return torch.stack(trace)


def _node_features(mdp: TabularMDP, values: Tensor) -> Tensor:
    """[V(s), R(s, a)], [B, S, A, 2]."""
    return torch.stack((values.unsqueeze(-1).expand(mdp.reward.shape), mdp.reward), -1)


def _at_successors(mdp: TabularMDP, nodes: Tensor) -> Tensor:
    """Each node's successors under its own action, [B, S, A, f] -> [B, S, A, D, f]."""
    own_action = torch.arange(mdp.actions, device=nodes.device).unsqueeze(-1)
    pair = (mdp.successor * mdp.actions + own_action).flatten(1).unsqueeze(-1)  # [B, S A D, 1]
    reached = nodes.flatten(1, 2).gather(1, pair.expand(-1, -1, nodes.shape[-1]))
    return reached.view(*mdp.successor.shape, nodes.shape[-1])


def _expected_relu(
    probability: Tensor, reached: Tensor, sender: Tensor, received: Tensor, sent: Tensor
) -> Tensor:
    """E_s'[relu(sender x(s', a) + received(s, a))], [B, S, A, k], without k numbers for each successor.

    Where no successor can change the sign, relu and expectation commute. Only units that some node may get
    with both signs need a message per successor; in a trained executor these are about 6 of 50.
    """
    low, high = (extreme + received for extreme in (sent.amin(1, keepdim=True), sent.amax(1, keepdim=True)))
    units = ((low < 0.0) & (high > 0.0)).flatten(0, -2).any(0).nonzero().squeeze(-1)
    certain = linear((probability.unsqueeze(-2) @ reached).squeeze(-2), sender) + received
    message = (sender[units] @ reached.mT + received[..., units].unsqueeze(-1)).relu()  # [B, S, A, u, D]
    expected = (message @ probability.unsqueeze(-1)).squeeze(-1)
    return certain.relu().index_copy(-1, units, expected)
