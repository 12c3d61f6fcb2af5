"""The planners that are told the map: against written-out loops, hand-set weights and each other."""

import math

import pytest
import torch
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import MOVES, Mazes, generate, optimal_actions
from xlvin.planner.grid.base import GridPlanner, MapPlanner
from xlvin.planner.grid.gppn import GPPN
from xlvin.planner.grid.gvin import GVIN
from xlvin.planner.grid.registry import PLANNERS, iterations_for, make_planner
from xlvin.planner.grid.vin import VIN


@pytest.fixture(scope="module")
def mazes() -> Mazes:
    return generate(6, 9, 5)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_reads_any_size_and_has_gradients(name: str, mazes: Mazes) -> None:
    for maps in (mazes.maps(), mazes.maps()[:, :, :7, :6].contiguous()):
        planner = make_planner(name, (maps.shape[2], maps.shape[3]), 3)
        position = torch.randint(maps.shape[2] * maps.shape[3], (len(maps),))
        logits, value = planner(maps, position)
        assert (logits.shape, value.shape) == ((len(maps), 8), (len(maps),))
        (logits.square().sum() + value.square().sum()).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in planner.parameters())


@pytest.mark.parametrize("name", ["vin", "gvin", "gppn"])
def test_all_cells_at_once_are_the_cells_one_by_one(name: str, mazes: Mazes) -> None:
    planner, maps = make_planner(name, (9, 9), 4, seed=1), mazes.maps()
    assert isinstance(planner, MapPlanner)
    every = planner.forward_all(maps)
    for cell in (10, 33, 70):
        one = planner(maps, torch.full((6,), cell))
        torch.testing.assert_close(one.logits, every.logits.flatten(2)[:, :, cell])
        torch.testing.assert_close(one.value, every.value.flatten(1)[:, cell])


def test_weights_depend_on_the_seed_alone() -> None:
    for name in PLANNERS:
        torch.manual_seed(7)
        before = torch.rand(1)
        torch.manual_seed(7)
        first, second, other = (make_planner(name, (8, 8), 2, seed) for seed in (1, 1, 2))
        assert torch.equal(torch.rand(1), before)
        weights = [
            torch.cat([p.flatten() for p in planner.parameters()]) for planner in (first, second, other)
        ]
        assert torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[0], weights[2])


def value_iteration_weights(vin: VIN) -> None:
    """Reward 1 at the goal and -100 in walls; a channel per move and one that stays; logits are its q."""
    with torch.no_grad():
        for parameter in vin.parameters():
            parameter.zero_()
        vin.hidden.weight[0, :, 1, 1] = torch.tensor([-100.0, 1.0])
        vin.reward.weight[0, 0] = 1.0
        for layer in (vin.reward_to_q, vin.value_to_q):
            for action, (row, column) in enumerate(MOVES.tolist()):
                layer.weight[action, 0, row + 1, column + 1] = 1.0
            layer.weight[8, 0, 1, 1] = 1.0
        vin.actor.weight[:, :8] = torch.eye(8)


def test_a_vin_with_the_right_weights_is_value_iteration() -> None:
    mazes = generate(50, 8, 6)
    planner = VIN(iterations=6)
    value_iteration_weights(planner)
    near = (mazes.distance > 0) & (mazes.distance <= 7)
    chosen = planner.forward_all(mazes.maps()).logits.argmax(1, keepdim=True)
    right = optimal_actions(mazes).gather(1, chosen).squeeze(1)
    assert right[near].all()
    assert not right[mazes.distance > 7].all()  # what is further than the iterations carry is not seen


def test_vin_is_the_written_recursion(mazes: Mazes) -> None:
    torch.manual_seed(0)
    planner, maps = VIN(iterations=3, hidden=5, channels=4, initialisation="torch"), mazes.maps()
    hidden = nn.functional.conv2d(maps, planner.hidden.weight, planner.hidden.bias, padding=1)
    reward = nn.functional.conv2d(hidden, planner.reward.weight.view(1, 5, 1, 1))
    both = torch.cat((planner.reward_to_q.weight, planner.value_to_q.weight), 1)
    value = torch.zeros_like(reward)
    for _ in range(4):
        q = nn.functional.conv2d(torch.cat((reward, value), 1), both, padding=1)
        value = q.amax(1, keepdim=True)
    torch.testing.assert_close(planner.plan(maps), q)


