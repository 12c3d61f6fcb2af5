"""The figure of the continual maze shows every record."""

from dataclasses import replace
from pathlib import Path

import pytest

from xlvin.errors import XLVINError
from xlvin.report import imitation_figure
from xlvin.report.continual_figure import STYLES, draw
from xlvin.report.records import read_all

RECORDS = read_all(Path(__file__).parents[2] / "results", "continual-maze")


def test_every_published_record_has_a_style_of_its_own() -> None:
    assert {(record.version, record.agent) for record in RECORDS} <= STYLES.keys()
    assert len({style.label for style in STYLES.values()}) == len(STYLES)
    assert len({(style.colour, style.line) for style in STYLES.values()}) == len(STYLES)


def test_a_planner_has_the_same_colour_in_the_figure_of_imitation() -> None:
    others = imitation_figure.STYLES
    shared = {agent: style.colour for (_, agent), style in STYLES.items() if agent in others}
    assert shared == {agent: others[agent].colour for agent in others if agent != "vin-torch"}
    assert len(set(shared.values())) == len(shared)
    assert len({(style.colour, style.hatch) for style in others.values()}) == len(others)


def test_a_record_without_a_style_is_told(tmp_path: Path) -> None:
    unknown = replace(RECORDS[0], version="tuned", agent="oracle")
    with pytest.raises(XLVINError, match="no style for tuned/oracle"):
        draw([*RECORDS, unknown], tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())
