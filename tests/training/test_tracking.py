"""Metrics beside the run's folder: TensorBoard reads them, and a tracking service is told the same."""

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from xlvin.cli import main
from xlvin.errors import RunFailedError, XLVINError
from xlvin.training.api import configure, override
from xlvin.training.run import run
from xlvin.training.tracking import make_tracker

from ..environments import CORRIDOR


class FakeWandB(ModuleType):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.started: list[dict[str, Any]] = []
        self.told: dict[int, dict[str, float]] = {}
        self.finished = 0

    def init(self, **options: Any) -> "FakeWandB":
        self.started.append(options)
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.told[step] = metrics

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandB:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


SMALL = [
    "--ppo.epochs",
    "1",
    "--evaluation-episodes",
    "1",
    "--network.hidden",
    "8",
    "--budget.per-round",
    "2",
]


def test_the_tracker_is_told_what_the_folder_keeps(
    tmp_path: Path, wandb: FakeWandB, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    command = ["train", CORRIDOR, "--trajectories", "4", "--seeds", "2", "--folder", str(folder), *SMALL]
    assert main([*command, "--track", "wandb"]) == 0
    assert wandb.started[0]["id"] == "run"
    assert wandb.started[0]["config"]["environment"] == CORRIDOR
    assert wandb.finished == 1
    assert sorted(wandb.told) == [1, 2]
    kept = lines(folder)
    assert len(kept) == 4
    for row in kept:
        numbers = {name: value for name, value in row.items() if name not in ("round", "seed")}
        for name, value in numbers.items():
            assert wandb.told[row["round"]].get(f"seed {row['seed']}/{name}") == value
    capsys.readouterr()


def test_tensorboard_reads_the_folder(tmp_path: Path) -> None:
    config = override(configure(CORRIDOR, "ppo", trajectories=4), {"epochs": 1, "per_round": 2, "hidden": 8})
    run(override(config, {"evaluation_episodes": 1}), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    row = lines(tmp_path / "run")[-1]
    names = [name for name in row if name not in ("round", "seed")]
    assert {f"seed 0/{name}" for name in names} == set(events.Tags()["scalars"])
    for name in names:
        last = events.Scalars(f"seed 0/{name}")[-1]
        assert last.step == row["round"]
        expected = math.nan if row[name] is None else row[name]
        assert last.value == pytest.approx(expected, nan_ok=True, rel=1e-6)


def test_without_the_package_the_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(XLVINError, match="pip install wandb"):
        make_tracker("wandb", tmp_path, configure(CORRIDOR))
    with pytest.raises(XLVINError, match='no tracker "wandbb"'):
        make_tracker("wandbb", tmp_path, configure(CORRIDOR))
    for name in ("wandb", "wandbb"):
        with pytest.raises(XLVINError):
            run(configure(CORRIDOR, "ppo"), tmp_path / "run", track=name)
    assert not (tmp_path / "run").exists()


def test_events_on_a_full_disk_stop_the_run_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def open_full(path: Path, *arguments: Any, **options: Any) -> Any:
        events = path.name.startswith("events")
        return opened(Path("/dev/full") if events else path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(RunFailedError, match=r"could not be written \(No space left"):
        run(configure(CORRIDOR, "ppo"), tmp_path)
