"""The latent world model: what its paths, heads and losses say."""

import pytest
import torch

from xlvin.latent.latent_world import LatentWorld, Paths, Stretches, path_loss, unroll
from xlvin.latent.losses import energy, transe_loss
from xlvin.latent.transition import TransitionModel


def some(count: int = 3, length: int = 4) -> tuple[Paths, Stretches]:
    torch.manual_seed(0)
    data = Stretches(
        torch.randn(count, 2),
        torch.randint(2, (count, length)),
        torch.randn(count, length),
        torch.randn(count, length, 2),
        (torch.rand(count, length) < 0.5).float(),
        torch.ones(count, length),
    )
    return Paths(torch.randn(count, 5), torch.randn(count, length, 5), torch.randn(count, length, 5)), data


def silent() -> LatentWorld:
    """A model that says nothing but its biases, which are zero."""
    model = LatentWorld(2, 5, 2, hidden=4)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    return model


def test_a_path_goes_on_from_where_it_is() -> None:
    transition, action = TransitionModel(5, 2, 6), torch.tensor([[0, 1, 1]])
    here = torch.randn(1, 5)
    path = unroll(transition, here, action)
    for step in range(3):
        here = here + transition.translation(here, action[:, step])
        assert torch.allclose(path[:, step], here, atol=1e-6)


def test_the_first_step_is_transe_and_later_ones_do_not_move_what_was_seen() -> None:
    paths, data = some()
    seen = paths.seen.clone().requires_grad_()
    paths = paths._replace(seen=seen)
    first = transe_loss(paths.imagined[:, 0], seen[:, 0], paths.start.roll(1, 0))
    later = energy(paths.imagined[:, 1:], seen[:, 1:])
    loss = path_loss(paths, data)
    assert loss.item() == pytest.approx(((first.sum() + later.sum()) / 12).item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, seen)
    assert (gradient[:, 0] != 0).all()
    assert (gradient[:, 1:] == 0).all()


def test_steps_beyond_an_episode_count_for_nothing() -> None:
    paths, data = some()
    data.weight[1, 2:] = 0.0
    model = LatentWorld(2, 5, 2, hidden=4)
    before = model.losses(paths, data)
    paths.seen[1, 2:], paths.imagined[1, 3:] = 100.0, -100.0
    data.reward[1, 2:], data.next_observation[1, 2:] = 100.0, 100.0
    assert torch.allclose(model.losses(paths, data), before)
    data.reward[1, 1] = 100.0
    assert model.losses(paths, data)[2] > before[2] + 1.0


def test_a_last_step_is_paid_by_itself() -> None:
    model = silent()
    model.reward_scale.fill_(10.0)
    with torch.no_grad():
        model.outcome.skip.bias[..., 0], model.outcome.skip.bias[..., 1] = 1.0, -5.0
    successor, action = torch.randn(1000, 5), torch.zeros(1000, dtype=torch.int64)
    imagined = model(torch.zeros(1000, 5), action, successor, torch.rand(1000))  # half of them are last
    assert torch.equal(imagined.observation, successor)
    assert imagined.terminated.float().mean() == pytest.approx(0.5, abs=0.06)
    assert (imagined.reward[imagined.terminated] == -50.0).all()
    assert (imagined.reward[~imagined.terminated] == 10.0).all()


def test_losses_fall_to_zero_where_predictions_are_right() -> None:
    paths, data = some()
    model = silent()
    assert (model.losses(paths, data) > 0.1).all()
    # The first two features of an embedding are the observation, in its own units; moves have others.
    model.scale.fill_(0.5)
    model.delta_scale.fill_(0.25)
    with torch.no_grad():
        model.window.weight[:, :2] = torch.eye(2)
        model.outcome.skip.bias[..., 2] = -20.0
    model.reward_mean.fill_(3.0)
    seen = torch.cat((data.next_observation / 0.5, torch.zeros(3, 4, 3)), -1)
    start = torch.cat((data.observation / 0.5, torch.zeros(3, 3)), -1)
    data = data._replace(reward=torch.full((3, 4), 3.0), terminated=torch.zeros(3, 4))
    losses = model.losses(Paths(start, seen, seen), data)
    # Only negatives that are near can cost something.
    assert losses[0] <= 1.0
    assert torch.allclose(losses[1:], torch.zeros(3), atol=1e-6)


def test_the_window_counts_places_and_moves_in_units_of_their_own() -> None:
    """One feature, off by one unit of states in every place; then also by one unit of moves in every move."""
    model = LatentWorld(1, 1, 2, hidden=4)
    with torch.no_grad():
        model.window.weight.fill_(1.0)
        model.window.bias.zero_()
    model.scale.fill_(10.0)
    model.delta_scale.fill_(0.1)
    flat, still = torch.zeros(2, 3), torch.zeros(2, 3, 1)
    data = Stretches(torch.zeros(2, 1), flat.long(), flat, still, flat, torch.ones(2, 3))
    off = Paths(torch.ones(2, 1), torch.ones(2, 3, 1), still)
    assert model._window_loss(off, data).item() == pytest.approx(0.5)  # Huber's loss of one
    moves = 0.01 * torch.arange(1, 4).view(1, 3, 1).expand(2, 3, 1)
    assert model._window_loss(Paths(torch.zeros(2, 1), moves, still), data).item() == pytest.approx(
        0.5, abs=1e-3
    )
