"""Work on many rows, a piece at a time.

A level of A^K leaves needs room for all its activations, and moving them through memory costs more than
computing them. Pieces that fit the cache are faster; and as the backward pass computes each piece anew,
nothing but the rows themselves is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

RowFunction = Callable[..., Tensor]

# On a CPU a level of leaves with more than LARGE numbers per layer is worked on in pieces that fit the cache:
# measured, that is about twice as fast, and slower for smaller levels.
LARGE, PIECE = 2**22, 2**18


def piece_size(parents: Tensor, actions: int, max_leaves: int | None) -> int | None:
    """How many parents of leaves, given as rows [..., F] of T's first layer, to work on at once.

    By default a CPU works in pieces that fit its cache, other devices on everything at once.
    """
    if max_leaves is not None:
        return max(1, max_leaves // actions)
    if parents.device.type != "cpu" or parents.numel() * actions <= LARGE:
        return None
    return max(1, PIECE // (actions * parents.shape[-1]))


def in_pieces(
    function: RowFunction, rows: Sequence[Tensor], shared: Sequence[Tensor], piece: int | None
) -> Tensor:
    """function(*rows, *shared), with at most `piece` rows at a time (None: all at once).

    The function maps tensors [R, ...] to one of [R, ...], row by row, and reads nothing that needs a gradient
    but its arguments. Values and gradients do not depend on `piece`, except for rounding.
    """
    if piece is None or piece >= len(rows[0]):
        return function(*rows, *shared)
    return _Pieces.apply(function, piece, len(rows), *rows, *shared)  # type: ignore[no-untyped-call,no-any-return]


class _Pieces(torch.autograd.Function):
    @staticmethod
    def forward(function: RowFunction, piece: int, split: int, *tensors: Tensor) -> Tensor:
        pieces = zip(*(_cut(tensor, piece) for tensor in tensors[:split]), strict=True)
        return torch.cat([function(*part, *tensors[split:]) for part in pieces])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function, ctx.piece, ctx.split = inputs[:3]
        ctx.save_for_backward(*inputs[3:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[3:]
        shared = [_leaf(*pair) for pair in zip(ctx.saved_tensors, wanted, strict=True)][ctx.split :]
        rows = [_cut(tensor, ctx.piece) for tensor in (grad, *ctx.saved_tensors[: ctx.split])]
        row_grads: list[list[Tensor]] = []
        totals: list[Tensor] = []
        for upstream, *part in zip(*rows, strict=True):
            with torch.enable_grad():
                own = [_leaf(*pair) for pair in zip(part, wanted, strict=False)]
                output = ctx.function(*own, *shared)
            sources = [tensor for tensor in (*own, *shared) if tensor.requires_grad]
            grads = torch.autograd.grad(output, sources, upstream)
            row_grads.append(list(grads[: sum(wanted[: ctx.split])]))
            new = grads[len(row_grads[-1]) :]
            totals = [old + more for old, more in zip(totals, new, strict=True)] if totals else list(new)
        found = iter([*(torch.cat(parts) for parts in zip(*row_grads, strict=True)), *totals])
        return None, None, None, *(next(found) if need else None for need in wanted)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        function: RowFunction,
        piece: int,
        split: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, int]:
        # Rows stay in front, so that the pieces of all members are cut alike.
        targets = [1 if i < split else 0 for i in range(len(tensors))]
        moved = [
            tensor if dim is None else tensor.movedim(dim, target)
            for tensor, dim, target in zip(tensors, in_dims[3:], targets, strict=True)
        ]
        places = tuple(None if dim is None else to for dim, to in zip(in_dims[3:], targets, strict=True))
        lifted = torch.vmap(function, places, out_dims=1)
        return _Pieces.apply(lifted, max(1, piece // info.batch_size), split, *moved), 1  # type: ignore[no-untyped-call]


def _cut(tensor: Tensor, piece: int) -> list[Tensor]:
    return [tensor[start : start + piece] for start in range(0, len(tensor), piece)]


def _leaf(tensor: Tensor, needs_grad: bool) -> Tensor:
    return tensor.detach().requires_grad_(needs_grad)
