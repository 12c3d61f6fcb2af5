"""The bottleneck experiment from run to figure, and the numbers that the documentation shows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_provenance, save_executor
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.pretrain import PretrainConfig
from xlvin.experiments import bottleneck
from xlvin.experiments.bottleneck import BottleneckConfig
from xlvin.experiments.noisy_inputs import ARMS
from xlvin.report.records import read, read_all, write

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a tiny run with an untrained executor."""
    folder = tmp_path_factory.mktemp("bottleneck")
    torch.manual_seed(0)
    shape = ExecutorConfig(width=4)
    save_executor(folder / "x.safetensors", Executor(shape), PretrainConfig(executor=shape), {})
    config = BottleneckConfig(
        mdps=5, states=6, actions=3, levels=(0.0, 1.0), executor=str(folder / "x.safetensors")
    )
    bottleneck.run(folder / "results", config=config)
    return folder / "results"


def test_a_run_writes_a_record_per_scaling_and_arm(results: Path) -> None:
    records = read_all(results, "bottleneck")
    assert len(records) == 8
    assert {record.environment for record in records} == {"random-deterministic-6x3"}
    for record in records:
        assert [entry["seed"] for entry in record.seeds] == [0, 1, 2, 3, 4]
        for entry in record.seeds:
            assert entry["score"] == pytest.approx(sum(entry["accuracy"]) / 2, abs=1e-4)
        assert len(record.config["executor_sha256"]) == 64
    exact = read(results / "bottleneck" / "paper" / "random-deterministic-6x3" / "vi-scalars.json")
    assert all(entry["accuracy"][0] == 1.0 > entry["accuracy"][1] for entry in exact.seeds)


def test_rows_and_comparisons_come_from_the_records(results: Path) -> None:
    table = bottleneck.rows(results)
    assert len(table) == 2 * 4 * 2
    assert table[0] == {
        "version": "paper",
        "environment": "random-deterministic-6x3",
        "agent": "vi-scalars",
        "noise": 0.0,
        **{"mean": 1.0, "std": 0.0, "iqm": 1.0, "low": 1.0, "high": 1.0, "seeds": 5},
        "interval_of": "mean",
    }
    mean = {record.agent: sum(record.scores) / 5 for record in read_all(results, "bottleneck")[4:]}
    first = bottleneck.comparisons(results)[0]
    assert (first["version"], first["first"], first["second"]) == (
        "paper",
        "executor-embeddings",
        "vi-scalars",
    )
    assert first["difference"] == pytest.approx(100 * (mean["executor-embeddings"] - mean["vi-scalars"]))
    assert first["low"] <= first["difference"] <= first["high"]
    assert (first["seeds"], first["interval_of"]) == (5, "mean")


def test_few_mdps_claim_no_interval(results: Path, tmp_path: Path) -> None:
    for record in read_all(results, "bottleneck"):
        write(replace(record, seeds=record.seeds[3::-1]), tmp_path)
    text = bottleneck.summary(tmp_path)
    assert "| points | range |" in text
    assert "95 %" not in text


def test_the_command_works_from_records(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "experiments" / "bottleneck.md"
    page.parent.mkdir()
    page.write_text("# Page\n<!-- results -->\n<!-- /results -->\n")
    arguments = [
        "reproduce",
        "bottleneck",
        "--from-records",
        "--results",
        str(results),
        "--docs",
        str(tmp_path),
    ]
    assert main(arguments) == 0
    text = bottleneck.summary(results)
    assert capsys.readouterr().out.startswith(text)
    assert page.read_text() == f"# Page\n<!-- results -->\n{text}\n<!-- /results -->\n"
    assert (tmp_path / "figures" / "bottleneck.png").read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == bottleneck.rows(results)


def test_missing_records_are_named(results: Path, tmp_path: Path) -> None:
    for record in read_all(results, "bottleneck")[1:]:
        write(record, tmp_path)
    with pytest.raises(XLVINError, match="The records of fair/executor-embeddings are missing"):
        bottleneck.rows(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["botleneck"], 'Did you mean "bottleneck"?'),
        (["zzz"], "Choose one of: atari, bottleneck"),
        (["bottleneck", "--from-records", "--results", "nowhere"], "run `xlvin reproduce bottleneck` first"),
    ],
)
def test_bad_commands(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_noise_levels_are_checked() -> None:
    for levels in ((), (0.0, -1.0)):
        with pytest.raises(XLVINError, match="none of them negative"):
            BottleneckConfig(levels=levels)


def test_the_committed_records_support_what_the_page_says() -> None:
    table = bottleneck.rows(REPOSITORY / "results")
    assert min(row["seeds"] for row in table) >= 200
    accuracy = {(row["version"], row["agent"], row["noise"]): row["mean"] for row in table}
    for version in ("paper", "fair"):
        for noise in {row["noise"] for row in table} - {0.0}:
            scalars, executor, decoded, embedded = (accuracy[version, arm, noise] for arm in ARMS)
            assert scalars < executor < decoded
            assert embedded < scalars + 0.01
        assert accuracy[version, "executor-embeddings", 0.0] > 0.995


def test_the_page_shows_the_committed_records_of_the_shipped_executor() -> None:
    results = REPOSITORY / "results"
    page = (REPOSITORY / "docs" / "experiments" / "bottleneck.md").read_text()
    assert bottleneck.summary(results) in page
    shipped = load_provenance("random-deterministic")["sha256"]
    assert {record.config["executor_sha256"] for record in read_all(results, "bottleneck")} == {shipped}
