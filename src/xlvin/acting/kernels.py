"""The operations of a recorded forward pass as NumPy calls, and as few of them as can be.

On a few hundred numbers a call costs much the same whatever it computes. So that there are not many,

- constants wait: a bias is not added but travels along, into the next layer's bias or into the bound of a
  rectifier, relu(x + b) = max(x, -b) + b;
- sums and products wait: a layer on a layer is one layer, and what nobody reads is never computed;
- one row is multiplied once, by all the weights that it meets, side by side;
- a layer before a normalisation subtracts the mean as well, which is linear too.

Where numbers are not finite, results may differ from torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._pytree import tree_leaves, tree_map_only

from xlvin.acting.watch import address

aten = torch.ops.aten
Kernel = Callable[[], object]
Product = tuple[Tensor, Tensor]  # rows [M, a] and a weight [a, b]
View = tuple[int, torch.Size, tuple[int, ...]]  # where numbers lie
FEW = 4  # copies of a row, or actions, that are dealt with one by one
SMALL = 1e-3  # scales of a normalisation by which nothing is divided
LIGHT = 2**14  # numbers in a weight, up to which a product costs little more than its call
WIDEST = 2**10  # columns of all the weights that one row meets


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of the pass; those of its tensors that do not depend on the entry are copies."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


@dataclass(eq=False)
class _Sum:
    """Products and addends that are to be added up; `memory` is there once they are."""

    products: Sequence[Product] = ()
    addends: Sequence[Tensor] = ()  # [n] each, n = M b
    memory: Tensor | None = None  # [n]

    def __add__(self, other: _Sum) -> _Sum:
        waiting = [part for part in (self, other) if part.memory is None]
        done = [part.memory for part in (self, other) if part.memory is not None]
        products = [product for part in waiting for product in part.products]
        return _Sum(products, done + [addend for part in waiting for addend in part.addends])


@dataclass(frozen=True, eq=False)
class _Value:
    """What a storage of the pass holds: total + constant."""

    total: _Sum
    constant: Tensor | None = None  # [n]


class Compiler:
    """Takes operations in their order; `kernels` repeats them on what lies in `entry`.

    Every result has a memory of its own, also that of an operation in place: nothing that is still to be read
    is ever overwritten.
    """

    def __init__(self, entry: Tensor) -> None:
        self._values = {address(entry): _Value(_Sum(memory=flat(entry)))}
        self._steps: list[Kernel | _Fan] = []
        self._fans: dict[View, _Fan] = {}

    @property
    def kernels(self) -> list[Kernel]:
        """What is to be called, in this order."""
        return [step.kernel() if isinstance(step, _Fan) else step for step in self._steps]

    def add(self, operation: Operation) -> None:
        """Translate an operation: by a rule where one fits, by a call of torch otherwise."""
        rule, result = _RULES.get(operation.function), tensors(operation.result)[0]
        usual = all(part.dtype == torch.float32 for part in tensors(operation.args)) and not operation.kwargs
        if rule is None or not usual or not _is_plain(result) or not rule(self, result, *operation.args):
            self._call_torch(operation)

    def read(self, operand: Tensor) -> Tensor:
        """Where an operand lies, all added up."""
        value = self._values.get(address(operand))
        if value is None:
            return operand
        memory = self._settle(value)
        self._values[address(operand)] = _Value(_Sum(memory=memory))
        return like(operand, memory)

    # Rules: each makes the result of an operation, or returns False to leave it to torch.

    def layer(self, result: Tensor, bias: Tensor, rows: Tensor, weight: Tensor) -> bool:
        """bias + rows @ weight."""
        return self.product(result, rows, weight) and self.sum(result, result, bias)

    def product(self, result: Tensor, rows: Tensor, weight: Tensor) -> bool:
        """rows @ weight."""
        if self._depends(weight) or not self._depends(rows):
            return False
        self._values[address(result)] = self._times(rows, weight)
        return True

    def sum(self, result: Tensor, left: Any, right: Any) -> bool:
        """left + right."""
        if not self._depends(left):
            left, right = right, left
        total, constant = self._spread(left, result)
        if self._depends(right):
            other, more = self._spread(right, result)
            self._values[address(result)] = _Value(total + other, _added(constant, more))
        else:
            more = _full(right, result).flatten()
            self._values[address(result)] = _Value(total, _added(constant, more))
        return True

    def difference(self, result: Tensor, left: Any, right: Any) -> bool:
        """left - right."""
        return self._elementwise(np.subtract, result, left, right)

    def scaled(self, result: Tensor, left: Any, right: Any) -> bool:
        """left * right."""
        return self._elementwise(np.multiply, result, left, right)

    def rectified(self, result: Tensor, operand: Tensor) -> bool:
        """relu(x + b) = max(x, -b) + b."""
        total, constant = self._spread(operand, result)
        memory = self._compute(total)
        bound = torch.zeros_like(memory) if constant is None else -constant
        self._emit(np.fmax, memory, bound, self._new(result, constant).flatten())
        return True

    def largest(self, result: Tensor, operand: Tensor, dims: Sequence[int] = (), keep: bool = False) -> bool:
        """The maximum along a dimension; if that is short, a few comparisons take less than a reduction."""
        if not dims:
            return False
        values, out = self.read(operand), self._new(result)
        if len(dims) == 1 and 2 <= values.shape[dims[0]] <= FEW:
            best, *others = values.unbind(dims[0])
            for other in others:
                best = self._emit(np.fmax, best, other, out.view(best.shape))
        else:
            self._steps.append(partial(np.fmax.reduce, values.numpy(), tuple(dims), None, out.numpy(), keep))
        return True

    def joined(self, result: Tensor, parts: Sequence[Tensor], dim: int = 0) -> bool:
        """A concatenation; of single rows it is a sum, in which every part has columns of its own."""
        width, is_row = result.shape[-1], result.shape[-1] == result.numel()
        plain = all(self._depends(part) and _is_plain(part) for part in parts)
        if not is_row or not plain or width**2 > LIGHT or dim % result.dim() < result.dim() - 1:
            return self._join(np.concatenate, result, parts, dim)
        whole, start = _Value(_Sum()), 0
        for part in parts:
            size = part.numel()
            value = self._times(part.view(1, -1), pad(torch.eye(size), (start, width - start - size)))
            whole = _Value(whole.total + value.total, _added(whole.constant, value.constant))
            start += size
        self._values[address(result)] = whole
        return True

    def stacked(self, result: Tensor, parts: Sequence[Tensor], dim: int = 0) -> bool:
        """Parts side by side in a dimension of their own."""
        return self._join(np.stack, result, parts, dim)

    def normalised(
        self, result: Tensor, operand: Tensor, shape: Sequence[int], scale: Any, shift: Any, eps: float
    ) -> bool:
        """Layer normalisation; of rows x without a mean and with the signs of the scales it is

        x / sqrt((mean(x^2) + eps) / scale^2) + shift.
        """
        width = operand.shape[-1]
        if not operand.is_contiguous() or list(shape) != [width] or width**2 > LIGHT:
            return False
        if scale is None or shift is None or scale.abs().min() < SMALL:
            return False
        centring, average = (torch.eye(width) - 1.0 / width) * scale.sign(), 1.0 / width / scale.square()
        rows = self._settle(self._times(operand.view(-1, width), centring)).view(-1, width)
        squares, variance, enough, deviation = (torch.empty_like(rows) for _ in range(4))
        self._emit(np.multiply, rows, rows, squares)
        # The average goes to every column, as broadcasting costs more.
        self._dot(squares, average.repeat(width, 1), variance)
        self._emit(np.add, variance, _full(eps / scale.square(), rows), enough)
        self._emit(np.sqrt, enough, deviation)
        out = self._new(result, _full(shift, rows).flatten())
        self._emit(np.divide, rows, deviation, out.view(rows.shape))
        return True

    def _elementwise(self, function: np.ufunc, result: Tensor, *operands: Any) -> bool:
        parts = [self.read(part) if self._depends(part) else _full(part, result) for part in operands]
        self._emit(function, *parts, self._new(result))
        return True

    def _join(
        self, function: Callable[..., object], result: Tensor, parts: Sequence[Tensor], dim: int
    ) -> bool:
        arrays = [self.read(part).numpy() for part in parts]
        self._steps.append(partial(function, arrays, dim, self._new(result).numpy()))
        return True

    def _call_torch(self, operation: Operation) -> None:
        """The operation as it is."""
        if operation.function._schema.is_mutable:
            self._change_copy(operation)
            return
        args, kwargs = tree_map_only(Tensor, self.read, (operation.args, operation.kwargs))
        outs = []
        for result in tensors(operation.result):
            memory = torch.empty_like(flat(result))
            self._values[address(result)] = _Value(_Sum(memory=memory))
            outs.append(like(result, memory))
        self._steps.append(partial(_in_torch, operation.function, args, kwargs, outs))

    def _change_copy(self, operation: Operation) -> None:
        """An operation in place, on a copy of what it changes."""
        arguments = operation.function._schema.arguments
        named = dict(zip((each.name for each in arguments), operation.args, strict=False)) | operation.kwargs
        target = next(named[each.name] for each in arguments if each.is_write)
        before = self._settle(self._values[address(target)]) if self._depends(target) else flat(target)
        memory = torch.empty_like(before)

        def place(part: Tensor) -> Tensor:
            return like(part, memory) if part is target else self.read(part)

        args, kwargs = tree_map_only(Tensor, place, (operation.args, operation.kwargs))
        self._steps += [partial(memory.copy_, before), partial(operation.function, *args, **kwargs)]
        self._values[address(operation.result)] = _Value(_Sum(memory=memory))

    # What values are made of.

    def _depends(self, operand: object) -> bool:
        return isinstance(operand, Tensor) and address(operand) in self._values

    def _new(self, result: Tensor, constant: Tensor | None = None) -> Tensor:
        """Memory for a result, in its shape; the constant is what will have to be added."""
        memory = torch.empty(result.numel())
        self._values[address(result)] = _Value(_Sum(memory=memory), constant)
        return memory.view(result.shape)

    def _times(self, rows: Tensor, weight: Tensor) -> _Value:
        """rows [M, a] @ weight [a, b], composed with the products that `rows` is, if it is."""
        value = self._values[address(rows)]
        constant = None if value.constant is None else (like(rows, value.constant) @ weight).flatten()
        before = [] if value.total.addends or not _is_plain(rows) else value.total.products
        # Several products would each have to be made, for every weight; only for single rows that is cheap.
        if len(before) > 1 and any(len(source) > 1 for source, _ in before):
            before = []
        if before and all(_compose(first, weight) for _, first in before):
            return _Value(_Sum([(source, first @ weight) for source, first in before]), constant)
        return _Value(_Sum([(like(rows, self._compute(value.total)), weight)]), constant)

    def _spread(self, operand: Tensor, result: Tensor) -> tuple[_Sum, Tensor | None]:
        """An operand of element-wise arithmetic in the shape of the result: its total and its constant."""
        value = self._values[address(operand)]
        total, constant = value.total, value.constant
        if constant is not None:
            constant = _full(like(operand, constant), result).flatten()
        copies, plain = result.numel() // operand.numel(), _is_plain(operand)
        if plain and copies == 1:
            return total, constant
        is_row = plain and operand.shape[-1] == operand.numel() == result.shape[-1]
        is_row = is_row and all(len(source) == 1 for source, _ in total.products)
        if is_row and copies <= FEW and total.products and not total.addends:
            # Repeating a row in its product is cheaper than broadcasting; the first copy is the row itself.
            repeated = _Sum([(row, weight.repeat(1, copies)) for row, weight in total.products])
            total.memory = self._compute(repeated)[: operand.numel()]
            return repeated, constant
        memory = torch.empty(result.shape)
        self._steps.append(partial(np.copyto, memory.numpy(), like(operand, self._compute(total)).numpy()))
        return _Sum(memory=memory.flatten()), constant

    def _settle(self, value: _Value) -> Tensor:
        """The memory of a value, all added up."""
        memory = self._compute(value.total)
        if value.constant is None:
            return memory
        return self._emit(np.add, memory, value.constant, torch.empty_like(memory))

    def _compute(self, total: _Sum) -> Tensor:
        """The memory of a sum, which is computed if it was not."""
        if total.memory is None:
            first, *others = [*(self._multiply(*each) for each in _merged(total.products)), *total.addends]
            for other in others:
                first = self._emit(np.add, first, other, torch.empty_like(first))
            total.memory = first
        return total.memory

    def _multiply(self, rows: Tensor, weight: Tensor) -> Tensor:
        """The memory of a product."""
        if len(rows) > 1 or weight.numel() > LIGHT or weight.shape[1] > WIDEST:
            out = torch.empty(len(rows), weight.shape[1])
            self._dot(rows, weight, out)
            return out.flatten()
        fan = self._fans.get(_view(rows))
        if fan is None or not fan.has_room(weight):
            fan = self._fans[_view(rows)] = _Fan(rows)
            self._steps.append(fan)
        return fan.add(weight)

    def _dot(self, rows: Tensor, weight: Tensor, out: Tensor) -> None:
        # Weights row by row: products with transposed ones take longer.
        self._steps.append(partial(np.dot, rows.numpy(), weight.contiguous().numpy(), out.numpy()))

    def _emit(self, function: np.ufunc, *operands: Tensor) -> Tensor:
        """An element-wise function; the last operand is where its result goes, and is returned."""
        alike = len({part.shape for part in operands}) == 1
        if alike and all(part.is_contiguous() for part in operands):
            arrays = [part.flatten().numpy() for part in operands]  # NumPy is quicker with one dimension
        else:
            arrays = [part.numpy() for part in operands]
        self._steps.append(partial(function, *arrays))
        return operands[-1]


class _Fan:
    """All products of one row [1, a]: a single one, with the weights side by side."""

    def __init__(self, row: Tensor) -> None:
        self._row, self._memory = row, torch.empty(WIDEST)
        self._weights: list[Tensor] = []
        self._taken = 0

    def has_room(self, weight: Tensor) -> bool:
        """Whether there is room for the product with a weight [a, b]."""
        return self._taken + weight.shape[1] <= WIDEST

    def add(self, weight: Tensor) -> Tensor:
        """One more product; its memory [b]."""
        self._weights.append(weight)
        start, self._taken = self._taken, self._taken + weight.shape[1]
        return self._memory[start : self._taken]

    def kernel(self) -> Kernel:
        """Computes them all."""
        weight, out = torch.cat(self._weights, 1), self._memory[: self._taken].view(1, -1)
        return partial(np.dot, self._row.numpy(), weight.numpy(), out.numpy())


_RULES: dict[Any, Callable[..., bool]] = {
    aten.addmm.default: Compiler.layer,
    aten.mm.default: Compiler.product,
    aten.add.Tensor: Compiler.sum,
    aten.add_.Tensor: Compiler.sum,
    aten.sub.Tensor: Compiler.difference,
    aten.mul.Tensor: Compiler.scaled,
    aten.relu.default: Compiler.rectified,
    aten.relu_.default: Compiler.rectified,
    aten.amax.default: Compiler.largest,
    aten.cat.default: Compiler.joined,
    aten.stack.default: Compiler.stacked,
    aten.native_layer_norm.default: Compiler.normalised,
}


def tensors(nested: Any) -> list[Tensor]:
    """Those in nested sequences and dictionaries."""
    return [leaf for leaf in tree_leaves(nested) if isinstance(leaf, Tensor)]


def flat(tensor: Tensor) -> Tensor:
    """All of the memory that a tensor is a view of, [n]."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


