"""Tensors with JSON metadata in one safetensors file."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.files import write_atomically


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata into one safetensors file, atomically; equal content, equal bytes."""
    content = safetensors.torch.save(tensors, {key: json.dumps(value) for key, value in metadata.items()})
    write_atomically(path, _with_sorted_metadata(content))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; nothing in the file is ever executed."""
    if not path.is_file():
        raise XLVINError(f"There is no file {path}; check the path.")
    try:
        with safetensors.safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
    except (safetensors.SafetensorError, OSError, ValueError, RecursionError) as error:
        raise XLVINError(f"{path} is damaged or no safetensors file ({error}); make it anew.") from error
    return tensors, metadata


def check_tensors(path: Path | str, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Refuse tensors whose names, types or shapes are not the expected ones, or that are not finite."""
    if wrong := sorted(found.keys() ^ expected.keys()):
        raise XLVINError(f"{path} does not fit: {wrong[0]} is missing or unknown; make it anew.")
    for name, value in expected.items():
        if found[name].shape != value.shape or found[name].dtype != value.dtype:
            raise XLVINError(
                f"{path} does not fit: {name} is {found[name].dtype} of shape {tuple(found[name].shape)} "
                f"instead of {value.dtype} of shape {tuple(value.shape)}; make it anew."
            )
        if not found[name].isfinite().all():
            raise XLVINError(f"{path} holds numbers that are not finite ({name}); make it anew.")


def grouped(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors "group.name" as groups of tensors "name"; a group that has none is empty."""
    groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for full_name, tensor in tensors.items():
        group, _, name = full_name.partition(".")
        groups[group][name] = tensor
    return groups


def _with_sorted_metadata(content: bytes) -> bytes:
    """A safetensors file (length, JSON header, data), whose writer puts metadata in no particular order."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return content[:8] + text.ljust(size) + content[8 + size :]
