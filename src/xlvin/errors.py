"""The exceptions a user meets: a sentence that says what is wrong and what to do."""

import difflib
from collections.abc import Iterable


class XLVINError(Exception):
    """Bad input, told in one sentence; the command line exits with code 2 on it."""

    exit_code = 2


class RunFailedError(XLVINError):
    """A run that started well and had to stop (NaN loss, failing environment); exit code 1."""

    exit_code = 1


def unknown(what: str, name: str, choices: Iterable[str]) -> XLVINError:
    """The error for a name that is not among `choices`; suggests the nearest."""
    known = list(choices)
    near = difflib.get_close_matches(name, known, 1)
    hint = f'Did you mean "{near[0]}"?' if near else f"Choose one of: {', '.join(known)}."
    return XLVINError(f'There is no {what} "{name}". {hint}')
