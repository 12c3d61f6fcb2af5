"""The abstract-MDP planner on worlds that can be checked by hand."""

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.planner.abstract import PlanConfig, abstract_mdp, plan

SHARP = PlanConfig(temperature=1e-3)


def corridor(length: int = 5) -> tuple[torch.Tensor, ...]:
    """States on a line; actions go left and right; the right end is terminal and pays on arrival."""
    states = torch.arange(float(length)).view(1, length, 1)
    successors = torch.stack((states - 1.0, states + 1.0), 2)
    rewards = torch.zeros(1, length)
    rewards[0, -1] = 1.0
    return states, successors, rewards, rewards > 0.0


def test_transitions_are_a_softmax_of_negative_distances() -> None:
    states, successors, rewards, terminal = corridor(3)
    mdp = abstract_mdp(states, successors, rewards, terminal, PlanConfig(temperature=0.5))
    # From 0 to the right is 1: distances 0.5, 0, 0.5.
    expected = torch.tensor([-1.0, 0.0, -1.0]).softmax(0)
    torch.testing.assert_close(mdp.transition()[0, 0, 1], expected)
    assert float(mdp.reward[0, 0, 1]) == pytest.approx(float(expected[2]))


def test_terminal_states_keep_what_enters_and_pay_nothing() -> None:
    mdp = abstract_mdp(*corridor(3), SHARP)
    assert mdp.transition()[0, 2].tolist() == [[0.0, 0.0, 1.0]] * 2
    assert mdp.reward[0, 2].tolist() == [0.0, 0.0]


def test_the_plan_is_value_iteration() -> None:
    found = plan(*corridor(), SHARP)
    right = found.action_values[0, :4, 1]
    torch.testing.assert_close(right, torch.tensor([0.9**3, 0.9**2, 0.9, 1.0]))
    assert (right > found.action_values[0, :4, 0]).all()


def test_sweeps_limit_how_far_a_plan_looks() -> None:
    found = plan(*corridor(), PlanConfig(temperature=1e-3, sweeps=1))
    assert found.action_values[0, :, 1].tolist() == pytest.approx([0.0, 0.0, 0.9, 1.0, 0.0], abs=1e-6)


def test_an_embedding_is_valued_as_its_nearest_state() -> None:
    found = plan(*corridor(), SHARP)
    asked = torch.tensor([[[-7.0], [2.4], [2.6]]])
    assert torch.equal(found(asked)[0], found.action_values[0, [0, 2, 3]])


def test_mdps_of_a_batch_do_not_mix() -> None:
    first, second = corridor(), tuple(part.flip(1) for part in corridor())
    both = plan(*(torch.cat(pair) for pair in zip(first, second, strict=True)), SHARP)
    for index, alone in enumerate((first, second)):
        torch.testing.assert_close(both.action_values[index], plan(*alone, SHARP).action_values[0])


@pytest.mark.parametrize("fields", [{"states": 0}, {"sweeps": 0}, {"temperature": 0.0}])
def test_impossible_plans_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(XLVINError, match="A plan needs"):
        PlanConfig(**fields)
