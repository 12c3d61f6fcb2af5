"""Files that are whole or not there: atomic writes, and tensors with JSON metadata in one safetensors file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from xlvin.errors import XLVINError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step; on any failure the old file stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise XLVINError(f"{path} could not be written ({error.strerror}); free some space or choose another folder.") from error


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata into one safetensors file, atomically."""
    content = safetensors.torch.save(tensors, {key: json.dumps(value) for key, value in metadata.items()})
    write_atomically(path, content)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; nothing in the file is ever executed."""
    if not path.is_file():
        raise XLVINError(f"There is no file {path}; check the path.")
    try:
        with safetensors.safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise XLVINError(f"{path} is damaged or no safetensors file ({error}); make it anew.") from error
    return tensors, metadata
