"""Options of a command that are parsed by hand."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from xlvin.errors import XLVINError


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence, as all others are."""

    def error(self, message: str) -> NoReturn:
        """Tell what is wrong and where to look."""
        raise XLVINError(f"{message[:1].upper()}{message[1:]}; see `{self.prog} --help`.")


def folder_named(text: str) -> Path:
    """A folder by name; a shell's unset variable is none."""
    if not text:
        raise XLVINError("--folder is empty; name a folder, or leave the option out.")
    return Path(text)
