"""Many seeds at once: the weights of S agents of one shape, stacked on a leading axis.

Agents and losses are written for one agent. `Stack.apply` lifts a module over the stacked weights with
torch.vmap, so that S small products become one batched product; no network knows that other seeds exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only


class Stack:
    """Stacked weights of equal modules, trainable ones in one flat tensor [S, P].

    The first module is the template that computes for all of them. Alone, it is bound to the stack: it reads
    the stack's memory, and no lifting is needed.
    """

    def __init__(self, modules: Sequence[nn.Module], device: torch.device | str = "cpu") -> None:
        self.size, self._template = len(modules), modules[0]
        states = [module.state_dict() for module in modules]
        names = [name for name, weight in modules[0].named_parameters() if weight.requires_grad]
        shapes = {name: states[0][name].shape for name in names}
        columns = [torch.stack([state[name] for state in states]).flatten(1) for name in names]
        self.flat = torch.cat(columns, 1).to(device)
        pieces = self.flat.split_with_sizes([shape.numel() for shape in shapes.values()], 1)
        # Leaves for autograd, one per weight, that share memory with the flat tensor.
        self.trainable = {
            name: piece.view(self.size, *shapes[name]).requires_grad_()
            for name, piece in zip(names, pieces, strict=True)
        }
        self.frozen = {
            name: torch.stack([state[name] for state in states]).to(device)
            for name in states[0]
            if name not in shapes
        }
        modules[0].to(device)
        self._leaves = list(self.trainable.values())
        if self.size == 1:
            self._leaves = self._bind(modules[0])

    def _bind(self, module: nn.Module) -> list[Tensor]:
        """Let the module read the stack's memory; returns its own leaves in the order of the stack."""
        weights = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers())
        for name, weight in self.weights.items():
            weights[name].data = weight.detach()[0]
        return [weights[name] for name in self.trainable]

    @property
    def weights(self) -> dict[str, Tensor]:
        """All weights by name, each [S, ...]."""
        return self.trainable | self.frozen

    def apply(self, module: nn.Module, *arguments: Any, prefix: str = "") -> Any:
        """Call `module` once per seed with that seed's weights; arguments and results lead with the seeds.

        `module` is the template, or holds it; `prefix` is then where.
        """
        if self.size == 1:
            result = module(*tree_map_only(Tensor, lambda tensor: tensor[0], arguments))
            return tree_map_only(Tensor, lambda tensor: tensor.unsqueeze(0), result)
        weights = {prefix + name: weight for name, weight in self.weights.items()}
        with _FlatLinear():
            return torch.vmap(lambda w, a: torch.func.functional_call(module, w, a))(weights, arguments)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(template, *arguments) once per seed, as `apply` does it."""
        return self.apply(_Called(self._template, function), *arguments, prefix="template.")

    def gradient(self, loss: Tensor) -> Tensor:
        """d loss / d trainable weights as one flat tensor [S, P]; weights a loss does not touch get zero."""
        return gradients(loss, (self,))[0]

    def load(self, weights: dict[str, Tensor]) -> None:
        """Overwrite all weights in place."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    def member(self, index: int) -> dict[str, Tensor]:
        """The weights of one seed, as a state dict of the module."""
        return {name: weight[index].detach().clone() for name, weight in self.weights.items()}


def gradients(loss: Tensor, stacks: Sequence[Stack]) -> list[Tensor]:
    """`Stack.gradient` of a loss that depends on the weights of several stacks, for each of them."""
    leaves = [leaf for stack in stacks for leaf in stack._leaves]
    found = iter(torch.autograd.grad(loss, leaves, materialize_grads=True))
    return [torch.cat([next(found).reshape(stack.size, -1) for _ in stack._leaves], 1) for stack in stacks]


def clipped(gradient: Tensor, largest: float) -> Tensor:
    """Gradients [S, P] whose norm is at most `largest` for each seed."""
    norm: Tensor = gradient.norm(dim=1, keepdim=True)
    return gradient * (largest / (norm + 1e-6)).clamp(max=1.0)


class _Called(nn.Module):
    """What a function makes of the template, as a module that holds it."""

    def __init__(self, template: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.template, self._function = template, function

    def forward(self, *arguments: Any) -> Any:
        return self._function(self.template, *arguments)


class _FlatLinear(TorchFunctionMode):
    """Linear layers as one product and one sum.

    Lifted as they are, inputs [N, B, k] would become N products per seed, and every product and bias would be
    multiplied by one.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is nn.functional.linear:
            return _linear(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = (rows.reshape(-1, rows.shape[-1]) @ weight.mT).view(*rows.shape[:-1], -1)
    return product if bias is None else product + bias
