"""Sweeps: what is kept, what is not done twice, and that neither Ray nor a kill changes a bit."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.errors import XLVINError
from xlvin.experiments import sweep as module
from xlvin.experiments.sweep import Cell, Job, Resources, run_sweep, train_and_score
from xlvin.report.statistics import summarise
from xlvin.storage import load_tensors
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.run import run

ENVIRONMENTS = Path(__file__).parents[1] / "environments.py"  # other processes import it by this name
CORRIDOR, CRASH = (f"{ENVIRONMENTS}:xlvin-tests/{name}-v0" for name in ("Corridor", "Crash"))


def cell(environment: str = CORRIDOR, agent: str = "ppo", seeds: int = 2, **ppo: Any) -> Cell:
    network = AgentConfig(**named(agent), hidden=8, latent=6)
    settings = replace(PPOConfig(epochs=1, minibatches=1), **ppo)
    budget = Budget(total=6, per_round=2)
    config = TrainConfig(environment, agent, network, budget, settings, seeds, evaluation_episodes=2)
    return Cell(config, {f"ppo.{name}": value for name, value in ppo.items()})


def test_a_sweep_is_runs_and_a_table(tmp_path: Path) -> None:
    cells = [cell(learning_rate=rate) for rate in (1e-3, 1e-2)]
    result = run_sweep(cells, tmp_path / "s", Resources(workers=1), "xlvin sweep ...")
    assert not result.failures
    for row, each in zip(result.rows, cells, strict=True):
        assert row["ppo.learning_rate"] == each.config.ppo.learning_rate
        alone = [run(replace(each.config, first_seed=seed, seeds=1)).scores[0] for seed in (0, 1)]
        assert [entry["score"] for entry in row["scores"]] == alone
        assert {name: row[name] for name in summarise(alone)} == summarise(alone)
        for entry in row["scores"]:
            assert (tmp_path / "s" / entry["folder"] / "checkpoint.safetensors").is_file()
    kept = json.loads((tmp_path / "s/sweep.json").read_text())
    assert kept["rows"] == result.rows
    assert kept["command"] == "xlvin sweep ..."
    assert kept["versions"]["torch"] == torch.__version__


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_sweep([cell()], tmp_path, Resources(workers=1))
    done: list[str] = []

    def counted(job: Job) -> module.Outcome:
        done.append(job.name.rpartition("/")[2])
        return train_and_score(job)

    monkeypatch.setattr(module, "train_and_score", counted)
    told: list[str] = []
    again = run_sweep([cell(seeds=3)], tmp_path, Resources(workers=1), tell=told.append)
    assert done == ["seed-2"]
    assert told[0] == "2 of 3 runs are there already"
    assert again.rows[0]["scores"][:2] == first.rows[0]["scores"]
    other = Cell(cell(epochs=3).config)  # the same folders
    with pytest.raises(XLVINError, match="other settings"):
        run_sweep([other], tmp_path, Resources(workers=1))
    assert done == ["seed-2"]


def test_other_bins_are_other_settings(tmp_path: Path) -> None:
    def pendulum(bins: tuple[int, ...]) -> Cell:
        config = cell("Pendulum-v1", seeds=1).config
        network = replace(config.network, bins=bins)
        return Cell(replace(config, budget=Budget(total=1, per_round=1), network=network))

    resources = Resources(workers=1)
    first = run_sweep([pendulum((5,))], tmp_path, resources)
    assert run_sweep([pendulum((5,))], tmp_path, resources).rows == first.rows
    with pytest.raises(XLVINError, match="other settings"):
        run_sweep([pendulum((21,))], tmp_path, resources)


def test_one_failure_stops_no_other(tmp_path: Path) -> None:
    result = run_sweep([cell(CRASH), cell()], tmp_path, Resources(workers=2))
    assert [row["seeds"] for row in result.rows] == [0, 2]
    assert [failure["run"].rpartition("/")[2] for failure in result.failures] == ["seed-0", "seed-1"]
    assert all("ZeroDivisionError" in failure["error"] for failure in result.failures)


def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    lost = Cell(replace(cell().config, network=replace(cell(agent="xlvin-r").config.network, executor="x")))
    for cells, resources, sentence in (
        ([cell(), cell("Nowhere-v0")], Resources(), "no environment"),
        ([lost], Resources(), "no executor"),
        ([cell(), cell()], Resources(), "twice"),
        ([cell()], Resources(device="abacus"), "abacus"),
        ([cell()], Resources(ray="local"), r"pip install 'xlvin\[cluster\]'"),
    ):
        with pytest.raises(XLVINError, match=sentence):
            run_sweep(cells, tmp_path / "s", resources)
    with pytest.raises(XLVINError, match="at least 1"):
        Resources(workers=0)
    assert not list(tmp_path.iterdir())


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    job = Job(0, cell().config, tmp_path, tmp_path / "run", "cpu", 20.0, 1, tmp_path)
    outcome = train_and_score(job)
    assert "that all machines share" in (outcome.error or "")
    assert not list(tmp_path.iterdir())


def test_seeds_side_by_side_share_a_run(tmp_path: Path) -> None:
    result = run_sweep([cell(seeds=3)], tmp_path, Resources(workers=1, side_by_side=2))
    folders = [entry["folder"].rpartition("/")[2] for entry in result.rows[0]["scores"]]
    assert folders == ["seeds-0-1", "seeds-0-1", "seed-2"]


SCRIPT = """
import sys
from pathlib import Path
from xlvin.experiments.sweep import *
from xlvin.training.config import *

