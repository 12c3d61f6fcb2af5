"""Whatever goes wrong is told in one sentence, and what was good before is kept."""

import errno
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from xlvin import files
from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.errors import RunFailedError, XLVINError
from xlvin.storage import load_tensors, save_tensors
from xlvin.training import run as run_module
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.log import Log
from xlvin.training.presets import preset
from xlvin.training.run import open_run, run
from xlvin.training.trainer import Trainer

from ..environments import (
    CORRIDOR,
    CRASH,
    CRASH_ON_RESET,
    DICT,
    FAULTY,
    LAST_NAN,
    NAN_OBSERVATION,
    NAN_REWARD,
    WRONG_SHAPE,
    Corridor,
)

EPISODES, STEPS = Budget(total=4, per_round=1), Budget("transitions", 12, 3, 1)


def configure(environment: str, budget: Budget = EPISODES, agent: str = "ppo", **ppo: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6)
    settings = replace(PPOConfig(epochs=2, minibatches=1), **ppo)
    return TrainConfig(environment, agent, network, budget, settings, 2, 5, evaluation_episodes=2)


FAULTS = {
    NAN_REWARD: "the reward nan at step 2",
    NAN_OBSERVATION: "non-finite observation at step 2",
    LAST_NAN: "non-finite observation at step 3",
    CRASH: "ZeroDivisionError",
    CRASH_ON_RESET: "simulator is gone",
    WRONG_SHAPE: "shape",
}


@pytest.mark.parametrize("budget", [EPISODES, STEPS], ids=["trajectories", "transitions"])
@pytest.mark.parametrize("environment", FAULTS)
def test_a_failing_environment_stops_the_run_and_spares_the_checkpoint(
    tmp_path: Path, environment: str, budget: Budget
) -> None:
    with pytest.raises(RunFailedError, match=FAULTS[environment]) as caught:
        run(configure(environment, budget), tmp_path)
    # Both environments fail in their third episode; the first seed's is stepped first. A reset at the end of
    # a round of steps belongs to that round.
    early = environment == CRASH_ON_RESET and budget is STEPS
    assert f"seed 5 stopped in round {2 if early else 3}" in str(caught.value)
    assert environment in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    config, agents = open_run(tmp_path)
    assert config.environment == environment
    assert len(agents) == 2
    assert int(load_tensors(tmp_path / "checkpoint.safetensors")[0]["round"]) == (1 if early else 2)
    # The run was as good as one on the environment without the fault.
    twin = Trainer(configure(FAULTY, budget))
    for _ in range(1 if early else 2):
        twin.train_round()
    for agent, expected in zip(agents, twin.members(), strict=True):
        assert all(
            torch.equal(left, right)
            for left, right in zip(agent.state_dict().values(), expected.state_dict().values(), strict=True)
        )


def test_a_reward_beyond_single_precision_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Corridor, "step", lambda *_: (np.zeros(2, np.float32), -1e300, True, False, {}))
    with pytest.raises(RunFailedError, match=r"gave the reward -1e\+300 at step 1 .*; mend the environment"):
        run(configure(CORRIDOR), tmp_path)


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r"])
def test_losses_that_are_not_finite_stop_the_run(tmp_path: Path, agent: str) -> None:
    config = configure(CORRIDOR, agent=agent, learning_rate=1e30)
    with pytest.raises(RunFailedError, match=r"of seed [56] became .* in round 1; lower the learning rate"):
        run(config, tmp_path)
    with pytest.raises(XLVINError, match="no checkpoint yet"):
        open_run(tmp_path)
    # What the message advises, in the same folder: nothing was learned there.
    assert run(replace(config, ppo=replace(config.ppo, learning_rate=1e-3)), tmp_path).folder == tmp_path


def test_weights_that_are_not_finite_never_reach_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Trainer._learn

    def overflow(self: Trainer, *arguments: Any) -> Any:
        metrics = learn(self, *arguments)
        if self.round == 2:
            self.stack.flat[1, 0] = float("inf")
        return metrics

    monkeypatch.setattr(Trainer, "_learn", overflow)
    config = configure(CORRIDOR, epochs=1)  # the loss of the only update is still fine
    with pytest.raises(RunFailedError, match="weights of seed 6 became inf in round 3"):
        run(config, tmp_path)
    assert int(load_tensors(tmp_path / "checkpoint.safetensors")[0]["round"]) == 2


