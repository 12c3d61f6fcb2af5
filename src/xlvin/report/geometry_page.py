"""The embeddings of a maze as a page in which they can be turned: one file, no network, no libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xlvin.files import replacing
from xlvin.report.geometry_figure import Stage, colours
from xlvin.report.html import POLICY, asset, script_json


def write_page(stages: Sequence[Stage], path: Path) -> None:
    """Write the page with all stages in it; its words POLICY and DATA stand for what is filled in."""
    data = [{"title": title, **shown, "colours": colours(shown["distance"])} for title, shown in stages]
    page = asset("geometry.html").replace("POLICY", POLICY, 1).replace("DATA", script_json(data), 1)
    with replacing(path) as temporary:
        temporary.write_text(page + "\n", encoding="utf-8")
