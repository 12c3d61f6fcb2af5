"""What is replayed is what torch computes, bit by bit."""

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from xlvin.agents.base import Batch
from xlvin.agents.registry import AGENTS, make_agent
from xlvin.training.config import PPOConfig
from xlvin.training.objective import Objective, Sample, Targets
from xlvin.training.recording import (
    LIMIT,
    ArrayRecorder,
    GraphRecording,
    Recorder,
    Recording,
    UnfitError,
)
from xlvin.training.stack import Stack

ROWS = 7


def samples(seeds: int, seed: int, shape: tuple[int, ...] = (4,), vectors: bool = False) -> Sample:
    generator = torch.Generator().manual_seed(seed)

    def random(*size: int) -> Tensor:
        return torch.randn(seeds, ROWS, *size, generator=generator)

    action, negative = (torch.randint(n, (seeds, ROWS), generator=generator) for n in (2, ROWS))
    weight = (torch.rand(seeds, ROWS, generator=generator) < 0.8).float()
    batch = Batch(random(*shape), random(2) if vectors else action, random(), random(*shape), negative)
    return Sample(batch, Targets(-random().abs(), random(), random(), random()), weight)


def gradient(stack: Stack, objective: Objective) -> Callable[[Sample], tuple[Tensor, Tensor]]:
    def compute(sample: Sample) -> tuple[Tensor, Tensor]:
        loss, terms = stack.apply(objective, sample, prefix="agent.")
        return stack.gradient(loss.sum()), terms

    return compute


def assert_same_bits(left: Any, right: Any) -> None:
    for one, other in zip(tree_leaves(left), tree_leaves(right), strict=True):
        assert torch.equal(one, other)


CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in AGENTS),
    ("ppo", {"inputs": "symlog"}),
    ("xlvin-r", {"depth": 3, "beam": 3}),
    ("xlvin-r", {"wiring": "skeleton"}),
    ("ppo", {"observation": (1, 36, 36)}),
]


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(("name", "fields"), CASES, ids=str)
def test_replayed_gradients_have_the_bits_of_fresh_ones(
    name: str, fields: dict[str, Any], seeds: int
) -> None:
    fields = {"observation": (4,), "actions": 2, "hidden": 8, "latent": 6, **fields}
    agents = [make_agent(name, seed=seed, **fields) for seed in range(seeds)]
    stack = Stack(agents)
    config = PPOConfig(transe_coef=0.5, clip_value=True, entropy_coef=0.1)
    compute = gradient(stack, Objective(agents[0], config))
    kind = fields["observation"], name == "ppo-gaussian"
    recording = Recording(compute, (samples(seeds, 0, *kind),), LIMIT)
    assert_same_bits(recording.outputs, compute(samples(seeds, 0, *kind)))
    for step in range(1, 4):
        with torch.no_grad():  # weights change in place, as they do in training
            stack.flat += 0.02 * torch.randn(stack.flat.shape, generator=torch.Generator().manual_seed(step))
        sample = samples(seeds, step, *kind)
        found = tree_map_only(Tensor, Tensor.clone, recording(tree_leaves(sample)))
        assert_same_bits(found, compute(sample))
        assert found[0].abs().sum() > 0.0


def test_memory_is_used_again_but_never_by_two() -> None:
    def chain(x: Tensor) -> Tensor:
        kept = x.sin()
        for _ in range(50):
            x = x.exp().log1p().sin()
        return x + kept

    example = torch.linspace(0.0, 1.0, 1000)
    recording = Recording(chain, (example,), limit=40_000)  # 152 results of 4,000 bytes each
    for factor in (0.5, 2.0):
        assert torch.equal(recording([factor * example]), chain(factor * example))


