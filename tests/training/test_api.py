"""The public functions: train, load, and what they refuse."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import xlvin
from xlvin.errors import XLVINError
from xlvin.training.api import configure, override
from xlvin.training.config import Budget, TrainConfig

from ..environments import CORRIDOR, PICTURE

SMALL: dict[str, Any] = {"epochs": 1, "hidden": 8, "latent": 6, "evaluation_episodes": 2}


def test_train_predict_save_load(tmp_path: Path) -> None:
    result = xlvin.train(CORRIDOR, trajectories=2, seeds=2, first_seed=4, folder=tmp_path / "run", **SMALL)
    assert result.returns.shape == (2, 2)
    assert result.scores.shape == (2,)
    assert result.config.seed_list == (4, 5)
    observation = np.array([2.0, 0.0])
    action, _ = result.agent.predict(observation)
    assert action in (0, 1, 2)
    result.agents[1].save(tmp_path / "agent.safetensors")
    for loaded in (xlvin.load(tmp_path / "agent.safetensors"), xlvin.load(str(tmp_path / "run"), seed=5)):
        for name, weight in result.agents[1].state_dict().items():
            assert torch.equal(weight, loaded.state_dict()[name])
    first = xlvin.load(tmp_path / "run").state_dict()["actor.weight"]
    assert torch.equal(first, result.agent.state_dict()["actor.weight"])
    assert not torch.equal(first, result.agents[1].state_dict()["actor.weight"])


def test_settings_reach_their_place() -> None:
    config = override(
        configure("CartPole-v0", "xlvin-cp", transitions=999),
        {"learning_rate": 0.5, "depth": 3, "environments": 4, "discount": 0.7, "evaluation_episodes": 9},
    )
    assert (config.ppo.learning_rate, config.network.depth, config.ppo.discount) == (0.5, 3, 0.7)
    assert config.budget == Budget("transitions", 999, 128, 4)
    assert config.evaluation_episodes == 9


def test_presets_differ_and_budgets_replace_theirs() -> None:
    tuned, paper = configure("CartPole-v0"), configure("CartPole-v0", preset="paper")
    assert tuned != paper
    assert paper.ppo.epochs == 100
    assert configure("Acrobot-v1", trajectories=7).budget == Budget(total=7, per_round=5)
    assert isinstance(tuned, TrainConfig)


def test_the_default_agent_can_learn_from_what_it_sees() -> None:
    assert configure(CORRIDOR).agent == "xlvin-imagine"
    assert configure(PICTURE).agent == "xlvin-r", "images have no model to imagine with"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: xlvin.train("CartPole-v0", "pppo"), 'Did you mean "ppo"'),
        (lambda: xlvin.train("CartPole-v0", learning_rat=1), 'Did you mean "learning_rate"'),
        (lambda: xlvin.train("CartPole-v0", zzz=1), "TrainConfig"),
        (lambda: xlvin.train("CartPole-v0", trajectories=1, transitions=1), "one of them"),
        (lambda: xlvin.train("CartPole-v0", preset="best"), "tuned or paper"),
        (lambda: xlvin.train(gymnasium.make("CartPole-v1")), "env.spec.id"),  # type: ignore[arg-type]
        (lambda: xlvin.load("nowhere.safetensors"), "no file"),
        (lambda: xlvin.load("nowhere.safetensors", seed=1), "leave the seed out"),
    ],
)
def test_mistakes_are_told_in_a_sentence(call: Any, told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        call()


def test_seeds_that_a_run_does_not_have(tmp_path: Path) -> None:
    xlvin.train(CORRIDOR, "ppo", trajectories=1, seeds=2, folder=tmp_path, **SMALL)
    with pytest.raises(XLVINError, match="no seed 7; its seeds are 0, 1"):
        xlvin.load(tmp_path, seed=7)


def test_every_public_name_is_there() -> None:
    assert set(xlvin.__all__) <= set(dir(xlvin))
    for name in xlvin.__all__:
        assert getattr(xlvin, name).__name__ == name
    with pytest.raises(AttributeError):
        xlvin.does_not_exist  # noqa: B018


def test_importing_is_cheap() -> None:
    code = "import sys, xlvin; xlvin.cli if False else None; from xlvin.cli import main; main(['--help']); "
    code += "sys.exit(int(any(name in sys.modules for name in ('torch', 'numpy', 'gymnasium', 'tyro'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
