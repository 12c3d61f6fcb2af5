"""`xlvin video RUN`: film an episode of a trained agent, as GIF or MP4."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from xlvin.agents.base import Agent
from xlvin.commands.members import episode_start, member
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.report.film import Frame, check_film, save_film
from xlvin.report.tables import number
from xlvin.training.episode import check_fits

EXAMPLES = """

examples:
  xlvin video runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin video runs/Acrobot-v1-ppo-1a2b3c4d --seed 3 --steps 200 --output acrobot.mp4
"""
FPS = 30.0  # where the environment does not say


@dataclass(frozen=True, eq=False)
class Film:
    """An episode on film."""

    frames: list[Frame]  # the first and the last state's included
    total: float  # its return
    cut: bool  # more steps would have followed
    fps: float | None  # as the environment says, where it does


def video(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    seed: int | None = None,
    output: Path | None = None,
    environment: str | None = None,
    episode_seed: int | None = None,
    steps: int = 1000,
    fps: float | None = None,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Film one greedy episode of a trained agent.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        seed: Whose agent; by default that of the run's first seed.
        output: A .gif, or an .mp4 if ffmpeg is installed; by default video.gif in the run's folder.
        environment: Where to play; by default where the run was trained.
        episode_seed: Seed of the episode; by default one that training has not seen.
        steps: Steps to film at most.
        fps: Frames per second; by default what the environment says, or 30.
        as_json: Print the result as JSON.
    """
    if steps < 1 or not (fps is None or fps > 0.0):
        raise XLVINError("Give at least 1 step and a positive number of frames per second.")
    if run.is_file():
        raise XLVINError(f"{run} does not say which environment to film; give the folder of a run.")
    path = output or run / "video.gif"
    check_film(path)
    chosen = member(run, seed)
    if environment is not None:
        check_fits(chosen.agent, environment)
        chosen = replace(chosen, environment=environment)
    assert chosen.environment is not None
    start = episode_start(chosen.seed or 0, episode_seed)
    seen = film(chosen.agent, chosen.environment, start, steps)
    save_film(path, seen.frames, fps or seen.fps or FPS)
    count = len(seen.frames) - 1
    if as_json:
        told = {"path": str(path), "steps": count, "return": seen.total, "cut": seen.cut}
        print(json.dumps(told | {"episode_seed": start} | chosen.notes))
    else:
        cut = f"; it goes on, --steps films more than {steps}" if seen.cut else ""
        print(f"{path}: {count} step{'s' if count > 1 else ''}, return {number(seen.total)}{cut}")
        print(f"  episode seed {start}")


def film(agent: Agent, name: str, seed: int, steps: int) -> Film:
    """Film a greedy episode, or its first `steps` steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has no such mode is told by an error
        try:
            environment = Environment(name, {"render_mode": "rgb_array"}, bins=None)
        except XLVINError as error:
            Environment(name, bins=None).close()  # tells what is wrong if it cannot be made at all
            raise _blind(name) from error
    try:
        environment.reset(seed)
        ended, total = False, 0.0
        frames = [_frame(environment)]
        while not ended and len(frames) <= steps:
            action, _ = agent.predict(environment.given)
            _, reward, terminated, truncated = environment.step(action.tolist())
            frames.append(_frame(environment))
            ended, total = terminated or truncated, total + reward
    finally:
        environment.close()
    return Film(frames, total, not ended, environment.fps)


def _frame(environment: Environment) -> Frame:
    frame = environment.render()
    if frame is None or frame.ndim != 3:
        raise _blind(environment.name)
    return np.ascontiguousarray(frame, np.uint8)


def _blind(name: str) -> XLVINError:
    return XLVINError(f'{name} draws no pictures; give it the render mode "rgb_array".')


def main(argv: list[str]) -> int:
    """Film, write, say where."""
    tyro.cli(video, args=argv, prog="xlvin video", description=__doc__ + EXAMPLES)
    return 0
