"""The arms of the bottleneck experiment: what they are without noise, and what noise does to each."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.experiments.noisy_inputs import (
    ARMS,
    Noise,
    accuracy,
    draw_noise,
    executor_embeddings,
    executor_scalars,
    vi_decoded,
    vi_scalars,
)
from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import sweep, value_iteration

MDP = sample("random-deterministic", 6, 7, 3, 0.9, torch.Generator().manual_seed(0))
VALUES = torch.randn(6, 7, generator=torch.Generator().manual_seed(1))


def executor(steps: int = 1, layer_norm: bool = False) -> Executor:
    torch.manual_seed(2)
    return Executor(ExecutorConfig(width=12, steps=steps, layer_norm=layer_norm)).requires_grad_(False)


def noise(network: Executor, scaling: Literal["paper", "fair"] = "paper") -> Noise:
    return draw_noise(network, MDP, VALUES, scaling, torch.Generator().manual_seed(3))


def embedded(network: Executor, drawn: Noise) -> Tensor:
    """What noisy scalars are in the embedding."""
    shifted = TabularMDP.deterministic(MDP.successor.squeeze(-1), drawn.reward, 0.9)
    return network.encode(shifted, drawn.value)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_without_noise_an_arm_is_its_algorithm(steps: int, layer_norm: bool) -> None:
    network = executor(steps, layer_norm)
    silent = noise(network).at(0.0)
    for name, arm in ARMS.items():
        expected = sweep(MDP, VALUES) if name.startswith("vi") else network(MDP, VALUES)
        torch.testing.assert_close(arm(network, MDP, VALUES, silent), expected, atol=1e-4, rtol=1e-4)


def test_noisy_scalars_are_a_noisy_mdp() -> None:
    network = executor()
    drawn = noise(network)
    noisy = TabularMDP.deterministic(MDP.successor.squeeze(-1), MDP.reward + drawn.reward, 0.9)
    expected = sweep(noisy, VALUES + drawn.value)
    torch.testing.assert_close(vi_scalars(network, MDP, VALUES, drawn), expected)


@pytest.mark.parametrize("scaling", ["paper", "fair"])
def test_least_squares_reads_noise_in_the_plane_and_ignores_the_rest(
    scaling: Literal["paper", "fair"],
) -> None:
    network = executor()
    drawn = noise(network, scaling)
    weighted = network.node_encoder.weight / drawn.feature_scale.unsqueeze(-1)
    plane = weighted @ torch.linalg.pinv(weighted)  # projects onto what scalars can reach
    outside = drawn.embedding / drawn.feature_scale
    outside = (outside - outside @ plane.T) * drawn.feature_scale
    assert outside.std() > 0.1
    mixed = Noise(drawn.value, drawn.reward, embedded(network, drawn) + outside, drawn.feature_scale)
    read = vi_decoded(network, MDP, VALUES, mixed)
    torch.testing.assert_close(read, vi_scalars(network, MDP, VALUES, drawn), atol=1e-4, rtol=1e-4)


def test_the_executor_on_noisy_scalars_sees_their_embedding() -> None:
    network = executor()
    drawn = noise(network)
    same = Noise(drawn.value, drawn.reward, embedded(network, drawn), drawn.feature_scale)
    of_scalars = executor_scalars(network, MDP, VALUES, drawn)
    torch.testing.assert_close(of_scalars, executor_embeddings(network, MDP, VALUES, same))
    assert not torch.allclose(of_scalars, network(MDP, VALUES), atol=1e-2)


def test_fair_noise_has_the_spread_of_its_input() -> None:
    mdp = sample("random-deterministic", 200, 20, 8, 0.9, torch.Generator().manual_seed(0))
    optimal, network = value_iteration(mdp).final, executor()
    unit, fair = (
        draw_noise(network, mdp, optimal, scaling, torch.Generator().manual_seed(3))
        for scaling in ("paper", "fair")  # type: ignore[arg-type]
    )
    assert abs(unit.value.std() - 1.0) < 0.05
    assert torch.equal(unit.feature_scale, torch.ones(12))
    within = (optimal - optimal.mean(1, keepdim=True)).std()
    assert abs(fair.value.std() / within - 1.0) < 0.1
    features = network.encode(mdp, optimal).flatten(1, 2)
    within = (features - features.mean(1, keepdim=True)).flatten(0, 1).std(0)
    torch.testing.assert_close(fair.embedding.flatten(0, 2).std(0), within, atol=0.0, rtol=0.1)
    torch.testing.assert_close(fair.at(0.5).embedding, 0.5 * fair.embedding)


def test_accuracy_is_perfect_without_noise_and_falls_with_it() -> None:
    trace = value_iteration(MDP)
    network = executor()
    curve = accuracy(vi_scalars, network, MDP, trace, noise(network), [0.0, 0.3, 100.0])
    assert curve.shape == (6, 3)
    assert curve[:, 0].tolist() == [1.0] * 6
    assert 1.0 > curve[:, 1].mean() > curve[:, 2].mean()
