"""What all tests share: one thread, since small tensors gain nothing by more, seeds, little imagination."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from xlvin.training import presets


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """A test draws the same random numbers whenever it runs, and whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _imagine_a_little() -> Iterator[None]:
    """Agents that imagine are the default: tests that train one are about something else."""
    few = {"iterations": 1, "last_iterations": 2, "horizon": 5, "first_model_steps": 10, "model_steps": 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "IMAGINATION", replace(presets.IMAGINATION, branches=10, hidden=8, **few))
        yield
