"""`xlvin video RUN`: film an episode of a trained agent, as GIF or MP4."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from xlvin.agents.base import Agent
from xlvin.commands.members import member
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.report.film import Frame, check_film, save_film
from xlvin.training.seeding import derive_seed

EXAMPLES = """

examples:
  xlvin video runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin video runs/Acrobot-v1-ppo-1a2b3c4d --seed 3 --steps 200 --output acrobot.mp4
"""
FPS = 30.0


def video(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    seed: int | None = None,
    output: Path | None = None,
    episode_seed: int | None = None,
    steps: int = 1000,
    fps: float = FPS,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Film one greedy episode of a trained agent.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        seed: Whose agent; by default that of the run's first seed.
        output: A .gif, or an .mp4 if ffmpeg is installed; by default video.gif in the run's folder.
        episode_seed: Seed of the episode; by default one that training has not seen.
        steps: Steps to film at most.
        fps: Frames per second.
        as_json: Print the result as JSON.
    """
    if steps < 1 or not fps > 0.0 or (episode_seed is not None and not 0 <= episode_seed < 2**31):
        raise XLVINError(
            "Give at least 1 step, a positive number of frames per second, and no negative seed."
        )
    if run.is_file():
        raise XLVINError(f"{run} does not say which environment to film; give the folder of a run.")
    path = output or run / "video.gif"
    check_film(path)
    chosen = member(run, seed)
    assert chosen.environment is not None
    start = derive_seed(chosen.seed or 0, "video") if episode_seed is None else episode_seed
    frames, total = film(chosen.agent, chosen.environment, start, steps)
    save_film(path, frames, fps)
    if as_json:
        told = {"path": str(path), "steps": len(frames) - 1, "return": total, "episode_seed": start}
        print(json.dumps(told | chosen.notes))
    else:
        print(f"{path}: {len(frames) - 1} steps, return {total:.4g}")


def film(agent: Agent, name: str, seed: int, steps: int) -> tuple[list[Frame], float]:
    """The frames of a greedy episode, the first and the last state's included, and its return."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames are wanted, no window
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
    return frames, total


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
