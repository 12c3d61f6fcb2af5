"""The world model: what it draws, what it adds, and what its losses punish."""

import pytest
import torch

from xlvin.latent.world import Transitions, WorldModel


def zeroed(**fields: bool) -> WorldModel:
    """A model whose networks say nothing but their biases, which are zero."""
    model = WorldModel(3, 2, members=2, hidden=4, **fields)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    return model


def test_features_move_by_the_scaled_difference() -> None:
    model = zeroed()
    model.delta_mean.copy_(torch.tensor([1.0, 0.0, -1.0]))
    model.delta_scale.copy_(torch.tensor([10.0, 10.0, 10.0]))
    with torch.no_grad():
        model.dynamics.skip.bias[1, 0, 1] = 0.5  # the second member only
    start = torch.zeros(2, 5, 3)
    moved = model(start, torch.zeros(2, 5, dtype=torch.int64), torch.ones(2, 5, 2) * 0.9).observation
    assert torch.equal(moved[0], torch.tensor([1.0, 0.0, -1.0]).expand(5, 3))
    assert torch.equal(moved[1], torch.tensor([1.0, 5.0, -1.0]).expand(5, 3))


def test_features_with_two_values_are_drawn() -> None:
    model = zeroed()
    model.binary[2] = True
    model.low[2], model.high[2] = -1.0, 4.0
    with torch.no_grad():
        model.dynamics.skip.bias[..., 2] = torch.tensor(0.25).logit()
    uniform = torch.rand(2, 4000, 2)
    drawn = model(torch.zeros(2, 4000, 3), torch.zeros(2, 4000, dtype=torch.int64), uniform).observation[
        ..., 2
    ]
    assert set(drawn.unique().tolist()) == {-1.0, 4.0}
    assert (drawn == 4.0).float().mean() == pytest.approx(0.25, abs=0.03)


def test_discrete_states_stay_states() -> None:
    model = zeroed(discrete=True)
    with torch.no_grad():
        model.dynamics.skip.bias[:] = torch.tensor([0.5, 0.2, 0.3]).log()
    uniform = torch.rand(2, 4000, 2)
    start = torch.eye(3)[torch.zeros(2, 4000, dtype=torch.int64)]
    drawn = model(start, torch.zeros(2, 4000, dtype=torch.int64), uniform).observation
    assert torch.equal(drawn.sum(-1), torch.ones(2, 4000))
    assert torch.allclose(drawn.mean((0, 1)), torch.tensor([0.5, 0.2, 0.3]), atol=0.03)


def test_a_last_step_is_paid_by_itself() -> None:
    model = zeroed()
    model.reward_scale.fill_(10.0)
    with torch.no_grad():
        model.outcome.skip.bias[..., 0], model.outcome.skip.bias[..., 1] = 1.0, -5.0
    uniform = torch.rand(2, 1000, 2)  # half of the steps end the episode
    imagined = model(torch.zeros(2, 1000, 3), torch.zeros(2, 1000, dtype=torch.int64), uniform)
    assert imagined.terminated.float().mean() == pytest.approx(0.5, abs=0.06)
    assert (imagined.reward[imagined.terminated] == -50.0).all()
    assert (imagined.reward[~imagined.terminated] == 10.0).all()


def test_losses_fall_to_zero_where_predictions_are_right() -> None:
    model, count = zeroed(), 6
    data = Transitions(
        torch.randn(2, count, 3),
        torch.ones(2, count, dtype=torch.int64),
        torch.full((2, count), 3.0),
        torch.zeros(2, count, 3),
        torch.zeros(2, count),
    )
    data = data._replace(next_observation=data.observation + 2.0)
    wrong = model.losses(data)
    model.delta_mean.fill_(2.0)
    model.reward_mean.fill_(3.0)
    with torch.no_grad():
        model.outcome.skip.bias[..., 2] = -20.0
    assert (wrong > 0.5).all()
    assert torch.allclose(model.losses(data), torch.zeros(3), atol=1e-6)
