"""Acting fast: a network's forward pass recorded once, and replayed in NumPy.

For one observation the arithmetic of a network takes a few microseconds; the rest of an eager forward pass is
torch finding out, operation by operation, what to do. A recording knows: it keeps the memory of one pass, and
replays only those operations whose result depends on the observation. All else (weights composed with each
other, edge features, views) is constant by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from xlvin.errors import XLVINError

aten = torch.ops.aten
Kernel = Callable[[], object]


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
        self._tape = tape
        self._input = entry.numpy()
        self._outputs = [output.numpy() for output in outputs]

    def __call__(self, observation: ArrayLike) -> tuple[NDArray[Any], ...]:
        """The outputs for an observation that broadcasts to the example's shape."""
        np.copyto(self._input, observation)
        for kernel in self._tape.kernels:
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
        self._versions: list[int] = []
        self._tensors: list[Tensor] = []

    def __call__(self, observations: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The network's outputs for observations [B, ...]; bytes stay bytes, all else becomes float32."""
        dtype = torch.uint8 if observations.dtype == np.uint8 else torch.float32
        if not self._tensors:
            self._tensors = [*self._network.parameters(), *self._network.buffers()]
        device = self._tensors[0].device
        if device.type != "cpu" or len(observations) > self.LARGEST:
            with torch.inference_mode():
                outputs = self._network(torch.as_tensor(observations, dtype=dtype, device=device))
                return tuple(output.cpu().numpy() for output in outputs)
        versions = [tensor._version for tensor in self._tensors]
        if versions != self._versions:
            self._versions = versions
            self._recordings.clear()
        key = (len(observations), dtype)
        if key not in self._recordings:
            self._recordings[key] = Recording(self._network, torch.as_tensor(observations, dtype=dtype))
        return self._recordings[key](observations)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has parameters of its own, and records them when it first acts.
        return {"_network": self._network, "_recordings": {}, "_versions": [], "_tensors": []}


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation whose inputs depend on `entry`, as kernels that write where torch wrote."""

    def __init__(self, entry: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels: list[Kernel] = []
        self._depends = {_storage(entry)}
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
            self._depends |= outputs
            self.kernels += self._translate(func, args, kwargs, result)
        return result

    def _translate(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> list[Kernel]:
        """The operation in NumPy where that is faster, in torch otherwise."""
        args, kwargs = tree_map_only(Tensor, self._still, (args, kwargs))
        if func is aten.native_layer_norm.default:
            return [partial(_layer_norm, args, result[0].numpy())]
        if kwargs or not isinstance(result, Tensor) or result.dtype != torch.float32:
            return [partial(_in_torch, func, args, kwargs, result)]
        out = result.numpy()
        if func is aten.mm.default:
            return [partial(np.dot, args[0].numpy(), args[1].numpy(), out)]
        if func is aten.addmm.default:
            product = partial(np.dot, args[1].numpy(), args[2].numpy(), out)
            return [product, partial(np.add, out, self._like(out, args[0]), out)]
        if func in (aten.relu.default, aten.relu_.default):
            return [partial(np.maximum, args[0].numpy(), np.zeros_like(out), out=out)]
        if func in _ARITHMETIC:
            return [partial(_ARITHMETIC[func], self._like(out, args[0]), self._like(out, args[1]), out)]
        if func is aten.amax.default:
            keepdims = len(args) > 2 and args[2]
            return [partial(np.maximum.reduce, args[0].numpy(), tuple(args[1]), None, out, keepdims)]
        if func in (aten.cat.default, aten.stack.default):
            join = np.concatenate if func is aten.cat.default else np.stack
            axis = args[1] if len(args) > 1 else 0
            return [partial(join, [part.numpy() for part in args[0]], axis, out)]
        return [partial(_in_torch, func, args, kwargs, result)]

    def _still(self, tensor: Tensor) -> Tensor:
        """The tensor itself if it depends on the entry, else a copy that no optimiser step will change."""
        return tensor.detach() if _storage(tensor) in self._depends else tensor.detach().clone()

    def _like(self, out: NDArray[Any], operand: Tensor | float) -> NDArray[Any]:
        """An operand of element-wise arithmetic; constants in full, as broadcasting them costs time."""
        if isinstance(operand, Tensor) and _storage(operand) in self._depends:
            return operand.numpy()
        return np.array(np.broadcast_to(np.asarray(operand, out.dtype), out.shape), order="C")


_ARITHMETIC = {aten.add.Tensor: np.add, aten.sub.Tensor: np.subtract, aten.mul.Tensor: np.multiply}


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _layer_norm(args: tuple[Any, ...], out: NDArray[Any]) -> None:
    np.copyto(out, torch.layer_norm(*args).numpy())


def _in_torch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    again = func(*args, **kwargs)
    for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
        if isinstance(old, Tensor) and old is not new:
            old.copy_(new)
