"""One greedy episode of a trained agent, with everything that it thought on the way."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.agents.networks import ModelBasedAgent, XLVINAgent
from xlvin.agents.tree import ImaginedTree
from xlvin.envs.environment import Environment, shapes_of
from xlvin.errors import XLVINError

Array = NDArray[Any]
# Longer vectors of numbers tell a reader nothing.
MOST_FEATURES = 16


@dataclass(frozen=True, eq=False)
class Moment:
    """A state of the episode, what the agent made of it, and what came of it."""

    frame: Array | None  # [height, width, 3] uint8
    observation: Array | None  # [features], of a short vector
    embedding: Array  # [k], h
    policy: Array  # [A]
    value: float
    plan: ImaginedTree | None  # None: the agent has no tree
    entered: tuple[Array, ...] | None  # per level [M, w]: what the executor was given; None without executor
    places: tuple[Array, ...] | None  # per level [M, 2]: where a map shows the nodes, as fractions (x, y)
    action: int  # the one taken
    reward: float


@dataclass(frozen=True, eq=False)
class Episode:
    """The moments before each action, and where the last one led."""

    moments: tuple[Moment, ...]
    end: Literal["terminated", "truncated", "cut"]  # cut: more steps would have followed
    last_frame: Array | None
    last_embedding: Array  # [k]
    last_value: float  # the critic's, of the state after the last action
    actions: tuple[str, ...]  # their names
    seed: int  # that the environment was reset with


def check_fits(agent: Agent, environment: str) -> None:
    """Refuse an environment that an agent can not act in."""
    found, read = shapes_of(environment, agent.config.bins or None), agent.config
    if (found.observation, found.actions, len(found.low)) != (read.observation, read.actions, len(read.low)):
        raise XLVINError(
            f"{environment} has observations {found.observation} and {found.actions} actions, the agent was "
            f"trained with {read.observation} and {read.actions}; choose an environment with the same, or "
            "train the agent anew."
        )


def play(agent: Agent, environment: str, seed: int, steps: int) -> Episode:
    """Act greedily for one episode, or its first `steps` steps."""
    if steps < 1:
        raise XLVINError(f"{steps} steps are none; give at least 1.")
    if agent.config.kind == "gaussian":
        raise XLVINError(
            "A Gaussian policy has no chances of single actions to show; film it: `xlvin video`."
        )
    check_fits(agent, environment)
    stage = _stage(environment, agent.config.bins or None)
    try:
        moments: list[Moment] = []
        ended = terminated = False
        observation = stage.reset(seed)
        while not ended and len(moments) < steps:
            thought = _think(agent, stage, observation)
            action = int(thought["policy"].argmax())
            observation, reward, terminated, truncated = stage.step(action)
            moments.append(Moment(**thought, action=action, reward=reward))
            ended = terminated or truncated
        last = _think(agent, stage, observation, plan=False)
        names = tuple(stage.action_names)
    finally:
        stage.close()
    end: Literal["terminated", "truncated", "cut"] = (
        "terminated" if terminated else "truncated" if ended else "cut"
    )
    return Episode(tuple(moments), end, last["frame"], last["embedding"], last["value"], names, seed)


def _stage(name: str, bins: tuple[int, ...] | None) -> Environment:
    """The environment with frames where it can draw them, without where it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has no such mode is expected
        try:
            return Environment(name, {"render_mode": "rgb_array"}, bins)
        except XLVINError:
            return Environment(name, bins=bins)


@torch.inference_mode()
def _think(agent: Agent, stage: Environment, observation: Array, plan: bool = True) -> dict[str, Any]:
    """The fields of a moment that are known before acting."""
    device = next(agent.parameters()).device
    output = agent(torch.from_numpy(observation)[None].to(device))
    tree = agent.plan(stage.given) if plan and isinstance(agent, ModelBasedAgent) else None
    short = observation.ndim == 1 and len(observation) <= MOST_FEATURES
    return {
        "frame": _frame(stage, observation),
        "observation": observation.copy() if short else None,
        "embedding": output.embedding[0].cpu().numpy().copy(),
        "policy": output.logits[0].softmax(-1).cpu().numpy(),
        "value": float(output.value[0]),
        "plan": tree,
        "entered": None if tree is None else _entered(agent, tree),
        "places": None if tree is None else _places(stage, tree),
    }


def _entered(agent: Agent, tree: ImaginedTree) -> tuple[Array, ...] | None:
    """The projected embeddings of every node, which the executor starts from."""
    project = getattr(agent.planner, "project", None) if isinstance(agent, XLVINAgent) else None
    if project is None:
        return None
    device = next(agent.parameters()).device
    found = tuple(
        project(torch.from_numpy(level.embedding).to(device)).cpu().numpy() for level in tree.levels
    )
    fits = all(a.shape == level.executed.shape for a, level in zip(found, tree.levels, strict=True))
    return found if fits else None


def _places(stage: Environment, tree: ImaginedTree) -> tuple[Array, ...] | None:
    paths: list[list[list[int]]] = [[[]]]
    for level in tree.levels[1:]:
        pairs = zip(level.parent.tolist(), level.action.tolist(), strict=True)
        paths.append([[*paths[-1][parent], action] for parent, action in pairs])
    found = stage.places([path for level in paths for path in level])
    return None if found is None else tuple(np.split(found, np.cumsum([len(level) for level in paths])[:-1]))


def _frame(stage: Environment, observation: Array) -> Array | None:
    """What the environment draws, else the observation itself if it is an image of bytes."""
    frame = stage.render()
    if frame is None and observation.ndim == 3 and observation.dtype == np.uint8:
        image = observation if len(observation) == 3 else observation[-1:].repeat(3, 0)  # newest of a stack
        frame = np.moveaxis(image, 0, -1)
    return None if frame is None else np.array(frame, np.uint8)
