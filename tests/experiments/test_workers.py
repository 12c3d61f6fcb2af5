"""Jobs on several processes: their outcomes, their errors, and processes that die."""

import math
import os

import pytest

from xlvin.errors import RunFailedError, XLVINError
from xlvin.experiments import workers as workers_module
from xlvin.experiments.workers import RETRIES, Effort, run_jobs


def test_outcomes_errors_and_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [float(number) for number in range(5)]
    for workers in (1, 2):
        assert dict(run_jobs(math.sqrt, numbers, workers)) == {n: math.sqrt(n) for n in numbers}
    with pytest.raises(ValueError, match="math domain error") as caught:
        list(run_jobs(math.sqrt, [-1.0, -2.0], 2))
    assert "Traceback" in caught.value.__notes__[0]  # the process's own
    reasons: list[str] = []
    lost = list(run_jobs(os._exit, [3, 3], 2, lambda job, reason: reasons.append(reason)))
    assert lost == [(3, None), (3, None)]
    assert reasons == [f"its process died {RETRIES + 1} times (code 3)"] * 2
    monkeypatch.setattr(workers_module, "RETRIES", 0)
    with pytest.raises(RunFailedError, match="given up"):
        list(run_jobs(os._exit, [3, 3], 2))


def test_no_workers_and_no_seeds_are_refused() -> None:
    assert Effort(workers=1, seeds=1).wants("anything")
    for bad in ({"workers": 0}, {"workers": -1}, {"seeds": 0}):
        with pytest.raises(XLVINError, match="at least 1"):
            Effort(**bad)
