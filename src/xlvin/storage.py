"""Files that are whole or not there: atomic writes, tensors with JSON metadata in one safetensors file."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from xlvin.errors import RunFailedError, XLVINError

# A disk that fills up while a run goes on is the run's misfortune; any other refusal is a wrong path.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step; on any failure the old file stays as it was."""
    temporary = path.with_name(
        f".{path.name}.part"
    )  # a fixed name: what a killed process left is overwritten
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        remove(temporary)


def unwritable(path: Path, error: OSError) -> XLVINError:
    """What to tell about a file that could not be written."""
    if error.errno in OUT_OF_SPACE:
        return RunFailedError(f"{path} could not be written ({error.strerror}); free some space and go on.")
    return XLVINError(f"{path} could not be written ({error.strerror}); choose another folder.")


def remove(path: Path) -> None:
    """Delete a file that may not be there, below a folder that may not be one."""
    try:
        path.unlink()
    except OSError:
        return


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


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


def _with_sorted_metadata(content: bytes) -> bytes:
    """A safetensors file (length, JSON header, data), whose writer puts metadata in no particular order."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return content[:8] + text.ljust(size) + content[8 + size :]
