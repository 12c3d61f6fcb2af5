"""`xlvin demo` from the outside, with less data than it takes to learn."""

import json
import re
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.networks import XLVINAgent
from xlvin.cli import main
from xlvin.commands.demo import telling_moment
from xlvin.envs.environment import Environment
from xlvin.executor.artefact import load_executor
from xlvin.training.seeding import derive_seed

SMALL = ["demo", "--seeds", "2", "--trajectories", "2", "--episodes", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "run"


@pytest.fixture(scope="module")
def told(folder: Path) -> str:
    """What the demo prints."""
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(map(str, words))))
        assert main([*SMALL, "--folder", str(folder)]) == 0
    return "\n".join(lines)


def test_it_tells_every_seed_and_labels_the_papers_numbers(told: str, folder: Path) -> None:
    seeds = json.loads((folder / "evaluation.json").read_text())["seeds"]
    assert [len(seed["returns"]) for seed in seeds] == [3, 3]
    scores = [seed["score"] for seed in seeds]
    assert f"0: {scores[0]:.1f}  1: {scores[1]:.1f}" in told
    assert re.search(rf"this run +{np.mean(scores):.1f} +{np.std(scores, ddof=1):.1f} +2\n", told)
    assert re.search(r"XLVIN-R, as the paper prints it +199\.2 +1\.6 +5", told)
    assert re.search(r"PPO, as the paper prints it +104\.6 +48\.5 +5", told)


def test_it_really_trains_on_the_data_it_names(told: str, folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(row["round"], row["seed"]) for row in rows] == [(1, 0), (1, 1)]
    assert all(row["steps"] == 2 * row["return"] for row in rows)  # a reward of one per step, two episodes
    assert "2 seeds, 2 trajectories each" in told


def test_training_leaves_the_executor_as_it_was_shipped(told: str, folder: Path) -> None:
    shipped = load_executor("random-deterministic").processor.state_dict()
    agent = xlvin.load(folder, seed=1)
    assert isinstance(agent, XLVINAgent)
    for name, weight in agent.planner.processor.state_dict().items():
        assert torch.equal(weight, shipped[name]), name


def test_it_draws_a_plan_and_says_where(told: str, folder: Path) -> None:
    picture = matplotlib.image.imread(folder / "plan.png")
    assert picture.shape[1] == 1200
    assert picture[..., :3].std() > 0.05
    assert f"imagines: {folder / 'plan.png'}\n" in told


def test_what_it_advises_can_be_run(told: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = re.search(r"xlvin (evaluate \S+)", told)
    assert command is not None
    assert main([*command[1].split(), "--episodes", "3"]) == 0
    scores = [seed["score"] for seed in json.loads((folder / "evaluation.json").read_text())["seeds"]]
    assert f"{scores[0]:.4g}  {scores[1]:.4g}" in capsys.readouterr().out


def test_a_second_time_it_shows_what_is_there(
    told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "checkpoint.safetensors").stat().st_mtime_ns
    assert main([*SMALL, "--folder", str(folder)]) == 0
    again = capsys.readouterr().out
    assert "remove it to train again" in again
    assert told.split("this run, seed by seed")[1] == again.rstrip("\n").split("this run, seed by seed")[1]
    assert (folder / "checkpoint.safetensors").stat().st_mtime_ns == before


def test_the_telling_moment_is_where_imagined_values_differ_most(told: str, folder: Path) -> None:
    agent = xlvin.load(folder, seed=1)
    moment, missed = telling_moment(agent, seed=1)
    environment, spreads, ended = Environment("CartPole-v0"), [], False
    observation = environment.reset(derive_seed(1, "demo"))
    embeddings, imagined = [], []
    while not ended:
        levels, action = agent.plan(observation).levels, int(agent.predict(observation)[0])
        spreads.append(np.ptp(levels[-1].value))
        embeddings.append(levels[0].embedding[0])
        imagined.append(levels[1].embedding[action])
        observation, _, *ends = environment.step(action)
        ended = any(ends)
    real, off = np.diff(embeddings, axis=0), np.array(imagined[:-1]) - embeddings[1:]
    ratios = np.linalg.norm(off, axis=1) / np.linalg.norm(real, axis=1)
    assert missed == pytest.approx(np.median(ratios), rel=1e-4)
    assert moment.step == np.argmax(spreads)
    assert np.ptp(moment.plan.levels[-1].value) == max(spreads)
    assert moment.frame is not None
    assert moment.frame.shape == (400, 600, 3)


def test_bad_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--seeds", "0", "--folder", str(tmp_path / "run")]) == 2
    assert "Seeds" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
