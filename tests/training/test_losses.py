"""PPO's terms and their sum, with numbers worked out by hand."""

import math

import pytest
import torch
from torch import Tensor, nn

from xlvin.agents.base import Batch, Output
from xlvin.agents.distributions import Categorical
from xlvin.training.config import PPOConfig
from xlvin.training.losses import clipped_value_loss, policy_loss, value_loss, weighted_mean
from xlvin.training.objective import Objective, Sample, Targets

DOUBLE, HALF = math.log(2.0), math.log(0.5)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "expected"),
    [
        (0.0, 3.0, -3.0),
        (DOUBLE, 1.0, -1.2),  # a gain is counted up to 1 + eps only
        (DOUBLE, -1.0, 2.0),  # a loss is counted in full
        (HALF, 1.0, -0.5),
        (HALF, -1.0, 0.8),  # and no more than 1 - eps is gained by avoiding
    ],
)
def test_policy_loss(log_ratio: float, advantage: float, expected: float) -> None:
    old = torch.tensor([-1.5])
    loss = policy_loss(old + log_ratio, old, torch.tensor([advantage]), clip=0.2)
    torch.testing.assert_close(loss, torch.tensor([expected]))


def test_clipped_policy_has_no_gradient() -> None:
    log_prob = torch.tensor([DOUBLE, 0.0], requires_grad=True)
    policy_loss(log_prob, torch.zeros(2), torch.ones(2), 0.2).sum().backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [0.0, -1.0]


def test_value_losses() -> None:
    value, old, target = torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([5.0])
    assert value_loss(value, target).tolist() == [2.0]
    # The move from 1 to 3 is clipped to 1.5: (1.5 - 5)^2 / 2 is the larger error.
    torch.testing.assert_close(clipped_value_loss(value, old, target, 0.5), torch.tensor([6.125]))
    # Overshooting 2 from 1 by more than the clip: the unclipped error counts.
    torch.testing.assert_close(clipped_value_loss(value, old, torch.tensor([1.0]), 0.5), torch.tensor([2.0]))


def test_weighted_mean_ignores_padding_and_survives_emptiness() -> None:
    values = torch.tensor([[1.0, 3.0, 100.0], [7.0, 7.0, 7.0]])
    weight = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert weighted_mean(values, weight).tolist() == [2.0, 0.0]


class FixedAgent(nn.Module):
    """Says what it is told to."""

    def __init__(self, output: Output, auxiliary: dict[str, Tensor]) -> None:
        super().__init__()
        self.output, self.auxiliary = output, auxiliary

    def forward(self, observation: Tensor) -> Output:
        return self.output

    def distribution(self, logits: Tensor) -> Categorical:
        return Categorical(logits)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        return self.auxiliary


@pytest.mark.parametrize("clip_value", [False, True])
def test_objective_adds_the_terms_up(clip_value: bool) -> None:
    uniform = torch.zeros(3, 2)  # two actions with probability one half; the third row is padding
    output = Output(uniform, torch.tensor([1.0, 2.0, 1e6]), torch.zeros(3, 4))
    agent = FixedAgent(
        output, {"transe": torch.tensor([4.0, 6.0, 1e6]), "reward": torch.tensor([1.0, 1.0, 1e6])}
    )
    config = PPOConfig(
        clip_value=clip_value,
        clip=0.25,
        value_coef=0.5,
        entropy_coef=0.1,
        transe_coef=0.01,
        reward_coef=2.0,
    )
    sample = Sample(
        Batch(
            torch.zeros(3, 4),
            torch.tensor([0, 1, 0]),
            torch.zeros(3),
            torch.zeros(3, 4),
            torch.zeros(3).long(),
        ),
        Targets(
            old_log_prob=torch.tensor([HALF, math.log(0.25), 0.0]),
            old_value=torch.tensor([0.0, 2.0, 0.0]),
            advantage=torch.tensor([2.0, 1.0, 1e6]),
            target=torch.tensor([3.0, 2.0, 0.0]),
        ),
        weight=torch.tensor([1.0, 1.0, 0.0]),
    )
    objective = Objective(agent, config)  # type: ignore[arg-type]
    loss, means = objective(sample)
    terms = dict(zip(objective.names, means.tolist(), strict=True))
    value = ((0.25 - 3.0) ** 2 if clip_value else (1.0 - 3.0) ** 2) / 2 / 2
    expected = {
        "policy": -(2.0 + 1.25) / 2,  # ratios 1 and 2, the second clipped
        "value": value,
        "entropy": math.log(2.0),
        "transe": 5.0,
        "reward": 1.0,
    }
    for name, number in expected.items():
        assert terms[name] == pytest.approx(number, rel=1e-6), name
    total = expected["policy"] + 0.5 * value - 0.1 * math.log(2.0) + 0.01 * 5.0 + 2.0 * 1.0
    assert loss.item() == pytest.approx(total, rel=1e-6)