def like(tensor: Tensor, memory: Tensor) -> Tensor:
    """The same view of another memory [n]."""
    start = memory.storage_offset() + tensor.storage_offset()
    return memory.as_strided(tensor.shape, tensor.stride(), start)


def _is_plain(tensor: Tensor) -> bool:
    """Whether it is all of its memory, number by number, of the usual type."""
    is_whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor.dtype == torch.float32 and tensor.is_contiguous() and is_whole


def _full(constant: Tensor | float, result: Tensor) -> Tensor:
    """A constant in the shape of a result; broadcasting it each time would cost more."""
    return torch.as_tensor(constant, dtype=torch.float32).expand(result.shape).contiguous()


def _added(constant: Tensor | None, more: Tensor | None) -> Tensor | None:
    return more if constant is None else constant if more is None else constant + more


def _compose(first: Tensor, second: Tensor) -> bool:
    """Whether a layer with the first weight and one with the second become one."""
    return first.shape[1] == second.shape[0] and first.shape[0] * second.shape[1] <= LIGHT


def _view(rows: Tensor) -> View:
    return rows.data_ptr(), rows.shape, rows.stride()


def _merged(products: Sequence[Product]) -> list[Product]:
    """The same sum with one product for all that have the same rows."""
    found: dict[View, Product] = {}
    for rows, weight in products:
        same = found.get(_view(rows))
        found[_view(rows)] = (rows, weight if same is None else same[1] + weight)
    return list(found.values())


@torch.no_grad()  # some operations return more when they are to be differentiated
def _in_torch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: list[Tensor]) -> None:
    for out, new in zip(outs, tensors(function(*args, **kwargs)), strict=True):
        out.copy_(new)
