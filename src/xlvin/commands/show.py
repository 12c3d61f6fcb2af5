"""`xlvin show RUN`: an episode of a trained agent as one HTML page, with everything that it imagined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import tyro

import xlvin
from xlvin.agents.base import Agent
from xlvin.envs.atari import is_atari
from xlvin.errors import XLVINError
from xlvin.report.show_page import Subject, write_show_page
from xlvin.training.api import load
from xlvin.training.config import TrainConfig
from xlvin.training.episode import play
from xlvin.training.run import open_run, reward_scale
from xlvin.training.seeding import derive_seed

EXAMPLES = """

examples:
  xlvin show runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin show runs/CartPole-v0-xlvin-r-1a2b3c4d --seed 3 --steps 50 --output plan.html
"""


def show(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    seed: int | None = None,
    output: Path | None = None,
    episode_seed: int | None = None,
    steps: int = 200,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Write one HTML page to step through an episode of a trained agent; it needs no network.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        seed: Whose agent; by default that of the run's first seed.
        output: Where the page goes; by default show.html in the run's folder.
        episode_seed: Seed of the episode; by default one that training has not seen.
        steps: Steps to show at most.
        as_json: Print the result as JSON.
    """
    if episode_seed is not None and not 0 <= episode_seed < 2**31:
        raise XLVINError(f"The episode's seed is {episode_seed}; give a number from 0 to {2**31 - 1}.")
    config, _ = open_run(run)
    agent, seed = load(run, seed), config.first_seed if seed is None else seed
    chosen = derive_seed(seed, "show") if episode_seed is None else episode_seed
    episode = play(agent, config.environment, chosen, steps)
    path = output or run / "show.html"
    write_show_page(path, episode, subject(run, config, agent, seed))
    count, total = len(episode.moments), sum(moment.reward for moment in episode.moments)
    if as_json:
        about = {"environment": config.environment, "agent": config.agent, "seed": seed}
        told = {
            "path": str(path),
            "steps": count,
            "return": total,
            "end": episode.end,
            "episode_seed": chosen,
        }
        print(json.dumps(about | told))
        return
    cut = f"; it goes on, --steps shows more than {steps}" if episode.end == "cut" else ""
    steps_told = f"{count} step{'s' if count > 1 else ''}, return {total:.4g}{cut}"
    print(f"{config.agent} (seed {seed}) on {config.environment}: {steps_told}\n  {path}")


def subject(folder: Path, config: TrainConfig, agent: Agent, seed: int) -> Subject:
    """Whose episode the page shows."""
    return Subject(
        environment=config.environment,
        agent=config.agent,
        kind=config.network.kind,
        seed=seed,
        executor=None if agent.executor is None else config.network.executor,
        discount=config.ppo.discount,
        reward_scale=reward_scale(folder, config, seed),
        clipped=is_atari(config.environment),
        versions={"xlvin": xlvin.__version__},
    )


def main(argv: list[str]) -> int:
    """Play, write the page, say where it is."""
    tyro.cli(
        show, args=argv, prog="xlvin show", description=(show.__doc__ or "").split("Args:")[0] + EXAMPLES
    )
    return 0
