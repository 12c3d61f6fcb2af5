"""Arithmetic without bookkeeping: a computation on tensors is recorded once and then replayed.

A step on small networks spends most of its time in torch finding out what to do: dispatch, autograd, vmap. A
recording keeps the kernels below all that, with the memory that they wrote, and runs them again on new
numbers: nothing is allocated, no graph is built, and views cost nothing. The results have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map_only

from xlvin.acting.watch import Watch, address
from xlvin.training.graphs import Graph, stream_of

aten = torch.ops.aten
Kernel = Callable[[], object]
Bytes = NDArray[np.uint8]

# Bytes that a recording may keep; beyond, arithmetic outweighs bookkeeping anyway.
LIMIT = 2**27
# Recording takes as long as some ten calls; it is tried when inputs of the same shapes come this often.
WORTHWHILE = 3


class UnfitError(Exception):
    """The computation cannot be recorded: too large, or it looks at the numbers it computes."""


class Recorder:
    """A function of tensors that is called many times in a row with inputs of the same shapes.

    It may read other tensors, which may change in place; it must do the same operations each time. Results
    are overwritten by the next call. Where recording is not possible, the function itself is called.
    """

    def __init__(self, function: Callable[..., Any], limit: int = LIMIT) -> None:
        self._function, self._limit = function, limit
        self.recording: Recording | GraphRecording | None = None
        self._shapes: list[Any] = []  # of the latest calls
        self._calls = 0  # with these shapes
        self._fit = True

    def __call__(self, *inputs: Any) -> Any:
        """function(*inputs)."""
        tensors = _tensors(inputs)
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        if shapes != self._shapes:
            self._shapes, self._calls, self.recording = shapes, 0, None
        if self.recording is not None:
            return self.recording(tensors)
        self._calls += 1
        if self._fit and self._calls >= WORTHWHILE:
            try:
                self.recording = record(self._function, inputs, self._limit)
            except UnfitError:
                self._fit = False
            else:
                return self.recording.outputs
        return self._function(*inputs)


class ArrayRecorder:
    """The same for a function of one tensor on `device` that returns one, with arrays in their place."""

    def __init__(self, function: Callable[[Tensor], Tensor], device: torch.device) -> None:
        self._recorder, self._device = Recorder(function), device
        self._input = self._output = np.empty(0)
        self._repeat: Kernel | None = None

    def __call__(self, array: NDArray[Any]) -> NDArray[Any]:
        """function(array)."""
        # Straight into a recording's memory: tensors around the arrays would cost half as much as acting.
        if self._repeat and array.shape == self._input.shape and array.dtype == self._input.dtype:
            np.copyto(self._input, array)
            self._repeat()
            return self._output
        result: Tensor = self._recorder(torch.from_numpy(array).to(self._device))
        self._output, recording = result.cpu().numpy(), self._recorder.recording
        self._repeat = None
        if isinstance(recording, Recording):
            self._input, self._repeat = recording.inputs[0].numpy(), recording.repeat
        return self._output


def record(function: Callable[..., Any], inputs: tuple[Any, ...], limit: int) -> Recording | GraphRecording:
    """The function with these inputs, as something that can be repeated on the device they are on."""
    devices = {tensor.device.type for tensor in _tensors(inputs)}
    if devices == {"cuda"}:
        return GraphRecording(function, inputs)
    if devices == {"cpu"}:
        return Recording(function, inputs, limit)
    raise UnfitError("inputs are on several devices, or on one that cannot repeat its kernels")


class GraphRecording:
    """The kernels of one call on a GPU, as a CUDA graph."""

    def __init__(self, function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        own = tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), inputs)
        self._inputs = _tensors(own)
        # Not on `self`: a graph in a cycle would be freed by the collector, perhaps amid another's capture.
        self._outputs: list[Any] = []

        def call(outputs: list[Any] = self._outputs) -> None:
            outputs[:] = [tree_map_only(Tensor, Tensor.detach, function(*own))]

        self._graph = Graph(call, stream_of(self._inputs[0].device), ())
        self._graph()

    @property
    def outputs(self) -> Any:
        """Of the latest call."""
        return self._outputs[0]

    def __call__(self, inputs: list[Tensor]) -> Any:
        """The outputs for new inputs."""
        for own, tensor in zip(self._inputs, inputs, strict=True):
            own.copy_(tensor)
        self._graph()
        return self.outputs


class Recording:
    """The kernels of one call; calling it repeats them with new numbers, all tensors in one list."""

    def __init__(self, function: Callable[..., Any], inputs: tuple[Any, ...], limit: int) -> None:
        own = tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), inputs)
        tape = _Tape(limit)
        with np.errstate(all="ignore"), Watch(tape.carry_out):
            self.outputs = tree_map_only(Tensor, Tensor.detach, function(*own))
        self.inputs = _tensors(own)
        self._kernels = tape.needed(self.outputs)

    def __call__(self, inputs: list[Tensor]) -> Any:
        """The outputs for new inputs."""
        for own, tensor in zip(self.inputs, inputs, strict=True):
            own.copy_(tensor)
        self.repeat()
        return self.outputs

    def repeat(self) -> None:
        """Compute the outputs for what lies in `inputs`."""
        with np.errstate(all="ignore"):  # torch says nothing either; training looks at its losses
            for kernel in self._kernels:
                kernel()


class _Step(NamedTuple):
    """A kernel, and the memory that it reads and fills; it fills none if it changes what it reads."""

    kernel: Kernel
    read: set[int]
    written: set[int]


class _Tape:
    """Notes every operation that computes something, as a kernel that writes where it wrote."""

    def __init__(self, limit: int) -> None:
        self._steps: list[_Step] = []
        self._memory = _Memory(limit)

    def carry_out(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation itself, with its result in a block of memory."""
        result = function(*args, **kwargs)
        if not isinstance(result, Tensor | tuple | list):
            raise UnfitError(f"{function} looks at numbers")
        read = _addresses((args, tuple(kwargs.values())))
        in_place = function._schema.is_mutable
        if not in_place and _addresses(result) <= read:
            return result  # a view
        if not in_place:
            result = _mapped(self._memory.place, result)
        twin = partial(_mapped, self._memory.twin)
        options = {name: twin(value) for name, value in kwargs.items()}
        kernel = _kernel(function, twin(args), options, twin(result))
        self._steps.append(_Step(kernel, read, set() if in_place else _addresses(result)))
        return result

    def needed(self, outputs: Any) -> list[Kernel]:
        """The kernels in their order, without those that compute what nobody reads."""
        kept, awaited = [], _addresses(outputs)
        for step in reversed(self._steps):
            if not step.written or step.written & awaited:
                kept.append(step.kernel)
                awaited = awaited - step.written | step.read
        return kept[::-1]


