import pytest
import torch
from torch import Tensor

from xlvin.planner.pieces import in_pieces


def function(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x @ weight + y).tanh() * bias


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(7, 3), (7, 2), (3, 2), (2,)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("piece", [None, 1, 3, 7, 100])
def test_pieces_change_neither_values_nor_gradients(piece: int | None) -> None:
    tensors = inputs()
    got = in_pieces(function, tensors[:2], tensors[2:], piece)
    want = function(*tensors)
    assert torch.allclose(got, want)
    mine = torch.autograd.grad(got.square().sum(), tensors)
    theirs = torch.autograd.grad(want.square().sum(), tensors)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("frozen", range(4))
def test_inputs_without_gradient_get_none(frozen: int) -> None:
    tensors = inputs()
    tensors[frozen].requires_grad_(False)
    in_pieces(function, tensors[:2], tensors[2:], 2).square().sum().backward()
    assert [tensor.grad is None for tensor in tensors] == [i == frozen for i in range(4)]


def test_second_derivatives_are_refused() -> None:
    tensors = inputs()
    (slope,) = torch.autograd.grad(
        in_pieces(function, tensors[:2], tensors[2:], 2).square().sum(), tensors[0], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.square().sum().backward()


def test_pieces_under_vmap() -> None:
    x, y, weight, bias = inputs()
    weights = torch.stack([weight.detach(), 2 * weight.detach()]).requires_grad_()

    def one(w: Tensor) -> Tensor:
        return in_pieces(function, (x, y), (w, bias), 2)

    got = torch.vmap(one)(weights)
    want = torch.stack([function(x, y, w, bias) for w in weights])
    assert torch.allclose(got, want)
    mine = torch.autograd.grad(got.square().sum(), (x, weights, bias))
    theirs = torch.autograd.grad(want.square().sum(), (x, weights, bias))
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b)
