"""An episode as the numbers that its page shows: a tree, a point and a frame for every moment.

Trees are cut to their most probable paths. The nodes of a moment stand in an order in which any prefix is a
tree again: the root and its children, then by the probability of the path. So a page can show as many as fit.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from xlvin.report import plan_layout

Array = NDArray[Any]

# A tree may have thousands of nodes; a reader and a file want fewer.
MOST_NODES = 400  # of one tree
ALL_NODES = 17_000  # of all trees together: a page stays below some megabytes
FRAME = 320  # pixels of a frame's longer side
COLOURS = 64  # of a frame


class Level(plan_layout.Level, Protocol):
    """The M imagined states at one depth, with their features."""

    @property
    def embedding(self) -> Array:
        """h, [M, k]."""

    @property
    def executed(self) -> Array:
        """chi, [M, w]; of scalars on the tree, Q [M, A]."""


class Plan(Protocol):
    """A tree of imagined states, the root first."""

    @property
    def levels(self) -> Sequence[Level]:
        """Depth by depth."""


class Moment(Protocol):
    """A state of an episode, as `xlvin.training.episode` collects it."""

    @property
    def frame(self) -> Array | None:
        """[height, width, 3] bytes."""

    @property
    def observation(self) -> Array | None:
        """[features], of a short vector."""

    @property
    def embedding(self) -> Array:
        """h, [k]."""

    @property
    def policy(self) -> Array:
        """[A]."""

    @property
    def value(self) -> float:
        """The critic's."""

    @property
    def plan(self) -> Plan | None:
        """None: the agent has no tree."""

    @property
    def entered(self) -> Sequence[Array] | None:
        """What the executor was given, per level [M, w]."""

    @property
    def places(self) -> Sequence[Array] | None:
        """Where a map shows the nodes, per level [M, 2]."""

    @property
    def action(self) -> int:
        """The one taken."""

    @property
    def reward(self) -> float:
        """That followed."""


class Episode(Protocol):
    """Moments before each action, and where the last one led."""

    @property
    def moments(self) -> Sequence[Moment]:
        """At least one."""

    @property
    def end(self) -> str:
        """ "terminated", "truncated", or "cut" by whoever watched."""

    @property
    def last_frame(self) -> Array | None:
        """After the last action."""

    @property
    def last_embedding(self) -> Array:
        """[k]."""

    @property
    def last_value(self) -> float:
        """The critic's."""

    @property
    def actions(self) -> Sequence[str]:
        """Their names."""

    @property
    def seed(self) -> int:
        """Of the environment."""


@dataclass(frozen=True)
class Subject:
    """Whose episode it is."""

    environment: str
    agent: str
    kind: str
    seed: int
    executor: str | None
    discount: float
    reward_scale: float
    clipped: bool  # learns from the signs of rewards, as on Atari
    versions: dict[str, str]
    beam: int | None = None  # paths per level that the planner follows; None: all
    chosen_by: str = "its prior"  # what chooses them, in words
    state: str = ""  # of a run that is not at its end


def steps_off(imagined: Array, now: Array, after: Array) -> float | None:
    """How far the nearest of imagined successors [n, k] is from the real one [k], in real steps.

    None if nothing was imagined, or nothing moved.
    """
    step = float(np.linalg.norm(after - now))
    return float(np.linalg.norm(imagined - after, axis=-1).min()) / step if len(imagined) and step else None


