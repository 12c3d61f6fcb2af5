"""The scalar tree against hand-computed numbers and the written recursion."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel
from xlvin.planner.backup import ScalarTree


def walk(left: float, right: float) -> TransitionModel:
    """A one-dimensional world: action 0 moves by `left`, action 1 by `right`, wherever one is."""
    transition = TransitionModel(1, 2, 2)
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter.zero_()
        transition.action.weight.copy_(torch.eye(2))  # first layer: onehot(a)
        transition.hidden.weight.copy_(torch.eye(2))
        transition.norm.weight.fill_(1.0)  # (1, 0) becomes (1, -1) up to the epsilon of the norm
        transition.output.weight.copy_(torch.tensor([[left, right]]))
    return transition


def make_walk(depth: int) -> ScalarTree:
    tree = ScalarTree(walk(-1.0, 2.0), depth, discount=0.5, td_lambda=0.8, reward_hidden=2)
    with torch.no_grad():
        for parameter in tree.reward.parameters():
            parameter.zero_()
        # r(z, .) = (relu(z), 3 relu(-z))
        tree.reward[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        tree.reward[2].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        tree.value.weight.fill_(10.0)
        tree.value.bias.fill_(1.0)
    return tree


def test_depth_one_by_hand() -> None:
    # At z = 4 rewards are (4, 0); the leaves 3 and 6 have values 31 and 61.
    values = make_walk(1)(torch.tensor([[4.0]]))
    assert values.reward.tolist() == [[4.0, 0.0]]
    assert torch.allclose(values.value, torch.tensor([[4.0 + 0.5 * 31.0, 0.5 * 61.0]]), atol=1e-3)


def test_depth_two_by_hand() -> None:
    # Below z = 0: z_0 = -1 with rewards (0, 3), leaves -2 and 1 of values -19 and 11, so Q = (-9.5, 8.5);
    # z_1 = 2 with rewards (2, 0), leaves 1 and 4 of values 11 and 41, so Q = (7.5, 20.5).
    def mixed(own: float, q: tuple[float, float]) -> float:
        weight = [math.exp(x) for x in q]
        expected = sum(w * x for w, x in zip(weight, q, strict=True)) / sum(weight)
        return 0.2 * own + 0.8 * expected

    want = [0.5 * mixed(-9.0, (-9.5, 8.5)), 0.5 * mixed(21.0, (7.5, 20.5))]
    values = make_walk(2)(torch.tensor([[0.0], [0.0]]))
    assert torch.allclose(values.value, torch.tensor([want, want]), atol=1e-3)
    assert values.reward.tolist() == [[0.0, 0.0]] * 2


def recursion(tree: ScalarTree, h: Tensor, depth: int) -> Tensor:
    """Q(z, .) for one state, as the docstring says."""
    backed_up = []
    for successor in tree.transition.successors(h):
        value = tree.value(successor)[0]
        if depth > 1:
            q = recursion(tree, successor, depth - 1)
            value = (1 - tree.td_lambda) * value + tree.td_lambda * (q.softmax(0) * q).sum()
        backed_up.append(value)
    return tree.reward(h) + tree.discount * torch.stack(backed_up)


@pytest.mark.parametrize(("actions", "depth"), [(1, 1), (1, 3), (2, 2), (3, 3), (5, 2)])
def test_any_tree_equals_the_recursion(actions: int, depth: int) -> None:
    torch.manual_seed(0)
    tree = ScalarTree(TransitionModel(4, actions, 6), depth).double()
    h = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    got, want = tree(h).value, torch.stack([recursion(tree, state, depth) for state in h])
    assert torch.allclose(got, want)
    sources = [h, *tree.parameters()]
    mine = torch.autograd.grad(got.square().sum(), sources, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(want.square().sum(), sources, allow_unused=True, materialize_grads=True)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b)


def test_stacked_parameters_equal_a_loop() -> None:
    torch.manual_seed(0)
    members = [ScalarTree(TransitionModel(4, 3, 6), 2) for _ in range(3)]
    names = [name for name, _ in members[0].named_parameters()]
    stacked = {name: torch.stack([m.get_parameter(name).detach() for m in members]) for name in names}
    h = torch.randn(3, 5, 4)
    got = torch.vmap(lambda p, x: functional_call(members[0], p, (x,)).value)(stacked, h)
    want = torch.stack([member(x).value for member, x in zip(members, h, strict=True)])
    assert torch.allclose(got, want, atol=1e-5)


def test_without_depth_there_is_nothing_to_back_up() -> None:
    with pytest.raises(XLVINError, match="depth 0"):
        ScalarTree(TransitionModel(4, 3, 6), 0)


def test_the_reward_head_has_the_published_shape() -> None:
    tree = ScalarTree(TransitionModel(4, 3, 6), 1)
    shapes = [tuple(layer.weight.shape) for layer in tree.reward if isinstance(layer, nn.Linear)]
    assert shapes == [(64, 4), (3, 64)]
    assert tree.td_lambda == 0.8
