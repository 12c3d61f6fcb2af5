"""`xlvin executor evaluate`: how well an executor runs value iteration, on families of MDPs x sizes."""

from __future__ import annotations

import json
import re
from typing import Annotated

import tyro
from tqdm import tqdm

from xlvin.errors import XLVINError
from xlvin.executor.artefact import SHIPPED, load_executor, load_provenance
from xlvin.executor.evaluation import SIZES, Size, cells, evaluate_cell
from xlvin.mdp.families import FAMILIES
from xlvin.report.executor_tables import by_size, means
from xlvin.report.tables import plain

ALL_SIZES = tuple(f"{states}x{actions}" for states, actions in SIZES)
Flag = tyro.conf.FlagCreatePairsOff[bool]
EXAMPLES = """

examples:
  xlvin executor evaluate random-deterministic
  xlvin executor evaluate my-executor.safetensors --families grid dense --sizes 20x8 50x10 --json
"""

MOST = 2**31  # transition probabilities of a cell, 8 GiB


def evaluate(
    executor: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME_OR_PATH")] = SHIPPED[0],
    families: tuple[str, ...] = tuple(FAMILIES),
    sizes: tuple[str, ...] = ALL_SIZES,
    count: int = 100,
    discount: float | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    json_rows: Annotated[Flag, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure an executor on its own predictions, from V = 0 for as many steps as value iteration takes.

    Args:
        executor: A shipped executor or the path of a weight file.
        families: Families of MDPs.
        sizes: States x actions; families with a fixed number of actions keep theirs.
        count: Fresh MDPs per family and size.
        discount: Gamma of the MDPs; by default the one that the executor was pretrained with.
        tolerance: Value iteration stops once no value moves by this much.
        seed: Seed of the MDPs.
        json_rows: Print the cells as JSON instead of tables.
    """
    network = load_executor(executor)
    gamma = load_provenance(executor)["discount"] if discount is None else discount
    wanted = cells(families, [_size(text, count) for text in sizes])
    found = [
        evaluate_cell(network, family, size, count, gamma, tolerance, seed).row()
        for family, size in tqdm(wanted, disable=None, desc=executor, unit="cell")
    ]
    if json_rows:
        print(json.dumps(found, indent=1))
        return
    print(f"{executor}: self-rolled, {count} MDPs a cell, discount {gamma}")
    for measure, title in {
        "policy_accuracy": "states where the policy is optimal (%)",
        "value_error": "mean squared error to V*",
        "one_step_error": "mean squared error of one step from exact values",
    }.items():
        print(f"\n{title}")
        for table in by_size(found, measure):
            print(f"\n{plain(table)}")
    if summary := means(found):
        print(f"\nmeans at 20x8\n\n{plain(summary)}")


def main(argv: list[str]) -> int:
    """Dispatch the one thing that is done to executors here."""
    if not argv or argv[0] in ("-h", "--help"):
        argv = ["evaluate", "--help"]
    if argv[0] != "evaluate":
        raise XLVINError(f'"{argv[0]}" cannot be done to an executor; use `xlvin executor evaluate`.')
    tyro.cli(evaluate, args=argv[1:], prog="xlvin executor evaluate", description=__doc__ + EXAMPLES)
    return 0


def _size(text: str, count: int) -> Size:
    if not (match := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)):
        raise XLVINError(f'"{text}" is no size; write states x actions such as 20x8.')
    states, actions = int(match[1]), int(match[2])
    if count * states * states * actions > MOST:
        raise XLVINError(
            f"{count} MDPs of {text} do not fit into memory; give smaller sizes or a lower --count."
        )
    return states, actions
