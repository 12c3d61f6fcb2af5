"""One process at a time in a run's folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from xlvin.errors import XLVINError
from xlvin.files import unwritable

try:
    import fcntl
except ImportError:  # Windows has no advisory locks; runs there go unguarded
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """Hold a run's folder, which is made if need be; refuse one that another process holds.

    The lock is on the folder itself: no file is left behind, and a killed process holds nothing. None: no
    folder, no lock.
    """
    if folder is None or fcntl is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise XLVINError(
                f"{folder} is in use by another process; wait for it, or choose another folder with --folder."
            ) from error
        except OSError:
            pass  # a file system without locks, as some network ones
        yield
    finally:
        os.close(handle)
