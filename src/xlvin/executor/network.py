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
from typing import Literal, cast

import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.mdp.tabular import TabularMDP

Reduction = Literal["max", "sum", "mean"]


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
    """Processor steps per sweep of value iteration; the encoded input is added again before each further one."""

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
        features = torch.stack((values.unsqueeze(-1).expand(mdp.reward.shape), mdp.reward), -1)
        return cast(Tensor, self.node_encoder(features))

    def process(self, mdp: TabularMDP, inputs: Tensor) -> Tensor:
        """Run the processor over the MDP's graph: x(s, a) [B, S, A, k] -> y(s) [B, S, k]."""
        processor = self.processor
        # The message is the expectation over successors, so one edge stands for a certain successor:
        # on deterministic MDPs this is the plain sum over neighbours of the published executor.
        certain = torch.tensor([1.0, mdp.discount], device=inputs.device)
        edge = processor.edge(self.edge_encoder(certain))
        own_action = torch.arange(mdp.actions, device=inputs.device).view(1, 1, -1, 1)
        pair = (mdp.successor * mdp.actions + own_action).flatten(1).unsqueeze(-1)  # [B, S*A*D, 1]
        node = inputs
        for step in range(self.config.steps):
            sent = processor.sender(node).flatten(1, 2)  # [B, S*A, k]
            sent = sent.gather(1, pair.expand(-1, -1, sent.shape[-1])).unflatten(1, mdp.successor.shape[1:])
            message = processor.activate(sent + (processor.receiver(node) + edge).unsqueeze(-2))
            if mdp.successor.shape[-1] == 1:
                message = message.squeeze(-2)
            else:
                message = (message * mdp.probability.unsqueeze(-1)).sum(-2)
            state = processor.reduce(cast(Tensor, processor.norm(node + message)))
            if step + 1 < self.config.steps:
                node = state.unsqueeze(-2) + inputs
        return state

    def forward(self, mdp: TabularMDP, values: Tensor) -> Tensor:
        """Predict V_{t+1} from V_t, [B, S] -> [B, S]; the decoder reads the difference."""
        state = self.process(mdp, self.encode(mdp, values))
        return values + cast(Tensor, self.decoder(state)).squeeze(-1)

    def rollout(self, mdp: TabularMDP, steps: int) -> Tensor:
        """Run on its own predictions from V = 0; returns the trace [steps + 1, B, S]."""
        trace = [torch.zeros(mdp.reward.shape[:2], device=mdp.reward.device)]
        for _ in range(steps):
            trace.append(self(mdp, trace[-1]))
        return torch.stack(trace)
