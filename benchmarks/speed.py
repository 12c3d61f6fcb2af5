"""What all benchmarks share: a measured comparison, its printed line, and its record.

Every benchmark takes `--json` (print rows as JSON) and `--keep` (write each row to results/speed/ as well,
with versions, machine and command; `xlvin report --markdown` makes docs/speed.md of them).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from xlvin.provenance import provenance
from xlvin.report.records import Record, write

RATIO = "x"


@dataclass(frozen=True)
class Measured:
    """One comparison, or one quantity; what is compared has taken turns."""

    what: str
    values: tuple[float, ...]  # one per round
    against: str = ""  # a ratio: of what to what
    unit: str = RATIO
    bar: str = ""  # such as ">= 3" or "<= 6"; empty where none was set
    detail: str = ""  # the times behind a ratio, in words

    @property
    def value(self) -> float:
        return statistics.median(self.values)


def race(
    reference: Callable[[], object], ours: Callable[[], object], rounds: int, slower_is_more: bool = False
) -> tuple[tuple[float, ...], str]:
    """Ratios reference / ours of CPU time, one per round, and both times in words.

    The two take turns, and the first round warms up. Where the bar is a ceiling on what ours may cost,
    `slower_is_more` turns the ratio round.
    """
    pairs = [(cpu_seconds(reference), cpu_seconds(ours)) for _ in range(rounds + 1)][1:]
    ratios = tuple(b / a if slower_is_more else a / b for a, b in pairs)
    theirs, own = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
    return ratios, f"{_told(theirs)} / {_told(own)}"


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _told(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds > 1.0 else f"{1e3 * seconds:.3g} ms"


def parser(description: str) -> argparse.ArgumentParser:
    """A parser that knows the options of all benchmarks."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="print rows as JSON")
    made.add_argument("--keep", action="store_true", help="write each row to results/speed/ as well")
    made.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    return made


def report(
    rows: Iterable[Measured], options: argparse.Namespace, benchmark: str, device: str = "cpu"
) -> None:
    """Print each row as it comes, or all as JSON; keep them where that is asked for."""
    done, started = [], time.perf_counter()
    for row in rows:
        done.append(row)
        if not options.json:
            numbers = f"{row.value:>11.4g} {row.unit:<10.28}"
            print(f"{row.what:<60.60} {numbers} {row.bar:<10} {row.against} {row.detail}", flush=True)
        if options.keep:
            write(record(row, benchmark, device, time.perf_counter() - started), options.results)
        started = time.perf_counter()
    if options.json:
        print(json.dumps([asdict(row) | {"value": row.value} for row in done], indent=1))


def record(row: Measured, benchmark: str, device: str, seconds: float) -> Record:
    """The row as a record: rounds are its seeds, ratios its scores."""
    told = {name: getattr(row, name) for name in ("what", "against", "unit", "bar", "detail")}
    arguments = [word for word in sys.argv[1:] if word != "--json"]
    return Record(
        experiment="speed",
        version=benchmark,
        environment=device,
        agent=re.sub(r"[^a-z0-9]+", "-", f"{row.what} {row.unit}".lower()).strip("-"),
        seeds=[{"seed": number, "score": round(value, 5)} for number, value in enumerate(row.values)],
        config=told,
        command=shlex.join(["python", f"benchmarks/{benchmark}.py", *arguments]),
        seconds=round(seconds, 1),
        **provenance(),
    )
