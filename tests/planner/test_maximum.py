import pytest
import torch
from torch import Tensor

from xlvin.planner import maximum as module
from xlvin.planner.maximum import maximum, segment_maximum


@pytest.fixture(autouse=True)
def every_size_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 0)


def with_ties(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 3, shape).double().requires_grad_()


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_maximum_is_amax_with_its_gradient(dim: int) -> None:
    values = with_ties(4, 3, 5)
    assert torch.equal(maximum(values, dim), values.amax(dim))
    weight = torch.randn_like(values.amax(dim))
    (got,) = torch.autograd.grad((maximum(values, dim) * weight).sum(), values)
    (want,) = torch.autograd.grad((values.amax(dim) * weight).sum(), values)
    assert torch.allclose(got, want)


def test_maximum_under_vmap_at_any_place() -> None:
    values = with_ties(2, 4, 3)
    for place in range(3):
        got = torch.vmap(lambda x: maximum(x, 0), in_dims=place)(values)
        assert torch.equal(got, values.movedim(place, 0).amax(1))


SEGMENT = torch.tensor([2, 0, 2, 2, 0])


def test_segment_maximum_by_hand() -> None:
    values = torch.tensor([[1.0, 5.0], [7.0, 0.0], [4.0, 5.0], [2.0, 3.0], [7.0, 1.0]], requires_grad=True)
    best = segment_maximum(values, SEGMENT, 4)
    assert best.tolist() == [[7.0, 1.0], [-torch.inf] * 2, [4.0, 5.0], [-torch.inf] * 2]
    best[[0, 2]].sum().backward()
    # Ties share: rows 1 and 4 attain 7, rows 0 and 2 attain 5.
    assert values.grad.tolist() == [[0.0, 0.5], [0.5, 0.0], [1.0, 0.5], [0.0, 0.0], [0.5, 1.0]]


@pytest.mark.parametrize("stacked_segments", [True, False])
def test_segment_maximum_under_vmap_is_a_loop(stacked_segments: bool) -> None:
    values = with_ties(3, 5, 2)
    segments = torch.stack([SEGMENT, SEGMENT.flip(0), SEGMENT]) if stacked_segments else SEGMENT
    places = (0, 0 if stacked_segments else None)
    got = torch.vmap(lambda v, s: segment_maximum(v, s, 3), places)(values, segments)
    each = segments if stacked_segments else [SEGMENT] * 3
    want = torch.stack([segment_maximum(v, s, 3) for v, s in zip(values, each, strict=True)])
    assert torch.equal(got, want)
    (mine,) = torch.autograd.grad(got[:, [0, 2]].sum(), values)
    (theirs,) = torch.autograd.grad(want[:, [0, 2]].sum(), values)
    assert torch.equal(mine, theirs)
