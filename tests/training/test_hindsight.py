from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from xlvin.agents.base import Batch, Output
from xlvin.agents.mazes import make_maze_agent
from xlvin.envs.maze_world import observe, scenes
from xlvin.errors import XLVINError
from xlvin.mdp.mazes import GOAL_REWARD, WALL_REWARD, Mazes, generate, optimal_actions, optimal_values
from xlvin.training.config import PPOConfig
from xlvin.training.mazes.hindsight import Hindsight, HindsightConfig

PPO = PPOConfig(discount=0.9)
MAZE = generate(1, 8, 3, winding=1.0)


class Table(nn.Module):
    """A number for everything: value and logits of each cell, for each goal of one maze."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(cells, cells))
        self.logits = nn.Parameter(torch.zeros(cells, cells, 8))

    def forward(self, observation: Tensor) -> Output:
        goal, cell = (observation[:, channel].flatten(1).argmax(1) for channel in (1, 2))
        return Output(self.logits[goal, cell], self.value[goal, cell], observation.new_empty(len(goal), 0))

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        return {}


def every_move(maze: Mazes) -> tuple[Tensor, Tensor]:
    free = (~maze.walls).flatten().nonzero().squeeze(-1)
    return free.repeat_interleave(8), torch.arange(8).repeat(len(free))


def descend(table: Table, hindsight: Hindsight, learning_rate: float, steps: int = 1000) -> None:
    optimiser = torch.optim.Adam(table.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        optimiser.zero_grad()
        hindsight.loss(generator).backward()
        optimiser.step()
        schedule.step()
        hindsight.follow()


def test_moves_that_were_made_with_one_goal_teach_the_values_of_all_goals() -> None:
    table = Table(MAZE.cells)
    hindsight = Hindsight(table, MAZE, HindsightConfig(batch=1024, temperature=1.0, target_mix=0.3), PPO)
    hindsight.remember(*every_move(MAZE))
    descend(table, hindsight, 0.05)
    for goal in (~MAZE.walls).flatten().nonzero().squeeze(-1).tolist():
        maze = Mazes.from_walls(MAZE.walls, torch.tensor([goal]))
        near = (maze.distance > 0).flatten()
        torch.testing.assert_close(
            table.value[goal][near], optimal_values(maze, 0.9).flatten()[near], atol=0.01, rtol=0.0
        )
        best = table.logits[goal].argmax(-1)
        assert optimal_actions(maze)[0].flatten(1)[best[near], near.nonzero().squeeze(-1)].all()


def test_returns_end_at_the_other_goal_and_at_walls() -> None:
    agent = Table(MAZE.cells)
    with torch.no_grad():
        agent.value.fill_(0.5)
    hindsight = Hindsight(agent, MAZE, HindsightConfig(), PPO)
    free = (~MAZE.walls).flatten().nonzero().squeeze(-1)
    own, other = MAZE.goal, next(cell for cell in free if cell != MAZE.goal[0])
    into = torch.stack((other, own[0], torch.tensor(0)))
    goal = other.expand(3)
    returns = hindsight._returns(hindsight._earned(into, goal), observe(scenes(MAZE), into, goal))
    # The maze's own goal is a cell like any other now.
    torch.testing.assert_close(returns, torch.tensor([GOAL_REWARD, -0.01 + 0.9 * 0.5, WALL_REWARD]))


def test_goals_are_free_cells_of_the_same_maze_and_never_the_place_itself() -> None:
    mazes = generate(5, 8, 0)
    hindsight = Hindsight(make_maze_agent("cnn", (8, 8)), mazes, HindsightConfig(), PPO)
    place = (~mazes.walls).flatten().nonzero().squeeze(-1).repeat(20)
    goal = hindsight._goals(place, torch.Generator().manual_seed(0))
    assert not mazes.walls.flatten(1)[place // mazes.cells, goal].any()
    assert (goal != place % mazes.cells).all()
    first = place // mazes.cells == 0
    assert set(goal[first].tolist()) == set((~mazes.walls[0]).flatten().nonzero().squeeze(-1).tolist())


def test_a_wall_is_worse_than_the_best_move_by_as_much_as_is_asked_for_and_no_more() -> None:
    table = Table(MAZE.cells)
    config = HindsightConfig(batch=1024, temperature=0.1, margin=0.6, target_mix=0.3)
    hindsight = Hindsight(table, MAZE, config, PPO)
    hindsight.remember(*every_move(MAZE))
    descend(table, hindsight, 0.2)
    goal = int(MAZE.goal)
    near = (MAZE.distance[0] > 0).flatten().nonzero().squeeze(-1)
    into = near.unsqueeze(1) + MAZE.offsets()
    below = (table.logits[goal].amax(-1, keepdim=True) - table.logits[goal])[near]
    torch.testing.assert_close(
        below[MAZE.walls.flatten()[into]],
        torch.tensor(6.0).expand(below.shape)[MAZE.walls.flatten()[into]],
        atol=0.2,
        rtol=0.0,
    )


def test_the_memory_keeps_the_latest_moves() -> None:
    hindsight = Hindsight(make_maze_agent("cnn", (8, 8)), MAZE, HindsightConfig(memory=5), PPO)
    hindsight.remember(torch.arange(4), torch.zeros(4, dtype=torch.int64))
    hindsight.remember(torch.arange(4, 8).view(2, 2), torch.ones(2, 2, dtype=torch.int64))
    assert hindsight.moves.tolist() == [[3, 0], [4, 1], [5, 1], [6, 1], [7, 1]]


def test_the_model_learns_from_these_moves_too() -> None:
    agent = make_maze_agent("xlvin", (8, 8), hidden=16, latent=8, depth=1)
    grounded, alone = (
        Hindsight(agent, MAZE, HindsightConfig(batch=16), replace(PPO, transe_coef=weight))
        for weight in (1.0, 0.0)
    )
    for hindsight in (grounded, alone):
        hindsight.remember(*every_move(MAZE))
    losses = [h.loss(torch.Generator().manual_seed(0)) for h in (grounded, alone)]
    assert losses[0] > losses[1] + 0.01


@pytest.mark.parametrize(
    "field",
    [{"updates": 0}, {"batch": 0}, {"memory": 0}, {"temperature": 0.0}, {"margin": 0.0}, {"target_mix": 0.0}],
)
def test_bad_settings_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(XLVINError, match=r"[Hh]indsight"):
        HindsightConfig(**field)
