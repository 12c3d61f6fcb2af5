"""Maxima over children, with a gradient that is cheap on a CPU.

The gradient of a maximum goes to the children that attain it, in equal shares. torch finds them through
boolean and int64 tensors, which no CPU kernel vectorises; comparing into floating-point numbers is several
times as fast.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

# Below this size the call of a custom function costs more than it saves.
SMALL = 2**14


def maximum(values: Tensor, dim: int) -> Tensor:
    """The largest values along a dimension, as `values.amax(dim)`."""
    if values.numel() < SMALL:
        return values.amax(dim)
    return cast(Tensor, _Maximum.apply(values, dim % values.dim()))  # type: ignore[no-untyped-call]


def segment_maximum(values: Tensor, segment: Tensor, segments: int) -> Tensor:
    """The maximum over each segment's rows, -inf where there are none.

    Values [E, w], segment [E] int64 -> [segments, w].
    """
    return cast(Tensor, _SegmentMaximum.apply(values, segment, segments))  # type: ignore[no-untyped-call]


class _Maximum(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, dim: int) -> Tensor:
        return values.amax(dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.dim = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        values, best = ctx.saved_tensors
        share = torch.eq(values, best.unsqueeze(ctx.dim), out=torch.empty_like(values))
        return share.mul_((grad / share.sum(ctx.dim)).unsqueeze(ctx.dim)), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], values: Tensor, dim: int) -> tuple[Tensor, int]:
        front = values.movedim(cast(int, in_dims[0]), 0)
        return _Maximum.apply(front, dim + 1), 0  # type: ignore[no-untyped-call]


class _SegmentMaximum(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, segment: Tensor, segments: int) -> Tensor:
        lowest = values.new_full((segments, values.shape[-1]), -torch.inf)
        return lowest.scatter_reduce_(0, segment.unsqueeze(-1).expand(values.shape), values, "amax")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        values, segment, best = ctx.saved_tensors
        share = torch.eq(values, best.index_select(0, segment), out=torch.empty_like(values))
        ties = torch.zeros_like(grad).index_add_(0, segment, share)
        return share.mul_((grad / ties).index_select(0, segment)), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], values: Tensor, segment: Tensor, segments: int
    ) -> tuple[Tensor, int]:
        # The members' segments are numbered through: one call does them all.
        size = info.batch_size
        values = values.expand(size, *values.shape) if in_dims[0] is None else values.movedim(in_dims[0], 0)
        segment = segment.expand(size, -1) if in_dims[1] is None else segment.movedim(in_dims[1], 0)
        offset = segments * torch.arange(size, device=segment.device).unsqueeze(1)
        best = _SegmentMaximum.apply(  # type: ignore[no-untyped-call]
            values.flatten(0, 1), (segment + offset).flatten(), size * segments
        )
        return best.view(size, segments, -1), 0
