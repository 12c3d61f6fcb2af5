"""The artefact: a round trip, and every way in which two files can be wrong."""

import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.executor.artefact import SHIPPED, SHIPPED_FOLDER, load_executor, load_provenance, save_executor
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.pretrain import PretrainConfig, preset
from xlvin.storage import load_tensors, save_tensors

CONFIG = PretrainConfig(states=6, executor=ExecutorConfig(width=8, layer_norm=True))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "mine.safetensors"
    torch.manual_seed(0)
    save_executor(path, Executor(CONFIG.executor), CONFIG, {"policy_accuracy": 0.5})
    return path


def test_round_trip(saved: Path) -> None:
    torch.manual_seed(0)
    original, loaded = Executor(CONFIG.executor), load_executor(saved)
    assert loaded.config == CONFIG.executor
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    for name, value in original.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name
    provenance = load_provenance(str(saved))
    assert (provenance["name"], provenance["family"], provenance["states"]) == ("mine", CONFIG.family, 6)
    assert provenance["config"]["executor"]["width"] == 8
    assert provenance["metrics"] == {"policy_accuracy": 0.5}
    assert sorted(file.name for file in saved.parent.iterdir()) == ["mine.json", "mine.safetensors"]


def rewrite_weights(path: Path, change: Callable[[dict], dict]) -> None:
    """Change the tensors and make the hash fit again: only the deeper checks are left."""
    tensors, metadata = load_tensors(path)
    save_tensors(path, change(tensors), metadata)
    refit(path)


def rewrite_network(path: Path, **network: object) -> None:
    """Describe another network in both files, with a hash that fits."""
    tensors, _ = load_tensors(path)
    save_tensors(path, tensors, {"executor": network})
    edit(path, config={"executor": network})
    refit(path)


def refit(path: Path) -> None:
    edit(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def edit(path: Path, **fields: object) -> None:
    provenance = path.with_suffix(".json")
    provenance.write_text(json.dumps(json.loads(provenance.read_text()) | fields))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def truncate_and_refit(path: Path) -> None:
    truncate(path)
    refit(path)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def become_a_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weights": [1.0]}))
    refit(path)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights gone": (lambda path: path.unlink(), "no executor"),
    "provenance gone": (lambda path: path.with_suffix(".json").unlink(), "no provenance"),
    "truncated": (truncate, "not the file"),
    "truncated, hash made to fit": (truncate_and_refit, "damaged"),
    "one bit flipped": (flip_a_bit, "not the file"),
    "pickle": (become_a_pickle, "damaged"),
    "empty": (lambda path: path.write_bytes(b""), "not the file"),
    "provenance no JSON": (lambda path: path.with_suffix(".json").write_text("{"), "no JSON"),
    "provenance not UTF-8": (lambda path: path.with_suffix(".json").write_bytes(b"\xff\xfe{"), "no JSON"),
    "provenance too deep": (lambda path: path.with_suffix(".json").write_text("[" * 100_000), "no JSON"),
    "provenance of something else": (
        lambda path: path.with_suffix(".json").write_text("[1]"),
        "not the provenance",
    ),
    "future format": (lambda path: edit(path, format=2), "format 2"),
    "no discount": (lambda path: edit(path, discount=None), "discount"),
    "no network": (lambda path: edit(path, config={}), "another network"),
    "other activation": (
        lambda path: edit(path, config={"executor": asdict(replace(CONFIG.executor, activation="identity"))}),
        "another network",
    ),
    "network with unknown fields": (lambda path: rewrite_network(path, depth=3), "network"),
    "network of no width": (lambda path: rewrite_network(path, width=0), "width"),
    "other width": (lambda path: rewrite_network(path, width=9, layer_norm=True), "shape"),
    "no norm": (lambda path: rewrite_network(path, width=8), "norm"),
    "tensor missing": (
        lambda path: rewrite_weights(path, lambda t: {k: v for k, v in t.items() if k != "decoder.bias"}),
        "decoder.bias",
    ),
    "foreign tensors": (
        lambda path: rewrite_weights(path, lambda t: {"layer": torch.ones(3)}),
        "does not fit",
    ),
    "wrong precision": (
        lambda path: rewrite_weights(path, lambda t: {k: v.double() for k, v in t.items()}),
        "float64",
    ),
    "not finite": (
        lambda path: rewrite_weights(path, lambda t: {k: v / 0.0 for k, v in t.items()}),
        "finite",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_artefacts_are_refused_in_one_sentence(saved: Path, name: str) -> None:
    damage, expected = BROKEN[name]
    damage(saved)
    with pytest.raises(XLVINError, match=expected) as error:
        load_executor(saved)
    assert "\n" not in str(error.value)


def test_unknown_names_list_the_shipped_ones() -> None:
    with pytest.raises(XLVINError, match="random-deterministic, cartpole-tree"):
        load_executor("random")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_executors_say_how_they_are_remade(name: str) -> None:
    provenance = load_provenance(name)
    assert provenance["name"] == provenance["family"] == name
    config = dict(provenance["config"])
    assert PretrainConfig(**{**config, "executor": ExecutorConfig(**config["executor"])}) == preset(name)


def test_nothing_else_is_shipped() -> None:
    expected = {f"{name}{suffix}" for name in SHIPPED for suffix in (".safetensors", ".json")}
    assert {path.name for path in SHIPPED_FOLDER.iterdir()} == expected
