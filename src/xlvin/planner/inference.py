"""Acting fast: a network's forward pass recorded once, and replayed in NumPy.

For one observation the arithmetic of a network takes a few microseconds; the rest of an eager forward pass is
torch finding out, operation by operation, what to do. A recording knows: it keeps the memory of one pass, and
replays only those operations whose result depends on the observation. All else (weights composed with each
other, edge features, views) is constant by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from xlvin.errors import XLVINError

aten = torch.ops.aten
Array = NDArray[Any]
Kernel = Callable[[], object]
SMALL = 1e-3  # scales of a normalisation by which nothing is divided
FEW = 4  # rows or actions that are dealt with one by one
_VERSION = attrgetter("_version")


class Recording:
    """A function from one tensor to several, for inputs like the example it was recorded with.

    The parameters are those of the moment of recording: after they change, record again. The function must
    not branch on the values of its input. For the CPU; one call at a time.
    """

    def __init__(self, function: Callable[[Tensor], Sequence[Tensor]], example: Tensor) -> None:
        if example.device.type != "cpu":
            raise XLVINError("Only networks on the CPU can be recorded; move network and example there.")
        # In inference mode torch would show the tape composite operations instead of their parts.
        with torch.inference_mode(False), torch.no_grad():
            entry = example.detach().clone()
            with _Tape(entry) as tape:
                outputs = function(entry)
        self._tape = tape  # keeps the memory of the pass
        self._kernels = tape.kernels(outputs)
        self._input = entry.numpy()
        self._outputs = [output.numpy() for output in outputs]

    def __call__(self, observation: ArrayLike) -> tuple[Array, ...]:
        """The outputs for an observation that broadcasts to the example's shape."""
        np.copyto(self._input, observation)
        for kernel in self._kernels:
            kernel()
        return tuple(output.copy() for output in self._outputs)


class Recorder:
    """A network that answers arrays quickly: small batches on the CPU are recorded, others run in torch.

    When parameters or buffers have changed in place, as optimisers and `load_state_dict` change them, it
    records again.
    """

    # Beyond this many observations arithmetic outweighs what a recording saves.
    LARGEST = 32

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._recordings: dict[tuple[int, torch.dtype], Recording] = {}
        self._versions = -1
        self._tensors: list[Tensor] = []

    def __call__(self, observations: Array) -> tuple[Array, ...]:
        """The network's outputs for observations [B, ...]; bytes stay bytes, all else becomes float32."""
        dtype = torch.uint8 if observations.dtype == np.uint8 else torch.float32
        if not self._tensors:
            self._tensors = [*self._network.parameters(), *self._network.buffers()]
        device = self._tensors[0].device
        if device.type != "cpu" or len(observations) > self.LARGEST:
            with torch.inference_mode():
                outputs = self._network(torch.as_tensor(observations, dtype=dtype, device=device))
                return tuple(output.cpu().numpy() for output in outputs)
        versions = sum(map(_VERSION, self._tensors))  # each only ever grows
        if versions != self._versions:
            self._versions = versions
            self._recordings.clear()
        key = (len(observations), dtype)
        if key not in self._recordings:
            self._recordings[key] = Recording(self._network, torch.as_tensor(observations, dtype=dtype))
        return self._recordings[key](observations)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has parameters of its own, and records them when it first acts.
        return {"_network": self._network, "_recordings": {}, "_versions": -1, "_tensors": []}


