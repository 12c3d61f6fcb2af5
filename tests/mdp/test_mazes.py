from collections import deque

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.mdp.mazes import (
    MOVE_NAMES,
    MOVES,
    Mazes,
    as_mdp,
    distances,
    generate,
    in_test_part,
    optimal_actions,
    optimal_values,
)
from xlvin.mdp.value_iteration import optimal_actions as tabular_actions
from xlvin.mdp.value_iteration import value_iteration

PICTURE = """
########
#G..#..#
###..#.#
#...####
#.#....#
#.#.##.#
#.....##
########
"""


def drawn(picture: str = PICTURE) -> Mazes:
    rows = picture.split()
    walls = torch.tensor([[cell == "#" for cell in row] for row in rows])
    goal = torch.tensor(["".join(rows).index("G")])
    return Mazes.from_walls(walls.unsqueeze(0), goal)


def walked(mazes: Mazes, number: int) -> list[list[int]]:
    """Distances by a plain breadth-first search."""
    height, width = mazes.shape
    found = [[-1] * width for _ in range(height)]
    row, column = divmod(int(mazes.goal[number]), width)
    found[row][column] = 0
    queue = deque([(row, column)])
    while queue:
        row, column = queue.popleft()
        for step in MOVES.tolist():
            r, c = row + step[0], column + step[1]
            if not mazes.walls[number, r, c] and found[r][c] < 0:
                found[r][c] = found[row][column] + 1
                queue.append((r, c))
    return found


def test_moves_are_in_the_order_of_the_published_data() -> None:
    assert MOVE_NAMES == ("N", "S", "E", "W", "NE", "NW", "SE", "SW")
    for name, (row, column) in zip(MOVE_NAMES, MOVES.tolist(), strict=True):
        assert ("N" in name, "S" in name) == (row < 0, row > 0)
        assert ("W" in name, "E" in name) == (column < 0, column > 0)


def test_a_diagonal_move_may_pass_between_two_walls() -> None:
    maze = drawn("##### #G#.# ##.## #.#.# #####")
    assert maze.distance[0].tolist()[1:4] == [[-1, 0, -1, 2, -1], [-1, -1, 1, -1, -1], [-1, 2, -1, 2, -1]]


@pytest.mark.parametrize("size", [4, 8, 13])
def test_distances_are_those_of_a_search(size: int) -> None:
    mazes = generate(20 if size > 4 else 6, size, 3)
    for number in range(len(mazes)):
        assert mazes.distance[number].tolist() == walked(mazes, number)
    assert torch.equal(distances(mazes.walls, mazes.goal), mazes.distance)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99, 0.999])
def test_values_in_closed_form_are_those_of_value_iteration(discount: float) -> None:
    mazes = generate(40, 8, 5)
    exact = value_iteration(as_mdp(mazes, discount), tolerance=1e-6).final.view(mazes.walls.shape)
    torch.testing.assert_close(
        optimal_values(mazes, discount), exact, atol=2e-3 if discount > 0.99 else 1e-4, rtol=0.0
    )
    assert (exact[mazes.distance < 0] <= 0.0).all()


def test_optimal_actions_are_those_of_the_mdp() -> None:
    mazes = generate(40, 8, 6)
    mdp = as_mdp(mazes, 0.9)
    tabular = tabular_actions(mdp, value_iteration(mdp, 1e-6).final).permute(0, 2, 1).view(40, 8, 8, 8)
    somewhere = (mazes.distance > 0).unsqueeze(1)
    assert torch.equal(optimal_actions(mazes), tabular & somewhere)


def test_every_level_is_populated() -> None:
    for size, levels in ((8, 10), (16, 20)):
        starts = generate(1000, size, 0).levels()
        assert starts[0] == 1000
        assert starts[1 : levels + 1].min() > 300, starts


def test_starts_of_a_level() -> None:
    mazes = generate(50, 8, 1)
    places = mazes.starts(4)
    assert len(places) == mazes.levels()[4]
    assert (mazes.distance.flatten()[places] == 4).all()


def test_mazes_depend_on_the_seed_alone_and_are_all_different() -> None:
    first, again, other = (generate(300, 8, seed) for seed in (1, 1, 2))
    assert first.fingerprints() == again.fingerprints() != other.fingerprints()
    assert len(set(first.fingerprints())) == 300


def test_train_and_test_parts_share_no_map() -> None:
    train, test = generate(600, 6, 1, "train"), generate(60, 6, 2, "test")
    maps = {
        part: {walls.numpy().tobytes() for walls in mazes.walls}
        for part, mazes in (("a", train), ("b", test))
    }
    assert not maps["a"] & maps["b"]
    assert in_test_part(test.walls).all()
    assert not in_test_part(train.walls).any()
    share = in_test_part(generate(4000, 8, 3).walls).float().mean()
    assert 0.1 < share < 0.15


def test_indexing_keeps_what_belongs_together() -> None:
    mazes = generate(10, 8, 0)
    content = mazes.fingerprints()
    assert mazes[3].fingerprints() == content[3:4]
    assert mazes[-1].fingerprints() == content[-1:]
    assert mazes[2:5].fingerprints() == content[2:5]
    chosen = mazes[torch.tensor([4, 4, 0])]
    assert chosen.fingerprints() == [content[4], content[4], content[0]]
    assert len(chosen) == 3
    assert torch.equal(chosen.distance[0], mazes.distance[4])


def test_maps_show_walls_and_goal() -> None:
    maze = drawn()
    maps = maze.maps()
    assert torch.equal(maps[0, 0].bool(), maze.walls[0])
    assert maps[0, 1].nonzero().tolist() == [[1, 1]]


def test_bad_mazes_are_refused() -> None:
    walls = torch.ones(1, 5, 5, dtype=torch.bool)
    with pytest.raises(XLVINError, match="put it on a free cell"):
        Mazes.from_walls(walls, torch.tensor([12]))
    walls[0, 0, 2] = False
    with pytest.raises(XLVINError, match="make the outer rows and columns walls"):
        Mazes.from_walls(walls, torch.tensor([2]))
    with pytest.raises(XLVINError, match="give bool"):
        Mazes.from_walls(torch.ones(1, 5, 5), torch.tensor([12]))
    with pytest.raises(XLVINError, match="at least 4"):
        generate(5, 3, 0)
    with pytest.raises(XLVINError, match="ask for fewer"):
        generate(200, 4, 0)
    with pytest.raises(XLVINError, match="below 1"):
        optimal_values(drawn(), 1.0)
