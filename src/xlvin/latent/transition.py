"""The transition model T: what each action does to an embedding (equation 5)."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from xlvin.errors import XLVINError


class TransitionModel(nn.Module):
    """T(h, a), the translation with z(s) + T(z(s), a) = E z(s').

    A three-layer MLP with layer normalisation after the second:

        f(h, a) = relu(norm(W_2 relu(W_1 [h, onehot(a)] + b_1) + b_2))
        T(h, a) = W_3 f(h, a) + b_3

    The product with the one-hot action is a row of W_1, so all actions share one product with h.
    """

    def __init__(self, width: int, actions: int, hidden: int) -> None:
        super().__init__()
        if min(width, actions, hidden) < 1:
            raise XLVINError(
                f"A transition model of width {width}, {actions} actions and {hidden} hidden features is "
                "impossible; each must be at least 1."
            )
        self.width, self.actions = width, actions
        self.input = nn.Linear(width + actions, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, width)

    @property
    def action_rows(self) -> Tensor:
        """W_1 onehot(a) for every action, [A, hidden]."""
        return self.input.weight[:, self.width :].T

    def read(self, embedding: Tensor) -> Tensor:
        """The part of the first layer that no action touches, W_1 h + b_1; [..., k] -> [..., hidden]."""
        return linear(embedding, self.input.weight[:, : self.width], self.input.bias)

    def think(self, first: Tensor) -> Tensor:
        """From the first layer's sums to f(h, a), [..., hidden] -> [..., hidden]."""
        return cast(Tensor, self.norm(self.hidden(first.relu()))).relu()

    def features(self, embedding: Tensor) -> Tensor:
        """f(h, a) for every action, [..., k] -> [..., A, hidden]: T before its last layer."""
        return self.think(self.read(embedding).unsqueeze(-2) + self.action_rows)

    def forward(self, embedding: Tensor) -> Tensor:
        """T(h, a) for every action, [..., k] -> [..., A, k]."""
        return cast(Tensor, self.output(self.features(embedding)))

    def translation(self, state: Tensor, action: Tensor) -> Tensor:
        """T(h, a) for one action each, [..., k] and [...] int64 -> [..., k]."""
        return cast(Tensor, self.output(self.think(self.read(state) + embedding(action, self.action_rows))))

    def successors(self, embedding: Tensor) -> Tensor:
        """h + T(h, a) for every action, [..., k] -> [..., A, k]."""
        return embedding.unsqueeze(-2) + cast(Tensor, self(embedding))
