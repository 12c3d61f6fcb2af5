"""Learning curves on Atari, from tiny runs to tables and figures; seeds are added to the same records."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.experiments import atari, pixel_model
from xlvin.experiments.atari_runs import POINTS, curve, missing
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.curves import band
from xlvin.report.records import read
from xlvin.training.config import Budget, TrainConfig
from xlvin.training.presets import preset
from xlvin.training.run import open_run

BUDGET = Budget("transitions", 2 * 2 * 24, 24, 2)
FREEWAY = "FreewayNoFrameskip-v4"


def tiny(environment: str, agent: str) -> TrainConfig:
    config = preset(environment, agent)
    network = replace(config.network, latent=8, hidden=4)
    return replace(config, network=network, budget=BUDGET, ppo=replace(config.ppo, epochs=1))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small networks, short games, runs below a folder of their own."""
    monkeypatch.setattr("xlvin.envs.atari.LONGEST_GAME", 15)
    monkeypatch.setattr(atari, "preset", tiny)
    monkeypatch.setattr(pixel_model, "preset", tiny)
    monkeypatch.setattr(pixel_model, "STEPS", 30)
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)
    monkeypatch.chdir(tmp_path)


def test_a_curve_averages_games_and_fills_gaps() -> None:
    def line(steps: int, games: int, score: float | None) -> dict[str, Any]:
        return {"steps": steps, "games": games, "return": score}

    total = POINTS * 100
    lines = [line(90, 0, None), line(150, 1, 4.0), line(200, 3, 8.0), line(210, 0, None), line(total, 2, 1.0)]
    found = curve(lines, "return", total)
    assert found.shape == (POINTS,)
    assert found[:3].tolist() == [
        7.0,
        7.0,
        7.0,
    ]  # (4 + 3 x 8) / 4; before the first, the first; then it stands
    assert found[-2:].tolist() == [7.0, 1.0]
    assert curve(lines[:1], "return", total).tolist() == [0.0] * POINTS


def test_several_workers_take_a_seed_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = []
    monkeypatch.setattr(atari, "train_all", lambda results, jobs, workers: taken.extend(jobs))
    atari.run(tmp_path / "results", Effort(("freeway/",), workers=4, seeds=2))
    found = [(job.config.agent, job.config.seed_list) for job in taken]
    assert found == [(agent, (seed,)) for seed in range(2) for agent in atari.AGENTS]


def test_bands_hold_the_mean_and_shrink_to_it() -> None:
    curves = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    low, high = band(curves)
    assert low[0] < 2.0 < high[0]
    assert (low[1], high[1]) == (5.0, 5.0)


def test_seeds_are_added_to_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    results = Path("results")
    atari.run(results, Effort(("freeway/xlvin-r",), seeds=1))
    path = results / "atari" / "paper" / FREEWAY / "xlvin-r.json"
    first = read(path)
    assert [entry["seed"] for entry in first.seeds] == [0]
    assert first.command == "xlvin reproduce atari --only freeway/xlvin-r --seeds 1 --device cpu"
    entry = first.seeds[0]
    assert (entry["steps"], len(entry["clipped"]), len(entry["raw"])) == (96, POINTS, POINTS)
    assert entry["games"] >= 2
    assert entry["score"] == pytest.approx(np.mean(entry["clipped"]), abs=1e-3)
    config = tiny(FREEWAY, "xlvin-r")
    assert [part.seed_list for part in missing(results, "atari", "paper", config, 3)] == [(1, 2)]
    older = json.loads(path.read_text())
    del older["config"]["ppo"]["vtrace"]  # made before there was such an option
    path.write_text(json.dumps(older))
    assert [part.seed_list for part in missing(results, "atari", "paper", config, 3)] == [(1, 2)]
    other = replace(config, ppo=replace(config.ppo, clip=0.3))  # other settings are trained anew
    assert [part.seed_list for part in missing(results, "atari", "paper", other, 3)] == [(0, 1, 2)]
    atari.run(results, Effort(("freeway/ppo", "freeway/xlvin-r"), seeds=2))
    second = read(path)
    assert [entry["seed"] for entry in second.seeds] == [0, 1]
    assert second.seeds[0] == first.seeds[0]  # not trained again
    assert second.seconds > first.seconds

    Path("docs").mkdir()
    assert main(["reproduce", "atari", "--from-records", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["game"], row["agent"], row["seeds"]) for row in rows] == [
        ("freeway", "ppo", 2),
        ("freeway", "xlvin-r", 2),
    ]
    assert Path("docs/figures/atari.png").stat().st_size > 5000
    text = atari.summary(results)
    assert "22.8" in text
    assert "xlvin-r minus" in text


def test_without_records_one_sentence_says_what_to_do() -> None:
    with pytest.raises(XLVINError, match="xlvin reproduce atari"):
        atari.rows(Path("results"))


def test_the_pixel_model_from_run_to_figure() -> None:
    results = Path("results")
    pixel_model.run(results, Effort())
    record = read(results / "pixel-model" / "paper" / FREEWAY / "xlvin-pixels.json")
    assert record.config["network"]["kind"] == "pixels"
    entry = record.seeds[0]
    assert entry["foreground"] > 0.0
    assert entry["spread"] > 0.0
    pixel_model.figure(results, Path("figure.png"))
    assert Path("figure.png").stat().st_size > 5000
    assert "error on the foreground" in pixel_model.summary(results)
    _, agents = open_run(next(Path("runs").glob("*xlvin-pixels*")))
    assert type(agents[0]).__name__ == "PixelXLVINAgent"


def test_what_is_painted_is_measured() -> None:
    frames = torch.full((20, 84, 84), 0.2)
    for number in range(20):
        frames[number, 4 * number : 4 * number + 3, 10:20] = 1.0  # something moves
    background, embedding = torch.full_like(frames, 0.2), torch.randn(20, 6) + 3.0
    ignoring = pixel_model.measure(frames, background, embedding)
    assert (ignoring["foreground"], ignoring["background"]) == (1.0, 0.0)
    perfect = pixel_model.measure(frames, frames, torch.ones(20, 6))
    assert (perfect["foreground"], perfect["spread"]) == (0.0, 0.0)
    assert ignoring["spread"] > 0.1
