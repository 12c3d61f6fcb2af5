"""A tree with several outcomes for every action is the literal algorithm too."""

import random

import pytest
import torch
from torch import nn
from torch.func import functional_call

from xlvin.executor.network import ExecutorConfig, Processor
from xlvin.latent.stochastic import StochasticTransitionModel
from xlvin.latent.transition import TransitionModel
from xlvin.planner.planner import Planner

from .literal import execute, expand, plan
from .test_planner import (
    CONFIGURATIONS,
    DISCOUNT,
    EXECUTORS,
    HIDDEN,
    LATENT,
    WIDTH,
    assert_same,
    gradients,
    states,
    trainable,
    watch_leaves,
)


def make(actions: int, samples: int, depth: int, seed: int = 0, executor: dict | None = None, **options):
    torch.manual_seed(seed)
    transition = StochasticTransitionModel(LATENT, actions, HIDDEN, samples)
    nn.init.normal_(transition.norm.weight)
    nn.init.normal_(transition.norm.bias)
    nn.init.normal_(transition.weigh.weight)
    if options.get("beam") is not None:
        options["prior"] = nn.Linear(LATENT, actions)
    processor = Processor(ExecutorConfig(WIDTH, **(executor or {})))
    return Planner(processor, transition, depth, DISCOUNT, **options).double()


def cases() -> list[tuple[int, int, int, dict, str]]:
    rng = random.Random(0)
    sizes = [(a, m, k) for a in (1, 2, 3) for m in (2, 3) for k in (1, 2, 3) if (a * m) ** k <= 70]
    drawn = [(*rng.choice(sizes), executor, wiring) for executor, wiring in CONFIGURATIONS]
    return drawn + [(*size, EXECUTORS[0], "executor") for size in sizes]


@pytest.mark.parametrize(("actions", "samples", "depth", "executor", "wiring"), cases())
def test_full_tree_equals_the_literal_algorithm(
    actions: int, samples: int, depth: int, executor: dict, wiring: str
) -> None:
    planner, h = make(actions, samples, depth, executor=executor, wiring=wiring), states(2)
    assert_same(planner, h, planner(h), plan(planner, h, DISCOUNT))


@pytest.mark.parametrize(("executor", "wiring"), CONFIGURATIONS)
def test_beam_equals_the_literal_algorithm(executor: dict, wiring: str) -> None:
    planner, h = make(2, 3, 3, executor=executor, wiring=wiring, beam=4), states(2)
    assert_same(planner, h, planner(h), plan(planner, h, DISCOUNT))


@pytest.mark.parametrize(("executor", "wiring"), CONFIGURATIONS)
def test_a_wide_beam_is_the_full_tree(executor: dict, wiring: str) -> None:
    sparse, h = make(2, 2, 3, executor=executor, wiring=wiring, beam=64), states()
    full = make(2, 2, 3, executor=executor, wiring=wiring)
    full.load_state_dict(sparse.state_dict(), strict=False)
    assert torch.allclose(sparse(h), full(h), rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(gradients(sparse, sparse(h), h), gradients(full, full(h), h), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("max_leaves", [1, 10])
@pytest.mark.parametrize("wiring", ["executor", "skeleton"])
def test_limited_memory_changes_nothing(wiring: str, max_leaves: int) -> None:
    planner, h = make(2, 3, 2, wiring=wiring), states(4)
    want = planner(h)
    planner.max_leaves = max_leaves
    assert_same(planner, h, planner(h), want)


def test_limited_memory_never_holds_more_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    held = watch_leaves(monkeypatch)
    make(2, 3, 2, max_leaves=20)(states(4)).sum().backward()
    assert max(held) <= 20
    assert sum(held) == 2 * 4 * 6**2  # each leaf once forwards, once backwards


@pytest.mark.parametrize("options", [{}, {"max_leaves": 7}, {"beam": 5}, {"normalise": True}])
def test_stacked_parameters_equal_a_loop(options: dict) -> None:
    members = [make(2, 2, 2, seed, **options) for seed in range(3)]
    h = torch.stack([states(4).detach() + seed for seed in range(3)])
    for member in members:
        member.processor.load_state_dict(members[0].processor.state_dict())
    names = [name for name, p in members[0].named_parameters() if p.requires_grad]
    stacked = {
        name: torch.stack([m.get_parameter(name).detach() for m in members]).requires_grad_()
        for name in names
    }
    got = torch.vmap(lambda parameters, x: functional_call(members[0], parameters, (x,)))(stacked, h)
    want = torch.stack([member(x) for member, x in zip(members, h, strict=True)])
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10)
    got.square().sum().backward()
    want.square().sum().backward()
    for name in trainable(members[0]):
        loop = torch.stack([member.get_parameter(name).grad for member in members])
        assert torch.allclose(stacked[name].grad, loop), name


@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"max_leaves": 5}])
def test_everything_but_the_processor_learns(options: dict) -> None:
    planner, h = make(3, 2, 2, **options), states()
    before = {name: p.clone() for name, p in planner.named_parameters()}
    optimiser = torch.optim.Adam(planner.parameters(), lr=0.1)
    planner(h).square().sum().backward()
    optimiser.step()
    for name, p in planner.named_parameters():
        if name.startswith("processor"):
            assert torch.equal(p, before[name])
        elif "prior" not in name:
            assert not torch.equal(p, before[name]), name


@pytest.mark.parametrize("beam", [None, 5])
def test_the_plan_names_every_outcome(beam: int | None) -> None:
    planner, h = make(2, 3, 2, beam=beam), states(2)
    plan_of = planner.tree(h)
    for row, state in enumerate(h):
        graph = expand(planner, state)
        executed, reached = execute(planner, graph, DISCOUNT), {child: a for _, child, a in graph.edges}
        for level, nodes in zip(plan_of.levels[1:], graph.levels[1:], strict=True):
            assert torch.allclose(level.executed[row], torch.stack([executed[node] for node in nodes]))
            assert torch.allclose(level.chance[row], torch.stack([graph.chance[node] for node in nodes]))
            assert level.sample[row].tolist() == [graph.sample[node] for node in nodes]
            assert level.action[row].tolist() == [reached[node] for node in nodes]
    root = plan_of.levels[0]
    assert root.sample.tolist() == [[-1]] * 2
    assert root.chance.tolist() == [[1.0]] * 2


def test_equal_outcomes_are_one() -> None:
    planner, h = make(2, 3, 2), states()
    rows = planner.transition.action.weight
    with torch.no_grad():
        rows.copy_(rows[::3].repeat_interleave(3, 0))
    assert torch.allclose(planner(h), single(planner)(h))


def single(planner: Planner) -> Planner:
    """The deterministic planner with the first sample of every action."""
    found = Planner(planner.processor, TransitionModel(LATENT, 2, HIDDEN), planner.depth, DISCOUNT).double()
    weights = {name: w for name, w in planner.state_dict().items() if "weigh." not in name}
    first = planner.transition.action.weight[:: planner.transition.samples]
    found.load_state_dict({**weights, "transition.action.weight": first})
    return found


@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"wiring": "skeleton"}])
def test_every_tensor_is_made_on_the_device_of_the_states(options: dict) -> None:
    planner, h = make(3, 2, 2, **options).to("meta"), states().to("meta")
    assert planner(h).device == h.device
    assert planner.tree(h).levels[-1].chance.device == h.device
