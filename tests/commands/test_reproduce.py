"""`xlvin reproduce`: which experiments take a number of seeds."""

from pathlib import Path

import pytest

from xlvin.commands.reproduce import EXPERIMENTS, FIXED_SEEDS
from xlvin.commands.reproduce import main as reproduce
from xlvin.errors import XLVINError


@pytest.mark.parametrize("experiment", FIXED_SEEDS)
def test_seeds_are_refused_where_they_mean_nothing(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(XLVINError, match=f"The seeds of {experiment} are fixed"):
        reproduce([experiment, "--seeds", "3", "--results", str(tmp_path), "--docs", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_every_other_experiment_reads_the_number_of_seeds() -> None:
    folder = Path(__file__).parents[2] / "src" / "xlvin" / "experiments"
    for name, module in EXPERIMENTS.items():
        text = (folder / f"{module.rpartition('.')[2]}.py").read_text()
        assert ("effort.seeds" in text) == (name not in FIXED_SEEDS), name
