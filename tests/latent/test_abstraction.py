"""Latent models to plan in: their losses by hand, and which parts every stage moves."""

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.latent.abstraction import SYSTEMS, AbstractModel, Stage, Steps, equivariance_loss


@pytest.fixture
def model() -> AbstractModel:
    torch.manual_seed(0)
    return AbstractModel(observation=3, actions=2, latent=5, hidden=4)


@pytest.fixture
def steps() -> Steps:
    generator = torch.Generator().manual_seed(1)
    here, there = torch.randn(2, 8, 3, generator=generator)
    return Steps(here, torch.arange(8) % 2, torch.ones(8), there)


def moved(model: AbstractModel, steps: Steps, stage: Stage) -> set[str]:
    """The parts that a stage's loss has gradients for."""
    model.zero_grad()
    model.loss(steps, stage).mean().backward()
    return {
        name.partition(".")[0]
        for name, weight in model.named_parameters()
        if weight.grad is not None and weight.grad.abs().sum() > 0
    }


def test_equivariance_loss_by_hand() -> None:
    predicted, successor = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    near, far = torch.tensor([[1.0, 1.0]]), torch.tensor([[5.0, 0.0]])
    assert equivariance_loss(predicted, successor).tolist() == [0.5]
    # The near negative is at distance 0.5 of the prediction, 0.5 short of the hinge; the far one is beyond.
    assert equivariance_loss(predicted, successor, [near, far]).tolist() == [1.0]
    assert equivariance_loss(predicted, successor, [near, near], hinge=2.0).tolist() == [3.5]


def test_a_loss_is_the_sum_of_what_its_stage_names(model: AbstractModel, steps: Steps) -> None:
    both = model.loss(steps, Stage(reconstruct=True))
    apart = model.loss(steps, Stage()) + model.loss(steps, Stage(predict=False, reconstruct=True))
    torch.testing.assert_close(both, apart)
    torch.testing.assert_close(model.loss(steps, Stage(frozen=True)), model.loss(steps, Stage()))


def test_negatives_are_other_steps_of_the_minibatch(model: AbstractModel, steps: Steps) -> None:
    here = model(steps.observation)
    predicted = here + model.transition.translation(here, steps.action)
    other = here[torch.arange(8) - 1]
    expected = (1.0 - 0.5 * (other - predicted).square().sum(-1)).clamp(min=0.0)
    pushed = model.loss(steps, Stage(negatives=1)) - model.loss(steps, Stage())
    torch.testing.assert_close(pushed, expected)
    assert (expected > 0.0).any()


def test_every_stage_moves_its_parts_only(model: AbstractModel, steps: Steps) -> None:
    learned = {name: [moved(model, steps, stage) for stage in stages] for name, stages in SYSTEMS.items()}
    predicting = {"encoder", "transition", "reward"}
    assert learned == {
        "prae-5": [predicting],
        "prae-1": [predicting],
        "dmdp-h": [predicting],
        "wm-ae": [{"encoder", "decoder"}, {"transition", "reward"}],
        "ld-ae": [predicting | {"decoder"}],
    }


def test_observations_are_read_in_units_of_the_data(model: AbstractModel) -> None:
    observation = torch.randn(4, 3)
    before = model(observation)
    model.mean, model.scale = torch.full((3,), 2.0), torch.full((3,), 10.0)
    torch.testing.assert_close(model(observation * 10.0 + 2.0), before)


@pytest.mark.parametrize(
    "fields", [{"negatives": -1}, {"predict": False}, {"predict": False, "negatives": 1}]
)
def test_senseless_stages_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(XLVINError):
        Stage(**fields)  # type: ignore[arg-type]
