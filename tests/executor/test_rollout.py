"""Bound sweeps against the executor's own."""

import pytest
import torch

from xlvin.executor.network import FEW_SUCCESSORS, Executor, ExecutorConfig
from xlvin.executor.rollout import bind
from xlvin.mdp.tabular import TabularMDP

CONFIGS = [
    ExecutorConfig(width=7),
    ExecutorConfig(width=7, activation="identity"),
    ExecutorConfig(width=7, reduction="sum"),
    ExecutorConfig(width=7, layer_norm=True, steps=2),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("successors", [1, 3, FEW_SUCCESSORS + 1])
def test_bound_steps_equal_forward(config: ExecutorConfig, successors: int) -> None:
    torch.manual_seed(0)
    executor, shape = Executor(config), (4, 6, 3, successors)
    probability = torch.rand(shape).softmax(-1) if successors > 1 else torch.ones(shape)
    mdp = TabularMDP(torch.randint(6, shape), probability, torch.randn(shape[:3]), 0.9)
    step = bind(executor, mdp)
    values = torch.randn(4, 6)
    for _ in range(3):
        expected = executor(mdp, values)
        torch.testing.assert_close(step(values), expected, atol=1e-4, rtol=1e-4)
        values = expected.detach()
