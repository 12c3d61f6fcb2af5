"""The transition model T: what each action does to an embedding (equation 5)."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from xlvin.errors import XLVINError


class Outcomes(NamedTuple):
    """What may come of every action."""

    successors: Tensor  # [..., A M, k], h + T; the samples of an action lie together
    chances: Tensor | None  # [..., A, M], how probable each sample of an action is; None: there is but one


class TransitionModel(nn.Module):
    """T(h, a), the translation with z(s) + T(z(s), a) = E z(s').

    A three-layer MLP on (h, one-hot a) with layer normalisation after the second layer:

        f(h, a) = relu(norm(W_hidden relu(W_state h + W_action onehot(a) + b) + b_hidden))
        T(h, a) = W_output f(h, a) + b_output

    The first layer is kept in two parts: all actions share one product with h, and the product with a one-hot
    vector is looked up, one row of W_action per action.
    """

    samples = 1  # M, successors of a state and an action

    def __init__(self, width: int, actions: int, hidden: int) -> None:
        super().__init__()
        if min(width, actions, hidden) < 1:
            raise XLVINError(
                f"A transition model of width {width} with {actions} actions and {hidden} hidden features is "
                "impossible; each must be at least 1."
            )
        self.width, self.actions = width, actions
        self.state = nn.Linear(width, hidden)
        self.action = nn.Embedding(self.branches, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, width)
        # Both parts start as one layer on the concatenation would: their inputs count together.
        for part in (self.state.weight, self.state.bias, self.action.weight):
            nn.init.uniform_(part, -((width + actions) ** -0.5), (width + actions) ** -0.5)

    @property
    def branches(self) -> int:
        """A M, successors of a state."""
        return self.actions * self.samples

    @property
    def core(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The parameters between the first and the last layer, as `think` takes them."""
        return self.hidden.weight, self.hidden.bias, self.norm.weight, self.norm.bias

    def features(self, states: Tensor, dim: int = -2) -> Tensor:
        """f(h, a) for every action: T before its last layer.

        [..., k] -> [..., A, hidden]; a smaller (negative) `dim` puts the actions further to the front.
        """
        rows = self.action.weight.view(self.branches, *[1] * (-dim - 2), -1)
        return think(self.state(states).unsqueeze(dim) + rows, *self.core)

    def forward(self, states: Tensor, dim: int = -2) -> Tensor:
        """T(h, a) for every action, [..., k] -> [..., A, k]; `dim` as in `features`."""
        return cast(Tensor, self.output(self.features(states, dim)))

    def successors(self, states: Tensor, dim: int = -2) -> Tensor:
        """h + T(h, a) for every action, [..., k] -> [..., A, k]; `dim` as in `features`."""
        return states.unsqueeze(dim) + cast(Tensor, self(states, dim))

    def outcomes(self, states: Tensor, dim: int = -2) -> Outcomes:
        """`successors`, and how probable each is; `dim` as in `features`."""
        return Outcomes(self.successors(states, dim), None)

    def translation(self, states: Tensor, action: Tensor) -> Tensor:
        """T(h, a) for one action each, [..., k] and [...] int64 -> [..., k]."""
        first = self.state(states) + self.action(action)
        return cast(Tensor, self.output(think(first, *self.core)))


def think(first: Tensor, weight: Tensor, bias: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """f(h, a) from the sums of the first layer, which are consumed; [..., hidden] -> [..., hidden]."""
    second = linear(first.relu_(), weight, bias)
    return layer_norm(second, second.shape[-1:], scale, shift).relu_()
