"""Watching the operations that torch carries out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# From an operation, its arguments and its options to its result.
CarryOut = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, torch lets `carry_out` do every operation on tensors."""

    def __init__(self, carry_out: CarryOut) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._carry_out = carry_out

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler for a second, just to say that it is not wanted

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._carry_out(func, args, kwargs or {})


def address(tensor: Tensor) -> int:
    """Of the memory that a tensor is a view of."""
    return tensor.untyped_storage().data_ptr()
