"""The embeddings of a maze as a page in which they can be turned: one file, no network, no libraries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from xlvin.files import replacing
from xlvin.report.geometry_figure import Stage, colours

# The page; its one word DATA stands for the stages.
PAGE = Path(__file__).with_name("geometry.html")


def write_page(stages: Sequence[Stage], path: Path) -> None:
    """Write the page with all stages in it."""
    data = [{"title": title, **shown, "colours": colours(shown["distance"])} for title, shown in stages]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    with replacing(path) as temporary:
        page = PAGE.read_text(encoding="utf-8").replace("DATA", text, 1)
        temporary.write_text(page, encoding="utf-8")