def test_in_place_operations_and_constants_are_repeated() -> None:
    def count(x: Tensor) -> Tensor:
        total = torch.zeros(3)
        total.index_add_(0, torch.tensor([0, 1, 0]), x)
        return total.add_(torch.arange(3)).relu_() * torch.ones_like(total)

    recording = Recording(count, (torch.ones(3),), LIMIT)
    for _ in range(3):
        assert recording([torch.tensor([1.0, 2.0, 3.0])]).tolist() == [4.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (lambda x: x * 2.0 if x.sum() > 0 else x, LIMIT),
        (lambda x: x * x.max().item(), LIMIT),
        (lambda x: x.exp(), 16),
    ],
    ids=["branches", "looks", "large"],
)
def test_what_cannot_be_recorded_is_called(function: Any, limit: int) -> None:
    inputs = torch.arange(8.0) - 3.0
    with pytest.raises(UnfitError):
        Recording(function, (inputs,), limit)
    recorder = Recorder(function, limit)
    for sign in (1.0, -1.0, 1.0, -1.0, 1.0, -1.0):
        assert torch.equal(recorder(sign * inputs), function(sign * inputs))


def test_a_backward_pass_that_grows_too_large_is_called() -> None:
    weight = torch.ones(1000, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((weight * x).square().sum(), weight)
        return gradient

    x = torch.arange(1000.0)
    with pytest.raises(UnfitError):
        Recording(function, (x,), limit=12_500)  # enough for the forward pass
    recorder = Recorder(function, limit=12_500)
    for _ in range(5):
        assert torch.equal(recorder(x), 2.0 * x.square())


def test_a_recorder_calls_until_it_pays_and_then_replays() -> None:
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x + 1.0

    recorder = Recorder(function)
    for size in (2, 2, 2, 2, 2, 3, 3, 2):
        assert recorder(torch.full((size,), 4.0)).tolist() == [5.0] * size
    assert calls == [2, 2, 2, 3, 3, 2]  # the third call in a row is recorded, the next two are replayed


def test_arrays_come_and_go_without_tensors() -> None:
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x * x + 1

    recorder = ArrayRecorder(function, torch.device("cpu"))
    for step, size in enumerate((3, 3, 3, 3, 3, 2, 2, 2, 2)):
        array = np.full(size, step, np.float32)
        assert np.array_equal(recorder(array), array**2 + 1)
    assert calls == [3, 3, 3, 2, 2, 2]
    assert recorder(np.array([2**30, 1])).tolist() == [2**60 + 1, 2]  # another type, which is not rounded


def test_what_nobody_reads_is_not_computed_again() -> None:
    seen = torch.zeros(2)

    def function(x: Tensor) -> Tensor:
        x.exp().sin()
        seen.add_(x)
        return x.cos()

    recording = Recording(function, (torch.ones(2),), LIMIT)
    assert len(recording._kernels) == 2
    assert torch.equal(recording([torch.zeros(2)]), torch.ones(2))
    assert seen.tolist() == [1.0, 1.0]


def test_copies_do_not_share_a_recording() -> None:
    agent = make_agent("ppo", observation=(4,), actions=2, hidden=8, latent=6)
    observation = torch.randn(4).numpy()
    agent.predict(observation)
    other = copy.deepcopy(agent)
    with torch.no_grad():
        other.actor.weight.zero_()
        other.actor.bias.copy_(torch.tensor([0.0, 1.0]))
    assert other.predict(observation)[0] == 1


def test_a_graph_gives_the_outputs_of_new_inputs_and_is_freed_at_once() -> None:
    """On a CPU it calls the function; on a GPU the same code captures it."""
    weight = torch.randn(3, 3)
    recording = GraphRecording(
        lambda x, pair: (x @ weight, pair[0] + 1.0), (torch.randn(2, 3), [torch.zeros(2)])
    )
    new, other = torch.randn(2, 3), torch.ones(2)
    product, more = recording([new, other])
    assert torch.equal(product, new @ weight)
    assert torch.equal(more, other + 1.0)
    gone = weakref.ref(recording)
    gc.disable()
    try:
        del recording
        assert gone() is None, "a cycle would leave it to the collector"
    finally:
        gc.enable()
