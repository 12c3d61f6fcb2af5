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

    def scales(self, learning_rate: float) -> tuple[float, float]:
        """The two numbers of the next step that change with time, for `descend`; counts the step."""
        self.steps += 1
        second = math.sqrt(1.0 - SECOND_DECAY**self.steps)
        return -learning_rate / (1.0 - FIRST_DECAY**self.steps), 1.0 / second

    def descend(self, gradient: Tensor, scales: Tensor) -> None:
        """A step in place whose `scales` [2] are on the device, so that it can be part of a CUDA graph."""
        self.first.lerp_(gradient, 1.0 - FIRST_DECAY)
        self.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1.0 - SECOND_DECAY)
        root = self.second.sqrt().mul_(scales[1]).add_(self._epsilon)
        self._weights.add_(self.first.div(root).mul_(scales[0]))

    def state(self) -> dict[str, Tensor]:
        """As tensors."""
        return {"steps": torch.tensor(self.steps), "first": self.first, "second": self.second}

    def restore(self, state: dict[str, Tensor]) -> None:
        """From tensors."""
        self.steps = int(state["steps"])
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
