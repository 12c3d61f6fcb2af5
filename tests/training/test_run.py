"""Runs on disk: what is written, and that a stopped run ends with the bits of one that was never stopped."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_provenance
from xlvin.storage import load_tensors, save_tensors
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.run import default_folder, fingerprint, kept_rounds, open_run, run
from xlvin.training.trainer import Trainer

from ..environments import CORRIDOR, DEPTHS

EPISODES, STEPS = Budget(total=12, per_round=3), Budget("transitions", 64, 8, 2)
ROUNDS = 4


def configure(budget: Budget, agent: str = "xlvin-r", **ppo: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6)
    settings = PPOConfig(epochs=2, minibatches=2, novelty_coef=0.1, anneal=True)
    return TrainConfig(CORRIDOR, agent, network, budget, replace(settings, **ppo), 2, evaluation_episodes=3)


class StoppedError(Exception):
    pass


def stop_in(round_: int, epoch: int = 1) -> Any:
    """A progress callback that ends the run in the middle of a round."""

    def progress(now: int, done: int, metrics: dict[str, np.ndarray]) -> None:
        if (now, done) == (round_, epoch):
            raise StoppedError

    return progress


def checkpoint(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "checkpoint.safetensors")[0]


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("budget", [EPISODES, STEPS], ids=["trajectories", "transitions"])
@pytest.mark.parametrize("every", [0.0, 1e9], ids=["checkpoint every round", "never but at the end"])
def test_stopped_anywhere_a_run_ends_with_the_same_bits(tmp_path: Path, budget: Budget, every: float) -> None:
    config = configure(budget)
    assert config.budget.rounds == ROUNDS
    whole = run(config, tmp_path / "whole", checkpoint_every=every)
    for stopped in range(ROUNDS):
        with pytest.raises(StoppedError):
            run(config, tmp_path / "parts", progress=stop_in(stopped), checkpoint_every=every)
        # What was learnt in whole rounds is kept, also if no checkpoint was due.
        if stopped:
            assert int(checkpoint(tmp_path / "parts")["round"]) == stopped
            assert [line["round"] for line in lines(tmp_path / "parts")[::2]] == list(range(1, stopped + 1))
    parts = run(config, tmp_path / "parts", checkpoint_every=every)
    assert_same(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    assert (tmp_path / "whole/metrics.jsonl").read_text() == (tmp_path / "parts/metrics.jsonl").read_text()
    assert np.array_equal(whole.returns, parts.returns)
    for left, right in zip(whole.agents, parts.agents, strict=True):
        assert_same(left.state_dict(), right.state_dict())


def test_an_aligned_agent_goes_on_as_well(tmp_path: Path) -> None:
    config = configure(EPISODES, "xlvin-aligned")
    run(config, tmp_path / "whole")
    with pytest.raises(StoppedError):
        run(config, tmp_path / "parts", progress=stop_in(2))
    resumed = run(config, tmp_path / "parts")
    assert_same(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    opened = open_run(tmp_path / "parts")[1]
    assert_same(opened[1].state_dict(), resumed.agents[1].state_dict())


def test_metrics_behind_the_checkpoint_are_dropped_and_redone(tmp_path: Path) -> None:
    config = configure(EPISODES)
    run(config, tmp_path / "whole")
    with pytest.raises(StoppedError):
        run(config, tmp_path / "killed", progress=stop_in(2), checkpoint_every=0.0)
    # As after a kill between the last lines and their checkpoint, in the middle of a line.
    with (tmp_path / "killed/metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "seed": 0, "return": 0.5}\n{"round": 3, "se')
    run(config, tmp_path / "killed")
    assert (tmp_path / "whole/metrics.jsonl").read_text() == (tmp_path / "killed/metrics.jsonl").read_text()


def test_a_process_that_is_killed_resumes(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from xlvin.training.config import *\n"
        "from xlvin.training.run import run\n"
        "config = TrainConfig('CartPole-v0', 'ppo', AgentConfig(kind='ppo', hidden=8, latent=6),\n"
        "    Budget('transitions', 1600, 20, 2), PPOConfig(epochs=1), evaluation_episodes=2)\n"
        "run(config, Path(sys.argv[1]), checkpoint_every=0.0)\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    process = subprocess.Popen([*command, str(tmp_path / "killed")], env=environment)
    metrics, deadline = tmp_path / "killed/metrics.jsonl", time.monotonic() + 60
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 5:
        assert process.poll() is None, "the job ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed_at = len(metrics.read_text().splitlines())
    assert 5 <= killed_at < 40
    scope: dict[str, Any] = {}
    exec(script.read_text().rsplit("\n", 2)[0], scope)  # all but the last line
    run(scope["config"], tmp_path / "whole")
    run(scope["config"], tmp_path / "killed")
    assert_same(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "killed"))
    assert [line["round"] for line in lines(tmp_path / "killed")] == list(range(1, 41))
    assert (tmp_path / "whole/metrics.jsonl").read_text() == metrics.read_text()
    assert not list((tmp_path / "killed").glob(".*"))


def test_a_run_folder_tells_its_story(tmp_path: Path) -> None:
    result = run(configure(EPISODES), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "config.json",
        "evaluation.json",
        "metrics.jsonl",
        "tensorboard",
    ]
    told = json.loads((tmp_path / "run/config.json").read_text())
    assert TrainConfig.from_dict(told["config"]) == result.config
    assert result.config.network.observation == (2,)
    assert told["executor_sha256"] == load_provenance("random-deterministic")["sha256"]
    assert told["provenance"]["versions"]["xlvin"] == xlvin.__version__
    found = lines(tmp_path / "run")
    assert [(line["round"], line["seed"]) for line in found] == [(r, s) for r in range(1, 5) for s in (0, 1)]
    assert {"return", "steps", "total", "policy", "value", "entropy", "transe"} <= found[0].keys()
    assert found[0]["steps"] < found[-2]["steps"]
    scores = json.loads((tmp_path / "run/evaluation.json").read_text())["seeds"]
    assert [seed["score"] for seed in scores] == pytest.approx(result.scores.tolist())
    assert len(scores[0]["returns"]) == 3
    assert list((tmp_path / "run/tensorboard").iterdir())


def test_finished_runs_are_returned_not_redone(tmp_path: Path) -> None:
    config = configure(EPISODES)
    first = run(config, tmp_path)
    second = run(config, tmp_path, progress=stop_in(0))
    assert np.array_equal(first.returns, second.returns)
    (tmp_path / "evaluation.json").write_text("{")  # a damaged one is made anew
    assert np.array_equal(run(config, tmp_path).returns, first.returns)


def test_an_evaluation_of_other_agents_is_not_taken_for_theirs(tmp_path: Path) -> None:
    config = configure(EPISODES)
    first = run(config, tmp_path)
    kept = json.loads((tmp_path / "evaluation.json").read_text())
    kept["seeds"][0]["returns"] = [77.0] * 3
    (tmp_path / "evaluation.json").write_text(json.dumps(kept))
    (tmp_path / "checkpoint.safetensors").unlink()
    assert np.array_equal(run(config, tmp_path).returns, first.returns)


def test_an_environment_that_has_changed_is_told_of(tmp_path: Path) -> None:
    source = tmp_path / "changing.py"
    source.write_text(
        "import gymnasium\n"
        "entry = 'gymnasium.envs.classic_control:CartPoleEnv'\n"
        "gymnasium.register('Changing-v0', entry, max_episode_steps=5)\n"
    )
    config = replace(configure(Budget(total=2, per_round=1), "ppo"), environment=f"{source}:Changing-v0")
    run(config, tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(config, tmp_path / "run")
    source.write_text(source.read_text() + "# another one\n")
    with pytest.warns(UserWarning, match=r"changing.py has changed since"):
        run(config, tmp_path / "run")


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = configure(EPISODES)
    result = run(config)
    assert result.folder is None
    assert not list(tmp_path.iterdir())
    assert np.array_equal(result.returns, run(config, tmp_path / "kept").returns)


def test_opening_a_run_gives_its_agents(tmp_path: Path) -> None:
    result = run(configure(EPISODES), tmp_path)
    config, agents = open_run(tmp_path)
    assert config == result.config
    for left, right in zip(agents, result.agents, strict=True):
        assert_same(left.state_dict(), right.state_dict())
    assert not torch.equal(agents[0].actor.weight, agents[1].actor.weight)


def test_folders_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(XLVINError, match="holds no run"):
        open_run(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(XLVINError, match="no checkpoint yet"):
        open_run(tmp_path)


def test_damaged_folders_are_told_of(tmp_path: Path) -> None:
    config = configure(EPISODES)
    run(config, tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    tensors, description = load_tensors(path)
    save_tensors(path, {n: t for n, t in tensors.items() if n != "round"}, description)
    with pytest.raises(XLVINError, match="does not say how far it is"):
        kept_rounds(tmp_path)
    save_tensors(path, tensors | {"weights.actor.weight": torch.tensor(1.0)}, description)
    with pytest.raises(XLVINError, match="does not hold weights for 2 seeds"):
        open_run(tmp_path)
    save_tensors(path, tensors, description)
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(XLVINError, match=r"metrics.jsonl is damaged"):
        run(config, tmp_path)


@pytest.mark.parametrize("rounds", [ROUNDS, 2], ids=["finished", "stopped"])
def test_a_run_is_not_taken_on_with_another_executor(tmp_path: Path, rounds: int) -> None:
    shipped = Path(xlvin.__file__).parent / "executor/weights"
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped / f"random-deterministic{suffix}", tmp_path / f"mine{suffix}")
    config = configure(EPISODES)
    config = replace(config, network=replace(config.network, executor=str(tmp_path / "mine.safetensors")))
    with contextlib.suppress(StoppedError):
        run(config, tmp_path / "run", progress=stop_in(rounds))
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped / f"cartpole-tree{suffix}", tmp_path / f"mine{suffix}")
    with pytest.raises(XLVINError, match=r"another executor than .*mine.safetensors holds now; choose"):
        run(config, tmp_path / "run")


def test_a_result_is_told_in_a_line(tmp_path: Path) -> None:
    config = configure(Budget(total=1), "ppo")
    result = run(config, tmp_path)
    mean = f"mean {result.scores.mean():.1f}"
    assert repr(result) == f"<Result ppo on {CORRIDOR}: {mean} of 2 seeds, in {tmp_path}>"
    assert repr(run(replace(config, seeds=1))).endswith("of 1 seed, not kept>")


def test_the_default_folder_stands_for_the_whole_configuration() -> None:
    config = replace(configure(EPISODES), environment="ALE/Alien-v5")
    assert default_folder(config).parts[0] == "runs"
    assert default_folder(config).name == f"ALE-Alien-v5-xlvin-r-{fingerprint(config)}"
    assert default_folder(config) == default_folder(replace(config))
    assert default_folder(config) != default_folder(replace(config, first_seed=1))


def test_a_run_is_not_named_by_the_type_of_its_images() -> None:
    config = configure(EPISODES)
    network = replace(config.network, image="float32")
    assert fingerprint(replace(config, network=network)) == fingerprint(config)


@pytest.mark.parametrize(("environment", "image"), [(CORRIDOR, "uint8"), (DEPTHS, "float32")])
def test_a_run_from_before_images_had_a_type_goes_on(tmp_path: Path, environment: str, image: str) -> None:
    config = replace(configure(EPISODES, "ppo"), environment=environment)
    with contextlib.suppress(StoppedError):
        run(config, tmp_path, progress=stop_in(2))
    content, path = json.loads((tmp_path / "config.json").read_text()), tmp_path / "checkpoint.safetensors"
    tensors, description = load_tensors(path)
    for stored in (content, description):
        del stored["config"]["network"]["image"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    save_tensors(path, tensors, description)
    assert open_run(tmp_path)[1][0].config.image == "uint8"
    result = run(config, tmp_path)
    assert result.agent.config.image == open_run(tmp_path)[1][0].config.image == image
    assert_same(result.agent.state_dict(), run(config).agent.state_dict())


def test_a_state_is_a_copy() -> None:
    trainer = Trainer(configure(STEPS))
    trainer.train_round()
    state = trainer.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    trainer.train_round()
    assert_same(state, before)
    trainer.restore(state)
    assert trainer.round == 1
    assert_same(trainer.state(), before)
