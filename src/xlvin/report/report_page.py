"""All results beside the paper's: one HTML page, or Markdown for the documentation."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xlvin.report import tables
from xlvin.report.html import asset, write_page
from xlvin.report.markup import inline, to_html
from xlvin.report.paper import Exhibit
from xlvin.report.records import Record
from xlvin.report.statistics import FEWEST, summarise

TITLE = "Results beside the paper's"
INTRODUCTION = (
    "Every number comes from a record: one JSON file per experiment, version, environment and agent, with "
    "the score of each seed. Intervals are 95 % bootstrap intervals of the interquartile mean over seeds "
    f"unless a table says otherwise; of fewer than {FEWEST} seeds they are the range."
)

# Longer summaries are folded.
MOST_LINES = 80


@dataclass(frozen=True)
class Section:
    """An experiment: what the paper says, and what is known here."""

    exhibit: Exhibit
    records: Sequence[Record]  # none: it has not been run
    runnable: bool = True  # by `xlvin reproduce`
    summary: str | None = None  # Markdown
    figure: bytes | None = None  # PNG
    note: str | None = None  # why summary or figure are missing though there are records

    @property
    def state(self) -> str:
        """How much there is, in words."""
        if not self.records:
            command = f"; `xlvin reproduce {self.exhibit.experiment}` makes them" if self.runnable else ""
            return f"no records yet{command}"
        counts = sorted({len(record.seeds) for record in self.records})
        seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        records = "1 record" if len(self.records) == 1 else f"{len(self.records)} records"
        return f"{records}, {seeds} {'seed' if counts[-1] == 1 else 'seeds'} each"


def write_report(path: Path, sections: Sequence[Section]) -> None:
    """Write the page to `path`, whole or not at all."""
    body = [
        f'<header><h1>{TITLE}</h1><button id="theme">light / dark</button></header>',
        "<main>",
        f"<section><p>{INTRODUCTION}</p>{to_html(_overview(sections, _anchor))}</section>",
        *(_html(section) for section in sections),
        "</main>",
    ]
    write_page(path, TITLE, "\n".join(body), asset("report.css"))


def report_markdown(sections: Sequence[Section], docs: Path) -> str:
    """The overview, with links to the pages in `docs` that exist, and where the numbers come from."""

    def link(exhibit: Exhibit) -> str:
        for page in (Path("experiments", f"{exhibit.experiment}.md"), Path(f"{exhibit.experiment}.md")):
            if (docs / page).is_file():
                return f"[{exhibit.title}]({page.as_posix()})"
        return exhibit.title

    sources = [
        {"experiment": section.exhibit.title} | row
        for section in sections
        for row in _sources(section.records)
    ]
    parts = [INTRODUCTION, _overview(sections, link)]
    if sources:
        parts += ["## Where the numbers come from", tables.markdown(sources)]
    return "\n\n".join(parts)


def _anchor(exhibit: Exhibit) -> str:
    return f"[{exhibit.title}](#{exhibit.experiment})"


def _overview(sections: Sequence[Section], link: Callable[[Exhibit], str]) -> str:
    rows = [
        {
            "experiment": link(section.exhibit),
            "in the paper": section.exhibit.place or "not in it",
            "here": section.state,
        }
        for section in sections
    ]
    return tables.markdown(rows)


def _sources(records: Sequence[Record]) -> list[tables.Row]:
    """One row per version and machine."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.version, _machine(record)), []).append(record)
    return [
        {
            "version": version,
            "environments": len({record.environment for record in group}),
            "agents": len({record.agent for record in group}),
            "seeds": _span([len(record.seeds) for record in group]),
            "hours": f"{sum(record.seconds for record in group) / 3600:.2f}",
            "machine": machine,
        }
        for (version, machine), group in groups.items()
    ]


def _html(section: Section) -> str:
    """Heading, the paper's word, ours, figure, and the records one by one."""
    exhibit, parts = section.exhibit, []
    place = f"{exhibit.place} of the paper" if exhibit.place else "Not in the paper"
    parts.append(f'<h2 id="{exhibit.experiment}">{html.escape(exhibit.title)}</h2>')
    parts.append(f'<p class="paper"><strong>{place}.</strong> {inline(exhibit.says)}</p>')
    parts.append(f"<p><strong>Here.</strong> {inline(section.state[:1].upper() + section.state[1:])}.</p>")
    if section.note:
        parts.append(f'<p class="note">{inline(section.note)}</p>')
    if section.figure:
        content = base64.b64encode(section.figure).decode()
        parts.append(f'<img src="data:image/png;base64,{content}" alt="{html.escape(exhibit.title)}">')
    if section.summary:
        opened = " open" if section.summary.count("\n") <= MOST_LINES else ""
        parts.append(f"<details{opened}><summary>Tables</summary>{to_html(section.summary)}</details>")
    if section.records:
        rows = to_html(tables.markdown([_row(record) for record in section.records]))
        versions = "; ".join(sorted({_versions(record) for record in section.records}))
        parts.append(
            f"<details><summary>Records: every score's seeds, interval, command and machine</summary>{rows}"
            f'<p class="soft">{html.escape(versions)}</p></details>'
        )
    return f"<section>{''.join(parts)}</section>"


def _row(record: Record) -> tables.Row:
    found = summarise(record.scores)
    return {
        "version": record.version,
        "environment": record.environment,
        "agent": record.agent,
        "seeds": found["seeds"],
        "mean": f"{found['mean']:.4g}",
        "std": f"{found['std']:.3g}",
        "iqm": f"{found['iqm']:.4g}",
        "low to high": f"{found['low']:.4g} to {found['high']:.4g}",
        "command": f"`{record.command}`",
        "seconds": f"{record.seconds:.0f}",
        "machine": _machine(record),
    }


def _machine(record: Record) -> str:
    """The record's machine, and those of seeds that were made elsewhere."""
    machines = [record.machine, *(entry["machine"] for entry in record.seeds if "machine" in entry)]
    told = (one.get("gpu") or f"{one.get('cpu')}, {one.get('cores')} cores" for one in machines)
    return " and ".join(dict.fromkeys(map(str, told)))


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {version}" for name, version in record.versions.items())


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
