"""The fast planner is the literal algorithm."""

import random
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from xlvin.errors import XLVINError
from xlvin.executor.network import ExecutorConfig, Processor
from xlvin.latent.transition import TransitionModel
from xlvin.planner import pieces as pieces_module
from xlvin.planner import planner as planner_module
from xlvin.planner.planner import Planner

from .literal import execute, expand, plan

# The discount is exact in single precision, which the edge features start in.
LATENT, HIDDEN, WIDTH, DISCOUNT = 4, 6, 5, 0.875
EXECUTORS = [
    {"reduction": reduction, "activation": activation, "layer_norm": layer_norm}
    for reduction, activation, layer_norm in product(
        ("max", "sum", "mean"), ("relu", "identity"), (False, True)
    )
]
CONFIGURATIONS = [(executor, wiring) for executor in EXECUTORS for wiring in ("executor", "skeleton")]


def make(actions: int, depth: int, seed: int = 0, executor: dict | None = None, **options) -> Planner:
    torch.manual_seed(seed)
    processor = Processor(ExecutorConfig(WIDTH, **(executor or {})))
    transition = TransitionModel(LATENT, actions, HIDDEN)
    # Away from the neutral start, so that scale and shift of the normalisation count.
    nn.init.normal_(transition.norm.weight)
    nn.init.normal_(transition.norm.bias)
    if options.get("beam") is not None:
        options["prior"] = nn.Linear(LATENT, actions)
    return Planner(processor, transition, depth, DISCOUNT, **options).double()


def states(batch: int = 3) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(batch, LATENT, dtype=torch.float64, requires_grad=True)


def trainable(planner: Planner) -> dict[str, Tensor]:
    return {name: p for name, p in planner.named_parameters() if p.requires_grad and "prior" not in name}


def gradients(planner: Planner, output: Tensor, h: Tensor) -> list[Tensor]:
    weight = torch.linspace(-1.0, 1.0, output.numel(), dtype=torch.float64).view(output.shape)
    sources = [h, *trainable(planner).values()]
    return list(torch.autograd.grad((output * weight).sum(), sources, materialize_grads=True))


def assert_same(planner: Planner, h: Tensor, got: Tensor, want: Tensor) -> None:
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(gradients(planner, got, h), gradients(planner, want, h), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-9)


def cases() -> list[tuple[int, int, dict, str]]:
    rng = random.Random(0)
    sizes = [(a, k) for a in range(1, 6) for k in range(5)]
    small = [(a, k) for a, k in sizes if a**k <= 130]
    drawn = [(*rng.choice(small), executor, wiring) for executor, wiring in CONFIGURATIONS]
    return drawn + [(a, k, EXECUTORS[0], "executor") for a, k in sizes]


@pytest.mark.parametrize(("actions", "depth", "executor", "wiring"), cases())
def test_full_tree_equals_the_literal_algorithm(
    actions: int, depth: int, executor: dict, wiring: str
) -> None:
    planner, h = make(actions, depth, executor=executor, wiring=wiring), states(2)
    assert_same(planner, h, planner(h), plan(planner, h, DISCOUNT))


@pytest.mark.parametrize(("executor", "wiring"), CONFIGURATIONS)
def test_beam_equals_the_literal_algorithm(executor: dict, wiring: str) -> None:
    planner, h = make(3, 4, executor=executor, wiring=wiring, beam=4), states(2)
    assert_same(planner, h, planner(h), plan(planner, h, DISCOUNT))


