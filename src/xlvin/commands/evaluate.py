"""`xlvin evaluate RUN`: evaluate the agents of a run anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from xlvin.commands.scores import print_scores
from xlvin.errors import XLVINError
from xlvin.training.evaluation import evaluate as evaluate_agents
from xlvin.training.run import open_run

EXAMPLES = """

examples:
  xlvin evaluate runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin evaluate runs/CartPole-v0-xlvin-r-1a2b3c4d --episodes 1000 --json
"""


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 100,
    device: str = "cpu",
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Play greedy episodes with the agents of a run's last checkpoint.

    Args:
        run: The folder of the run, as `xlvin train` printed it.
        episodes: Episodes per seed; none of them was seen in training.
        device: "cpu" or "cuda".
        as_json: Print the result as JSON.
    """
    if episodes < 1:
        raise XLVINError(f"{episodes} episodes are none; give at least 1.")
    config, agents = open_run(run)
    returns = evaluate_agents(agents, config.environment, config.seed_list, episodes, device)
    print_scores(config, returns, run, as_json)


def main(argv: list[str]) -> int:
    """Evaluate and print."""
    tyro.cli(evaluate, args=argv, prog="xlvin evaluate", description=__doc__ + EXAMPLES)
    return 0
