import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xlvin.agents import mazes
from xlvin.agents.mazes import LEARNED
from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.experiments import continual_maze, embedding_geometry, maze_runs, value_predictability
from xlvin.experiments.maze_runs import MazeRun, RunConfig
from xlvin.experiments.workers import Effort
from xlvin.report.records import read_all
from xlvin.training.config import PPOConfig
from xlvin.training.mazes.continual import ContinualConfig

PPO = PPOConfig(epochs=1, minibatches=1)


def tiny(version: str, size: int, agent: str) -> RunConfig:
    """Two levels, which a random agent passes at once; a CNN fails the first."""
    success, trajectories = (1.0, 60) if agent == "cnn" else (0.01, 3000)
    continual = ContinualConfig(2, success, 30, trajectories, 32, 4, PPO)
    network = {"hidden": 4, "latent": 4, "depth": 1} if agent in LEARNED else {}
    return RunConfig(agent, version, size, 60, 40, 5, continual, network)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mazes") / "results"
    with pytest.MonkeyPatch.context() as patch:
        for module in (continual_maze, value_predictability, embedding_geometry):
            patch.setattr(module, "run_config", tiny)
        patch.setattr(continual_maze, "SEEDS", 2)
        patch.setattr(value_predictability, "SEEDS", 2)
        patch.setattr(value_predictability, "MAZES", 10)
        patch.setattr(embedding_geometry, "MEASURED", 5)
        patch.setattr(embedding_geometry, "TRANSE_ITERATIONS", 2)
        patch.setitem(embedding_geometry.MAZES, 8, 50)
        only = ("tuned/8x8/xlvin/", "tuned/8x8/cnn/", "paper/8x8/xlvin/")
        continual_maze.run(folder, Effort(only, 1))
        value_predictability.run(folder, Effort(("tuned/",), 1))
        embedding_geometry.run(folder, Effort((), 1))
    return folder


def test_a_run_of_another_network_or_executor_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = MazeRun(maze_runs.run_config("tuned", 8, "xlvin"), 0, tmp_path)
    stored = before.plain()
    assert before.made(stored)
    assert not before.made(stored | {"executor_sha256": "another"})
    # Runs from before these were kept had today's.
    lacking = {name: value for name, value in stored.items() if name != "executor_sha256"}
    assert before.made(lacking | {"network": {"discount": 0.99}})
    monkeypatch.setitem(mazes.TUNED, "latent", 48)
    after = MazeRun(maze_runs.run_config("tuned", 8, "xlvin"), 0, tmp_path)
    assert not after.made(stored)


def test_a_run_keeps_levels_and_held_out_success(results: Path) -> None:
    records = {(record.version, record.agent): record for record in read_all(results, "continual-maze")}
    assert set(records) == {("tuned", "xlvin"), ("tuned", "cnn"), ("paper", "xlvin")}
    for entry in records["tuned", "xlvin"].seeds:
        assert entry["passed"] == 2
        assert [len(level["held_out"]) for level in entry["levels"]] == [2, 2]
        assert entry["score"] == pytest.approx(50 * sum(entry["levels"][-1]["held_out"]), abs=1e-3)
    for entry in records["tuned", "cnn"].seeds:
        assert (entry["passed"], entry["score"]) == (0, 0.0)
        assert entry["levels"][-1]["trajectories"] >= 60


def test_rows_come_in_order_and_the_summary_has_a_table_per_size(results: Path) -> None:
    table = continual_maze.rows(results)
    assert [(row["version"], row["agent"]) for row in table] == [
        ("tuned", "xlvin"),
        ("tuned", "cnn"),
        ("paper", "xlvin"),
    ]
    assert table[0]["passed"] == [2, 2]
    assert "### 8x8, 2 levels" in continual_maze.summary(results)


def test_runs_continue_and_other_settings_start_anew(tmp_path: Path) -> None:
    run = MazeRun(tiny("tuned", 8, "vin"), 0, tmp_path)
    outcome = maze_runs.train(run)
    assert outcome.finished
    assert outcome.passed == 2
    assert maze_runs.load_outcome(run) == outcome
    stamp = (run.folder / "latest.safetensors").stat().st_mtime_ns
    assert maze_runs.train(run) == outcome
    assert (run.folder / "latest.safetensors").stat().st_mtime_ns == stamp
    other = replace(run, config=replace(run.config, mazes=61))
    assert maze_runs.load_outcome(other) is None
    agent = maze_runs.load_agent(run, 2)
    fresh = maze_runs.fresh_agent(run)
    trained, before = agent.state_dict(), fresh.state_dict()
    assert any(not torch.equal(trained[name], before[name]) for name in trained)
    with pytest.raises(XLVINError, match="There is no file"):
        maze_runs.load_agent(run, 3)


def test_the_levels_of_a_stopped_run_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_round = maze_runs.ContinualTrainer.train_round

    def stopped(trainer: maze_runs.ContinualTrainer) -> maze_runs.LevelResult:
        if trainer.results:
            raise KeyboardInterrupt
        return train_round(trainer)

    monkeypatch.setattr(continual_maze, "run_config", tiny)
    monkeypatch.setattr(continual_maze, "SEEDS", 1)
    effort = Effort(("tuned/8x8/vin/",), 1)
    with monkeypatch.context() as patch:
        patch.setattr(maze_runs.ContinualTrainer, "train_round", stopped)
        with pytest.raises(KeyboardInterrupt):
            continual_maze.run(tmp_path / "results", effort)
    assert "| vin | 1+ |" in continual_maze.summary(tmp_path / "results")
    continual_maze.run(tmp_path / "results", effort)
    assert "| vin | 2 |" in continual_maze.summary(tmp_path / "results")
    (record,) = read_all(tmp_path / "results", "continual-maze")
    assert record.seconds == pytest.approx(
        sum(level["seconds"] for level in record.seeds[0]["levels"]), abs=0.1
    )
    shutil.rmtree(tmp_path / "runs")  # as on a clone: what the record holds is not trained again
    with monkeypatch.context() as patch:
        patch.setattr(maze_runs.ContinualTrainer, "train_round", stopped)
        continual_maze.run(tmp_path / "results", effort)
        with pytest.raises(KeyboardInterrupt):
            continual_maze.run(tmp_path / "results", replace(effort, seeds=2))
    assert "| vin | 2, 1+ |" in continual_maze.summary(tmp_path / "results")


