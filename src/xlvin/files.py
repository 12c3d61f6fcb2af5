"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xlvin.errors import RunFailedError, XLVINError

# A disk that fills up while a run goes on is the run's misfortune; any other refusal is a wrong path.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds, and is gone if it fails.

    Where `path` is a link, what it points to is replaced. Devices and pipes are no files to replace.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise XLVINError(f"{path} is no ordinary file and cannot be replaced; choose another name.")
    temporary = path.with_name(f".{path.name}.part")  # a fixed name: what a killed process left goes
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # renamed already, or its folder is no folder
            temporary.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step; on any failure the old file stays as it was."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def unwritable(path: Path, error: OSError) -> XLVINError:
    """What to tell about a file that could not be written."""
    if error.errno in OUT_OF_SPACE:
        return RunFailedError(f"{path} could not be written ({error.strerror}); free some space and go on.")
    return XLVINError(f"{path} could not be written ({error.strerror}); choose another folder.")
