"""The report's table of where numbers come from."""

from dataclasses import replace
from pathlib import Path

from xlvin.report.paper import EXHIBITS
from xlvin.report.records import Record
from xlvin.report.report_page import Section, report_markdown


def test_seeds_made_elsewhere_name_their_machine(tmp_path: Path) -> None:
    machine = {"cpu": "a processor", "cores": 4, "gpu": None}
    seeds = [{"seed": 0, "score": 1.0}, {"seed": 1, "score": 2.0, "machine": {"gpu": "a graphics card"}}]
    one = Record("table1", "tuned", "CartPole-v0", "ppo", seeds, {}, "command", {}, machine, 3600.0)
    alone = replace(one, version="paper", seeds=seeds[:1])
    text = report_markdown([Section(EXHIBITS[0], [one, alone])], tmp_path)
    assert "| tuned | 1 | 1 | 2 | 1.00 | a processor, 4 cores and a graphics card |" in text
    assert "| paper | 1 | 1 | 1 | 1.00 | a processor, 4 cores |" in text
    assert "of fewer than 5 seeds" in text