@pytest.mark.parametrize(
    ("environment", "agent", "told"),
    [
        ("CartPole-v00", "ppo", "Did you mean CartPole-v0"),
        ("CartPole-v0", "xlvin", 'Did you mean "xlvin-r"'),
        ("CartPole-v0", "dreamer", "Choose one of: xlvin-r"),
        ("CartPole-v0", "ppo-gaussian", "discrete actions"),
        (DICT, "ppo", "Dict space"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    tmp_path: Path, environment: str, agent: str, told: str
) -> None:
    with pytest.raises(XLVINError, match=told) as caught:
        run(preset(environment, agent), tmp_path / "run")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(configure(CORRIDOR, STEPS, "xlvin-r"), folder)
    return folder


@pytest.fixture
def stored(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], None]) -> None:
    tensors, metadata = load_tensors(folder / "checkpoint.safetensors")
    change(tensors, metadata)
    save_tensors(folder / "checkpoint.safetensors", tensors, metadata)


def truncate(folder: Path) -> None:
    path = folder / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


def put(folder: Path, content: bytes) -> None:
    (folder / "checkpoint.safetensors").write_bytes(content)


WEIGHT = "weights.actor.weight"


def change(**names: Any) -> Callable[[Path], None]:
    """Rewrite fields of the metadata; None removes one."""

    def apply(folder: Path) -> None:
        rewrite(folder, lambda tensors, metadata: _update(metadata, names))

    return apply


def tensor(name: str, edit: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[Path], None]:
    """Rewrite a tensor; None removes it."""

    def apply(folder: Path) -> None:
        rewrite(folder, lambda tensors, metadata: _update(tensors, {name: edit(tensors[name])}))

    return apply


def _update(content: dict[str, Any], changes: dict[str, Any]) -> None:
    content.update(changes)
    for name in [name for name, value in changes.items() if value is None]:
        del content[name]


