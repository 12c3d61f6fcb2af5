"""`xlvin reproduce`: which experiments take a number of seeds, and that all their parts do."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xlvin.commands.reproduce import EXPERIMENTS, FIXED_SEEDS
from xlvin.commands.reproduce import main as reproduce
from xlvin.errors import XLVINError
from xlvin.experiments import atari_runs, control, pixel_model
from xlvin.experiments.depth_cost import CostCell
from xlvin.experiments.workers import Effort


@pytest.mark.parametrize("experiment", FIXED_SEEDS)
def test_seeds_are_refused_where_they_mean_nothing(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(XLVINError, match=f"The seeds of {experiment} are fixed"):
        reproduce([experiment, "--seeds", "3", "--results", str(tmp_path), "--docs", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("experiment", ["table1", "imitation", "planning-bed"])
def test_a_name_that_nothing_has_is_refused(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(XLVINError, match=f'Nothing in {experiment} is named "CartPoll"; one name is '):
        reproduce([experiment, "--only", "CartPoll", "--results", str(tmp_path), "--docs", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("experiment", sorted(EXPERIMENTS.keys() - set(FIXED_SEEDS)))
def test_every_job_has_the_seeds_that_were_asked_for(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run_jobs(function: Callable[[Any], Any], jobs: Sequence[Any], workers: int | None) -> Iterator[Any]:
        asked.extend(job for job in jobs if not isinstance(job, CostCell))  # timed in rounds
        return iter(())

    def missing(*given: Any) -> list[Any]:
        asked.append(SimpleNamespace(seeds=range(given[-1])))
        return []

    module = importlib.import_module(EXPERIMENTS[experiment])
    for owner in (module, control, atari_runs):
        monkeypatch.setattr(owner, "run_jobs", run_jobs, raising=False)
    monkeypatch.setattr(pixel_model, "missing", missing)
    module.run(tmp_path, Effort(seeds=2))
    assert asked
    assert {seed for job in asked for seed in seeds_of(job)} == {0, 1}


def seeds_of(job: Any) -> Sequence[int]:
    if hasattr(job, "seed"):
        return (job.seed,)
    return tuple(job.seeds if hasattr(job, "seeds") else job.config.seed_list)
