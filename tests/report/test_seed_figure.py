"""Scores seed by seed: where dots, bars and marks stand."""

from pathlib import Path

import numpy as np
import pytest

from xlvin.report.seed_figure import OTHER, OURS, draw_seeds, new_figure, save_panels

SCORES = {"ours": [1.0, 3.0], "alone": [5.0]}
NAMES = ("ours", "missing", "alone")


@pytest.mark.parametrize("across", [False, True])
def test_every_seed_is_a_dot_and_the_mean_a_bar(across: bool) -> None:
    axes = new_figure(4, 3).subplots()
    draw_seeds(axes, SCORES, NAMES, {"ours": OURS}, across=across)
    dots, bar, one, _ = axes.collections
    order = [1, 0] if across else [0, 1]
    assert np.asarray(dots.get_offsets())[:, order].tolist() == [[-0.15, 1.0], [0.15, 3.0]]
    (line,) = bar.get_segments()
    assert line[:, order].tolist() == [[-0.32, 2.0], [0.32, 2.0]]
    assert np.asarray(one.get_offsets())[0, order].tolist() == [1.85, 5.0]
    labels = axes.get_yticklabels() if across else axes.get_xticklabels()
    assert [label.get_text() for label in labels] == [*NAMES]
    assert not np.allclose(dots.get_facecolor()[0, :3], one.get_facecolor()[0, :3]), (OURS, OTHER)


@pytest.mark.parametrize("across", [False, True])
def test_printed_means_are_marked(across: bool, tmp_path: Path) -> None:
    picture = new_figure(4, 3)
    axes = picture.subplots()
    draw_seeds(axes, SCORES, NAMES, {}, marks={"missing": 4.0, "unknown": 9.0}, across=across)
    (mark,) = axes.lines
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == ((4.0, 1) if across else (1, 4.0))
    assert mark.get_marker() == ("|" if across else "_")
    save_panels(tmp_path / "figures" / "seeds.png", picture, "Every seed")
    assert (tmp_path / "figures" / "seeds.png").read_bytes().startswith(b"\x89PNG")
