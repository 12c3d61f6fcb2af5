"""What TensorBoard reads: a file of events, written without a thread, so that a full disk is our error."""

from __future__ import annotations

import contextlib
import os
import platform
import struct
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c


class Board:
    """Scalars by name and round; what an earlier process wrote from round `first` on no longer counts."""

    def __init__(self, folder: Path, first: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # As TensorBoard looks for them, and in the order of their beginnings.
        name = f"events.out.tfevents.{time.time():.0f}.{platform.node()}.{os.getpid()}"
        self._file = (folder / name).open("ab")
        self._opening = [
            Event(file_version="brain.Event:2"),
            Event(step=first, session_log=SessionLog(status=SessionLog.START)),
        ]

    def add(self, round_: int, scalars: dict[str, float]) -> None:
        """All numbers of a round; they are in the file when this returns."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        for event in (*self._opening, Event(step=round_, summary=Summary(value=values))):
            self._write(event)
        self._opening = []
        self._file.flush()

    def close(self) -> None:
        """Release the file."""
        with contextlib.suppress(OSError):  # a full disk was reported by `add`
            self._file.close()

    def _write(self, event: Event) -> None:
        """A record: length, its checksum, content, its checksum."""
        event.wall_time = time.time()
        content = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        checks = [struct.pack("<I", masked_crc32c(part)) for part in (length, content)]
        self._file.write(length + checks[0] + content + checks[1])
