"""Generated text inside hand-written pages, between `<!-- name -->` and `<!-- /name -->`."""

from __future__ import annotations

from pathlib import Path

from xlvin.errors import XLVINError
from xlvin.files import replacing


def embed(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of `name` in a Markdown page."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(opening)
    _, ended, after = rest.partition(closing)
    if not found or not ended:
        raise XLVINError(f"{page} has no place for {name}; add the lines {opening} and {closing}.")
    with replacing(page) as temporary:
        temporary.write_text(f"{before}{opening}\n{text}\n{closing}{after}", encoding="utf-8")
