"""Imitation: its loss by hand, walks against a loop, and planners that learn."""

import math

import pytest
import torch
from torch import Tensor

from xlvin.agents.mazes import make_maze_agent
from xlvin.errors import RunFailedError, XLVINError
from xlvin.mdp.mazes import MOVES, Mazes, generate, optimal_actions
from xlvin.planner.grid.base import GridOutput, GridPlanner
from xlvin.planner.grid.registry import make_planner
from xlvin.training.mazes.imitating_agent import ImitatingAgent
from xlvin.training.mazes.imitation import (
    ImitationConfig,
    greedy_actions,
    imitate,
    imitation_loss,
    score,
    walk,
)


def test_the_loss_by_hand() -> None:
    logits = torch.zeros(3, 8)
    logits[0, 2] = math.log(3.0)  # probabilities 0.3 for move 2, 0.1 for the others
    optimal = torch.zeros(3, 8, dtype=torch.bool)
    optimal[0, [1, 2]] = optimal[1, 5] = True  # the third cell has none and does not count
    assert imitation_loss(logits, optimal).item() == pytest.approx((-math.log(0.4) + math.log(8)) / 2)
    assert imitation_loss(logits, optimal, "first").item() == pytest.approx(
        (-math.log(0.1) + math.log(8)) / 2
    )
    logits.requires_grad_()
    imitation_loss(logits, optimal).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[2].abs().sum() == 0


def walk_by_steps(mazes: Mazes, actions: Tensor, number: int, place: tuple[int, int]) -> int | None:
    """How many moves lead to the goal, one after the other; None if they do not."""
    for moves in range(mazes.cells):
        if place[0] * mazes.shape[1] + place[1] == mazes.goal[number]:
            return moves
        if mazes.walls[number][place]:
            return None
        down, right = MOVES[actions[number][place]].tolist()
        place = (place[0] + down, place[1] + right)
    return None


def test_walks_are_the_steps_one_by_one() -> None:
    mazes = generate(8, 7, 2)
    torch.manual_seed(0)
    best = optimal_actions(mazes).byte().argmax(1)
    actions = torch.where(torch.rand(best.shape) < 0.15, torch.randint(8, best.shape), best)
    walks = walk(mazes, actions)
    fates = set()
    for number in range(len(mazes)):
        for row, column in (~mazes.walls[number]).nonzero().tolist():
            expected = walk_by_steps(mazes, actions, number, (row, column))
            assert bool(walks.reached[number, row, column]) == (expected is not None)
            if expected is not None:
                assert walks.moves[number, row, column] == expected
            fates.add(expected is None)
    assert fates == {True, False}


class Fixed(GridPlanner):
    """Always the same move."""

    def forward(self, maps: Tensor, position: Tensor) -> GridOutput:
        return GridOutput(torch.eye(8)[2].expand(len(maps), 8), torch.zeros(len(maps)))


def test_scores_count_cells_of_each_maze() -> None:
    walls = torch.ones(2, 5, 6, dtype=torch.bool)
    walls[:, 2, 1:5] = False  # a corridor
    mazes = Mazes.from_walls(walls, torch.tensor([2 * 6 + 4, 2 * 6 + 2]))
    # Going east, all three cells of the first maze arrive, and one of the three of the second.
    found = score(Fixed(), mazes)
    assert found["success"] == pytest.approx(100 * (1 + 1 / 3) / 2)
    assert found["optimal"] == pytest.approx(found["success"])


def test_detours_succeed_but_are_not_optimal() -> None:
    walls = torch.ones(1, 5, 5, dtype=torch.bool)
    walls[0, 1:4, 1:4] = False
    mazes = Mazes.from_walls(walls, torch.tensor([6]))
    actions = torch.zeros(1, 5, 5, dtype=torch.int64)  # north, and along the first row west
    actions[0, 1] = 3
    walks = walk(mazes, actions)
    assert walks.reached[0, 3, 3]
    assert (walks.moves[0, 3, 3], mazes.distance[0, 3, 3]) == (4, 2)


def test_vin_learns_to_plan_in_seconds() -> None:
    train, test = generate(400, 8, 1, "train", winding=0.0), generate(100, 8, 2, "test", winding=0.0)
    planner = make_planner("vin", (8, 8), seed=3)
    before = score(planner, test)["success"]
    told: list[tuple[int, int]] = []
    config = ImitationConfig(epochs=8, batch=16, learning_rate=2e-2)
    imitate(planner, train, config, lambda step, of, loss: told.append((step, of)))
    assert before < 20.0
    assert score(planner, test)["success"] > 85.0
    assert told[-1] == (200, 200)


@pytest.mark.parametrize("name", ["vin", "cnn", "xlvin"])
def test_the_same_seed_gives_the_same_planner(name: str) -> None:
    mazes = generate(8, 8, 1)

    def trained(seed: int) -> Tensor:
        planner = (
            ImitatingAgent(make_maze_agent("xlvin", (8, 8), depth=1))
            if name == "xlvin"
            else make_planner(name, (8, 8), 2)
        )
        imitate(planner, mazes, ImitationConfig(epochs=2, batch=4, cells=2, seed=seed))
        return torch.cat([parameter.detach().flatten() for parameter in planner.parameters()])

    assert torch.equal(trained(0), trained(0))
    assert not torch.equal(trained(0), trained(1))


def test_an_agent_learns_policy_and_model() -> None:
    mazes = generate(8, 8, 1)
    agent = make_maze_agent("xlvin", (8, 8), depth=1)
    planner = ImitatingAgent(agent)
    start = {name: weight.clone() for name, weight in agent.named_parameters()}
    config = ImitationConfig(epochs=1, batch=8, cells=4, transe_coef=1.0)
    imitate(planner, mazes, config)
    moved = {name for name, weight in agent.named_parameters() if not torch.equal(weight, start[name])}
    frozen = {name for name, weight in agent.named_parameters() if not weight.requires_grad}
    assert any("transition" in name for name in moved)
    assert any("encoder" in name for name in moved)
    assert not moved & frozen
    actions = greedy_actions(planner, mazes[:2])
    place = int((mazes.distance[1] > 0).flatten().nonzero()[0])
    logits = planner(mazes[1].maps(), torch.tensor([place])).logits
    assert actions[1].flatten()[place] == logits.argmax()


@pytest.mark.parametrize(
    "fields",
    [{"epochs": 0}, {"batch": 0}, {"cells": 0}, {"clip": 0.0}, {"learning_rate": math.nan}, {"label": "x"}],
)
def test_impossible_settings_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(XLVINError):
        ImitationConfig(**fields)  # type: ignore[arg-type]


def test_a_loss_that_is_not_finite_stops() -> None:
    planner = make_planner("vin", (8, 8), 2)
    with torch.no_grad():
        next(planner.parameters()).fill_(math.nan)
    with pytest.raises(RunFailedError, match="lower learning rate"):
        imitate(planner, generate(4, 8, 1), ImitationConfig(epochs=1))
