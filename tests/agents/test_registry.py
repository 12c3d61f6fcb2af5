"""Agents by name and from files, and every way in which a file can be wrong."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import xlvin
from xlvin.agents.base import BEAM, AgentConfig
from xlvin.agents.networks import XLVINAgent
from xlvin.agents.registry import AGENTS, load, make_agent
from xlvin.errors import XLVINError
from xlvin.executor.artefact import save_executor
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.pretrain import PretrainConfig
from xlvin.storage import load_tensors, save_tensors

SMALL: dict[str, Any] = {"observation": (4,), "actions": 2, "hidden": 8, "latent": 6}


@pytest.mark.parametrize("name", AGENTS)
def test_the_seed_decides_all_weights(name: str) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second, other = (make_agent(name, seed=seed, **SMALL) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_heads_that_speak_in_the_logits_start_small() -> None:
    ppo, aligned = (make_agent(name, **SMALL) for name in ("ppo", "xlvin-aligned"))
    norms = [head.weight.norm().item() for head in (ppo.critic, aligned.planner.value)]
    assert norms == pytest.approx([1.0, 0.01])


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("xlvinr", {}, 'Did you mean "xlvin-r"'),
        ("xlvin-r", {"executor": "nowhere"}, 'no executor "nowhere"'),
        ("xlvin-r", {"depht": 3}, "AgentConfig"),
        ("xlvin-r", {"depth": -1}, "depth"),
        ("atreec", {"depth": 40}, "smaller depth or give a beam"),
        ("atreec", {"depth": 10**9}, "smaller depth or give a beam"),
        ("xlvin-r", {"wiring": "loose"}, "executor, skeleton, aligned"),
        ("xlvin-aligned", {"depth": 0}, "depth 0"),
        ("xlvin-aligned", {"beam": 0}, "beam is 0"),
        ("xlvin-aligned", {"beam": 2, "samples": 2}, "deterministic model"),
        ("xlvin-aligned", {"normalise": True}, "as pretrained"),
        ("xlvin-aligned", {"sharpness": float("nan")}, "sharpness is nan"),
        ("atreec", {"beam": 8}, 'Kind "atreec" has no beam'),
        ("treeqn", {"beam": 8, "depth": 40}, "has no beam"),
        ("vpn", {"beam": 8}, "has no beam"),
        ("ppo", {"beam": 8}, "has no beam"),
        ("atreec", {"normalise": True}, "has no normalise"),
        ("atreec", {"wiring": "aligned"}, "has no aligned wiring"),
        ("xlvin-r", {"kind": "pixels", "wiring": "aligned"}, 'Kind "pixels" has no aligned wiring'),
        (
            "atreec",
            {"depth": 20, "actions": 9, "bins": (9,), "low": (-1.0,), "high": (1.0,)},
            "smaller depth",
        ),
        ("xlvin-r", {"inputs": "loud"}, "raw, bounds, standard, symlog"),
        ("ppo", {"actions": 0}, "at least one action"),
        ("ppo", {"observation": ()}, "shape of its observations"),
        ("ppo", {"hidden": 0}, "empty layer"),
        ("ppo", {"observation": (3, 10, 10)}, "too small"),
    ],
)
def test_impossible_agents_are_refused(name: str, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(XLVINError, match=told):
        make_agent(name, **{**SMALL, **fields})


def test_an_agent_outlives_the_file_of_its_executor(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    shape = ExecutorConfig(width=7, reduction="sum", layer_norm=True)
    torch.manual_seed(0)
    save_executor(path, Executor(shape), PretrainConfig(executor=shape), {})
    agent = make_agent("xlvin-r", executor=str(path), **SMALL).eval()
    agent.save(tmp_path / "agent.safetensors")
    path.unlink()
    path.with_suffix(".json").unlink()
    loaded = xlvin.load(tmp_path / "agent.safetensors")
    assert loaded.executor == shape
    observation = np.ones((5, 4), np.float32)
    with torch.no_grad():
        assert torch.equal(
            loaded(torch.from_numpy(observation)).logits, agent(torch.from_numpy(observation)).logits
        )
    assert not any(weight.requires_grad for weight in loaded.planner.processor.parameters())


def test_an_agent_that_paints_outlives_it_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    shape = ExecutorConfig(width=7)
    save_executor(path, Executor(shape), PretrainConfig(executor=shape), {})
    fields = {**SMALL, "observation": (1, 84, 84), "kind": "pixels", "executor": str(path)}
    agent = make_agent("xlvin-r", **fields).eval()
    agent.save(tmp_path / "agent.safetensors")
    path.unlink()
    path.with_suffix(".json").unlink()
    loaded = xlvin.load(tmp_path / "agent.safetensors")
    assert type(loaded) is type(agent)
    assert loaded.executor == shape
    for name, weight in agent.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name]), name


def test_an_aligned_agent_brings_its_whole_executor_and_the_discount_it_was_taught(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    shape = ExecutorConfig(width=7, reduction="sum", layer_norm=True)
    torch.manual_seed(0)
    save_executor(path, Executor(shape), PretrainConfig(executor=shape, discount=0.5), {})
    agent = make_agent("xlvin-aligned", executor=str(path), **SMALL).eval()
    assert agent.planner.executor_discount.item() == 0.5
    agent.save(tmp_path / "agent.safetensors")
    path.unlink()
    path.with_suffix(".json").unlink()
    loaded = xlvin.load(tmp_path / "agent.safetensors")
    assert loaded.executor == shape
    assert loaded.planner.executor_discount.item() == 0.5
    observation = torch.ones(5, 4)
    with torch.no_grad():
        assert torch.equal(loaded(observation).logits, agent(observation).logits)
    assert not any(weight.requires_grad for weight in loaded.planner.executor.parameters())


def test_an_aligned_network_is_built_by_its_name_only() -> None:
    with pytest.raises(XLVINError, match="make_agent"):
        XLVINAgent(AgentConfig(wiring="aligned", **SMALL))


def test_a_run_outlives_the_file_of_its_executor(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    shape = ExecutorConfig(width=7)
    save_executor(path, Executor(shape), PretrainConfig(executor=shape), {})
    result = xlvin.train(
        "CartPole-v0",
        trajectories=1,
        epochs=1,
        executor=str(path),
        evaluation_episodes=1,
        folder=tmp_path / "run",
    )
    path.unlink()
    path.with_suffix(".json").unlink()
    loaded = xlvin.load(tmp_path / "run")
    for name, weight in result.agent.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name]), name


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], object]) -> None:
    tensors, description = load_tensors(path)
    change(tensors, description)
    save_tensors(path, tensors, description)


BIAS = "actor.bias"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda p: p.unlink(), "no file"),
    "a pickle": (lambda p: p.write_bytes(pickle.dumps([1])), "damaged"),
    "a torch file": (lambda p: torch.save({"a": 1}, p), "damaged"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-8]), "damaged"),
    "empty": (lambda p: p.write_bytes(b""), "damaged"),
    "foreign": (lambda p: p.write_bytes(safetensors.torch.save({"a": torch.ones(1)})), "no xlvin agent"),
    "metadata no JSON": (
        lambda p: p.write_bytes(safetensors.torch.save({"a": torch.ones(1)}, {"config": "{"})),
        "damaged",
    ),
    "metadata nested too deeply": (
        lambda p: p.write_bytes(safetensors.torch.save({"a": torch.ones(1)}, {"config": "[" * 100_000})),
        "damaged",
    ),
    "format a list": (
        lambda p: p.write_bytes(safetensors.torch.save({"a": torch.ones(1)}, {"format": "[]"})),
        "no xlvin agent",
    ),
    "of the future": (lambda p: rewrite(p, lambda t, d: d.update(format="xlvin-agent-2")), "no xlvin agent"),
    "no configuration": (lambda p: rewrite(p, lambda t, d: d.pop("config")), "does not fit"),
    "configuration of another kind": (
        lambda p: rewrite(p, lambda t, d: d.update(config="x")),
        "does not fit",
    ),
    "unknown fields": (lambda p: rewrite(p, lambda t, d: d["config"].update(color="red")), "does not fit"),
    "unknown kind": (lambda p: rewrite(p, lambda t, d: d["config"].update(kind="dqn")), "kind"),
    "wrong type of field": (
        lambda p: rewrite(p, lambda t, d: d["config"].update(hidden="8")),
        "hidden is '8'",
    ),
    "no executor": (lambda p: rewrite(p, lambda t, d: d.update(executor=None)), "does not fit"),
    "a wrong executor": (lambda p: rewrite(p, lambda t, d: d["executor"].update(width=3)), "does not fit"),
    "asks for all memory": (
        lambda p: rewrite(p, lambda t, d: d["config"].update(hidden=10**9)),
        "does not fit",
    ),
    "no weights": (lambda p: rewrite(p, lambda t, d: t.clear()), "does not fit"),
    "other shape": (lambda p: rewrite(p, lambda t, d: t.update({BIAS: torch.zeros(3)})), "shape"),
    "a shape that broadcasts": (lambda p: rewrite(p, lambda t, d: t.update({BIAS: torch.zeros(1)})), "shape"),
    "other type": (lambda p: rewrite(p, lambda t, d: t.update({BIAS: torch.zeros(2).double()})), "float64"),
    "missing weight": (lambda p: rewrite(p, lambda t, d: t.pop(BIAS)), BIAS),
    "another weight": (lambda p: rewrite(p, lambda t, d: t.update(extra=torch.zeros(2))), "extra"),
    "not finite": (lambda p: rewrite(p, lambda t, d: t[BIAS].fill_(torch.nan)), "finite"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "agent.safetensors"
    make_agent("xlvin-r", **SMALL).save(path)
    damage, told = BROKEN[name]
    damage(path)
    with pytest.raises(XLVINError, match=told) as caught:
        load(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_equal_agents_are_equal_files(tmp_path: Path) -> None:
    for name in ("first", "second"):
        make_agent("xlvin-r", **SMALL).save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_stable_baselines_evaluates_agents() -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    import gymnasium

    agent = make_agent("xlvin-r", **SMALL).eval()
    mean, _ = evaluation.evaluate_policy(agent, gymnasium.make("CartPole-v1"), 3, warn=False)
    assert 8.0 <= mean <= 500.0


def test_a_tree_that_would_be_huge_follows_the_most_probable_paths() -> None:
    assert AgentConfig(observation=(3,), actions=8, depth=4).kept is None
    assert AgentConfig(observation=(3,), actions=500, depth=2).kept == BEAM
    assert AgentConfig(observation=(3,), actions=500, depth=2, beam=20).kept == 20
    assert AgentConfig(observation=(3,), actions=500, depth=1).kept is None
    assert AgentConfig(observation=(3,), actions=30, samples=4, depth=2).kept == BEAM
    assert AgentConfig(kind="atreec", observation=(3,), actions=500, depth=2).kept is None
    agent = make_agent(observation=(3,), actions=500)
    assert agent(torch.zeros(2, 3)).logits.shape == (2, 500)


def test_pixels_are_painted_by_policies_alone() -> None:
    with pytest.raises(XLVINError, match="no tail of values"):
        AgentConfig(kind="pixels", observation=(4, 84, 84), actions=3, tail="values")
