"""Where tensors live, and how exactly they are multiplied there."""

from __future__ import annotations

import torch

from xlvin.errors import XLVINError


def usable_device(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # a device that keeps no numbers, such as "meta", fails here
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise XLVINError(f'The device "{name}" cannot be used here; try "cpu".') from error
    return device


def fast_device(name: torch.device | str) -> torch.device:
    """The same; on a GPU, this process then multiplies float32 matrices with the precision of TF32."""
    device = usable_device(name)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    return device
