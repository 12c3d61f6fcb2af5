"""An episode as the numbers of its page."""

import base64
import io
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from xlvin.report.show_data import ALL_NODES, Array, Subject, episode_data

SUBJECT = Subject(
    "Corridor-v0", "xlvin-r", "xlvin", 3, "random-deterministic", 0.5, 2.0, False, {"xlvin": "0"}
)
WIDTH, LATENT = 5, 4


@dataclass
class Level:
    embedding: Array
    executed: Array
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


@dataclass
class Plan:
    levels: list[Level]


@dataclass
class Moment:
    policy: Array
    plan: Plan | None
    frame: Array | None = None
    observation: Array | None = None
    embedding: Array = field(default_factory=lambda: np.zeros(LATENT))
    value: float = 0.0
    entered: list[Array] | None = None
    places: list[Array] | None = None
    action: int = 0
    reward: float = 1.0


@dataclass
class Episode:
    moments: list[Moment]
    actions: list[str]
    end: str = "terminated"
    last_frame: Array | None = None
    last_embedding: Array = field(default_factory=lambda: np.ones(LATENT))
    last_value: float = 10.0
    seed: int = 7


def full_plan(actions: int, depth: int, seed: int = 0) -> Plan:
    stream, levels = np.random.default_rng(seed), []
    for level in range(depth + 1):
        numbers = np.arange(actions**level)
        parent, action = (numbers // actions, numbers % actions) if level else (numbers - 1, numbers - 1)
        policy = stream.dirichlet(np.ones(actions), len(numbers))
        shapes = ((len(numbers), LATENT), (len(numbers), WIDTH), len(numbers))
        levels.append(Level(*(stream.normal(size=shape) for shape in shapes), policy, parent, action))
    return Plan(levels)


def planned(actions: int, depth: int, seed: int = 0) -> Moment:
    plan = full_plan(actions, depth, seed)
    entered = [level.executed - 1.0 for level in plan.levels[:-1]] + [plan.levels[-1].executed]
    root = plan.levels[0]
    return Moment(root.policy[0], plan, embedding=root.embedding[0], entered=entered)


def data_of(*moments: Moment, **fields: object) -> dict:
    actions = [f"action {number}" for number in range(len(moments[0].policy))]
    return episode_data(Episode(list(moments), actions, **fields), SUBJECT)  # type: ignore[arg-type]


def features(text: str) -> Array:
    return np.frombuffer(base64.b64decode(text), np.int8)


@pytest.mark.parametrize(("actions", "depth"), [(1, 1), (2, 4), (4, 3), (18, 1), (18, 3)])
def test_every_prefix_of_the_nodes_is_a_tree_of_the_most_probable_paths(actions: int, depth: int) -> None:
    moment = planned(actions, depth)
    tree = data_of(moment)["moments"][0]["tree"]
    assert tree["size"] == sum(actions**level for level in range(depth + 1))
    parent, probability = tree["parent"], tree["probability"]
    assert parent[: 1 + actions] == [-1] + [0] * actions
    assert all(above < node for node, above in enumerate(parent))
    path = [1.0]
    for node in range(1, len(parent)):
        path.append(path[parent[node]] * probability[node])
    later = path[1 + actions :]
    assert all(second <= first * 1.001 for first, second in pairwise(later))
    # A node is where its actions lead, and tells its value.
    assert moment.plan is not None
    for node in range(len(parent)):
        actions_taken, above = [], node
        while above:
            actions_taken.insert(0, tree["action"][above])
            above = parent[above]
        index = 0
        for action in actions_taken:
            index = index * actions + action
        level = moment.plan.levels[len(actions_taken)]
        assert tree["value"][node] == pytest.approx(level.value[index], rel=1e-3)
        assert tree["children"][node] == (actions if len(actions_taken) < depth else 0)


def test_what_the_executor_changed_is_told_of_inner_nodes() -> None:
    moment = planned(3, 2)
    tree = data_of(moment)["moments"][0]["tree"]
    assert moment.plan is not None
    assert moment.entered is not None
    assert sorted(tree["inner"]) == [0, 1, 2, 3]
    root, before = moment.plan.levels[0].executed[0], moment.entered[0][0]
    expected = np.linalg.norm(root - before) / np.linalg.norm(before)
    assert tree["change"][tree["inner"].index(0)] == pytest.approx(expected, rel=1e-3)
    unit = tree["bound"] / 127
    assert features(tree["executed"])[:WIDTH] * unit == pytest.approx(root, abs=unit)
    assert features(tree["entered"])[:WIDTH] * unit == pytest.approx(before, abs=unit)


def test_without_an_executor_there_is_no_change() -> None:
    moment = planned(2, 2)
    moment.entered = None
    tree = data_of(moment)["moments"][0]["tree"]
    assert "change" not in tree
    assert "entered" not in tree
    assert len(features(tree["executed"])) == 3 * WIDTH


def test_agents_without_a_plan_have_no_tree() -> None:
    told = data_of(Moment(np.array([0.3, 0.7]), None))
    assert told["moments"][0]["tree"] is None
    assert told["moments"][0]["missed"] is None
    assert told["moments"][0]["policy"] == [0.3, 0.7]


def test_the_return_that_followed_is_discounted_in_the_critics_units() -> None:
    moments = [Moment(np.ones(1), None, reward=reward) for reward in (1.0, 0.0, 4.0)]
    assert [m["followed"] for m in data_of(*moments)["moments"]] == [4.0, 4.0, 8.0]
    clipped = episode_data(Episode(moments, ["only"]), replace(SUBJECT, clipped=True))  # type: ignore[arg-type]
    assert [m["followed"] for m in clipped["moments"]] == [2.5, 1.0, 2.0]
    cut = data_of(*moments, end="cut")["moments"]
    assert [m["followed"] for m in cut] == [4.0 + 1.25, 4.0 + 2.5, 8.0 + 5.0]


def test_how_far_the_imagined_successor_was_off() -> None:
    moment = planned(2, 1)
    assert moment.plan is not None
    moment.action = 1
    imagined, now = moment.plan.levels[1].embedding[1], moment.embedding
    told = data_of(moment, last_embedding=imagined)
    assert told["moments"][0]["missed"] == 0.0
    told = data_of(moment, last_embedding=imagined + 0.5 * (imagined - now))
    assert told["moments"][0]["missed"] == pytest.approx(1 / 3, rel=1e-3)


def test_the_plane_keeps_distances_of_states_that_lie_in_one() -> None:
    places = np.random.default_rng(0).normal(size=(12, 2))
    frame = np.linalg.qr(np.random.default_rng(1).normal(size=(LATENT, 2)))[0]
    states = places @ frame.T + 3.0
    moments = [Moment(np.ones(1), None, embedding=state) for state in states[:-1]]
    told = data_of(*moments, last_embedding=states[-1])
    points = np.array([m["point"] for m in told["moments"]] + [told["last"]["point"]])
    gaps = np.linalg.norm(points[:, None] - points, axis=-1)
    assert gaps == pytest.approx(np.linalg.norm(places[:, None] - places, axis=-1), abs=0.01)
    assert sum(told["explained"]) == pytest.approx(1.0, abs=1e-3)


def test_frames_are_small_pictures_kept_once() -> None:
    frame = np.zeros((400, 600, 3), np.uint8)
    frame[100:200, 100:200] = (255, 0, 0)
    other = np.full((400, 600, 3), 9, np.uint8)
    moments = [Moment(np.ones(1), None, frame=each) for each in (frame, frame, other)]
    told = data_of(*moments, last_frame=frame)
    assert [m["frame"] for m in told["moments"]] == [0, 0, 1]
    assert told["last"]["frame"] == 0
    content = base64.b64decode(told["frames"][0].removeprefix("data:image/png;base64,"))
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert image.size == (320, 213)
    assert image.getpixel((80, 80)) == (255, 0, 0)
    assert image.getpixel((200, 200)) == (0, 0, 0)


def test_long_episodes_with_large_trees_stay_within_bounds() -> None:
    moment = planned(18, 2)
    told = data_of(*[moment] * 200)
    kept = [len(m["tree"]["parent"]) for m in told["moments"]]
    assert sum(kept) <= ALL_NODES
    assert min(kept) > 80
