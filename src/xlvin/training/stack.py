"""Many seeds at once: the weights of S agents of one shape, stacked on a leading axis.

Agents and losses are written for one agent. `Stack.apply` lifts a module over the stacked weights with
torch.vmap, so that S small products become one batched product; no network knows that other seeds exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Stack:
    """Stacked weights of equal modules, trainable ones in one flat tensor [S, P]."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.size = len(modules)
        states = [module.state_dict() for module in modules]
        trainable = [name for name, weight in modules[0].named_parameters() if weight.requires_grad]
        shapes = {name: states[0][name].shape for name in trainable}
        with torch.no_grad():
            self.flat = torch.cat(
                [torch.stack([state[name] for state in states]).flatten(1) for name in trainable], 1
            ).contiguous()
            self.frozen = {
                name: torch.stack([state[name] for state in states]) for name in states[0] if name not in shapes
            }
        self._shapes = shapes
        self._bind()

    def _bind(self) -> None:
        """Leaves for autograd, one per weight, that share memory with the flat tensor."""
        pieces = self.flat.detach().split([shape.numel() for shape in self._shapes.values()], 1)
        self.trainable = {
            name: piece.view(self.size, *shape).requires_grad_()
            for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }

    def to(self, device: torch.device | str) -> Stack:
        """Move all weights."""
        self.flat = self.flat.to(device)
        self.frozen = {name: weight.to(device) for name, weight in self.frozen.items()}
        self._bind()
        return self

    @property
    def weights(self) -> dict[str, Tensor]:
        """All weights by name, each [S, ...]."""
        return self.trainable | self.frozen

    def apply(self, module: nn.Module, *arguments: Any, prefix: str = "") -> Any:
        """Call `module` once per seed with that seed's weights; arguments and results lead with the seed axis.

        `prefix` is where the stacked module sits inside `module`.
        """
        weights = {prefix + name: weight for name, weight in self.weights.items()}
        if self.size == 1:  # no lifting needed, and vmap is not free
            single = torch.utils._pytree.tree_map(_first, arguments)
            result = torch.func.functional_call(module, {n: w[0] for n, w in weights.items()}, single)
            return torch.utils._pytree.tree_map(_unsqueeze, result)
        with _FlatLinear():
            return torch.vmap(lambda w, a: torch.func.functional_call(module, w, a))(weights, arguments)

    def gradient(self, loss: Tensor) -> Tensor:
        """d loss / d trainable weights as one flat tensor [S, P]; weights a loss does not touch get zero."""
        leaves = list(self.trainable.values())
        gradients = torch.autograd.grad(loss, leaves, materialize_grads=True)
        return torch.cat([gradient.flatten(1) for gradient in gradients], 1)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Overwrite all weights in place."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    def member(self, index: int) -> dict[str, Tensor]:
        """The weights of one seed, as a state dict of the module."""
        return {name: weight[index].detach().clone() for name, weight in self.weights.items()}


class _FlatLinear(TorchFunctionMode):
    """Linear layers see a matrix: lifted, [N, B, k] inputs would become N products per seed instead of one."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.linear and args[0].dim() > 2:
            return function(args[0].flatten(0, -2), *args[1:], **(kwargs or {})).unflatten(0, args[0].shape[:-1])
        return function(*args, **(kwargs or {}))


def _first(item: Any) -> Any:
    return item[0] if isinstance(item, Tensor) else item


def _unsqueeze(item: Any) -> Any:
    return item.unsqueeze(0) if isinstance(item, Tensor) else item