if __name__ == "__main__":
    network = AgentConfig(kind="ppo", hidden=8, latent=6)
    budget = Budget("transitions", 4000, 20, 2)
    config = TrainConfig("CartPole-v0", "ppo", network, budget, PPOConfig(epochs=1), 2, evaluation_episodes=2)
    resources = Resources(2, sys.argv[2] if len(sys.argv) > 2 else None, checkpoint_every=0.0)
    if len(sys.argv) > 3:
        resources = Resources(1)
    result = run_sweep([Cell(config)], Path(sys.argv[1]), resources)
    sys.exit(1 if result.failures else 0)
"""


def holder(path: Path) -> int:
    """The process that has a file open."""
    for process in (entry for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            if any(link.readlink() == path for link in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError(f"nobody writes {path}")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="left out: finding a worker needs /proc")
@pytest.mark.parametrize("where", ["processes", "ray"])
def test_a_killed_worker_changes_no_bit(tmp_path: Path, where: str) -> None:
    if where == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("left out: sweeps on Ray; `pip install 'xlvin[cluster]'` brings it")
    (tmp_path / "job.py").write_text(SCRIPT)
    killed, whole = ((tmp_path / name / "CartPole-v0/ppo").resolve() for name in ("killed", "whole"))
    command = [sys.executable, str(tmp_path / "job.py")]
    ray = ["local"] if where == "ray" else []
    process = subprocess.Popen([*command, str(tmp_path / "killed"), *ray])
    metrics, deadline = killed / "seed-0/metrics.jsonl", time.monotonic() + 300
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 5:
        assert process.poll() is None, "the sweep ended before its worker could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(holder(metrics), signal.SIGKILL)
    assert len(metrics.read_text().splitlines()) < 100
    assert process.wait() == 0
    subprocess.run([*command, str(tmp_path / "whole"), "", "alone"], check=True)
    for seed in ("seed-0", "seed-1"):
        left, right = (load_tensors(run / seed / "checkpoint.safetensors")[0] for run in (killed, whole))
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)
        assert (killed / seed / "metrics.jsonl").read_text() == (whole / seed / "metrics.jsonl").read_text()
    tables = [json.loads((run.parents[1] / "sweep.json").read_text())["rows"] for run in (killed, whole)]
    assert tables[0] == tables[1]
    # It went on from its checkpoint: the second process told TensorBoard of fewer rounds than there are.
    told = sorted((killed / "seed-0/tensorboard").iterdir(), key=lambda file: file.stat().st_mtime)
    (all_of_it,) = (whole / "seed-0/tensorboard").iterdir()
    assert len(told) == 2
    assert told[1].stat().st_size < all_of_it.stat().st_size
    assert np.isfinite(tables[0][0]["mean"])