def episode_data(episode: Episode, subject: Subject) -> dict[str, Any]:
    """What the page needs, as JSON can hold it."""
    moments = episode.moments
    most = int(np.clip(ALL_NODES // len(moments), 1 + len(episode.actions), MOST_NODES))
    trees = [None if moment.plan is None else _Tree(moment.plan, moment) for moment in moments]
    path = np.stack([*(moment.embedding for moment in moments), episode.last_embedding])
    imagined = [tree.embedding[tree.depth == 1] for tree in trees if tree is not None]
    projection = _Projection(np.concatenate([path, *imagined]))
    points = projection(path)
    frames = _Frames()
    bound = max((tree.bound for tree in trees if tree is not None), default=0.0)
    followed = _followed(episode, subject)
    told = [
        {
            "frame": frames.add(moment.frame),
            "observation": None if moment.observation is None else _short(moment.observation),
            "policy": _short(moment.policy),
            "value": _short(moment.value),
            "followed": _short(followed[step]),
            "action": moment.action,
            "reward": _short(moment.reward),
            "point": _short(points[step]),
            "missed": None if tree is None else tree.missed(moment.action, path[step], path[step + 1]),
            "tree": None if tree is None else tree.data(projection, bound, most),
        }
        for step, (moment, tree) in enumerate(zip(moments, trees, strict=True))
    ]
    return {
        "subject": asdict(subject)
        | {"discount": _short(subject.discount), "reward_scale": _short(subject.reward_scale)}
        | {"episode_seed": episode.seed, "end": episode.end},
        "actions": list(episode.actions),
        "explained": _short(projection.explained),
        "moments": told,
        "last": {"frame": frames.add(episode.last_frame), "point": _short(points[-1])},
        "frames": frames.uris,
    }


class _Tree:
    """A plan with the nodes of all levels in one row, the root first."""

    def __init__(self, plan: Plan, moment: Moment) -> None:
        levels, sizes = plan.levels, [len(level.value) for level in plan.levels]
        above = np.cumsum([0, 0, *sizes])[:-2]  # where the level above each begins
        probability, path = [np.ones(1)], [np.ones(1)]
        for upper, level in pairwise(levels):
            probability.append(plan_layout.step_probability(upper.policy[level.parent], level))
            path.append(path[-1][level.parent] * probability[-1])
        self.depth = np.repeat(np.arange(len(levels)), sizes)
        self.parent = np.concatenate([lv.parent + start for lv, start in zip(levels, above, strict=True)])
        self.action = np.concatenate([level.action for level in levels])
        self.sample = np.concatenate([level.sample for level in levels])
        self.value = np.concatenate([level.value for level in levels])
        self.embedding = np.concatenate([level.embedding for level in levels])
        self.executed = np.concatenate([level.executed for level in levels])
        self.entered = None if moment.entered is None else np.concatenate(list(moment.entered))
        self.places = None if moment.places is None else np.concatenate(list(moment.places))
        self.probability, self.path = np.concatenate(probability), np.concatenate(path)
        # Leaves only send: what the executor made of a node is to be seen at the others.
        self.inner = self.depth < max(1, len(levels) - 1)

    @property
    def bound(self) -> float:
        """The largest magnitude of a feature."""
        features = [self.executed[self.inner]] + ([] if self.entered is None else [self.entered[self.inner]])
        return max(float(np.abs(feature).max()) for feature in features)

    def missed(self, action: int, now: Array, after: Array) -> float | None:
        """How far the imagined successor, or the nearest of several, was from the real one, in real steps."""
        off = steps_off(self.embedding[(self.depth == 1) & (self.action == action)], now, after)
        return None if off is None else float(_short(off))

    def data(self, projection: _Projection, bound: float, most: int) -> dict[str, Any]:
        """The kept nodes, a column per field; features in 1/127 of `bound`."""
        rank = np.where(self.depth < 2, 2.0, self.path)
        kept = np.lexsort((self.depth, -rank))[:most]
        place = np.full(len(self.value), -1)
        place[kept] = np.arange(len(kept))
        inner = kept[self.inner[kept]]
        columns: dict[str, Any] = {
            "size": len(self.value),
            "parent": np.where(self.parent[kept] < 0, -1, place[self.parent[kept]]).tolist(),
            "action": self.action[kept].tolist(),
            "probability": _short(self.probability[kept]),
            "value": _short(self.value[kept]),
            "point": _short(projection(self.embedding[kept])),
            "children": np.bincount(self.parent[1:], minlength=len(self.value))[kept].tolist(),
            "inner": place[inner].tolist(),
            "bound": _short(bound),
            "executed": _bytes(self.executed[inner], bound),
        }
        if self.sample.max() > 0:
            columns["sample"] = self.sample[kept].tolist()
        if self.entered is not None:
            change = np.linalg.norm(self.executed - self.entered, axis=-1)
            before = np.linalg.norm(self.entered, axis=-1)
            columns["entered"] = _bytes(self.entered[inner], bound)
            columns["change"] = _short((change / np.maximum(before, 1e-12))[inner])
        if self.places is not None:
            columns["place"] = _short(self.places[kept])
        return columns


class _Projection:
    """The plane in which states [N, k] vary most, and what share of their variance each axis has."""

    def __init__(self, states: Array) -> None:
        self._centre = states.mean(0)
        _, spread, axes = np.linalg.svd(states - self._centre, full_matrices=False)
        self._axes = np.zeros((states.shape[1], 2))
        self._axes[:, : min(2, len(axes))] = axes[:2].T
        shares = np.zeros(2)
        shares[: min(2, len(spread))] = spread[:2] ** 2 / max(float((spread**2).sum()), 1e-12)
        self.explained = shares

    def __call__(self, states: Array) -> Array:
        """[..., k] to [..., 2]."""
        return np.asarray((states - self._centre) @ self._axes)


class _Frames:
    """Small pictures as data URIs, each kept once."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._known: dict[bytes, int] = {}

    def add(self, frame: Array | None) -> int | None:
        """The number of a frame [height, width, 3]."""
        if frame is None:
            return None
        image = Image.fromarray(frame)
        image.thumbnail((FRAME, FRAME), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        image.quantize(COLOURS).save(stream, "PNG", optimize=True)
        content = stream.getvalue()
        if content not in self._known:
            self._known[content] = len(self.uris)
            self.uris.append(f"data:image/png;base64,{base64.b64encode(content).decode()}")
        return self._known[content]


def _followed(episode: Episode, subject: Subject) -> list[float]:
    """The discounted return that really followed each moment, in the critic's units.

    Where the episode does not terminate, the critic's word for the state after the last action ends the sum.
    """
    total, found = 0.0 if episode.end == "terminated" else episode.last_value, []
    for moment in reversed(episode.moments):
        reward = float(np.sign(moment.reward)) if subject.clipped else moment.reward
        total = subject.reward_scale * reward + subject.discount * total
        found.append(total)
    return found[::-1]


def _bytes(features: Array, bound: float) -> str:
    """Features [M, w] as signed bytes, base64."""
    scaled = np.round(features * (127.0 / max(bound, 1e-12))).clip(-127, 127)
    return base64.b64encode(scaled.astype(np.int8).tobytes()).decode()


def _short(numbers: Any) -> Any:
    """Numbers with four digits, as lists and floats."""
    array = np.asarray(numbers, np.float64)
    if array.ndim:
        return [_short(part) for part in array]
    return float(f"{array:.4g}")
