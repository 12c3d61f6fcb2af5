"""The structure of a drawn plan; how it looks is for eyes to judge."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from xlvin.errors import XLVINError
from xlvin.report.plan_figure import ACCENT, plan_figure, save_plan_figure
from xlvin.report.plan_layout import Array, arrange


@dataclass(frozen=True)
class Level:
    value: Array
    policy: Array
    parent: Array
    action: Array

    @property
    def sample(self) -> Array:
        return np.minimum(self.action, 0)

    @property
    def chance(self) -> Array:
        return np.ones(len(self.action))


@dataclass(frozen=True)
class Plan:
    levels: tuple[Level, ...]


def full_plan(actions: int, depth: int, seed: int = 0) -> Plan:
    stream = np.random.default_rng(seed)
    levels = []
    for level in range(depth + 1):
        count = actions**level
        numbers = np.arange(count)
        parent, action = (numbers // actions, numbers % actions) if level else (numbers - 1, numbers - 1)
        policy = stream.dirichlet(np.ones(actions), count)
        levels.append(Level(stream.normal(size=count), policy, parent, action))
    return Plan(tuple(levels))


def sparse_plan() -> Plan:
    """Three actions; the root's action 1 has no node, and only the node of action 2 goes on."""
    root = Level(np.array([0.5]), np.array([[0.2, 0.5, 0.3]]), np.array([-1]), np.array([-1]))
    first = Level(np.array([1.0, 2.0]), np.full((2, 3), 1 / 3), np.array([0, 0]), np.array([2, 0]))
    second = Level(np.array([3.0]), np.full((1, 3), 1 / 3), np.array([0]), np.array([1]))
    return Plan((root, first, second))


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts] + [
        t.get_text() for t in figure.texts
    ]


def curves(figure: Figure) -> list[PathPatch]:
    return [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, PathPatch)]


@pytest.mark.parametrize(("actions", "depth"), [(2, 1), (2, 3), (3, 2), (4, 2)])
def test_every_node_of_a_small_tree_has_its_place(actions: int, depth: int) -> None:
    plan = full_plan(actions, depth)
    nodes = arrange(plan, most_leaves=64)
    for level, wanted in enumerate(plan.levels):
        drawn = [node for node in nodes if node.depth == level]
        assert [node.value for node in drawn] == wanted.value.tolist()
        assert [node.action for node in drawn] == wanted.action.tolist()
        rows = [node.row for node in drawn]
        assert all(below - above >= 1.0 for above, below in pairwise(rows))
    for position, node in enumerate(nodes):
        rows = [child.row for child in nodes if child.parent == position]
        assert not rows or node.row == pytest.approx((rows[0] + rows[-1]) / 2)
        assert node.hidden == 0


def test_the_greedy_path_follows_the_most_probable_actions() -> None:
    plan = full_plan(3, 3, seed=4)
    path = [node for node in arrange(plan, 64) if node.greedy]
    number, expected = 0, []
    for level in plan.levels[:-1]:
        action = int(level.policy[number].argmax())
        expected.append((action, level.policy[number, action]))
        number = 3 * number + action
    assert [(node.action, node.probability) for node in path[1:]] == expected
    assert path[-1].value == plan.levels[-1].value[number]


def test_a_large_tree_keeps_its_most_probable_children_and_counts_the_others() -> None:
    plan = full_plan(6, 2)
    nodes = arrange(plan, most_leaves=9)
    root, *rest = nodes
    assert root.hidden == 3
    first = [node for node in rest if node.depth == 1]
    likely = np.argsort(-plan.levels[0].policy[0])[:3]
    assert [node.action for node in first] == sorted(likely.tolist())
    assert sum(node.depth == 2 for node in nodes) == 9
    assert sum(node.greedy for node in nodes) == 3
    assert any("+ 3 more" in text for text in texts(plan_figure(plan, most_leaves=9)))


def test_a_sparse_tree_is_drawn_as_it_is() -> None:
    nodes = arrange(sparse_plan(), 36)
    assert [(node.depth, node.action, node.greedy) for node in nodes] == [
        (0, -1, True),
        (1, 0, False),
        (1, 2, True),
        (2, 1, True),
    ]
    assert [node.parent for node in nodes] == [-1, 0, 0, 2]
    assert len({node.row for node in nodes if node.depth > 0 and node.action != 2}) == 2


