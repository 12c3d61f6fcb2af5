"""Rows from records, and rows as Markdown or plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xlvin.errors import XLVINError
from xlvin.report import statistics
from xlvin.report.records import Record
from xlvin.report.statistics import paired_difference, summarise

Row = dict[str, Any]
FEWEST_SHARED = 3  # shared seeds of which a difference is told


def rows(records: Iterable[Record]) -> list[Row]:
    """One row per record: who, where, and the statistics of its scores."""
    return [
        {"version": record.version, "environment": record.environment, "agent": record.agent}
        | summarise(record.scores)
        for record in records
    ]


def paired(first: Record, second: Record) -> Row | None:
    """The first minus the second over shared seeds, low, high, and what these are; None if seeds are few."""
    ours, theirs = (
        {entry["seed"]: float(entry["score"]) for entry in record.seeds} for record in (first, second)
    )
    shared = sorted(ours.keys() & theirs.keys())
    if len(shared) < FEWEST_SHARED:
        return None
    pair = paired_difference([ours[seed] for seed in shared], [theirs[seed] for seed in shared])
    name = statistics.interval_name(statistics.mean, len(shared))
    return {"seeds": len(shared), **pair, "interval_of": name}


def interval_title(table: Sequence[Row]) -> str:
    """What low and high of these rows are, in words for a reader."""
    ranges = [row["interval_of"] == statistics.RANGE for row in table]
    if all(ranges):
        return "range"
    few = f", of fewer than {statistics.FEWEST} seeds the range" if any(ranges) else ""
    return f"95 % interval{few}"


def counted(table: Iterable[Row]) -> str:
    """How many seeds the rows have: "20", or "20 to 24"."""
    counts = sorted({row["seeds"] for row in table})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def differences(table: Sequence[Row]) -> str:
    """Rows of `paired` as Markdown, and above them what low and high are."""
    columns = [name for name in table[0] if name != "interval_of"]
    return f"Low and high: {interval_title(table)}.\n\n{markdown(table, columns)}"


def signed(table: Sequence[Row], *names: str, title: str = "difference", digits: int = 1) -> list[Row]:
    """Rows of `paired` for a reader: the columns of these names, the difference, and low to high."""
    bounds = interval_title(table)
    return [
        {name: row[name] for name in names}
        | {title: f"{row['difference']:+.{digits}f}"}
        | {bounds: f"{row['low']:+.{digits}f} to {row['high']:+.{digits}f}"}
        for row in table
    ]


def in_points(pair: Row) -> Row:
    """A row of `paired` with shares as points of a hundred."""
    return pair | {key: 100.0 * pair[key] for key in ("difference", "low", "high")}


def number(value: float) -> str:
    """Four significant digits, and all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def spread(row: Row, digits: int = 1) -> str:
    """Mean ± standard deviation; one seed has no deviation."""
    mean = f"{row['mean']:.{digits}f}"
    return f"{mean} ± {row['std']:.{digits}f}" if row["seeds"] > 1 else mean


def full(row: Row) -> str:
    """Mean ± standard deviation (interquartile mean; low to high)."""
    return f"{row['mean']:.1f} ± {row['std']:.1f} ({row['iqm']:.1f}; {row['low']:.1f} to {row['high']:.1f})"


def ordered(table: Iterable[Row], **orders: Sequence[Any]) -> list[Row]:
    """Rows sorted by the place of their values in the order given for each column, the first column first."""
    return sorted(table, key=lambda row: [list(order).index(row[name]) for name, order in orders.items()])


def pivot(table: Sequence[Row], down: str, across: str, cell: Callable[[Row], str]) -> list[Row]:
    """Rows with one line per value of `down` and one column per value of `across`, in order of appearance."""
    pivoted: dict[Any, Row] = {}
    columns = dict.fromkeys(row[across] for row in table)
    for row in table:
        line = pivoted.setdefault(row[down], {down: row[down]} | dict.fromkeys(columns, ""))
        if line[row[across]]:
            raise XLVINError(
                f"Two rows share {down} {row[down]} and {across} {row[across]}; select one first."
            )
        line[row[across]] = cell(row)
    return list(pivoted.values())


def markdown(table: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """A Markdown table, numbers to the right."""
    header, body, right = _layout(table, columns)
    rule = ["---:" if flush else "---" for flush in right]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *body])


def plain(table: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Aligned plain text, numbers to the right."""
    header, body, right = _layout(table, columns)
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    lines = (
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        )
        for line in [header, ["-" * width for width in widths], *body]
    )
    return "\n".join(line.rstrip() for line in lines)


def _layout(
    table: Sequence[Row], columns: Sequence[str] | None
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Header, body and which columns are flush right."""
    if not table:
        raise XLVINError("There are no rows to make a table of.")
    names = list(columns or table[0])
    body = [[_text(row.get(name, "")) for name in names] for row in table]
    right = [all(text[:1] in "+-0123456789." for text in column) for column in zip(*body, strict=True)]
    return names, body, right


def _text(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
