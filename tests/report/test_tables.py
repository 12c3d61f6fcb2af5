from pathlib import Path
from typing import Any

import pytest

from xlvin.errors import XLVINError
from xlvin.provenance import provenance
from xlvin.report.pages import embed
from xlvin.report.records import Record
from xlvin.report.tables import (
    counted,
    differences,
    interval_title,
    markdown,
    ordered,
    paired,
    pivot,
    plain,
    rows,
    spread,
)

ROWS = [{"agent": "ppo", "mean": -7.25}, {"agent": "xlvin", "mean": 120.0}]


def record(agent: str, environment: str, scores: list[float]) -> Record:
    seeds: list[dict[str, Any]] = [{"seed": seed, "score": score} for seed, score in enumerate(scores)]
    return Record("table1", "paper", environment, agent, seeds, {}, "xlvin", **provenance(), seconds=1.0)


def test_rows_say_who_where_and_how_much() -> None:
    (row,) = rows([record("ppo", "CartPole-v0", [1.0, 2.0, 3.0])])
    assert {key: row[key] for key in ("version", "environment", "agent", "mean", "std", "iqm", "seeds")} == {
        "version": "paper",
        "environment": "CartPole-v0",
        "agent": "ppo",
        "mean": 2.0,
        "std": 1.0,
        "iqm": 2.0,
        "seeds": 3,
    }
    assert row["low"] <= 2.0 <= row["high"]


def test_markdown() -> None:
    assert markdown(ROWS) == "| agent | mean |\n| --- | ---: |\n| ppo | -7.25 |\n| xlvin | 120 |"
    assert markdown(ROWS, ["mean"]) == "| mean |\n| ---: |\n| -7.25 |\n| 120 |"


def test_plain_text_is_aligned() -> None:
    assert plain(ROWS).splitlines() == ["agent   mean", "-----  -----", "ppo    -7.25", "xlvin    120"]


def test_pivot() -> None:
    table = rows([record("ppo", "A", [1.0]), record("xlvin", "A", [2.0]), record("xlvin", "B", [3.0])])
    pivoted = pivot(table, "environment", "agent", lambda row: f"{row['mean']:.0f}")
    assert pivoted == [
        {"environment": "A", "ppo": "1", "xlvin": "2"},
        {"environment": "B", "ppo": "", "xlvin": "3"},
    ]
    with pytest.raises(XLVINError, match="share environment A and agent ppo"):
        pivot([table[0], table[0]], "environment", "agent", lambda row: "x")


def test_a_table_needs_rows() -> None:
    with pytest.raises(XLVINError, match="no rows"):
        plain([])


def test_embedding_replaces_what_stands_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\nold\n<!-- /table -->\nafter\n")
    for text in ("new", "newer"):
        embed(page, "table", text)
        assert page.read_text() == f"before\n<!-- table -->\n{text}\n<!-- /table -->\nafter\n"
    with pytest.raises(XLVINError, match="add the lines <!-- other --> and <!-- /other -->"):
        embed(page, "other", "text")
    assert list(tmp_path.iterdir()) == [page]


def test_rows_are_ordered_column_by_column() -> None:
    table = [{"a": a, "b": b} for b in ("y", "x") for a in (1, 2)]
    found = ordered(table, b=("x", "y"), a=(2, 1))
    assert [(row["b"], row["a"]) for row in found] == [("x", 2), ("x", 1), ("y", 2), ("y", 1)]


def test_pairs_are_of_shared_seeds_and_not_of_few() -> None:
    first, second = (
        record("ppo", "CartPole-v0", [1.0, 5.0, 9.0, 50.0]),
        record("dqn", "CartPole-v0", [0, 2, 7]),
    )
    assert paired(first, second) == {
        "seeds": 3,
        "difference": 2.0,
        "low": 1.0,
        "high": 3.0,
        "interval_of": "range",
    }
    assert paired(first, record("dqn", "CartPole-v0", [0.0, 2.0])) is None


def test_a_table_says_what_low_and_high_are() -> None:
    scores = ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    few, many = rows([record("ppo", "CartPole-v0", each) for each in scores])
    assert interval_title([few]) == "range"
    assert interval_title([many]) == "95 % interval"
    assert interval_title([few, many]) == "95 % interval, of fewer than 5 seeds the range"
    assert (counted([few]), counted([few, many])) == ("2", "2 to 5")
    told = differences([{"minus": "ppo", "low": 1.0, "high": 2.0, "interval_of": "range"}])
    assert told.startswith("Low and high: range.\n\n| minus | low | high |\n")


def test_one_seed_has_no_spread() -> None:
    one, two = rows([record("ppo", "CartPole-v0", scores) for scores in ([1.0], [1.0, 3.0])])
    assert (spread(one), spread(two), spread(two, 0)) == ("1.0", "2.0 ± 1.4", "2 ± 1")