def test_lines_are_as_wide_as_actions_are_probable_and_the_path_stands_out() -> None:
    plan = full_plan(2, 2)
    figure, nodes = plan_figure(plan), arrange(plan, 36)
    drawn = curves(figure)
    assert len(drawn) == 6
    order = np.argsort([node.probability for node in nodes[1:]])
    assert np.argsort([line.get_linewidth() for line in drawn]).tolist() == order.tolist()
    orange = [line.get_edgecolor() == to_rgba(ACCENT) for line in drawn]
    assert orange == [node.greedy for node in nodes[1:]]


def test_labels_tell_actions_probabilities_and_values() -> None:
    plan = full_plan(2, 2)
    written = texts(plan_figure(plan, actions=["left", "right"], title="A plan"))
    share = 100 * plan.levels[0].policy[0, 1]
    assert f"right  {share:.0f} %" in written
    assert f"{plan.levels[0].value[0]:.2f}" in written
    assert {"A plan", "now", "after 1 action", "after 2 actions"} <= set(written)


@pytest.mark.parametrize(("actions", "depth"), [(2, 0), (2, 1), (4, 3), (18, 2)])
@pytest.mark.parametrize("picture", [None, (40, 60), (210, 160)])
def test_any_plan_fits_its_page(actions: int, depth: int, picture: tuple[int, int] | None) -> None:
    frame = None if picture is None else np.zeros((*picture, 3), np.uint8)
    figure = plan_figure(full_plan(actions, depth), frame)
    assert sum(bool(axes.images) for axes in figure.axes) == (picture is not None)
    for axes in figure.axes:
        box = axes.get_position()
        assert 0.0 <= box.x0 < box.x1 <= 1.0
        assert 0.0 <= box.y0 < box.y1 <= 1.0
    figure.draw_without_rendering()
    for text in [text for axes in figure.axes for text in axes.texts] + figure.texts:
        extent = text.get_window_extent()
        assert figure.bbox.x0 <= extent.x0 < extent.x1 <= figure.bbox.x1, text.get_text()
        assert figure.bbox.y0 <= extent.y0 < extent.y1 <= figure.bbox.y1, text.get_text()


def test_equal_values_can_be_drawn() -> None:
    level = Level(np.array([2.0]), np.array([[0.5, 0.5]]), np.array([-1]), np.array([-1]))
    assert "2.00" in texts(plan_figure(Plan((level,))))


def test_a_picture_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "plan.png"
    save_plan_figure(str(path), full_plan(2, 1), dpi=40)
    assert matplotlib.image.imread(path).shape[1] == 400
    assert [file.name for file in path.parent.iterdir()] == ["plan.png"]


def test_what_cannot_be_drawn_is_told() -> None:
    with pytest.raises(XLVINError, match="3 names"):
        plan_figure(full_plan(2, 1), actions=["a", "b", "c"])
    with pytest.raises(XLVINError, match="one root"):
        plan_figure(Plan(full_plan(2, 2).levels[1:]))


@dataclass(frozen=True)
class DrawnLevel:
    value: Array
    policy: Array
    parent: Array
    action: Array
    sample: Array
    chance: Array


def test_outcomes_of_an_action_are_told_apart() -> None:
    none = np.array([-1])
    root = DrawnLevel(np.array([0.5]), np.array([[0.4, 0.6]]), none, none, none, np.ones(1))
    action, sample = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    chance, policy = np.array([0.9, 0.1, 0.3, 0.7]), np.full((4, 2), 0.5)
    first = DrawnLevel(np.arange(4.0), policy, np.zeros(4, int), action, sample, chance)
    nodes = arrange(Plan((root, first)), 36)
    assert [(node.action, node.sample) for node in nodes[1:]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [node.probability for node in nodes[1:]] == pytest.approx([0.36, 0.04, 0.18, 0.42])
    # The best action is 1, although the likeliest outcome of all is one of action 0's without the policy.
    assert [node.greedy for node in nodes[1:]] == [False, False, False, True]
    shown = texts(plan_figure(Plan((root, first)), actions=["left", "right"]))
    assert "right ·2  42 %" in shown
    assert any("numbered" in text for text in shown)
    assert [node.sample for node in arrange(Plan((root, first)), 1)[1:]] == [1]
