"""The records of the benchmarks as a table: ratios, bars, and where they were measured."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from xlvin.errors import XLVINError
from xlvin.report import tables
from xlvin.report.records import Record

NAME = "speed"


def speed_markdown(records: Sequence[Record]) -> str:
    """A table for each benchmark and device, and the commands behind them."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        machine = str(record.machine.get("gpu") or record.machine.get("cpu"))
        groups.setdefault((record.version, record.environment, machine), []).append(record)
    parts = []
    for (benchmark, device, machine), group in groups.items():
        commands = " and ".join(f"`{command}`" for command in sorted({record.command for record in group}))
        rows = sorted((_row(record) for record in group), key=lambda row: (not row["bar"], row["what"]))
        where = f"{commands}, on {'a GPU' if device == 'cuda' else 'one CPU'}: {machine}; {_versions(group)}"
        parts.append(f"## {benchmark.replace('_', ' ').capitalize()}\n\n{where}.\n\n{tables.markdown(rows)}")
    return "\n\n".join(parts)


def _row(record: Record) -> tables.Row:
    config, value = record.config, statistics.median(record.scores)
    unit = "" if config["unit"] == "x" else f" {config['unit']}"
    spread = (
        f"{_number(min(record.scores))} to {_number(max(record.scores))}" if len(record.scores) > 1 else ""
    )
    return {
        "what": config["what"],
        "against": config["against"] or "-",
        "median": f"**{_number(value)}**{unit}",
        "rounds": f"{len(record.scores)}{f': {spread}' if spread else ''}",
        "bar": f"{config['bar']}: {'met' if meets(value, config['bar']) else 'missed'}"
        if config["bar"]
        else "",
    }


def meets(value: float, bar: str) -> bool:
    """Whether a value is on the right side of a bar such as ">= 3"."""
    found = re.fullmatch(r"(<=|>=) ([0-9.]+)", bar)
    if found is None:
        raise XLVINError(f'The bar "{bar}" cannot be read; write it as ">= 3" or "<= 6".')
    limit = float(found[2])
    return value >= limit if found[1] == ">=" else value <= limit


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def _versions(records: Sequence[Record]) -> str:
    names = ("python", "torch", "numpy")
    found = {tuple(record.versions.get(name, "?") for name in names) for record in records}
    return " and ".join(
        ", ".join(f"{name} {version}" for name, version in zip(names, each, strict=True))
        for each in sorted(found)
    )
