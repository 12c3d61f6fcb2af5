"""The frozen artefact: an executor's weights beside the provenance that remakes them.

`NAME.safetensors` holds the weights and the network's shape, `NAME.json` says where they come from and which
sha256 the weight file has. Loading checks one against the other and both against the network; nothing is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xlvin.errors import XLVINError
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.pretrain import PretrainConfig
from xlvin.files import write_json
from xlvin.provenance import versions
from xlvin.storage import check_tensors, load_tensors, save_tensors

FORMAT = 1
# What a provenance must hold to be used.
FIELDS = {"name": str, "family": str, "discount": float, "config": dict, "metrics": dict, "sha256": str}
SHIPPED_FOLDER = Path(__file__).parent / "weights"
SHIPPED = ("random-deterministic", "cartpole-tree", "erdos-renyi-stochastic")


def check_writable(path: Path) -> None:
    """Refuse a name under which `save_executor` could not write, before a minute was spent."""
    if path.suffix != ".safetensors":
        raise XLVINError(f'"{path}" is no name for a weight file; let it end in .safetensors.')
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise XLVINError(f"{path} cannot be written; choose another folder or name.")


def save_executor(path: Path, executor: Executor, config: PretrainConfig, metrics: dict[str, Any]) -> str:
    """Write weights to `path` and their provenance beside it; returns the weights' sha256."""
    weights, path = _files(path)
    tensors = {name: value.contiguous() for name, value in executor.state_dict().items()}
    save_tensors(weights, tensors, {"executor": asdict(executor.config)})
    provenance = {
        "format": FORMAT,
        "name": weights.stem,
        "family": config.family,
        "states": config.states,
        "actions": config.actions,
        "discount": config.discount,
        "seed": config.seed,
        "config": asdict(config),
        "metrics": metrics,
        "versions": versions("torch", "xlvin"),
        "sha256": _sha256(weights),
    }
    write_json(path, provenance)
    return str(provenance["sha256"])


def load_executor(name_or_path: str | Path) -> Executor:
    """A shipped executor by name, or one of your own by its weight file: frozen, in evaluation mode."""
    described = load_provenance(name_or_path)["config"].get("executor")
    weights, path = _locate(name_or_path)
    tensors, metadata = load_tensors(weights)
    if not described or metadata.get("executor") != described:
        raise XLVINError(f"{path} describes another network than {weights.name} holds; copy both again.")
    try:
        executor = Executor(ExecutorConfig(**described))
    except TypeError:
        raise XLVINError(f"{path} does not describe an executor's network; make it anew.") from None
    check_tensors(weights, tensors, executor.state_dict())
    executor.load_state_dict(tensors)
    return executor.requires_grad_(False).eval()


def load_provenance(name_or_path: str | Path) -> dict[str, Any]:
    """Where an executor comes from, after checking that its weight file is the one it speaks of."""
    weights, path = _locate(name_or_path)
    if not path.is_file():
        raise XLVINError(f"{weights} has no provenance; put {path.name} beside it.")
    try:
        provenance = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise XLVINError(f"{path} is damaged: it is no JSON; make it anew with `xlvin pretrain`.") from None
    if not isinstance(provenance, dict) or "format" not in provenance:
        raise XLVINError(f"{path} is not the provenance of an executor; give a file of `xlvin pretrain`.")
    if provenance["format"] != FORMAT:
        raise XLVINError(
            f"{path} has format {provenance['format']}; this version of xlvin reads format {FORMAT}."
        )
    for field, kind in FIELDS.items():
        if not isinstance(provenance.get(field), kind):
            raise XLVINError(f"{path} is not the provenance of an executor: its {field} is missing or wrong.")
    if provenance["sha256"] != _sha256(weights):
        raise XLVINError(f"{weights} is not the file that {path.name} describes; copy both again.")
    return provenance


def _files(path: Path) -> tuple[Path, Path]:
    """The weight file and its provenance."""
    return path, path.with_suffix(".json")


def _locate(name_or_path: str | Path) -> tuple[Path, Path]:
    """The two files of a shipped name or of a path to a weight file."""
    if str(name_or_path) in SHIPPED:
        return _files(SHIPPED_FOLDER / f"{name_or_path}.safetensors")
    path = Path(name_or_path)
    if not path.is_file():
        raise XLVINError(
            f'There is no executor "{name_or_path}"; give the path of a .safetensors file or one of '
            f"{', '.join(SHIPPED)}."
        )
    return _files(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
