"""The aligned planner against the executor itself, and against the recursion as it is written."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import linear

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.latent.stochastic import StochasticTransitionModel
from xlvin.latent.transition import TransitionModel
from xlvin.mdp.tabular import TabularMDP
from xlvin.planner import aligned as module
from xlvin.planner.aligned import AlignedPlanner

from . import literal as literally

LATENT, HIDDEN, WIDTH, DISCOUNT, TAUGHT = 4, 6, 5, 0.75, 0.875
EXECUTORS = [
    {"reduction": reduction, "activation": activation, "layer_norm": layer_norm}
    for reduction, activation, layer_norm in product(
        ("max", "sum", "mean"), ("relu", "identity"), (False, True)
    )
]


def make(
    actions: int, depth: int, executor: dict | None = None, samples: int = 1, **options
) -> AlignedPlanner:
    torch.manual_seed(0)
    network = Executor(ExecutorConfig(WIDTH, **(executor or {})))
    transition = TransitionModel(LATENT, actions, HIDDEN)
    if samples > 1:
        transition = StochasticTransitionModel(LATENT, actions, HIDDEN, samples)
        torch.nn.init.normal_(transition.weigh.weight)
    return AlignedPlanner(network, transition, depth, DISCOUNT, TAUGHT, **options).double()


def states(batch: int = 3) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(batch, LATENT, dtype=torch.float64, requires_grad=True)


def literal(planner: AlignedPlanner, h: Tensor, depth: int, top: bool = True) -> Tensor:
    """Q of one state [k], or V below the top: the module's docstring, node by node."""
    executor, processor = planner.executor, planner.executor.processor
    own = planner.value(h)[0]
    if depth == 0:
        return own
    edge = executor.edge_encoder(torch.tensor([1.0, TAUGHT], dtype=h.dtype))
    candidates = []
    for action in range(planner.transition.actions):
        x = executor.node_encoder(torch.stack((own, planner.reward(h)[action])))
        joint = torch.cat((processor.sender.weight, processor.receiver.weight, processor.edge.weight), 1)
        expected = 0.0
        for child, chance in outcomes(planner, h, action):
            value = literal(planner, child, depth - 1, top=False) * (DISCOUNT / TAUGHT)
            sender = executor.node_encoder(torch.stack((value, planner.reward(child)[action])))
            message = linear(torch.cat((sender, x, edge)), joint, processor.edge.bias)
            expected = expected + chance * processor.activate(message)
        candidates.append(processor.norm(x + expected))
    y = torch.stack(candidates)
    return own + executor.decoder(y if top else processor.reduce(y)).squeeze(-1)


def outcomes(planner: AlignedPlanner, h: Tensor, action: int) -> list[tuple[Tensor, Tensor]]:
    """What may come of an action, and how probably."""
    transition = planner.transition
    chances = literally.chances(transition, h, action)
    return [
        (h + literally.translation(transition, h, action, sample), chance)
        for sample, chance in enumerate(chances)
    ]


def trainable(planner: AlignedPlanner) -> list[Tensor]:
    return [weight for weight in planner.parameters() if weight.requires_grad]


def assert_same(planner: AlignedPlanner, h: Tensor, got: Tensor, want: Tensor) -> None:
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-9)
    slope = torch.linspace(-1.0, 1.0, got.numel(), dtype=got.dtype).view(got.shape)
    sources = [h, *trainable(planner)]
    mine, theirs = (
        torch.autograd.grad((q * slope).sum(), sources, materialize_grads=True) for q in (got, want)
    )
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-9)


SIZES = [(actions, depth) for actions in range(1, 5) for depth in range(1, 5) if actions**depth <= 81]


@pytest.mark.parametrize(
    ("actions", "depth", "executor"),
    [(*size, EXECUTORS[0]) for size in SIZES] + [(3, 2, executor) for executor in EXECUTORS],
)
def test_any_tree_equals_the_recursion(actions: int, depth: int, executor: dict) -> None:
    planner, h = make(actions, depth, executor), states()
    want = torch.stack([literal(planner, state, depth) for state in h])
    assert_same(planner, h, planner(h).value, want)
    torch.testing.assert_close(planner(h).reward, planner.reward(h))


@pytest.mark.parametrize(
    ("actions", "depth", "executor"),
    [(1, 3, EXECUTORS[0]), (3, 1, EXECUTORS[0])] + [(2, 2, executor) for executor in EXECUTORS],
)
def test_a_tree_with_several_outcomes_equals_the_recursion(actions: int, depth: int, executor: dict) -> None:
    for max_leaves in (None, 4):
        planner, h = make(actions, depth, executor, samples=3, max_leaves=max_leaves), states()
        want = torch.stack([literal(planner, state, depth) for state in h])
        assert_same(planner, h, planner(h).value, want)


