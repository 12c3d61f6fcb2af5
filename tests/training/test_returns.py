"""Advantages and returns, against plain loops and numbers worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from xlvin.training.returns import advantages, discounted_sums, trusted


def looped_sums(values: Tensor, carry: Tensor) -> Tensor:
    result, following = values.clone(), torch.zeros(values.shape[:-1], dtype=values.dtype)
    for t in reversed(range(values.shape[-1])):
        following = values[..., t] + carry[..., t] * following
        result[..., t] = following
    return result


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 64, 257])
def test_sums_equal_the_loop(steps: int) -> None:
    generator = torch.Generator().manual_seed(steps)
    values = torch.randn(3, steps, generator=generator, dtype=torch.float64)
    carry = torch.rand(3, steps, generator=generator, dtype=torch.float64)
    carry[torch.rand(3, steps, generator=generator) < 0.2] = 0.0
    before = values.clone(), carry.clone()
    torch.testing.assert_close(discounted_sums(values, carry), looped_sums(values, carry))
    torch.testing.assert_close((values, carry), before, rtol=0, atol=0)


def test_long_undiscounted_sums_stay_exact() -> None:
    ones = torch.ones(1, 1000)
    assert discounted_sums(ones, ones)[0].tolist() == [float(n) for n in range(1000, 0, -1)]


def test_termination_cuts_the_bootstrap_and_truncation_keeps_it() -> None:
    # Two episodes of two steps in one row, with gamma = 0.5 and lambda = 1: the first terminates, the second
    # is truncated in a state of value 8.
    advantage = advantages(
        reward=torch.tensor([1.0, 2.0, 3.0, 4.0]),
        value=torch.tensor([10.0, 20.0, 30.0, 40.0]),
        next_value=torch.tensor([20.0, 99.0, 40.0, 8.0]),
        terminated=torch.tensor([False, True, False, False]),
        ended=torch.tensor([False, True, False, True]),
        discount=0.5,
        gae_lambda=1.0,
    )
    # Returns: 1 + 0.5 * 2 = 2 and 2; 3 + 0.5 * (4 + 0.5 * 8) = 7 and 8.
    torch.testing.assert_close(advantage, torch.tensor([2.0 - 10.0, 2.0 - 20.0, 7.0 - 30.0, 8.0 - 40.0]))


def test_lambda_zero_is_the_one_step_error() -> None:
    advantage = advantages(
        reward=torch.tensor([1.0, 1.0]),
        value=torch.tensor([3.0, 5.0]),
        next_value=torch.tensor([5.0, 7.0]),
        terminated=torch.tensor([False, False]),
        ended=torch.tensor([False, True]),
        discount=0.9,
        gae_lambda=0.0,
    )
    torch.testing.assert_close(advantage, torch.tensor([1.0 + 4.5 - 3.0, 1.0 + 6.3 - 5.0]))


def test_concatenated_segments_equal_each_segment_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths, ends = [3, 1, 5, 2], [True, False, False, True]
    columns: list[list[Tensor]] = []
    for length, terminates in zip(lengths, ends, strict=True):
        last = torch.arange(length) == length - 1
        numbers = [torch.randn(length, generator=generator) for _ in range(3)]
        columns.append([*numbers, last & terminates, last])
    together = advantages(*(torch.cat(column) for column in zip(*columns, strict=True)), 0.97, 0.8)
    alone = torch.cat([advantages(*column, 0.97, 0.8) for column in columns])
    torch.testing.assert_close(together, alone)
    assert all(math.isfinite(number) for number in together.tolist())


def test_vtrace_equals_the_published_sum() -> None:
    # v_s = V(s) + sum_t gamma^(t-s) (prod_{s <= i < t} lambda c_i) c_t delta_t in each of two episodes.
    generator, discount, gae_lambda = torch.Generator().manual_seed(0), 0.9, 0.8
    reward, value, following = torch.randn(3, 9, generator=generator, dtype=torch.float64).unbind()
    log_prob, old_log_prob = torch.randn(2, 9, generator=generator, dtype=torch.float64).unbind()
    ended = torch.tensor([False] * 4 + [True] + [False] * 3 + [True])
    terminated = torch.tensor([False] * 4 + [True] + [False] * 4)
    trust = trusted(log_prob, old_log_prob)
    ratio = [math.exp(new - old) for new, old in zip(log_prob.tolist(), old_log_prob.tolist(), strict=True)]
    weights = [min(1.0, each) for each in ratio]
    assert 0 < sum(each < 1.0 for each in weights) < 9
    delta = reward + discount * following * ~terminated - value
    expected = value.clone()
    for s in range(9):
        weight = 1.0
        for t in range(s, 5 if s < 5 else 9):
            expected[s] += weight * weights[t] * float(delta[t])
            weight *= discount * gae_lambda * weights[t]
    advantage = advantages(reward, value, following, terminated, ended, discount, gae_lambda, trust)
    torch.testing.assert_close(value + trust * advantage, expected)
    # What an advantage says of its own action does not depend on how probable that is.
    torch.testing.assert_close(advantage[[4, 8]], delta[[4, 8]])


def test_a_policy_that_has_not_moved_trusts_everything() -> None:
    generator = torch.Generator().manual_seed(1)
    reward, value, following, log_prob = torch.randn(4, 6, generator=generator).unbind()
    ends = torch.tensor([False, False, True] * 2)
    plain = advantages(reward, value, following, ends, ends, 0.9, 0.95)
    trust = trusted(log_prob, log_prob)
    assert torch.equal(advantages(reward, value, following, ends, ends, 0.9, 0.95, trust), plain)
