"""Many kernels as one launch: a function on fixed tensors, captured as a CUDA graph where there is a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

# Calls before a capture: libraries choose their algorithms and reserve memory in them.
WARM_UP = 3


def stream_of(device: torch.device) -> torch.cuda.Stream | None:
    """A queue of its own for one seed's work, so that seeds overlap on a GPU; None elsewhere."""
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def on(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Work in this block goes to the stream."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


class Graph:
    """A function without arguments that reads and writes the same tensors each time.

    `changes` are the tensors that it must not change before its first call: trying it out is undone.
    """

    def __init__(
        self, function: Callable[[], object], stream: torch.cuda.Stream | None, changes: Sequence[Tensor]
    ) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None
        if stream is None:
            return
        before = [tensor.clone() for tensor in changes]
        torch.cuda.synchronize(stream.device)
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                function()
                _restore(changes, before)
        stream.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                function()
            self._graph = graph
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warnings.warn(f"CUDA graphs do not work here ({reason}); it will be slower.", stacklevel=2)

    def __call__(self) -> None:
        """Do it, on the current stream; does not wait for the result on a GPU."""
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()


@torch.no_grad()
def _restore(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
