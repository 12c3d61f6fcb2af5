"""The public functions: train, load, and what they refuse."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.registry import make_agent
from xlvin.errors import XLVINError
from xlvin.training.api import configure, override
from xlvin.training.config import Budget, ImaginationConfig, TrainConfig
from xlvin.training.trainer import Trainer

from ..environments import CORRIDOR, PICTURE, Aim, register

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


@pytest.mark.parametrize(
    "settings",
    [{"vtrace": True, "recompute": True}, {"discount": 1.0, "first_discount": None}],
)
def test_settings_that_need_each_other_come_in_any_order(settings: dict[str, Any]) -> None:
    start = configure("Acrobot-v1")
    assert override(start, settings) == override(start, dict(reversed(settings.items())))


def test_numbers_of_numpy_are_numbers() -> None:
    config = override(configure("CartPole-v0", trajectories=np.int64(7)), {"depth": np.int64(3)})
    assert type(config.budget.total) is type(config.network.depth) is int
    assert make_agent("ppo", observation=(4,), actions=np.int64(2)).config.actions == 2


def test_some_or_all_fields_of_a_part() -> None:
    start = configure("CartPole-v0")
    config = override(start, {"imagination": {"horizon": 40}, "ppo": {"clip": 0.3}, "values": {"updates": 3}})
    assert config.imagination == replace(start.imagination, horizon=40)
    assert config.imagination.last_iterations > 0
    assert config.ppo == replace(start.ppo, clip=0.3)
    assert config.values.updates == 3
    whole = ImaginationConfig(last_iterations=2)
    assert override(start, {"imagination": whole}).imagination == whole
    for settings in ({"imagination": ImaginationConfig(horizon=40)}, {"imagination": {"last_iterations": 0}}):
        with pytest.raises(
            XLVINError, match=r"xlvin-imagine would not imagine with .*last_iterations 0; set"
        ):
            override(start, settings)
    assert override(configure("CartPole-v0", "ppo"), {"imagination": ImaginationConfig()}).agent == "ppo"
    for settings, told in (
        ({"imagination": {"horizn": 40}}, 'no setting "horizn". Did you mean "horizon"'),
        ({"imagination": 40}, r"imagination is 40; give xlvin.ImaginationConfig\(...\)"),
    ):
        with pytest.raises(XLVINError, match=told):
            override(start, settings)


@pytest.mark.parametrize("bins", [2, [2], (2,) * 7])
def test_many_dimensions_with_bins_of_ones_own(bins: Any) -> None:
    register("xlvin-tests/Aim7D-v0", Aim, kwargs={"low": (-1.0,) * 7, "high": (1.0,) * 7})
    config = override(configure("xlvin-tests/Aim7D-v0"), {"bins": bins})
    assert config.agent == "xlvin-imagine"
    trainer = Trainer(replace(config, budget=Budget(total=1)))
    trainer.close()
    assert trainer.config.network.bins == (2,) * 7


def test_progress_as_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    xlvin.train(CORRIDOR, "ppo", trajectories=9, progress=True, **SMALL)
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"ppo on {CORRIDOR}, 8 of 9 trajectories (rounds of 4), 1 seed, not kept"
    assert last.startswith("round 2/2, return ")
    assert last.endswith(", evaluating")
    calls: list[tuple[int, int]] = []
    told = lambda round_, done, metrics: calls.append((round_, done))  # noqa: E731
    xlvin.train(CORRIDOR, "ppo", trajectories=2, progress=told, **SMALL | {"epochs": 2})
    assert calls == [(0, 1), (0, 2)]
    assert not capsys.readouterr().err


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
        (lambda: xlvin.train("CartPole-v0", trajectories=3, total=7), "The budget is set twice"),
        (lambda: xlvin.train("CartPole-v0", trajectories=2.5), "total is 2.5"),  # type: ignore[arg-type]
        (lambda: xlvin.train("CartPole-v0", seeds=[0, 1]), "give a whole number"),  # type: ignore[arg-type]
        (lambda: xlvin.train("CartPole-v0", depth=2.0), "depth is 2.0"),
        (lambda: xlvin.train("CartPole-v0", bins="two"), "bins is 'two'; give a tuple"),
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
    page = (Path(__file__).parents[2] / "docs/api/index.md").read_text()
    for name in xlvin.__all__:
        assert getattr(xlvin, name).__name__ == name
        assert f"::: xlvin.{name}\n" in page
    with pytest.raises(AttributeError):
        xlvin.does_not_exist  # noqa: B018


def test_importing_is_cheap() -> None:
    code = "import sys, xlvin; xlvin.cli if False else None; from xlvin.cli import main; main(['--help']); "
    code += "sys.exit(int(any(name in sys.modules for name in ('torch', 'numpy', 'gymnasium', 'tyro'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
