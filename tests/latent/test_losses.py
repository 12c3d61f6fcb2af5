import torch

from xlvin.latent.losses import energy, transe_loss


def test_energy_by_hand() -> None:
    x, y = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 5.0], [0.6, 0.8]])
    assert torch.allclose(energy(x, y), torch.tensor([0.5 / 0.25 * 9.0, 2.0]))
    assert torch.allclose(energy(x, y, sigma=1.0), torch.tensor([4.5, 0.5]))


def test_transe_by_hand() -> None:
    predicted = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    successor = torch.tensor([[1.0, 0.5], [1.0, 0.5]])
    # The first negative is d = 2 * 0.25 = 0.5 away, within the hinge; the second far outside.
    negative = torch.tensor([[1.0, 1.0], [9.0, 9.0]])
    loss = transe_loss(predicted, successor, negative)
    assert torch.allclose(loss, torch.tensor([0.5 + 0.5, 0.5]))
    assert torch.allclose(transe_loss(predicted, successor, negative, hinge=0.25), torch.tensor([0.5, 0.5]))


def test_transe_pushes_the_negative_away_only_within_the_hinge() -> None:
    near = torch.tensor([0.1], requires_grad=True)
    far = torch.tensor([5.0], requires_grad=True)
    zero = torch.zeros(1)
    transe_loss(zero, zero, near).backward()
    transe_loss(zero, zero, far).backward()
    assert near.grad.item() < 0  # descending moves it outwards
    assert far.grad.item() == 0.0