def test_several_outcomes_are_what_the_executor_was_taught() -> None:
    actions, samples = 3, 4
    planner, h = make(actions, 1, samples=samples).float(), states(1).float()
    planner.discount = TAUGHT
    successors, chances = planner.transition.outcomes(h[0])
    nodes = torch.cat((h, successors))  # the root is state 0, outcome m of action a is state 1 + a M + m
    own = torch.arange(len(nodes)).view(-1, 1, 1).expand(-1, actions, samples).clone()
    own[0] = 1 + torch.arange(actions * samples).view(actions, samples)
    probability = torch.full(own.shape, 1.0 / samples)
    probability[0] = chances
    mdp = TabularMDP(own[None], probability[None], planner.reward(nodes)[None], TAUGHT)
    want = planner.executor.action_values(mdp, planner.value(nodes).T)[0, 0]
    assert torch.allclose(planner(h).value[0], want, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
def test_pieces_change_nothing(depth: int) -> None:
    h = states(5)
    planner = make(3, depth, {"layer_norm": True})
    want = planner(h).value
    planner.max_leaves = 8
    assert_same(planner, h, planner(h).value, want)


def test_limited_memory_never_holds_more_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    held, think = [], module.think

    def spy(first: Tensor, *core: Tensor) -> Tensor:
        held.append(first.shape[:-1].numel())
        return think(first, *core)

    monkeypatch.setattr(module, "think", spy)
    make(3, 3, max_leaves=20)(states(4)).value.sum().backward()
    assert max(held) <= 20
    assert sum(held) == 2 * 4 * 3**3  # each leaf once forwards, once backwards


@pytest.mark.parametrize("options", [{}, {"max_leaves": 7}, {"executor": {"layer_norm": True}}])
def test_stacked_parameters_equal_a_loop(options: dict) -> None:
    members = []
    for seed in range(3):
        members.append(make(3, 2, **options))
        torch.manual_seed(seed)
        for weight in members[-1].parameters():
            weight.data.normal_()
    stacked = {
        name: torch.stack([member.state_dict()[name] for member in members])
        for name in members[0].state_dict()
    }
    h = torch.randn(3, 5, LATENT, dtype=torch.float64)
    got = torch.vmap(lambda p, x: functional_call(members[0], p, (x,)).value)(stacked, h)
    want = torch.stack([member(x).value for member, x in zip(members, h, strict=True)])
    assert torch.allclose(got, want)


def line() -> tuple[AlignedPlanner, TabularMDP]:
    """Three states on a line, embedded as -1, 0 and 1: action 0 goes left, action 1 right, walls hold.

    T knows only steps without walls, so that the tree is right up to depth 1 from the middle.
    """
    transition = TransitionModel(1, 2, 2)
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter.zero_()
        transition.action.weight.copy_(torch.eye(2))
        transition.hidden.weight.copy_(torch.eye(2))
        transition.norm.weight.fill_(1.0)
        transition.output.weight.copy_(torch.tensor([[-1.0, 1.0]]))
    planner = AlignedPlanner(load_executor("random-deterministic"), transition, 1, 0.6, 0.9)
    with torch.no_grad():
        planner.value.weight.fill_(2.0)
        planner.value.bias.fill_(0.5)
        planner.reward.weight.copy_(torch.tensor([[0.0], [1.0]]))
        planner.reward.bias.copy_(torch.tensor([0.3, -0.4]))
    mdp = TabularMDP.deterministic(
        torch.tensor([[[0, 1], [0, 2], [1, 2]]]),
        torch.tensor([[[0.3, -1.4], [0.3, -0.4], [0.3, 0.6]]]),
        0.6,
    )
    return planner, mdp


def test_a_pretrained_executor_plans_as_value_iteration_does() -> None:
    planner, mdp = line()
    values = torch.tensor([[-1.5, 0.5, 2.5]])
    q = mdp.action_values(values)[0, 1]  # (0.3 - 0.6 * 1.5, -0.4 + 0.6 * 2.5)
    got = planner(torch.zeros(1, 1)).value[0]
    torch.testing.assert_close(got, q, atol=0.02, rtol=0.0)
    tree = planner.tree(torch.zeros(1, 1))
    assert tree.embedding[1].flatten().tolist() == pytest.approx([-1.0, 1.0], abs=1e-4)
    assert tree.value[1].flatten().tolist() == pytest.approx([-1.5, 2.5], abs=1e-3)
    assert tree.value[0].item() == pytest.approx(q.max().item(), abs=0.02)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_valued_tree_is_the_one_that_was_planned_on(depth: int) -> None:
    planner, h = make(3, depth), states(2)
    tree = planner.tree(h)
    assert [tuple(value.shape) for value in tree.value] == [(3**d, 2) for d in range(depth + 1)]
    torch.testing.assert_close(tree.value[-1], planner.value(tree.embedding[-1]).squeeze(-1))
    for below in range(1, depth + 1):
        deeper = make(3, below)
        nodes = tree.embedding[depth - below]
        want = torch.stack([literal(deeper, node, below, top=False) for node in nodes.flatten(0, 1)])
        torch.testing.assert_close(tree.value[depth - below].flatten(), want)


def test_the_executor_is_frozen_and_passes_gradients() -> None:
    planner, h = make(2, 2), states()
    planner(h).value.sum().backward()
    assert all(weight.grad is None for weight in planner.executor.parameters())
    assert all(weight.grad is not None for weight in trainable(planner))
    assert h.grad is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"depth": 0}, "depth 0"),
        ({"executor": {"steps": 2}}, "2 steps"),
        ({"max_leaves": 0}, "max_leaves is 0"),
    ],
)
def test_impossible_planners_are_refused(options: dict, told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        make(2, **{"depth": 1, **options})


@pytest.mark.parametrize("depth", [1, 2])
def test_states_that_are_no_batch_are_refused(depth: int) -> None:
    planner = make(2, depth)
    for shape in ((LATENT,), (2, 3, LATENT), (3, LATENT + 1)):
        for method in (planner, planner.tree):
            with pytest.raises(XLVINError, match="give a batch of embeddings"):
                method(torch.zeros(shape).double())


def test_an_executor_without_discount_is_refused() -> None:
    with pytest.raises(XLVINError, match="discount is 0"):
        AlignedPlanner(Executor(), TransitionModel(2, 2, 2), 1, executor_discount=0.0)
