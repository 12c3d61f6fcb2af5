"""Acting fast: a network's forward pass recorded once, and replayed in NumPy.

For one observation the arithmetic of a network takes a few microseconds; the rest of an eager forward pass is
torch finding out, operation by operation, what to do. A recording knows: it replays only those operations
whose result depends on the observation. All else (weights composed with each other, edge features, views) is
constant by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter, is_, itemgetter
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from xlvin.acting.kernels import Compiler, Operation, flat, like, tensors
from xlvin.acting.watch import Watch, address
from xlvin.errors import XLVINError

Array = NDArray[Any]
_VERSION, _TRAINING = attrgetter("_version"), itemgetter("training")
# Modules that do the same in training and in evaluation; agents have many of them.
_EVEN = (nn.Linear, nn.Conv2d, nn.Embedding, nn.LayerNorm, nn.ReLU, nn.Identity, nn.Sequential)


class RecordedFunction:
    """A function from one tensor to several, for inputs like the example it was recorded with.

    The parameters are those of the moment of recording: after they change, record again. The function must
    not branch on the values of its input. For the CPU; one call at a time.
    """

    def __init__(self, function: Callable[[Tensor], Sequence[Tensor]], example: Tensor) -> None:
        if example.device.type != "cpu":
            raise XLVINError("Only networks on the CPU can be recorded; move network and example there.")
        # In inference mode torch would show composite operations instead of their parts.
        with torch.inference_mode(False), torch.no_grad():
            entry = example.detach().clone()
            notes = _Notes(entry)
            with Watch(notes.carry_out):
                outputs = function(entry)
            compiler = Compiler(entry)
            for operation in notes.operations:
                compiler.add(operation)
            self._outputs = [compiler.read(output).numpy() for output in outputs]
        self._kernels = compiler.kernels
        self._input = entry.numpy()

    def __call__(self, observation: ArrayLike) -> tuple[Array, ...]:
        """The outputs for an observation that broadcasts to the example's shape."""
        np.copyto(self._input, observation)
        for kernel in self._kernels:
            kernel()
        return tuple(output.copy() for output in self._outputs)


class RecordedNetwork:
    """A network that answers arrays quickly: small batches on the CPU are recorded, others run in torch.

    When modules, parameters or buffers were replaced, or changed in place as optimisers and `load_state_dict`
    change them, or a module was put into training mode, it records again. It looks neither at hooks nor at
    plain attributes. Operations in place on `parameter.data` leave no trace, and to compare all numbers would
    take a third of the time that acting takes: call `record_anew` after any of these.

    Threads take turns.
    """

    # Beyond this many observations arithmetic outweighs what a recording saves.
    LARGEST = 32

    def __init__(self, network: nn.Module) -> None:
        self._network, self._lock = network, Lock()
        self._recordings: dict[tuple[int, torch.dtype, bytes], RecordedFunction] = {}
        self._attributes: list[dict[str, Any]] = []  # of all others: a dict is read faster than a module
        self._registered: list[Iterable[object]] = []  # live views of what every module holds
        self._parts: list[object] = []
        self._tensors: list[Tensor] = []
        self._addresses: list[int] = []
        self._versions = -1

    def __call__(self, observations: Array) -> tuple[Array, ...]:
        """The network's outputs for observations [B, ...]; bytes stay bytes, all else becomes float32."""
        dtype = torch.uint8 if observations.dtype == np.uint8 else torch.float32
        with self._lock:
            if self._has_changed():
                self._start_anew()
            device = self._tensors[0].device
            if device.type == "cpu" and len(observations) <= self.LARGEST:
                key = (len(observations), dtype, bytes(map(_TRAINING, self._attributes)))
                if key not in self._recordings:
                    example = torch.as_tensor(observations, dtype=dtype)
                    self._recordings[key] = RecordedFunction(self._network, example)
                return self._recordings[key](observations)
        with torch.inference_mode():
            outputs = self._network(torch.as_tensor(observations, dtype=dtype, device=device))
            return tuple(output.cpu().numpy() for output in outputs)

    def record_anew(self) -> None:
        """Keep no recording: the next call makes a new one."""
        with self._lock:
            self._versions = -1

    def _has_changed(self) -> bool:
        """Whether numbers were changed, parts were exchanged, or numbers lie elsewhere."""
        if sum(map(_VERSION, self._tensors)) != self._versions:  # each only ever grows
            return True
        parts = [*chain.from_iterable(self._registered)]
        if len(parts) != len(self._parts) or not all(map(is_, parts, self._parts)):
            return True
        return [*map(Tensor.data_ptr, self._tensors)] != self._addresses

    def _start_anew(self) -> None:
        self._recordings.clear()
        modules = [*self._network.modules()]
        self._attributes = [vars(module) for module in modules if type(module) not in _EVEN]
        registries = [each for m in modules for each in (m._modules, m._parameters, m._buffers) if each]
        self._registered = [registry.values() for registry in registries]
        self._parts = [*chain.from_iterable(self._registered)]
        self._tensors = [*self._network.parameters(), *self._network.buffers()]
        self._addresses = [*map(Tensor.data_ptr, self._tensors)]
        self._versions = sum(map(_VERSION, self._tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has parameters of its own, and records them when it first acts.
        return RecordedNetwork, (self._network,)


class _Notes:
    """Notes every operation whose inputs depend on `entry`."""

    def __init__(self, entry: Tensor) -> None:
        self.operations: list[Operation] = []
        self._depends = {address(entry)}
        self._alive: list[object] = []  # freed memory would be given to a later result

    def carry_out(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation itself."""
        inputs = {address(part) for part in tensors((args, kwargs))}
        depends = bool(inputs & self._depends)
        before = tree_map_only(Tensor, self._still, (args, kwargs)) if depends else (args, kwargs)
        result = function(*args, **kwargs)
        self._alive.append((args, kwargs, result))
        outputs = {address(part) for part in tensors(result)}
        changes = function._schema.is_mutable and torch.Tag.inplace_view not in function.tags
        if depends and (changes or not outputs <= inputs):  # else it is a view
            self._depends |= outputs
            now = tree_map_only(Tensor, Tensor.detach, result)  # the result's own shape may yet change
            self.operations.append(Operation(function, before[0], before[1], now))
        return result

    def _still(self, tensor: Tensor) -> Tensor:
        """The tensor itself if it depends on the entry, else a copy that no optimiser step will change."""
        return tensor.detach() if address(tensor) in self._depends else like(tensor, flat(tensor).clone())