class _Memory:
    """Where results lie: a block is used again once the tensors in it are gone, as torch does."""

    def __init__(self, limit: int) -> None:
        self._room = limit
        self._blocks: dict[int, Bytes] = {}  # by address
        self._taken: dict[int, list[tuple[StorageWeakRef, Bytes]]] = {}  # by size

    def place(self, tensor: Tensor) -> Tensor:
        """A copy of the tensor in a block."""
        size = 1 << max(6, (tensor.untyped_storage().nbytes() - 1).bit_length())
        taken = self._taken.setdefault(size, [])
        gone = next((index for index, (tenant, _) in enumerate(taken) if _expired(tenant)), None)
        block = self._new_block(size) if gone is None else taken.pop(gone)[1]
        placed = _view(block, tensor)
        placed.copy_(tensor)
        taken.append((StorageWeakRef(placed.untyped_storage()), block))  # type: ignore[no-untyped-call]
        return placed

    def twin(self, tensor: Tensor) -> Tensor:
        """The same memory for a kernel to keep, which does not keep the block from being used again."""
        block = self._blocks.get(address(tensor))
        return tensor.detach() if block is None else _view(block, tensor)

    def _new_block(self, size: int) -> Bytes:
        self._room -= size
        if self._room < 0:
            raise UnfitError("the computation is too large")
        memory = torch.empty(size, dtype=torch.uint8)
        return self._blocks.setdefault(address(memory), memory.numpy())


def _view(block: Bytes, like: Tensor) -> Tensor:
    """The block as a tensor with a storage of its own."""
    flat = torch.frombuffer(block, dtype=like.dtype)
    return flat.as_strided(like.size(), like.stride(), like.storage_offset())