@pytest.mark.parametrize(("executor", "wiring"), CONFIGURATIONS)
def test_a_wide_beam_is_the_full_tree(executor: dict, wiring: str) -> None:
    sparse, h = make(3, 3, executor=executor, wiring=wiring, beam=27), states()
    full = make(3, 3, executor=executor, wiring=wiring)
    full.load_state_dict(sparse.state_dict(), strict=False)
    assert torch.allclose(sparse(h), full(h), rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(gradients(sparse, sparse(h), h), gradients(full, full(h), h), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


def test_a_deep_sparse_tree_grows_linearly() -> None:
    planner = make(18, 10, beam=7)
    sizes = [level.embedding.shape[1] for level in planner.tree(states(2)).levels]
    assert sizes == [1] + [7] * 10
    assert planner(states(2)).isfinite().all()


@pytest.mark.parametrize(("executor", "wiring"), CONFIGURATIONS)
@pytest.mark.parametrize("max_leaves", [1, 10])
def test_limited_memory_changes_nothing(executor: dict, wiring: str, max_leaves: int) -> None:
    planner, h = make(3, 2, executor=executor, wiring=wiring), states(4)
    want = planner(h)
    planner.max_leaves = max_leaves
    assert_same(planner, h, planner(h), want)


def watch_leaves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many leaves the planner holds, each time that it thinks of some."""
    held, think = [], planner_module.think

    def spy(first: Tensor, *core: Tensor) -> Tensor:
        held.append(first.shape[:-1].numel())
        return think(first, *core)

    monkeypatch.setattr(planner_module, "think", spy)
    return held


def test_limited_memory_never_holds_more_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    held = watch_leaves(monkeypatch)
    make(3, 3, max_leaves=20)(states(4)).sum().backward()
    assert max(held) <= 20
    assert sum(held) == 2 * 4 * 3**3  # each leaf once forwards, once backwards


def test_large_levels_are_cut_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, h = make(4, 3), states()
    want = planner(h)
    monkeypatch.setattr(pieces_module, "LARGE", 10)
    monkeypatch.setattr(pieces_module, "PIECE", 50)
    assert_same(planner, h, planner(h), want)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"wiring": "skeleton"},
        {"max_leaves": 7},
        {"beam": 5},
        {"beam": 5, "wiring": "skeleton"},
        {"executor": {"layer_norm": True}},
    ],
)
def test_stacked_parameters_equal_a_loop(options: dict) -> None:
    members = [make(3, 3, seed, **options) for seed in range(3)]
    h = torch.stack([states(4).detach() + seed for seed in range(3)]).requires_grad_()
    frozen = members[0].processor.state_dict()
    for member in members:
        member.processor.load_state_dict(frozen)
    names = [name for name, p in members[0].named_parameters() if p.requires_grad]
    stacked = {
        name: torch.stack([m.get_parameter(name).detach() for m in members]).requires_grad_()
        for name in names
    }
    got = torch.vmap(lambda parameters, x: functional_call(members[0], parameters, (x,)))(stacked, h)
    want = torch.stack([member(x) for member, x in zip(members, h, strict=True)])
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10)
    got.square().sum().backward()
    from_stack, h.grad = h.grad, None
    want.square().sum().backward()
    assert torch.allclose(from_stack, h.grad)
    for name in trainable(members[0]):
        loop = torch.stack([member.get_parameter(name).grad for member in members])
        assert torch.allclose(stacked[name].grad, loop), name


@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"max_leaves": 5}])
def test_the_processor_stays_bit_identical_while_gradients_pass_through(options: dict) -> None:
    planner, h = make(3, 2, **options), states()
    before = {name: p.clone() for name, p in planner.named_parameters()}
    optimiser = torch.optim.Adam(planner.parameters(), lr=0.1)
    planner(h).square().sum().backward()
    optimiser.step()
    assert h.grad.abs().sum() > 0
    for name, p in planner.named_parameters():
        if name.startswith("processor"):
            assert torch.equal(p, before[name])
        elif "prior" not in name:
            assert not torch.equal(p, before[name]), name


@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"max_leaves": 5}, {"wiring": "skeleton"}])
def test_every_tensor_is_made_on_the_device_of_the_states(options: dict) -> None:
    planner, h = make(3, 2, **options).to("meta"), states().to("meta")
    assert planner(h).device == h.device
    assert planner.tree(h).levels[-1].parent.device == h.device


def test_depth_zero_projects() -> None:
    planner, h = make(3, 0), states()
    assert torch.equal(planner(h), planner.project(h))
    assert planner.tree(h).depth == 0


def test_the_plan_names_every_node() -> None:
    planner, h = make(3, 2), states()
    plan_of = planner.tree(h)
    assert [tuple(level.embedding.shape) for level in plan_of.levels] == [(3, 1, 4), (3, 3, 4), (3, 9, 4)]
    assert torch.equal(plan_of.levels[0].embedding[:, 0], h)
    assert torch.allclose(plan_of.levels[0].executed[:, 0], planner(h))
    assert plan_of.levels[0].parent.tolist() == plan_of.levels[0].action.tolist() == [[-1]] * 3
    assert plan_of.levels[2].parent[0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert plan_of.levels[2].action[0].tolist() == [0, 1, 2] * 3
    children = planner.transition.successors(plan_of.levels[1].embedding).flatten(1, 2)
    assert torch.allclose(plan_of.levels[2].embedding, children)


@pytest.mark.parametrize("beam", [None, 4])
def test_the_plan_executes_every_node_literally(beam: int | None) -> None:
    planner, h = make(3, 3, beam=beam), states(2)
    plan_of = planner.tree(h)
    for row, state in enumerate(h):
        graph = expand(planner, state)
        executed = execute(planner, graph, DISCOUNT)
        for level, nodes in zip(plan_of.levels, graph.levels, strict=True):
            want = torch.stack([executed[node] for node in nodes])
            assert torch.allclose(level.executed[row], want)
            assert torch.allclose(level.embedding[row], torch.stack([graph.embedding[n] for n in nodes]))


def test_beam_paths_lead_to_their_nodes() -> None:
    planner, h = make(4, 3, beam=5), states()
    plan_of = planner.tree(h)
    for above, level in zip(plan_of.levels, plan_of.levels[1:], strict=False):
        start = above.embedding.gather(1, level.parent.unsqueeze(-1).expand(-1, -1, LATENT))
        reached = start + planner.transition.translation(start, level.action)
        assert torch.allclose(level.embedding, reached)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth": -1}, "depth"),
        ({"wiring": "sideways"}, "wiring"),
        ({"beam": 3}, "prior"),
        ({"prior": nn.Linear(LATENT, 2)}, "beam"),
        ({"beam": 0, "prior": nn.Linear(LATENT, 2)}, "Beam"),
        ({"max_leaves": 0}, "max_leaves"),
    ],
)
def test_bad_options_are_told(options: dict, words: str) -> None:
    with pytest.raises(XLVINError, match=words):
        Planner(Processor(ExecutorConfig(WIDTH)), TransitionModel(LATENT, 2, 3), **{"depth": 1, **options})


SHAPES = [(LATENT,), (2, 3, LATENT), (2, 1, LATENT), (3, LATENT + 1), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("depth", "beam"), [(0, None), (1, None), (2, None), (2, 2)])
def test_states_that_are_no_batch_are_refused(depth: int, beam: int | None, shape: tuple[int, ...]) -> None:
    planner, wrong = make(2, depth, beam=beam), torch.zeros(shape).double()
    for method in (planner, planner.tree):
        with pytest.raises(XLVINError, match=r"give a batch of embeddings, \[B, 4\]"):
            method(wrong)


def test_a_tree_that_no_memory_holds_is_refused() -> None:
    for depth in (26, 10**9):  # a level of 2^25 nodes, and of more than can be written down
        planner = make(2, depth)
        with pytest.raises(XLVINError, match="smaller depth or give a beam"):
            planner(torch.zeros(1, LATENT).double())
    assert make(2, 26, beam=2)(torch.zeros(1, LATENT).double()).shape == (1, WIDTH)
    assert make(1, 40)(torch.zeros(1, LATENT).double()).shape == (1, WIDTH)


@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_a_normalised_beam_has_finite_gradients(activation: str) -> None:
    transition, prior = TransitionModel(6, 3, 8), torch.randn(6, 3)
    processor = Processor(ExecutorConfig(width=7, activation=activation, layer_norm=True))
    planner = Planner(processor, transition, 3, beam=4, prior=lambda h: h @ prior, normalise=True)
    planner(torch.randn(5, 6)).square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in planner.parameters())


@pytest.mark.parametrize("depth", [0, 2])
def test_no_state_is_nothing_to_plan_from(depth: int) -> None:
    with pytest.raises(XLVINError, match="at least one"):
        make(2, depth)(states(2)[:0])
