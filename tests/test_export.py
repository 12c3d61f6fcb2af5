"""Agents as ONNX files: what they compute, what they say about themselves, what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import xlvin
from xlvin import export as exporting
from xlvin.cli import main
from xlvin.errors import RunFailedError, XLVINError
from xlvin.export import export

from .environments import CORRIDOR


def agent(name: str, **fields: Any) -> xlvin.Agent:
    settings = {"observation": (4,), "hidden": 8, "latent": 6, "depth": 1, **fields}
    made = xlvin.make_agent(name, actions=3, seed=1, **settings)
    for weight in made.parameters():  # the first policy is uniform by design: wake it up
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    return made


def answers(path: Path, observation: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(path).run(["logits", "value"], {"observation": observation})


@pytest.mark.parametrize(
    ("name", "fields", "given"),
    [
        ("ppo", {"given": ()}, "discrete"),
        ("atreec", {"inputs": "symlog"}, "vector"),
        ("xlvin-r", {"depth": 2}, "vector"),
        ("xlvin-cp", {"beam": 2}, "vector"),
        ("xlvin-aligned", {"beam": 2, "depth": 3}, "vector"),
        ("xlvin-r", {"observation": (3, 36, 40), "given": (36, 40, 3)}, "image"),
        ("ppo", {"observation": (1, 36, 36), "image": "float32"}, "image of floats"),
    ],
    ids=["ppo on states", "atreec", "xlvin", "beam", "aligned beam", "image", "image of floats"],
)
def test_the_file_decides_as_the_agent_does(tmp_path: Path, name: str, fields: Any, given: str) -> None:
    made, path, rng = agent(name, **fields), tmp_path / "agent.onnx", np.random.default_rng(7)
    found = export(made, path)
    assert found.largest_difference <= 1e-5
    for count in (1, 3, 40):
        if given == "discrete":
            observation, read = (states := rng.integers(4, size=count)), np.eye(4, dtype=np.float32)[states]
        elif given == "image":
            observation = rng.integers(256, size=(count, 36, 40, 3), dtype=np.uint8)
            read = np.moveaxis(observation, -1, 1)
        else:
            shape = (count, *made.config.observation)
            observation = read = rng.normal(size=shape).astype(np.float32)
        logits, value = answers(path, observation)
        with torch.no_grad():
            expected = made(torch.from_numpy(np.ascontiguousarray(read)))
        assert np.allclose(logits, expected.logits, atol=1e-5)
        assert np.allclose(value, expected.value, atol=1e-5)
        assert logits.std() > 1e-3
        assert np.array_equal(logits.argmax(-1), made.predict(observation)[0])


def test_the_file_tells_what_it_is(tmp_path: Path) -> None:
    made, path = agent("ppo"), tmp_path / "agent.onnx"
    found = export(made, path, {"environment": "CartPole-v1", "seed": 3})
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["agent"]) == json.loads(json.dumps(made.description()["config"]))
    assert facts["executor"] == "null"
    assert json.loads(facts["versions"])["xlvin"] == xlvin.__version__
    assert (facts["environment"], facts["seed"]) == ("CartPole-v1", "3")
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert found.size == path.stat().st_size
    assert min(found.torch_ms, found.onnx_ms, found.torch_batch_ms, found.onnx_batch_ms) > 0.0


def test_a_file_that_computes_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translate, other = exporting._translate, agent("ppo").requires_grad_(False)
    other.critic.bias += 2e-5

    def mistaken(network: Any, example: torch.Tensor) -> Any:
        return translate(exporting._Deployed(other), example)

    monkeypatch.setattr(exporting, "_translate", mistaken)
    with pytest.raises(RunFailedError, match="nothing was written"):
        export(agent("ppo"), tmp_path / "agent.onnx")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_done_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(XLVINError, match=r"end in \.onnx"):
        export(agent("ppo"), tmp_path / "agent.pt")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(XLVINError, match=r"pip install 'xlvin\[export\]'"):
        export(agent("ppo"), tmp_path / "agent.onnx")
    assert not list(tmp_path.iterdir())


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"hidden": 8, "latent": 6, "epochs": 1, "evaluation_episodes": 1}
    result = xlvin.train(CORRIDOR, "ppo", trajectories=2, seeds=2, folder=tmp_path / "run", **small)
    assert main(["export", str(tmp_path / "run"), "--seed", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["path"], told["seed"]) == (str(tmp_path / "run/agent.onnx"), 1)
    observation = np.array([[2.0, 0.0], [3.0, 1.0]], np.float32)
    with torch.no_grad():
        expected = result.agents[1](torch.from_numpy(observation)).logits
    assert np.allclose(answers(tmp_path / "run/agent.onnx", observation)[0], expected, atol=1e-5)
    result.agent.save(tmp_path / "one.safetensors")
    assert main(["export", str(tmp_path / "one.safetensors")]) == 0
    assert "agrees with torch" in capsys.readouterr().out
    assert (tmp_path / "one.onnx").is_file()
    assert main(["export", str(tmp_path / "run"), "--seed", "7"]) == 2
    assert "no seed 7" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nowhere")]) == 2