def gvin_by_edges(planner: GVIN, maps: Tensor) -> Tensor:
    """The definition: a loop over nodes and neighbours."""
    batch, _, height, width = maps.shape
    kernel, free, q = planner.transition, maps[:, 0] == 0, torch.zeros(batch, 10, height, width)
    sharpness = nn.functional.softplus(kernel.sharpness)
    for _ in range(planner.iterations + 1):
        value = q.amax(1) if q.any() else torch.zeros(batch, height, width)
        q = torch.zeros_like(q)
        signal = planner.reward * maps[:, 1] + planner.discount * value
        for row in range(1, height - 1):
            for column in range(1, width - 1):
                for down, right in MOVES.tolist():
                    direction = math.atan2(-down, right)
                    weight = kernel.weight @ ((1 + torch.cos(direction - kernel.reference)) / 2) ** sharpness
                    there = free[:, row + down, column + right] * signal[:, row + down, column + right]
                    q[:, :, row, column] += weight * there[:, None]
    return q


@torch.no_grad()
def test_gvin_is_the_sum_over_edges(mazes: Mazes) -> None:
    planner, maps = GVIN(iterations=2), mazes.maps()[:2]
    with torch.no_grad():
        planner.transition.weight.add_(torch.randn_like(planner.transition.weight))
    inside = (..., slice(1, -1), slice(1, -1))
    # Opposite directions are clamped to 1e-6 instead of 0.
    torch.testing.assert_close(
        planner.plan(maps)[inside], gvin_by_edges(planner, maps)[inside], atol=1e-3, rtol=1e-4
    )


def test_a_deep_gvin_starts_with_finite_gradients() -> None:
    torch.manual_seed(0)
    planner = GVIN(iterations=160)
    maps = torch.zeros(1, 2, 28, 28)
    maps[0, 1, 14, 14] = 1.0
    planner.plan(maps).mean().backward()
    norm = nn.utils.clip_grad_norm_(planner.parameters(), 1.0)
    assert norm.isfinite()
    assert norm > 0.0


@torch.no_grad()
def test_gvin_does_not_see_through_walls() -> None:
    walls = torch.ones(1, 5, 7, dtype=torch.bool)
    walls[0, 1:4, [1, 2, 4, 5]] = False
    maps = Mazes.from_walls(walls, torch.tensor([2 * 7 + 5])).maps()
    features = GVIN(iterations=8).plan(maps)
    assert features[0, :, 1:4, 1].abs().max() == 0.0  # the side without the goal
    assert features[0, :, 1:4, 4].abs().max() > 0.0


@torch.no_grad()
def test_gppn_is_an_lstm_in_every_cell(mazes: Mazes) -> None:
    torch.manual_seed(0)
    planner, maps = GPPN(iterations=3, hidden=6, kernel=5), mazes.maps()[:2]
    h, c = planner.start(planner.encoder(maps)).chunk(2, 1)
    for _ in range(3):
        seen = nn.functional.pad(h, (2, 2, 2, 2))
        new_h, new_c = torch.empty_like(h), torch.empty_like(c)
        for row in range(9):
            for column in range(9):
                window = seen[:, :, row : row + 5, column : column + 5]
                total = (window * planner.surroundings.weight).sum((1, 2, 3)) + planner.surroundings.bias
                new_h[:, :, row, column], new_c[:, :, row, column] = planner.cell(
                    total[:, None], (h[:, :, row, column], c[:, :, row, column])
                )
        h, c = new_h, new_c
    torch.testing.assert_close(planner.plan(maps), h)


def test_a_cnn_sees_where_the_agent_is(mazes: Mazes) -> None:
    planner = make_planner("cnn", (9, 9))
    maps = mazes.maps()
    first, second = (planner(maps, torch.full((6,), cell)).logits for cell in (20, 50))
    assert not torch.allclose(first, second)
    with pytest.raises(XLVINError, match="reads mazes of size \\(9, 9\\)"):
        planner(maps[:, :, :8, :8], torch.zeros(6, dtype=torch.int64))


def test_iterations_are_the_published_ones() -> None:
    assert [iterations_for((side, side)) for side in (8, 16, 28)] == [10, 20, 36]
    assert iterations_for((12, 20)) == 25


@pytest.mark.parametrize(
    "build",
    [
        lambda: VIN(0),
        lambda: VIN(kernel=4),
        lambda: GVIN(discount=1.5),
        lambda: GPPN(kernel=2),
        lambda: make_planner("cnn", (3, 3)),
        lambda: make_planner("vim", (8, 8)),
    ],
)
def test_impossible_planners_are_refused(build: "type[GridPlanner]") -> None:
    with pytest.raises(XLVINError):
        build()
