"""The exceptions a user meets: a sentence that says what is wrong and what to do."""


class XLVINError(Exception):
    """Bad input, told in one sentence; the command line exits with code 2 on it."""

    exit_code = 2


class RunFailedError(XLVINError):
    """A run that started well and had to stop (NaN loss, failing environment); exit code 1."""

    exit_code = 1
