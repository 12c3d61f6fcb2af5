import numpy as np
import pytest
from scipy import stats

from xlvin.errors import XLVINError
from xlvin.report.statistics import bootstrap_interval, iqm, mean, paired_difference, summarise


def test_iqm_by_hand() -> None:
    assert iqm(np.array([100.0, 1.0, 2.0, -50.0])) == 1.5
    assert iqm(np.array([1.0, 2.0, 6.0])) == 3.0  # too few to drop any
    assert np.array_equal(iqm(np.array([[0.0, 1.0, 2.0, 9.0], [5.0, 5.0, 5.0, 5.0]])), [1.5, 5.0])


@pytest.mark.parametrize("count", [1, 5, 8, 23])
def test_iqm_is_scipys_trimmed_mean(count: int) -> None:
    scores = np.random.default_rng(count).normal(size=count)
    np.testing.assert_allclose(iqm(scores), stats.trim_mean(scores, 0.25))


def test_interval_agrees_with_scipys_bootstrap() -> None:
    scores = np.random.default_rng(0).normal(10.0, 2.0, size=40)
    low, high = bootstrap_interval(scores, mean, resamples=20_000)
    reference = stats.bootstrap(
        (scores,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    np.testing.assert_allclose((low, high), (reference.low, reference.high), atol=0.03)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    intervals = [bootstrap_interval(random.normal(size=30), mean, resamples=300) for _ in range(200)]
    covered = sum(low < 0.0 < high for low, high in intervals)
    assert 176 <= covered <= 198


def test_interval_is_reproducible_and_grows_with_confidence() -> None:
    scores = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    narrow, wide = (bootstrap_interval(scores, mean, confidence) for confidence in (0.5, 0.95))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_paired_difference_sees_what_unpaired_spread_hides() -> None:
    hard = np.random.default_rng(0).normal(0.0, 100.0, size=50)
    found = paired_difference(hard + 1.0, hard)
    assert found["difference"] == pytest.approx(1.0)
    assert found["low"] == pytest.approx(1.0)
    assert found["high"] == pytest.approx(1.0)


def test_summary_by_hand() -> None:
    assert summarise([3.0]) == {
        "mean": 3.0,
        "std": 0.0,
        "iqm": 3.0,
        "low": 3.0,
        "high": 3.0,
        "seeds": 1,
        "interval_of": "range",
    }
    scores = [1.0, 2.0, 3.0, 4.0, 15.0]
    found = summarise(scores)
    assert (found["mean"], found["iqm"], found["seeds"]) == (5.0, 3.0, 5)
    assert found["std"] == pytest.approx(np.sqrt(130 / 4))
    assert found["low"] < 3.0 < found["high"]
    assert (found["low"], found["high"], found["interval_of"]) == (*bootstrap_interval(scores, iqm), "iqm")
    of_mean = summarise(scores, mean)
    assert (of_mean["low"], of_mean["high"], of_mean["interval_of"]) == (
        *bootstrap_interval(scores, mean),
        "mean",
    )


def test_few_seeds_have_a_range_and_no_interval() -> None:
    few = summarise([4.0, 1.0, 2.0, 3.0])
    assert (few["low"], few["high"], few["interval_of"]) == (1.0, 4.0, "range")
    pair = paired_difference([4.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert (pair["low"], pair["high"]) == (1.0, 4.0)


def test_bad_input() -> None:
    for scores in ([], [float("nan")], [[1.0]]):
        with pytest.raises(XLVINError, match="at least one score"):
            summarise(scores)  # type: ignore[arg-type]
    with pytest.raises(XLVINError, match="same seeds"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(XLVINError, match="between 0 and 1"):
        bootstrap_interval([1.0], confidence=95)