def _expired(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def _tensors(nested: Any) -> list[Tensor]:
    """The tensors in nested sequences."""
    if isinstance(nested, Tensor):
        return [nested]
    if isinstance(nested, tuple | list):
        return [tensor for part in nested for tensor in _tensors(part)]
    return []


def _addresses(nested: Any) -> set[int]:
    return {address(tensor) for tensor in _tensors(nested)}


def _mapped(function: Callable[[Tensor], Tensor], nested: Any) -> Any:
    """Nested sequences with every tensor replaced."""
    if isinstance(nested, Tensor):
        return function(nested)
    if isinstance(nested, tuple | list):
        return type(nested)([_mapped(function, part) for part in nested])
    return nested


# NumPy computes these with the same bits as torch, and is called in half the time.
_UFUNCS: dict[Any, Any] = {
    aten.add.Tensor: np.add,
    aten.sub.Tensor: np.subtract,
    aten.mul.Tensor: np.multiply,
    aten.mul.Scalar: np.multiply,
    aten.div.Tensor: np.divide,
    aten.minimum.default: np.minimum,
    aten.maximum.default: np.maximum,
    aten.neg.default: np.negative,
    aten.relu.default: partial(np.maximum, np.zeros((), np.float32)),
}
# Results that depend on no numbers.
_CONSTANTS = {"arange", "empty", "eye", "full", "ones", "scalar_tensor", "zeros"}


def _kernel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], written: Any) -> Kernel:
    """The operation again, into the memory of its result; the fastest way that gives the same bits."""
    name = func.overloadpacket.__name__
    if func._schema.is_mutable:
        return partial(getattr(Tensor, name, func) if name.endswith("_") else func, *args, **kwargs)
    if name.removeprefix("new_").removesuffix("_like") in _CONSTANTS:
        return partial(np.copyto, written.numpy(), written.numpy().copy())
    for kernel in _candidates(func, args, kwargs, written):
        before = [leaf.clone() for leaf in _tensors(written)]
        with suppress(TypeError, RuntimeError, ValueError):
            kernel()
            if all(map(_same_bits, _tensors(written), before)):
                return kernel
    raise UnfitError(f"{func} cannot be repeated")


def _candidates(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], written: Any) -> Iterator[Kernel]:
    shapes = {leaf.shape for leaf in (*args, written) if isinstance(leaf, Tensor)}
    # Where shapes differ, torch is better at broadcasting.
    if func in _UFUNCS and not kwargs and len(shapes) == 1 and written.dtype == torch.float32:
        yield partial(_UFUNCS[func], *map(_operand, args), out=written.numpy())
    name = func.overloadpacket.__name__
    home = torch.linalg if name.startswith("linalg_") else torch
    binding = getattr(home, name.removeprefix("linalg_"), None)
    if binding is not None:  # called faster than the overload
        yield partial(binding, *args, **kwargs, out=written)
    into = _writing_overload(func)
    if into is not None and (isinstance(written, Tensor) or all(leaf is not None for leaf in written)):
        names = [argument.name for argument in into._schema.arguments if argument.is_out]
        yield partial(into, *args, **kwargs, **dict(zip(names, _tensors(written), strict=True)))
    yield partial(_compute_and_copy, func, args, kwargs, written)


@cache
def _writing_overload(func: Any) -> Any:
    """The overload of an operation that writes into given memory, if there is one."""

    def signature(overload: Any) -> list[tuple[str, str]]:
        return [(each.name, str(each.type)) for each in overload._schema.arguments if not each.is_out]

    overloads = [getattr(func.overloadpacket, name) for name in func.overloadpacket.overloads()]
    writing = [each for each in overloads if any(argument.is_out for argument in each._schema.arguments)]
    return next((each for each in writing if signature(each) == signature(func)), None)


def _compute_and_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], written: Any) -> None:
    for old, new in zip(_tensors(written), _tensors(func(*args, **kwargs)), strict=True):
        old.copy_(new)


def _same_bits(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and left.numpy().tobytes() == right.numpy().tobytes()


def _operand(operand: Tensor | float) -> NDArray[Any]:
    return operand.numpy() if isinstance(operand, Tensor) else np.array(operand, np.float32)
