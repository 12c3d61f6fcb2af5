import copy
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from xlvin.acting.recorded import RecordedFunction, RecordedNetwork
from xlvin.errors import XLVINError
from xlvin.executor.network import Executor, ExecutorConfig, Processor
from xlvin.latent.encoders import ImageEncoder, MLPEncoder
from xlvin.latent.transition import TransitionModel
from xlvin.planner.aligned import AlignedPlanner
from xlvin.planner.backup import ScalarTree
from xlvin.planner.planner import Planner


class Policy(nn.Module):
    """Encoder, planner and heads, as the agents have them."""

    def __init__(self, planner: nn.Module, encoder: nn.Module | None = None, width: int = 7) -> None:
        super().__init__()
        self.encoder = encoder or MLPEncoder(4, 8, 6)
        self.planner = planner
        self.actor, self.critic = nn.Linear(6 + width, 3), nn.Linear(6 + width, 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        h = self.encoder(observation)
        both = torch.cat((h, self.planner(h)), -1)
        return self.actor(both), self.critic(both).squeeze(-1)


class ActionValuesOnly(nn.Module):
    def __init__(self, tree: ScalarTree | AlignedPlanner) -> None:
        super().__init__()
        self.tree = tree

    def forward(self, h: Tensor) -> Tensor:
        return self.tree(h).value


def planner(depth: int = 2, executor: dict | None = None, **options) -> Planner:
    processor = Processor(ExecutorConfig(7, **(executor or {})))
    return Planner(processor, TransitionModel(6, 3, 5), depth, **options)


def aligned(depth: int, **options) -> AlignedPlanner:
    return AlignedPlanner(Executor(ExecutorConfig(7)), TransitionModel(6, 3, 5), depth, **options)


NETWORKS = {
    "depth 0": lambda: Policy(planner(0)),
    "depth 1": lambda: Policy(planner(1)),
    "depth 3": lambda: Policy(planner(3)),
    "skeleton": lambda: Policy(planner(wiring="skeleton")),
    "normed": lambda: Policy(planner(executor={"layer_norm": True, "reduction": "mean"})),
    "beam": lambda: Policy(planner(4, beam=4, prior=nn.Linear(6, 3))),
    "pieces": lambda: Policy(planner(max_leaves=4)),
    "scalar tree": lambda: Policy(ActionValuesOnly(ScalarTree(TransitionModel(6, 3, 5), 2)), width=3),
    "aligned": lambda: Policy(ActionValuesOnly(aligned(3)), width=3),
    "aligned in pieces": lambda: Policy(ActionValuesOnly(aligned(2, max_leaves=4)), width=3),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 5])
