"""Pages that are one file: style, script and data inside, nothing from the network."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from xlvin.files import replacing

ASSETS = files("xlvin.report") / "assets"
# The browser itself holds the promise that nothing is fetched.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def data_block(data: Any) -> str:
    """JSON for scripts to find in the element #data."""
    return f'<script type="application/json" id="data">{script_json(data)}</script>'


def script_json(data: Any) -> str:
    """JSON that can stand in a script element, as data or as an expression."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # "<" cannot end the element early when it is written as an escape; to JSON both are the same.
    return text.replace("<", "\\u003c")


def write_page(path: Path | str, title: str, body: str, style: str = "", script: str = "") -> None:
    """Write a page with `body`, which has a button #theme; style and script add to what all pages share."""
    with replacing(path) as temporary:
        temporary.write_text(
            f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style>
{asset("base.css")}
{style}
</style>
</head>
<body>
{body}
<script>
{asset("theme.js")}
{script}
</script>
</body>
</html>
""",
            encoding="utf-8",
        )


def asset(name: str) -> str:
    """The text of a shipped file."""
    return ASSETS.joinpath(name).read_text(encoding="utf-8").rstrip()
