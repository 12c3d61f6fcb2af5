"""`xlvin report`: all results beside the paper's, as one HTML page or as Markdown."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Annotated, cast

import tyro

from xlvin.commands.reproduce import EXPERIMENTS, Experiment
from xlvin.errors import XLVINError
from xlvin.files import replacing
from xlvin.report.pages import embed
from xlvin.report.paper import EXHIBITS, Exhibit
from xlvin.report.records import read_all
from xlvin.report.report_page import TITLE, Section, report_markdown, write_report
from xlvin.report.speed_page import NAME as SPEED
from xlvin.report.speed_page import speed_markdown

EXAMPLES = """

examples:
  xlvin report
  xlvin report --output results.html
  xlvin report --markdown
"""


def report(
    output: Path | None = None,
    markdown: tyro.conf.FlagCreatePairsOff[bool] = False,
    results: Path = Path("results"),
    docs: Path = Path("docs"),
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Write every table and figure of the paper with ours beside it, from the records in results/.

    Args:
        output: Where it goes; by default report.html, or results.md among the documentation.
        markdown: Write Markdown: the overview, and where the numbers come from; renews the page on speed too.
        results: Folder of the records.
        docs: Folder of the documentation, to which the Markdown links.
        as_json: Print where it went and how many records each experiment has as JSON.
    """
    if not results.is_dir():
        raise XLVINError(f"There is no folder {results}; say with --results where the records are.")
    sections = [section(exhibit, results, pictures=not markdown) for exhibit in exhibits(results)]
    path = output or (docs / "results.md" if markdown else Path("report.html"))
    if not markdown:
        write_report(path, sections)
    elif path.is_file() and "<!-- results -->" in path.read_text(encoding="utf-8"):
        embed(path, "results", report_markdown(sections, docs))
    else:
        with replacing(path) as temporary:
            page = f"# {TITLE}\n\n{report_markdown(sections, docs)}\n"
            temporary.write_text(page, encoding="utf-8")
    speed = docs / f"{SPEED}.md"
    if markdown and speed.is_file() and any((results / SPEED).rglob("*.json")):
        embed(speed, "results", speed_markdown(read_all(results, SPEED)))
    if as_json:
        counts = {section.exhibit.experiment: len(section.records) for section in sections}
        print(json.dumps({"path": str(path), "records": counts}))
        return
    missing = [section.exhibit.experiment for section in sections if not section.records]
    print(f"{path}: {len(sections) - len(missing)} experiments with records")
    if missing:
        print(f"  without any: {', '.join(missing)}")


def exhibits(results: Path) -> list[Exhibit]:
    """The paper's, ours, and whatever else has records."""
    known = {exhibit.experiment for exhibit in EXHIBITS}
    found = sorted(path.name for path in results.iterdir() if any(path.rglob("*.json")))
    others = [name for name in dict.fromkeys([*EXPERIMENTS, *found]) if name not in known]
    return [*EXHIBITS, *(Exhibit(name, name, None, "An experiment of ours.") for name in others)]


def section(exhibit: Exhibit, results: Path, pictures: bool) -> Section:
    """What the records of one experiment tell; an experiment that cannot tell it all says why."""
    runnable = exhibit.experiment in EXPERIMENTS
    if not any((results / exhibit.experiment).rglob("*.json")):
        return Section(exhibit, (), runnable)
    records = read_all(results, exhibit.experiment)
    if not pictures or not runnable:
        return Section(exhibit, records, runnable)
    experiment = cast(Experiment, importlib.import_module(EXPERIMENTS[exhibit.experiment]))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            summary = experiment.summary(results)
            experiment.figure(results, path)
            return Section(exhibit, records, runnable, summary, path.read_bytes() if path.is_file() else None)
    except XLVINError as error:
        return Section(exhibit, records, runnable, note=str(error))


def main(argv: list[str]) -> int:
    """Read, write, say where."""
    tyro.cli(
        report,
        args=argv,
        prog="xlvin report",
        description=(report.__doc__ or "").split("Args:")[0] + EXAMPLES,
    )
    return 0