def test_predictability_is_not_measured_twice(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_predictability, "run_config", tiny)
    monkeypatch.setattr(value_predictability, "SEEDS", 3)
    monkeypatch.setattr(value_predictability, "MAZES", 10)
    folder, measured = tmp_path / "results", []
    shutil.copytree(results / "value-predictability", folder / "value-predictability")
    for path in folder.rglob("*.json"):  # from before a setting existed
        path.write_text(path.read_text().replace('"vtrace": false, ', ""))

    def measure(run: MazeRun, mazes: object) -> list[value_predictability.Level]:
        measured.append(run.name)
        return [{latent: {"held_out": 0.5} for latent in value_predictability.LATENTS}]

    def teach(told: value_predictability.Told) -> torch.nn.Module:
        measured.append(told.name)
        return maze_runs.fresh_agent(told.run)

    monkeypatch.setattr(value_predictability, "measure", measure)
    monkeypatch.setattr(value_predictability, "teach", teach)
    for _ in range(2):
        value_predictability.run(folder, Effort(("tuned/", "told/"), 1))
    assert measured == ["tuned/8x8/xlvin/seed-2", *(f"told/8x8/xlvin/seed-{seed}" for seed in range(3))]
    for record in read_all(folder, "value-predictability"):
        assert [entry["seed"] for entry in record.seeds] == [0, 1, 2]
    assert not list(folder.rglob("*.replaced-*"))


def test_settings_without_a_newer_field_are_the_same_run() -> None:
    run = MazeRun(tiny("tuned", 8, "vin"), 0, Path())
    stored = run.plain()
    assert run.made(stored)
    del stored["continual"]["ppo"]["novelty_coef"]
    assert run.made(stored)
    stored["continual"]["ppo"]["clip"] = 0.5
    assert not run.made(stored)
    assert not run.made({"agent": "vin"})
    assert not run.made(None)


def test_the_real_settings_are_those_of_the_protocol() -> None:
    config = maze_runs.run_config("tuned", 16, "xlvin")
    assert (config.continual.levels, config.continual.success, config.continual.window) == (20, 0.95, 1000)
    assert config.continual.trajectories == 1_000_000
    with pytest.raises(XLVINError, match="choose one of 8, 16, 28"):
        maze_runs.run_config("tuned", 9, "xlvin")


def test_linear_fits() -> None:
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(50, 3, generator=generator)
    value = latents @ torch.tensor([1.0, -2.0, 0.5]) + 3.0
    weights = value_predictability.linear_fit(latents, value)
    torch.testing.assert_close(
        weights, torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64), atol=1e-5, rtol=0.0
    )
    assert value_predictability.r_squared(weights, latents, value) == pytest.approx(1.0, abs=1e-5)
    constant = torch.tensor([0.0, 0.0, 0.0, float(value.mean())], dtype=torch.float64)
    assert value_predictability.r_squared(constant, latents, value) == pytest.approx(0.0, abs=1e-5)


def test_predictability_is_measured_at_every_level(results: Path) -> None:
    table = value_predictability.rows(results)
    assert [(row["agent"], row["level"]) for row in table] == [
        (agent, level) for agent in ("embedding", "executed") for level in (0, 1, 2)
    ]
    assert all(row["seeds"] == 2 and row["mean"] <= row["same_mazes"] + 1e-9 <= 1.0 + 1e-9 for row in table)


def test_geometry_is_kept_for_every_stage_that_was_reached(results: Path) -> None:
    records = read_all(results, "embedding-geometry")
    assert {record.agent for record in records} == {"transe", "level-1", "level-2"}
    shown = records[0].seeds[0]
    assert len(shown["points"]) == len(shown["cells"]) == len(shown["distance"])
    assert len(shown["edges"]) == len(shown["ends"])
    assert shown["distance"].count(0) == 1
    for start, target in shown["edges"]:
        first, second = divmod(shown["cells"][start], 8), divmod(target, 8)
        assert max(abs(first[0] - second[0]), abs(first[1] - second[1])) == 1
        assert not shown["walls"][second[0]][second[1]]


@pytest.mark.parametrize("name", ["continual-maze", "value-predictability", "embedding-geometry"])
def test_the_command_works_from_records(
    name: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "experiments" / f"{name}.md"
    page.parent.mkdir()
    page.write_text("<!-- results -->\n<!-- /results -->\n")
    arguments = ["reproduce", name, "--from-records", "--results", str(results), "--docs", str(tmp_path)]
    assert main(arguments) == 0
    capsys.readouterr()
    assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "|" in page.read_text()
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    if name == "embedding-geometry":
        html = (tmp_path / "figures" / f"{name}.html").read_text()
        assert "TransE alone" in html
        assert "Content-Security-Policy" in html
        assert "://" not in html
