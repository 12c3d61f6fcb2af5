"""Files that are whole or not there."""

import errno
import os
from pathlib import Path

import pytest

from xlvin import files
from xlvin.errors import RunFailedError, XLVINError
from xlvin.files import replacing, write_atomically, write_json


def test_content_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep/er/file"
    write_atomically(path, b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old"  # who was reading has the old file, whole
    assert path.read_bytes() == b"new"
    assert [each.name for each in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, RunFailedError), (errno.EDQUOT, RunFailedError), (errno.EACCES, XLVINError)],
)
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[XLVINError]
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(kind, match="could not be written") as caught:
        write_json(path, {"new": 1})
    assert type(caught.value) is kind
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert not list(tmp_path.iterdir())


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_no_file_to_replace(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(XLVINError, match="no ordinary file"):
        write_atomically(pipe, b"new")
    assert pipe.is_fifo()


def test_a_device_without_space_is_told_of() -> None:
    with pytest.raises(XLVINError, match="/dev/full/file could not be written"):
        write_atomically(Path("/dev/full/file"), b"x")


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(XLVINError, match="file could not be written"), replacing(path):
        pass  # nothing was written
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
