"""`xlvin evaluate RUN`: evaluate the agents of a run anew."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from xlvin.commands.scores import score_row, score_text, unfinished
from xlvin.errors import XLVINError
from xlvin.training.episode import check_fits
from xlvin.training.evaluation import evaluate as evaluate_agents
from xlvin.training.run import kept_rounds, open_run

EXAMPLES = """

examples:
  xlvin evaluate runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin evaluate runs/CartPole-v0-xlvin-r-1a2b3c4d --episodes 1000 --json
  xlvin evaluate runs/CartPole-v0-xlvin-r-1a2b3c4d --environment CartPole-v1
"""


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 100,
    environment: str | None = None,
    device: str = "cpu",
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Play greedy episodes with the agents of a run's last checkpoint.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        episodes: Episodes per seed; none of them was seen in training.
        environment: Where to play; by default where the run was trained.
        device: "cpu" or "cuda".
        as_json: Print the result as JSON.
    """
    if episodes < 1:
        raise XLVINError(f"{episodes} episodes are none; give at least 1.")
    config, agents = open_run(run)
    trained_on, done, rounds = config.environment, kept_rounds(run), config.budget.rounds
    if environment is not None:
        check_fits(agents[0], environment)
        config = replace(config, environment=environment)
    returns = evaluate_agents(agents, config.environment, config.seed_list, episodes, device)
    if as_json:
        about = {"trained_on": trained_on, "round": done, "rounds": rounds}
        print(json.dumps(score_row(config, returns, run) | about))
    else:
        elsewhere = "" if environment is None else f" (trained on {trained_on})"
        print(score_text(config, returns, elsewhere + unfinished(done, rounds)))


def main(argv: list[str]) -> int:
    """Evaluate and print."""
    tyro.cli(evaluate, args=argv, prog="xlvin evaluate", description=__doc__ + EXAMPLES)
    return 0
