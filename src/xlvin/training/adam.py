"""Adam on one flat tensor, all seeds at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FIRST_DECAY, SECOND_DECAY = 0.9, 0.999


class Adam:
    """Kingma & Ba (2015): w <- w - lr m / (sqrt(v) + epsilon), m and v corrected for their start at zero."""

    def __init__(self, weights: Tensor, epsilon: float) -> None:
        self._weights, self._epsilon = weights, epsilon
        self.steps = 0
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)

    def step(self, gradient: Tensor, learning_rate: float) -> None:
        """Descend in place."""
        self.steps += 1
        self.first.lerp_(gradient, 1.0 - FIRST_DECAY)
        self.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1.0 - SECOND_DECAY)
        root = self.second.sqrt().div_(math.sqrt(1.0 - SECOND_DECAY**self.steps)).add_(self._epsilon)
        self._weights.addcdiv_(self.first, root, value=-learning_rate / (1.0 - FIRST_DECAY**self.steps))

    def state(self) -> dict[str, Tensor]:
        """As tensors."""
        return {"steps": torch.tensor(self.steps), "first": self.first, "second": self.second}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        self.steps = int(state["steps"])
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
