"""The page of embeddings in a real browser: it draws, answers, and asks no network."""

from pathlib import Path

import pytest

from xlvin.report.geometry_page import write_page
from xlvin.report.html import POLICY

from ..browser import PROGRAM, browser

# Two rows of two cells, one of them a wall; the goal is the first.
SHOWN = {
    "height": 2,
    "width": 2,
    "walls": [[0, 0], [0, 1]],
    "cells": [0, 1, 2],
    "distance": [0, 1, 1],
    "points": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]],
    "edges": [[1, 0], [2, 0]],
    "ends": [[0.1, 0.0, 0.0], [0.0, 0.1, 0.0]],
    "explained": [0.5, 0.3, 0.1],
}
STAGES = [("untrained", SHOWN), ("</script><b>trained</b>", SHOWN | {"explained": [0.4, 0.1, 0.1]})]


def test_the_page_is_filled_in(tmp_path: Path) -> None:
    write_page(STAGES, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'content="{POLICY}"' in text
    assert "const stages = [{" in text
    assert text.count("</script>") == 1  # a title cannot end the script
    assert not {"POLICY", "DATA"} & set(text.replace('"', " ").replace(";", " ").split())


@pytest.mark.skipif(PROGRAM is None, reason="left out: the pages in a browser, as no Chromium is installed")
def test_the_page_works(tmp_path: Path) -> None:
    write_page(STAGES, tmp_path / "page.html")
    with browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "page.html")
        assert tab.text("#note") == "Three components hold 90 % of the variance."
        tab.hover("#maze", 0.75, 0.25)
        assert tab.text("#note").endswith("This cell is 1 moves from the goal.")
        before = tab.ask("space.toDataURL()")
        tab.hover("#maze", 0.75, 0.75)  # the wall is no cell
        tab.click("nav button:last-child")
        assert tab.text("nav button:last-child") == STAGES[1][0]
        assert tab.text("#note") == "Three components hold 60 % of the variance."
        assert tab.ask("space.toDataURL()") != before
        assert (tab.complaints, tab.requests) == ([], [])
