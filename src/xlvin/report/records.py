"""Result records: one JSON file per (experiment, version, environment, agent), with every seed's score.

They lie at `results/<experiment>/<version>/<environment>/<agent>.json`, one line per seed, and carry what is
needed to trace and repeat them: configuration, command, versions, machine and time.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

from xlvin.errors import XLVINError
from xlvin.files import replacing


@dataclass(frozen=True)
class Record:
    """What one agent scored in one environment under one version of an experiment."""

    experiment: str
    version: str
    environment: str
    agent: str
    seeds: list[dict[str, Any]]
    """One entry per seed: "seed" and "score", and whatever else the experiment keeps of it. One that was made
    elsewhere than the first has "versions" or "machine" of its own, where they differ from the record's."""
    config: dict[str, Any]
    command: str
    versions: dict[str, str]
    machine: dict[str, Any]
    seconds: float

    def __post_init__(self) -> None:
        for name in ("experiment", "version", "environment", "agent"):
            value = getattr(self, name)
            if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][\w.+/-]*", value):
                raise XLVINError(f"The record's {name} is {value!r}; use letters, digits and . _ + - / only.")
        for name, kind in {"config": dict, "command": str, "versions": dict, "machine": dict}.items():
            if not isinstance(getattr(self, name), kind):
                raise XLVINError(f"The record's {name} is {getattr(self, name)!r}; give a {kind.__name__}.")
        if not _finite(self.seconds):
            raise XLVINError(f"The record's seconds are {self.seconds!r}; give a number.")
        self._check_seeds()

    def _check_seeds(self) -> None:
        if not isinstance(self.seeds, list) or not self.seeds:
            raise XLVINError(
                f"The record of {self.agent} on {self.environment} has no seeds; give at least one."
            )
        for entry in self.seeds:
            if not isinstance(entry, dict) or type(entry.get("seed")) is not int:
                raise XLVINError(f"A seed of {self.agent} on {self.environment} has no integer under 'seed'.")
            if not _finite(entry.get("score")):
                raise XLVINError(
                    f"Seed {entry['seed']} of {self.agent} on {self.environment} scores "
                    f"{entry.get('score')!r}; a score is a finite number."
                )
        if len({entry["seed"] for entry in self.seeds}) < len(self.seeds):
            raise XLVINError(f"The record of {self.agent} on {self.environment} holds a seed twice.")

    @property
    def scores(self) -> list[float]:
        """One score per seed."""
        return [float(entry["score"]) for entry in self.seeds]

    def path(self, results: Path) -> Path:
        """Where the record lies below `results`."""
        return place(results, self.experiment, self.version, self.environment, self.agent)


def place(results: Path, experiment: str, version: str, environment: str, agent: str) -> Path:
    """Where the record of these names lies below `results`; a slash within a name becomes a dash."""
    parts = (experiment, version, environment, f"{agent}.json")
    return results.joinpath(*(part.replace("/", "-") for part in parts))


def write(record: Record, results: Path) -> Path:
    """Write a record to its place below `results`, whole or not at all.

    An earlier one with seeds that this one lacks, or that cannot be read, is kept beside it as
    `<agent>.json.replaced-<n>`, which no reader takes for a record.
    """
    path = record.path(results)
    with replacing(path) as temporary:
        temporary.write_text(_text(record))
        if path.exists() and _loses(path, record):
            aside = next(name for n in count(1) if not (name := Path(f"{path}.replaced-{n}")).exists())
            shutil.copyfile(path, aside)
            print(f"what {path} held before is kept as {aside.name}", file=sys.stderr)
    return path


def _loses(path: Path, record: Record) -> bool:
    """Whether a file has seeds that a record lacks, or cannot be read."""
    try:
        known = read(path)
    except XLVINError:
        return True
    return not {entry["seed"] for entry in known.seeds} <= {entry["seed"] for entry in record.seeds}


def add(record: Record, results: Path) -> Path:
    """Write a record; other seeds of an earlier one with the same configuration stay in it."""
    path = record.path(results)
    if path.exists() and (known := read(path)).config == record.config:
        record = merged(known, record)
    return write(record, results)


def merged(known: Record, record: Record) -> Record:
    """The record, and the known one's other seeds with their share of its time.

    While some are left, versions and machine are the known record's.
    """
    fresh = {entry["seed"] for entry in record.seeds}
    kept = [entry for entry in known.seeds if entry["seed"] not in fresh]
    if not kept:
        return record
    first: dict[str, Any] = {"versions": known.versions, "machine": known.machine}
    own = {name: getattr(record, name) for name in first if getattr(record, name) != first[name]}
    seeds = sorted([*kept, *(entry | own for entry in record.seeds)], key=lambda entry: int(entry["seed"]))
    seconds = known.seconds * len(kept) / len(known.seeds) + record.seconds
    return replace(record, seeds=seeds, seconds=round(seconds, 1), **first)


def read(path: Path) -> Record:
    """Read and check one record."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise XLVINError(f"{path} is not JSON ({error}); delete it and run its experiment again.") from None
    expected = {field.name for field in fields(Record)}
    found = set(content) if isinstance(content, dict) else set()
    if found != expected:
        raise XLVINError(
            f"{path} is not a result record: {_named('it lacks', expected - found)}"
            f"{_named('it has an unknown', found - expected)}delete it and run its experiment again."
        )
    try:
        return Record(**content)
    except XLVINError as error:
        raise XLVINError(f"{path} is damaged: {error}") from None


def find(results: Path, experiment: str, version: str, environment: str, agent: str) -> Record | None:
    """The record of these names, if there is one."""
    path = place(results, experiment, version, environment, agent)
    return read(path) if path.exists() else None


def read_all(results: Path, experiment: str) -> list[Record]:
    """All records of an experiment, in the order of their paths."""
    paths = sorted(path for path in (results / experiment).rglob("*.json") if not path.name.startswith("."))
    if not paths:
        raise XLVINError(
            f"There are no records of {experiment} in {results}; run `xlvin reproduce {experiment}` first."
        )
    return [read(path) for path in paths]


def _text(record: Record) -> str:
    """JSON with one line per field and one per seed, so that a difference of two runs can be read."""

    def line(value: Any) -> str:
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise XLVINError(f"The record of {record.agent} does not fit JSON: {error}.") from None

    lines = []
    for field in fields(Record):
        value = getattr(record, field.name)
        text = line(value)
        if field.name == "seeds":
            text = "[\n    " + ",\n    ".join(line(entry) for entry in value) + "\n  ]"
        lines.append(f'  "{field.name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _named(what: str, names: set[str]) -> str:
    return f"{what} {', '.join(sorted(names))}; " if names else ""
