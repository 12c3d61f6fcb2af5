"""Value iteration and the executor on noisy inputs: what the bottleneck experiment compares.

Value iteration reads scalars, V(s) and R(s, a); the executor reads their embeddings, x = W_node [V, R].
Gaussian noise on either (~) gives four arms; the first two are the paper's, two cross algorithm and input:

    vi-scalars           V'(s) = max_a R~(s, a) + gamma V~(s')
    executor-embeddings  V'(s) = V(s) + decode(X(x~))
    vi-decoded           vi-scalars on the least-squares reading of x~
    executor-scalars     executor-embeddings on W_node [V~, R~]

All are for deterministic MDPs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from xlvin.executor.network import Executor
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import Trace, policy_accuracy

Scaling = Literal["paper", "fair"]


@dataclass(frozen=True, eq=False)
class Noise:
    """Errors of the inputs."""

    value: Tensor  # [B, S]
    reward: Tensor  # [B, S, A]
    embedding: Tensor  # [B, S, A, k]
    feature_scale: Tensor  # [k]: standard deviations of the features' errors, up to a common factor

    def at(self, level: float) -> Noise:
        """The same errors, `level` times as large."""
        return Noise(level * self.value, level * self.reward, level * self.embedding, self.feature_scale)


def draw_noise(
    executor: Executor, mdp: TabularMDP, optimal: Tensor, scaling: Scaling, generator: torch.Generator
) -> Noise:
    """Unit noise on every number ("paper"), or noise in units of each number's spread at V* ("fair").

    The spread is the standard deviation within an MDP, averaged over MDPs: what all states of an MDP share
    decides nothing. An embedding's features have one spread each.
    """
    inputs = executor.encode(mdp, optimal)
    shapes = (optimal.shape, mdp.reward.shape, inputs.shape)
    value, reward, embedding = (torch.randn(shape, generator=generator) for shape in shapes)
    feature_scale = torch.ones(inputs.shape[-1])
    if scaling == "fair":
        value = value * optimal.std(1).mean()
        reward = reward * mdp.reward.flatten(1).std(1).mean()
        feature_scale = inputs.flatten(1, 2).std(1).mean(0)
    return Noise(value, reward, embedding * feature_scale, feature_scale)


# (executor, mdp, values [B, S], noise) -> values [B, S] after one sweep on noisy inputs
Arm = Callable[[Executor, TabularMDP, Tensor, Noise], Tensor]


def vi_scalars(executor: Executor, mdp: TabularMDP, values: Tensor, noise: Noise) -> Tensor:
    """Value iteration on noisy values and rewards."""
    return (mdp.action_values(values + noise.value) + noise.reward).amax(-1)


def executor_embeddings(executor: Executor, mdp: TabularMDP, values: Tensor, noise: Noise) -> Tensor:
    """The executor on noisy embeddings."""
    return _execute(executor, mdp, values, executor.encode(mdp, values) + noise.embedding)


def vi_decoded(executor: Executor, mdp: TabularMDP, values: Tensor, noise: Noise) -> Tensor:
    """Value iteration on what least squares, weighted by the noise's scale, read from the noisy embeddings.

    Every node is read by itself, and of a successor the node of the action taken, as the executor does.
    """
    encoder = executor.node_encoder.weight / noise.feature_scale.unsqueeze(-1)  # [k, 2]
    noisy = (executor.encode(mdp, values) + noise.embedding) / noise.feature_scale
    read: Tensor = noisy @ torch.linalg.pinv(encoder).T  # [B, S, A, 2]: V~ and R~
    return (read[..., 1] + mdp.discount * _at_successors(mdp, read)[..., 0]).amax(-1)


def executor_scalars(executor: Executor, mdp: TabularMDP, values: Tensor, noise: Noise) -> Tensor:
    """The executor on exact embeddings of noisy values and rewards."""
    wrong = torch.stack((noise.value.unsqueeze(-1).expand(noise.reward.shape), noise.reward), -1)
    return _execute(executor, mdp, values, executor.encode(mdp, values) + executor.node_encoder(wrong))


ARMS: dict[str, Arm] = {
    "vi-scalars": vi_scalars,
    "executor-embeddings": executor_embeddings,
    "vi-decoded": vi_decoded,
    "executor-scalars": executor_scalars,
}


@torch.no_grad()
def accuracy(
    arm: Arm, executor: Executor, mdp: TabularMDP, trace: Trace, noise: Noise, levels: Sequence[float]
) -> Tensor:
    """Policy accuracy of one arm on every MDP at every level of noise, [B, L].

    The arm starts at V = 0 and takes as many sweeps as exact value iteration (`trace`) did. Its inputs are
    wrong in the same way in every sweep, as a wrong prediction would be; the policy that its values give is
    judged on the true MDP.
    """
    curve = []
    for level in levels:
        values, noisy = torch.zeros_like(trace.final), noise.at(level)
        for _ in range(len(trace.values) - 1):
            values = arm(executor, mdp, values, noisy)
        curve.append(policy_accuracy(mdp, trace.final, values))
    return torch.stack(curve, -1)


def _execute(executor: Executor, mdp: TabularMDP, values: Tensor, inputs: Tensor) -> Tensor:
    """The executor's sweep on given embeddings [B, S, A, k] instead of those of `values`."""
    edge = executor.edge_encoder(inputs.new_tensor([1.0, mdp.discount]))
    state: Tensor = executor.processor(inputs, _at_successors(mdp, inputs), edge)
    for _ in range(executor.config.steps - 1):
        node = state.unsqueeze(-2) + inputs
        state = executor.processor(node, _at_successors(mdp, node), edge)
    difference: Tensor = executor.decoder(state)
    return values + difference.squeeze(-1)


def _at_successors(mdp: TabularMDP, nodes: Tensor) -> Tensor:
    """The node of the same action at each node's successor, [B, S, A, f] -> [B, S, A, f]."""
    return nodes.gather(1, mdp.successor.expand(nodes.shape))