@dataclass(frozen=True, eq=False)
class _Operation:
    """One operation of the pass; tensors that do not depend on the entry are copies."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation whose inputs depend on `entry`; its kernels write where torch wrote."""

    def __init__(self, entry: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: list[_Operation] = []
        self._depends = {_storage(entry)}
        self._uses: Counter[int] = Counter()  # how often each result is read
        self._alive: list[object] = []  # freed memory would be given to a later result

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler for a second, just to say that it is not wanted

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._alive.append((args, kwargs, result))
        inputs = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        outputs = {_storage(leaf) for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
        is_view = outputs <= inputs and not func._schema.is_mutable
        if inputs & self._depends and not is_view:
            args, kwargs = tree_map_only(Tensor, self._still, (args, kwargs))
            self._uses.update(inputs & self._depends)
            self._depends |= outputs
            self._operations.append(_Operation(func, args, kwargs, result))
        return result

    def kernels(self, outputs: Sequence[Tensor]) -> list[Kernel]:
        """The operations in NumPy where that is faster, in torch otherwise."""
        self._uses.update(_storage(output) for output in outputs)
        operations, kernels = list(self._operations), []
        for index, operation in enumerate(operations):
            if index + 1 < len(operations):
                operation, operations[index + 1] = self._folded(operation, operations[index + 1])
            kernels += self._translate(operation)
        return kernels

    def _folded(self, first: _Operation, then: _Operation) -> tuple[_Operation, _Operation]:
        """The same two operations with less to do, where the first is a layer that only the second reads."""
        if first.function is not aten.addmm.default or first.kwargs or then.kwargs:
            return first, then
        bias, rows, weight = first.args
        read = then.args[0]
        if not self._only_read_by(then, first.result) or bias.dim() != 1 or read.shape[-1:] != bias.shape:
            return first, then
        if then.function is aten.add.Tensor and self._is_constant(then.args[1]):
            constant, total = then.args[1] + bias, then.result
            copies = total.numel() // first.result.numel()
            if len(rows) == 1 and copies <= FEW and total.is_contiguous():
                # One row meets several constants: repeating it in the product is cheaper than broadcasting.
                repeated = (rows, weight.repeat(1, copies))
                product = _Operation(aten.mm.default, repeated, {}, total.view(1, -1))
                return product, replace(then, args=(total, constant))
            product = _Operation(aten.mm.default, (rows, weight), {}, first.result)
            return product, replace(then, args=(read, constant))
        if _normalises(then, bias.shape):
            # What is normalised loses its mean, which is linear: the layer can do without it. And it can have
            # the signs of the scales, so that these go into the deviations by which it will be divided.
            signs = then.args[2].sign()
            centred = ((bias - bias.mean()) * signs, rows, (weight - weight.mean(1, keepdim=True)) * signs)
            return replace(first, args=centred), replace(then, function="centred layer norm")
        return first, then

    def _only_read_by(self, reader: _Operation, result: Tensor) -> bool:
        place = _storage(result)
        is_read = isinstance(reader.args[0], Tensor) and _storage(reader.args[0]) == place
        return is_read and self._uses[place] == 1

    def _is_constant(self, operand: object) -> bool:
        return isinstance(operand, Tensor) and _storage(operand) not in self._depends

    def _translate(self, operation: _Operation) -> list[Kernel]:
        func, args, kwargs = operation.function, operation.args, operation.kwargs
        result = operation.result
        if func == "centred layer norm":
            return _centred_layer_norm(args, result[0].numpy())
        if func is aten.native_layer_norm.default:
            return [partial(_layer_norm, args, result[0].numpy())]
        if kwargs or not isinstance(result, Tensor) or result.dtype != torch.float32:
            return [partial(_in_torch, func, args, kwargs, result)]
        out = result.numpy()
        if func is aten.mm.default:
            return [partial(np.dot, *map(self._factor, args), out)]
        if func is aten.addmm.default:
            product = partial(np.dot, *map(self._factor, args[1:]), out)
            return [product, partial(np.add, out, self._like(out, args[0]), out)]
        if func in (aten.relu.default, aten.relu_.default):
            # The same array twice: of two views of one memory NumPy finds out first how they overlap.
            values = out if func is aten.relu_.default else args[0].numpy()
            return [partial(np.maximum, values, np.zeros_like(out), out=out)]
        if func in _ARITHMETIC:
            return [partial(_ARITHMETIC[func], self._like(out, args[0]), self._like(out, args[1]), out)]
        if func is aten.amax.default:
            return _maximum(args[0].numpy(), tuple(args[1]), len(args) > 2 and args[2], out)
        if func in (aten.cat.default, aten.stack.default):
            join = np.concatenate if func is aten.cat.default else np.stack
            axis = args[1] if len(args) > 1 else 0
            return [partial(join, [part.numpy() for part in args[0]], axis, out)]
        return [partial(_in_torch, func, args, kwargs, result)]

    def _still(self, tensor: Tensor) -> Tensor:
        """The tensor itself if it depends on the entry, else a copy that no optimiser step will change."""
        return tensor.detach() if _storage(tensor) in self._depends else tensor.detach().clone()

    def _factor(self, matrix: Tensor) -> Array:
        """A factor of a product; constants row by row, as products with transposed ones take longer."""
        return matrix.numpy() if _storage(matrix) in self._depends else np.ascontiguousarray(matrix.numpy())

    def _like(self, out: Array, operand: Tensor | float) -> Array:
        """An operand of element-wise arithmetic; constants in full, as broadcasting them costs time."""
        if isinstance(operand, Tensor) and _storage(operand) in self._depends:
            return operand.numpy()
        return np.array(np.broadcast_to(np.asarray(operand, out.dtype), out.shape), order="C")


_ARITHMETIC = {aten.add.Tensor: np.add, aten.sub.Tensor: np.subtract, aten.mul.Tensor: np.multiply}


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _normalises(operation: _Operation, shape: torch.Size) -> bool:
    """Whether it is a layer normalisation of rows of this shape, with scales that one can divide by."""
    if operation.function is not aten.native_layer_norm.default or list(operation.args[1]) != list(shape):
        return False
    return bool(operation.args[2].abs().min() > SMALL)


def _layer_norm(args: tuple[Any, ...], out: Array) -> None:
    np.copyto(out, torch.layer_norm(*args).numpy())


def _maximum(values: Array, dims: tuple[int, ...], keepdims: bool, out: Array) -> list[Kernel]:
    """The maximum along dimensions; along a short one a few comparisons take less than a reduction."""
    if len(dims) > 1 or keepdims or not 2 <= values.shape[dims[0]] <= FEW:
        return [partial(np.maximum.reduce, values, dims, None, out, keepdims)]
    first, *others = np.moveaxis(values, dims[0], 0)
    return [
        partial(np.maximum, first if place == 0 else out, other, out=out)
        for place, other in enumerate(others)
    ]


def _centred_layer_norm(args: tuple[Any, ...], out: Array) -> list[Kernel]:
    """Layer normalisation of rows x whose mean is zero, with the signs of the scales:

    x / sqrt((mean(x^2) + eps) / scale^2) + shift.
    """
    width = out.shape[-1]
    rows, flat = args[0].numpy().reshape(-1, width), out.reshape(-1, width)
    scale, shift = (np.tile(part.numpy(), (len(flat), 1)) for part in args[2:4])
    deviation, average = np.empty_like(flat), np.full((width, width), 1.0 / width, flat.dtype) / scale[0] ** 2
    return [
        partial(np.multiply, rows, rows, flat),
        partial(np.dot, flat, average, deviation),  # to every column: broadcasting costs more
        partial(np.add, deviation, args[4] / scale**2, deviation),
        partial(np.sqrt, deviation, deviation),
        partial(np.divide, rows, deviation, flat),
        partial(np.add, flat, shift, flat),
    ]


def _in_torch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    again = func(*args, **kwargs)
    for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
        if isinstance(old, Tensor) and old is not new:
            old.copy_(new)