def test_a_recording_is_the_network(name: str, batch: int) -> None:
    torch.manual_seed(0)
    network = NETWORKS[name]()
    recording = RecordedFunction(network, torch.zeros(batch, 4))
    for _ in range(3):
        observation = torch.randn(batch, 4)
        with torch.no_grad():
            wanted = network(observation)
        for got, want in zip(recording(observation.numpy()), wanted, strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_images_are_recorded_too() -> None:
    torch.manual_seed(0)
    network = Policy(planner(), ImageEncoder((1, 40, 40), 6))
    recording = RecordedFunction(network, torch.zeros(1, 1, 40, 40, dtype=torch.uint8))
    image = torch.randint(0, 255, (1, 1, 40, 40), dtype=torch.uint8)
    with torch.no_grad():
        wanted = network(image)
    for got, want in zip(recording(image.numpy()), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_recording_keeps_its_parameters_and_its_answers() -> None:
    network = Policy(planner())
    recording = RecordedFunction(network, torch.zeros(1, 4))
    first = recording(np.ones(4))
    kept = [array.copy() for array in first]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    recording(np.full(4, 3.0))
    for now, before, again in zip(first, kept, recording(np.ones(4)), strict=True):
        np.testing.assert_array_equal(now, before)
        np.testing.assert_array_equal(again, before)


def names(recording: RecordedFunction) -> list[str]:
    return [getattr(kernel.func, "__name__", "") for kernel in recording._kernels]


def test_weights_are_composed_once() -> None:
    called = names(RecordedFunction(Policy(planner()), torch.zeros(1, 4)))
    # Encoder 2; what the root is multiplied with 1; T of the root: hidden layer, average, output; T of its
    # children: first layer, hidden layer, average, what a leaf sends; children: received, sent, node, sent
    # again; the root: received again; heads 1.
    assert called.count("dot") == 2 + 1 + 3 + 4 + 4 + 1 + 1
    assert "_in_torch" not in called


class Layers(nn.Module):
    """A layer before a normalisation, and one before a constant is added; `leak` shows what lies between."""

    def __init__(self, leak: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3)
        self.constant, self.leak = nn.Parameter(torch.randn(2, 3)), leak
        for part in self.norm.parameters():
            nn.init.normal_(part)

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        first = self.first(observation)
        last = self.last(self.norm(first))
        shown = (first, last) if self.leak else ()
        several = last.unsqueeze(1) + self.constant
        return several, several.amax(1), *shown


@pytest.mark.parametrize("leak", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_layers_are_folded_also_where_others_read_them(batch: int, leak: bool) -> None:
    torch.manual_seed(0)
    network = Layers(leak)
    recording = RecordedFunction(network, torch.zeros(batch, 4))
    observation = torch.randn(batch, 4)
    for got, want in zip(recording(observation.numpy()), network(observation), strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert "_in_torch" not in names(recording)


def test_a_normalisation_without_a_scale_is_left_as_it_is() -> None:
    network, observation = Layers(leak=False), torch.randn(3, 4)
    with torch.no_grad():
        network.norm.weight[0] = 0.0
    recording = RecordedFunction(network, torch.zeros(3, 4))
    np.testing.assert_allclose(recording(observation.numpy())[0], network(observation)[0].detach(), rtol=1e-4)
    assert names(recording).count("_in_torch") == 1


def in_place(x: Tensor) -> tuple[Tensor, ...]:
    """A result is read before and after it changes, a part of it changes, and a constant as well."""
    doubled = x + x
    shifted = doubled + 1.0
    doubled.add_(x).relu_()
    doubled[:, 0].mul_(5.0)
    filled = torch.full((x.shape[0], 3), 7.0)
    filled[:, 1] = x[:, 2]
    counted = torch.zeros(2).index_add_(0, torch.tensor([0, 1, 0, 1]), x[0])
    product = torch.empty(x.shape)
    torch.mul(x, 3.0, out=product)
    return shifted, doubled, filled, counted, product


def several_rows(x: Tensor) -> tuple[Tensor, ...]:
    """Sums that broadcast, what is added to itself, joins, and maxima along several dimensions."""
    layer = torch.linspace(-1.0, 1.0, 12).view(4, 3)
    row = x @ layer + 0.5
    table = row.unsqueeze(0) + torch.arange(6.0).view(2, 1, 3)
    twice = (row + row).relu() + row
    joined = torch.cat((row, twice, x), -1) @ torch.linspace(-1.0, 1.0, 20).view(10, 2)
    upright = torch.cat((row, twice)).T.relu()
    return table.relu(), twice, joined, upright, table.amax((0, 2)), torch.stack((row, twice), 1) * 2.0 - 1.0


def several_views(x: Tensor) -> tuple[Tensor, ...]:
    """Products of parts of the same memory, numbers of other types, and a bias that is not constant."""
    layer = torch.linspace(-1.0, 1.0, 16).view(4, 4)
    square = x[0].outer(x[0]).relu()
    parts = x[:, :2] @ layer[:2] + x[:, 2:] @ layer[2:]
    both = square @ layer + square.T @ layer
    biased = torch.addmm(x, torch.ones(len(x), 4), layer)
    signs = (x > 0.0).long()
    return x[:, :2] @ layer[:2], parts, both, biased, signs + x, signs + signs, (signs * 2).amax(1)


def turned_in_place(x: Tensor) -> tuple[Tensor, ...]:
    """Shapes that change after the fact."""
    table = torch.stack((x, x * 2.0, x * 3.0), 1)
    table.transpose_(1, 2)
    column = x.tanh().unsqueeze_(1)
    square = x.T @ x
    square.t_()
    return table.flatten(1), column.squeeze_(1) + x, x @ square


@pytest.mark.parametrize("function", [in_place, several_rows, several_views, turned_in_place])
@pytest.mark.parametrize("batch", [1, 3])
def test_operations_by_themselves(function: Callable[[Tensor], tuple[Tensor, ...]], batch: int) -> None:
    recording = RecordedFunction(function, torch.zeros(batch, 4))
    for seed in (0, 1, 0):
        observation = torch.randn(batch, 4, generator=torch.Generator().manual_seed(seed))
        for got, want in zip(recording(observation.numpy()), function(observation), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers(kind: type[nn.RNNBase]) -> None:
    layer = kind(2, 5, batch_first=True)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (layer(x.view(-1, 2, 2))[0][:, -1],)

    recording = RecordedFunction(function, torch.zeros(1, 4))
    observation = torch.randn(1, 4)
    np.testing.assert_allclose(
        recording(observation.numpy())[0], function(observation)[0].detach(), rtol=1e-4
    )


def test_an_aligned_plan_is_replayed_in_numpy() -> None:
    network = Policy(ActionValuesOnly(aligned(2)), width=3)
    called = names(RecordedFunction(network, torch.zeros(1, 4)))
    assert "dot" in called
    assert "_in_torch" not in called


def test_inference_mode_records_the_same() -> None:
    network, observation = Policy(planner()), np.ones((1, 4))
    outside = RecordedFunction(network, torch.zeros(1, 4))
    with torch.inference_mode():
        inside = RecordedFunction(network, torch.zeros(1, 4))
        answers = inside(observation)
    assert len(inside._kernels) == len(outside._kernels)
    for got, want in zip(answers, outside(observation), strict=True):
        np.testing.assert_array_equal(got, want)


def test_recording_leaves_the_network_trainable() -> None:
    network = Policy(planner())
    RecordedFunction(network, torch.zeros(1, 4))
    network(torch.randn(2, 4))[0].sum().backward()
    assert network.encoder.layers[0].weight.grad is not None


def test_only_the_cpu_is_recorded() -> None:
    with pytest.raises(XLVINError, match="CPU"):
        RecordedFunction(nn.Linear(1, 1), torch.zeros(1, device="meta"))


def assert_acts_as(recorded: RecordedNetwork, network: nn.Module, observation: np.ndarray) -> None:
    with torch.no_grad():
        wanted = network(torch.as_tensor(observation, dtype=torch.float32))
    for got, want in zip(recorded(observation), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3, RecordedNetwork.LARGEST + 1])
def test_a_recorded_network_follows_its_network(batch: int) -> None:
    torch.manual_seed(0)
    network = Policy(planner())
    recorded, observation = RecordedNetwork(network), np.random.default_rng(0).normal(size=(batch, 4))
    assert_acts_as(recorded, network, observation)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    network(torch.randn(5, 4))[0].square().sum().backward()
    optimiser.step()
    assert_acts_as(recorded, network, observation)
    network.load_state_dict(Policy(planner()).state_dict())
    assert_acts_as(recorded, network, observation)


def replace_module(network: Policy) -> None:
    network.encoder = MLPEncoder(4, 8, 6)


def replace_inner_module(network: Policy) -> None:
    network.encoder.layers[2] = nn.Linear(16, 8)


def replace_parameter(network: Policy) -> None:
    network.actor.bias = nn.Parameter(torch.ones(3))


def replace_data(network: Policy) -> None:
    network.actor.weight.data = network.actor.weight.data * 2.0


def replace_all_data(network: Policy) -> None:
    vector = nn.utils.parameters_to_vector(network.parameters())
    nn.utils.vector_to_parameters(vector * 2.0, network.parameters())


def delete_before_replacing(network: Policy) -> None:
    del network.encoder
    network.encoder = MLPEncoder(4, 8, 6)


CHANGES = [
    replace_module,
    replace_inner_module,
    replace_parameter,
    replace_data,
    replace_all_data,
    delete_before_replacing,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_recorded_network_notices_what_was_replaced(change: Callable[[Policy], None]) -> None:
    torch.manual_seed(0)
    network, observation = Policy(planner()), np.ones((1, 4))
    recorded = RecordedNetwork(network)
    before = recorded(observation)[0]
    change(network)
    assert_acts_as(recorded, network, observation)
    assert not np.allclose(recorded(observation)[0], before)


def scale_data(network: Policy) -> None:
    network.actor.weight.data.mul_(2.0)


def add_hook(network: Policy) -> None:
    network.actor.register_forward_hook(lambda module, inputs, output: 2.0 * output)


@pytest.mark.parametrize("change", [scale_data, add_hook])
def test_a_recorded_network_is_told_of_what_leaves_no_trace(change: Callable[[Policy], None]) -> None:
    network, observation = Policy(planner()), np.ones((1, 4))
    recorded = RecordedNetwork(network)
    recorded(observation)
    change(network)
    recorded.record_anew()
    assert_acts_as(recorded, network, observation)


def test_a_recorded_network_knows_training_from_evaluation() -> None:
    network = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Unflatten(0, (-1, 1)))
    recorded, observation = RecordedNetwork(network), np.ones((1, 4))
    recorded(observation)
    network.eval()
    assert_acts_as(recorded, network, observation)
    network[1].train()
    answers = [recorded(observation)[0] for _ in range(2)]
    assert not np.array_equal(*answers)
    assert all((answer == 0.0).any() for answer in answers)


def test_threads_take_turns() -> None:
    network, given = Policy(planner()), np.random.default_rng(0).normal(size=(4, 1, 4))
    recorded = RecordedNetwork(network)
    wanted = [recorded(observation)[0] for observation in given]

    def act(index: int) -> bool:
        return all(np.array_equal(recorded(given[index])[0], wanted[index]) for _ in range(300))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(act, range(4)))
    finally:
        sys.setswitchinterval(interval)


def test_a_recorded_network_records_once_per_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Policy(planner())
    recorded, calls = RecordedNetwork(network), []
    monkeypatch.setattr(network, "forward", lambda x: calls.append(len(x)) or Policy.forward(network, x))
    for batch in (1, 2, 1, 1, 2):
        recorded(np.zeros((batch, 4)))
    assert calls == [1, 2]


def test_a_copy_records_its_own_weights() -> None:
    network = Policy(planner())
    network.recorded = RecordedNetwork(network)
    network.recorded(np.zeros((1, 4)))
    twin = copy.deepcopy(network)
    with torch.no_grad():
        twin.encoder.layers[0].weight.add_(1.0)
    observation = np.ones((1, 4))
    assert_acts_as(twin.recorded, twin, observation)
    assert_acts_as(network.recorded, network, observation)
    assert not np.allclose(twin.recorded(observation)[0], network.recorded(observation)[0])