def keep_one_seed(folder: Path) -> None:
    rewrite(folder, lambda tensors, _: tensors.update({n: t[:1] for n, t in tensors.items() if t.dim()}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "empty": lambda folder: put(folder, b""),
    "a pickle that would end the process": lambda folder: put(folder, pickle.dumps(Bomb())),
    "a torch file": lambda folder: torch.save({"a": torch.ones(2)}, folder / "checkpoint.safetensors"),
    "foreign tensors": lambda folder: put(folder, safetensors.torch.save({"layer": torch.ones(3)})),
    "another format": change(format="xlvin-checkpoint-9"),
    "no configuration": change(config=None),
    "configuration of another kind": change(config=[1]),
    "no executor": change(executor=None),
    "another executor": change(executor={"width": 3}),
    "wrong shape": tensor(WEIGHT, lambda weight: weight[..., 1:].contiguous()),
    "a shape that broadcasts": tensor(WEIGHT, lambda weight: weight[:, :1].contiguous()),
    "wrong type": tensor(WEIGHT, lambda weight: weight.double()),
    "not finite": tensor(WEIGHT, lambda weight: weight * torch.inf),
    "missing weights": tensor(WEIGHT, lambda weight: None),
    "weights of one seed": keep_one_seed,
    "of another run": change(config=json.loads(json.dumps(asdict(configure(CORRIDOR, STEPS, "ppo"))))),
}
RESUME_ONLY: dict[str, Callable[[Path], object]] = {
    "a round that is no number": tensor("round", lambda round_: round_ * torch.nan),
    "no optimiser": tensor("optimiser.first", lambda moment: None),
    "actions that do not exist": tensor("actors.action", lambda actions: actions + 99),
    "lengths that do not add up": tensor("actors.length", lambda lengths: lengths + 1),
    "configuration no JSON": lambda folder: (folder / "config.json").write_text("{"),
    "configuration a list": lambda folder: (folder / "config.json").write_text("[]"),
    "metrics damaged": lambda folder: (folder / "metrics.jsonl").write_text("what\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_checkpoints_are_neither_resumed_nor_opened(stored: Path, damage: str) -> None:
    DAMAGES[damage](stored)
    before = (stored / "checkpoint.safetensors").read_bytes()
    for use in (lambda: run(configure(CORRIDOR, STEPS, "xlvin-r"), stored), lambda: open_run(stored)):
        with pytest.raises(XLVINError) as caught:
            use()
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
    assert (stored / "checkpoint.safetensors").read_bytes() == before


def test_a_folder_is_no_checkpoint(stored: Path) -> None:
    path = stored / "checkpoint.safetensors"
    path.unlink()
    path.mkdir()
    with pytest.raises(XLVINError, match=r"cannot be read \(no file\)"):
        open_run(stored)


@pytest.mark.parametrize("damage", RESUME_ONLY)
def test_what_cannot_be_resumed_is_refused(stored: Path, damage: str) -> None:
    RESUME_ONLY[damage](stored)
    with pytest.raises(XLVINError) as caught:
        run(configure(CORRIDOR, STEPS, "xlvin-r"), stored)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_the_folder_of_another_run_is_refused_and_left_alone(stored: Path) -> None:
    content = {path.name: path.read_bytes() for path in stored.iterdir() if path.is_file()}
    told = r"other settings \(ppo.learning_rate 0.001 there, 0.5 here; ppo.epochs 2 there, 3 here\); choose"
    with pytest.raises(XLVINError, match=told):
        run(configure(CORRIDOR, STEPS, "xlvin-r", learning_rate=0.5, epochs=3), stored)
    many = {"learning_rate": 0.5, "epochs": 3, "clip": 0.3, "gae_lambda": 0.5}
    with pytest.raises(XLVINError, match=r"3 here; ppo.clip 0.2 there, 0.3 here; and more\); choose"):
        run(configure(CORRIDOR, STEPS, "xlvin-r", **many), stored)
    assert content == {path.name: path.read_bytes() for path in stored.iterdir() if path.is_file()}


def test_a_checkpoint_of_another_run_is_refused(stored: Path, tmp_path: Path) -> None:
    other = configure(CORRIDOR, STEPS, "xlvin-r", learning_rate=0.5)
    run(other, tmp_path / "other")
    put(tmp_path / "other", (stored / "checkpoint.safetensors").read_bytes())
    with pytest.raises(XLVINError, match="another run"):
        run(other, tmp_path / "other")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file/run", Path("/proc/nowhere/run"), Path("/dev/full")):
        with pytest.raises(XLVINError, match="could not be written") as caught:
            run(configure(CORRIDOR), folder)
        assert caught.value.exit_code == 2
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def full(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_last_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(CORRIDOR)
    save, saved = run_module.save_tensors, []

    def fill_up(path: Path, *content: Any) -> None:
        if len(saved) == 2:
            monkeypatch.setattr(files.os, "fsync", full)  # the third checkpoint is half written
        saved.append(path)
        save(path, *content)

    with monkeypatch.context() as disk:
        disk.setattr(run_module, "save_tensors", fill_up)
        disk.setattr(Log, "sync", lambda log: None)
        with pytest.raises(
            RunFailedError, match=r"checkpoint.safetensors could not be written \(No space left"
        ):
            run(config, tmp_path / "run", checkpoint_every=0.0)
    monkeypatch.undo()
    assert int(load_tensors(tmp_path / "run/checkpoint.safetensors")[0]["round"]) == 2
    assert not list((tmp_path / "run").glob(".*"))
    run(config, tmp_path / "run")
    run(config, tmp_path / "whole")
    for name in ("checkpoint.safetensors", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_metrics_on_a_full_disk_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, opened = configure(CORRIDOR), Path.open

    def open_full(path: Path, *arguments: Any, **options: Any) -> Any:
        return opened(Path("/dev/full") if path.name == "metrics.jsonl" else path, *arguments, **options)

    with monkeypatch.context() as disk:
        disk.setattr(Path, "open", open_full)
        with pytest.raises(RunFailedError, match=r"metrics.jsonl could not be written \(No space left"):
            run(config, tmp_path)
    result = run(config, tmp_path)
    rounds = [json.loads(line)["round"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rounds == [1, 1, 2, 2, 3, 3, 4, 4]
    assert len(result.agents) == 2
