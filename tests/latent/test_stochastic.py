"""Several outcomes for an action: their shapes, their chances, and what they learn."""

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.latent.losses import transe_loss
from xlvin.latent.stochastic import StochasticTransitionModel, mixture_loss
from xlvin.latent.transition import TransitionModel


def make(samples: int = 4) -> StochasticTransitionModel:
    torch.manual_seed(0)
    return StochasticTransitionModel(5, 3, 8, samples)


@pytest.mark.parametrize("leading", [(), (7,), (2, 7)])
def test_one_action_is_a_part_of_all_actions(leading: tuple[int, ...]) -> None:
    transition, h = make(), torch.randn(*leading, 5)
    action = torch.randint(0, 3, leading)
    successors, chances = transition.outcomes(h)
    assert successors.shape == (*leading, 12, 5)
    assert chances is not None
    assert chances.shape == (*leading, 3, 4)
    assert torch.allclose(chances.sum(-1), torch.ones(*leading, 3))
    translations, logits = transition.of_action(h, action)
    picked = action[..., None, None].expand(*leading, 1, 4)
    assert torch.allclose(logits.softmax(-1), chances.gather(-2, picked).squeeze(-2), atol=1e-6)
    every = (successors - h.unsqueeze(-2)).unflatten(-2, (3, 4))
    place = action[..., None, None, None].expand(*leading, 1, 4, 5)
    assert torch.allclose(translations, every.gather(-3, place).squeeze(-3), atol=1e-6)
    mean = (logits.softmax(-1).unsqueeze(-1) * translations).sum(-2)
    assert torch.allclose(transition.translation(h, action), mean, atol=1e-6)


def test_outcomes_may_stand_further_to_the_front() -> None:
    transition, h = make(), torch.randn(6, 7, 5)
    last, front = transition.outcomes(h), transition.outcomes(h, dim=-3)
    assert torch.allclose(front.successors, last.successors.transpose(1, 2), atol=1e-6)
    assert last.chances is not None
    assert front.chances is not None
    assert torch.allclose(front.chances, last.chances.movedim(1, -1), atol=1e-6)


def test_a_deterministic_model_has_no_chances() -> None:
    transition = TransitionModel(5, 3, 8)
    outcomes = transition.outcomes(torch.randn(7, 5))
    assert outcomes.chances is None
    assert transition.branches == transition.actions == 3
    assert make().branches == 12


def test_one_prediction_makes_it_equation_4() -> None:
    predicted, successor, negative = torch.randn(3, 7, 5)
    for temperature in (0.1, 1.0):
        mixed = mixture_loss(
            predicted.unsqueeze(1), torch.randn(7, 1), successor, negative, temperature=temperature
        )
        assert torch.allclose(mixed, transe_loss(predicted, successor, negative), atol=1e-4)


def test_the_nearest_prediction_counts() -> None:
    successor, negative = torch.zeros(1, 2), torch.full((1, 2), 9.0)
    near, far = torch.tensor([[0.1, 0.0]]), torch.tensor([[5.0, 0.0]])
    loss = mixture_loss(torch.stack((near, far), 1), torch.zeros(1, 2), successor, negative)
    assert loss.item() == pytest.approx(2 * 0.1**2 + torch.tensor(2.0).log().item(), abs=1e-5)


def test_it_finds_the_outcomes_of_a_die_and_their_chances() -> None:
    torch.manual_seed(0)
    transition = StochasticTransitionModel(2, 1, 32, 3)
    corners = torch.tensor([[0.0, 1.0], [0.9, -0.5], [-0.9, -0.5]])
    shares = torch.tensor([0.6, 0.3, 0.1])
    optimiser = torch.optim.Adam(transition.parameters(), 1e-2)
    h, action = torch.zeros(256, 2), torch.zeros(256, dtype=torch.int64)
    for _ in range(300):
        successor = corners[torch.multinomial(shares, 256, True)]
        translations, logits = transition.of_action(h, action)
        loss = mixture_loss(translations, logits, successor, successor.roll(1, 0)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    successors, chances = transition.outcomes(torch.zeros(2))
    distance = torch.cdist(corners, successors.detach())
    assert sorted(distance.argmin(1).tolist()) == [0, 1, 2]
    assert distance.amin(1).max() < 0.15
    assert chances is not None
    assert torch.allclose(chances[0, distance.argmin(1)], shares, atol=0.1)


def test_fewer_than_two_samples_are_refused() -> None:
    with pytest.raises(XLVINError, match="2 or more"):
        make(1)
