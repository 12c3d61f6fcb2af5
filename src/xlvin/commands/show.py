"""`xlvin show RUN`: an episode of a trained agent as one HTML page, with everything that it imagined."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

import xlvin
from xlvin.agents.base import Agent
from xlvin.commands.members import episode_start
from xlvin.commands.scores import unfinished
from xlvin.envs.atari import is_atari
from xlvin.report.show_page import Subject, write_show_page
from xlvin.report.tables import number
from xlvin.training.api import open_member
from xlvin.training.config import TrainConfig
from xlvin.training.episode import play
from xlvin.training.log import reward_scale
from xlvin.training.run import kept_rounds

EXAMPLES = """

examples:
  xlvin show runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin show runs/CartPole-v0-xlvin-r-1a2b3c4d --seed 3 --steps 50 --output plan.html
"""


def show(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    seed: int | None = None,
    output: Path | None = None,
    environment: str | None = None,
    episode_seed: int | None = None,
    steps: int = 200,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Write one HTML page to step through an episode of a trained agent; it needs no network.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        seed: Whose agent; by default that of the run's first seed.
        output: Where the page goes; by default show.html in the run's folder.
        environment: Where to play; by default where the run was trained.
        episode_seed: Seed of the episode; by default one that training has not seen.
        steps: Steps to show at most.
        as_json: Print the result as JSON.
    """
    config, agent, seed = open_member(run, seed)
    chosen, done, rounds = episode_start(seed, episode_seed), kept_rounds(run), config.budget.rounds
    if environment is not None:
        config = replace(config, environment=environment)
    episode = play(agent, config.environment, chosen, steps)
    path = output or run / "show.html"
    who = subject(run, config, agent, seed, unfinished(done, rounds).strip())
    missed = write_show_page(path, episode, who)
    count, total = len(episode.moments), sum(moment.reward for moment in episode.moments)
    if as_json:
        about = {"environment": config.environment, "agent": config.agent, "seed": seed}
        told = {
            "path": str(path),
            "steps": count,
            "return": total,
            "end": episode.end,
            "episode_seed": chosen,
            "steps_off": missed,
            "round": done,
            "rounds": rounds,
        }
        print(json.dumps(about | told))
        return
    cut = f"; it goes on, --steps shows more than {steps}" if episode.end == "cut" else ""
    steps_told = f"{count} step{'s' if count > 1 else ''}, return {number(total)}{cut}"
    state = unfinished(done, rounds)
    print(f"{config.agent} (seed {seed}) on {config.environment}{state}: {steps_told}")
    if missed is not None:
        print(f"  an imagined state lies {missed:.2g} real steps from the one that follows (median)")
    print(f"  episode seed {chosen}\n  {path}")


def subject(folder: Path, config: TrainConfig, agent: Agent, seed: int, state: str = "") -> Subject:
    """Whose episode the page shows; `state` says where a run stands that is not at its end."""
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
        beam=agent.config.kept,
        chosen_by="the value they promise" if agent.config.wiring == "aligned" else "its prior",
        state=state,
    )


def main(argv: list[str]) -> int:
    """Play, write the page, say where it is."""
    tyro.cli(
        show, args=argv, prog="xlvin show", description=(show.__doc__ or "").split("Args:")[0] + EXAMPLES
    )
    return 0
