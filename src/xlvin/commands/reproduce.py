"""`xlvin reproduce`: remake a table or figure of the paper, from a fresh run or from its records."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import tyro

from xlvin.errors import XLVINError, unknown
from xlvin.experiments.workers import Effort
from xlvin.report.pages import embed

# Each experiment is a module with the functions of `Experiment`, imported only when asked for.
EXPERIMENTS = {
    "atari": "xlvin.experiments.atari",
    "bottleneck": "xlvin.experiments.bottleneck",
    "continual-maze": "xlvin.experiments.continual_maze",
    "depth-width": "xlvin.experiments.depth_width",
    "continuous": "xlvin.experiments.continuous",
    "embedding-geometry": "xlvin.experiments.embedding_geometry",
    "executor": "xlvin.experiments.executor",
    "imagination": "xlvin.experiments.imagination",
    "imitation": "xlvin.experiments.imitation",
    "pixel-model": "xlvin.experiments.pixel_model",
    "planning-bed": "xlvin.experiments.planning_bed",
    "stochastic": "xlvin.experiments.stochastic",
    "table1": "xlvin.experiments.table1",
    "table2": "xlvin.experiments.table2",
    "value-predictability": "xlvin.experiments.value_predictability",
}
# They measure what is shipped, or read agents whose seeds are theirs.
FIXED_SEEDS = ("bottleneck", "embedding-geometry", "executor", "value-predictability")
EXAMPLES = """

examples:
  xlvin reproduce bottleneck --from-records
  xlvin reproduce table1 --only tuned/CartPole --workers 2
"""
NAMES = f"One of: {', '.join(EXPERIMENTS)}."


class Experiment(Protocol):
    """What a module of `EXPERIMENTS` offers; all but `run` only read records."""

    def run(self, results: Path, effort: Effort) -> None:
        """Do the experiment and write its records below `results`."""

    def rows(self, results: Path) -> list[dict[str, Any]]:
        """The numbers, for `--json`."""

    def summary(self, results: Path) -> str:
        """The numbers, as Markdown."""

    def figure(self, results: Path, path: Path) -> None:
        """Draw the figure into `path`."""


def reproduce(
    experiment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT", help=NAMES)],
    from_records: tyro.conf.FlagCreatePairsOff[bool] = False,
    json_rows: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
    results: Path = Path("results"),
    docs: Path = Path("docs"),
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    workers: int | None = None,
    device: str = "cpu",
    seeds: int | None = None,
) -> None:
    """Remake a table or figure of the paper.

    Args:
        from_records: Use the records of an earlier run instead of running again.
        json_rows: Print rows as JSON instead of tables.
        results: Folder of the records.
        docs: Folder of the documentation, where the figure and the page's tables are renewed.
        only: Run only what has this in its name (version/environment/agent); may be given several times.
        workers: Processes at a time; one per core by default.
        device: Where networks live, "cpu" or "cuda".
        seeds: How many seeds, from 0 on, the records shall hold; what they hold already is kept. Not for
            bottleneck, embedding-geometry, executor and value-predictability.
    """
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    if seeds is not None and experiment in FIXED_SEEDS:
        raise XLVINError(f"The seeds of {experiment} are fixed; leave --seeds out.")
    chosen = cast(Experiment, importlib.import_module(EXPERIMENTS[experiment]))
    if not from_records:
        effort = Effort(only, workers, device, seeds)
        chosen.run(results, effort)
        for part in only:
            if not any(part in name for name in effort.asked):
                raise XLVINError(f'Nothing in {experiment} is named "{part}"; one name is {effort.asked[0]}.')
    figure, page = docs / "figures" / f"{experiment}.png", docs / "experiments" / f"{experiment}.md"
    chosen.figure(results, figure)
    text = chosen.summary(results)
    if page.is_file():
        embed(page, "results", text)
    readme = docs.parent / "README.md"
    if hasattr(chosen, "headline") and readme.is_file():
        embed(readme, experiment, chosen.headline(results))
    if json_rows:
        print(json.dumps(chosen.rows(results), indent=1))
    else:
        print(f"{text}\n\nfigure: {figure}")


def main(argv: list[str]) -> int:
    """Run, print, draw."""
    tyro.cli(reproduce, args=argv, prog="xlvin reproduce", description=__doc__ + EXAMPLES)
    return 0
