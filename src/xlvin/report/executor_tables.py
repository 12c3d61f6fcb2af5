"""Tables of what an executor was measured to do, by families x sizes and beside the trivial predictors."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from xlvin.report.tables import Row, pivot

PREDICTORS = {"": "executor", "copy_": "copy: V_t", "reward_": "reward only: max R"}


def by_size(cells: Sequence[Row], measure: str) -> list[list[Row]]:
    """Lines are families, columns sizes; families of other sizes than the first have a table of their own."""
    sized = [{"family": cell["family"], "size": size(cell), measure: cell[measure]} for cell in cells]
    sizes: dict[str, list[str]] = {}
    for cell in sized:
        sizes.setdefault(cell["family"], []).append(cell["size"])
    alike = {
        tuple(found): [row for row in sized if sizes[row["family"]] == found] for found in sizes.values()
    }
    return [
        pivot(rows, "family", "size", lambda row: shown(measure, row[measure])) for rows in alike.values()
    ]


def means(cells: Sequence[Row]) -> list[Row]:
    """Means over groups of families at 20x8, for the executor and the trivial predictors."""
    found = []
    for name, group in groups(cells).items():
        for prefix, predictor in PREDICTORS.items():
            line = {"families": f"{name} ({len(group)})", "predictor": predictor}
            for measure in ("policy_accuracy", "value_error", "one_step_error"):
                values = [cell[prefix + measure] for cell in group]
                mean = None if None in values else fmean(values)
                line[measure.replace("_", " ")] = shown(measure, mean)
            ranked = fmean(cell["action_accuracy"] for cell in group)
            found.append(line | {"single actions": "" if prefix else shown("action_accuracy", ranked)})
    return found


def groups(cells: Sequence[Row]) -> dict[str, list[Row]]:
    """The cells of 20x8: the paper's training family, other deterministic families, stochastic ones."""
    chosen = [cell for cell in cells if size(cell) == "20x8"]
    trained = [cell for cell in chosen if cell["family"] == "random-deterministic"]
    split = {
        "random-deterministic": trained,
        "other deterministic": [cell for cell in chosen if cell["deterministic"] and cell not in trained],
        "stochastic": [cell for cell in chosen if not cell["deterministic"]],
    }
    return {name: group for name, group in split.items() if group}


def size(cell: Row) -> str:
    """States x actions."""
    return f"{cell['states']}x{cell['actions']}"


def shown(measure: str, value: float | None) -> str:
    """A share in percent, an error with two digits; None has diverged."""
    if value is None:
        return "diverged"
    return f"{100 * value:.2f}" if measure.endswith("accuracy") else f"{value:.1e}"
