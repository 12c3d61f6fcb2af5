"""`xlvin doctor`: what is installed here, what it can use, and how to get what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
from typing import Annotated, Any

import torch
import tyro

from xlvin.errors import XLVINError
from xlvin.executor.artefact import SHIPPED, load_executor
from xlvin.provenance import versions

PACKAGES = ("xlvin", "torch", "gymnasium", "numpy", "safetensors", "tyro")
# Optional parts: what each is for, and the modules that it needs. Their names are those of the extras.
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "box2d": ("LunarLander", ("Box2D",)),
    "atari": ("Atari games", ("ale_py",)),
    "sb3": ("the policy for Stable-Baselines3", ("stable_baselines3",)),
    "export": ("xlvin export", ("onnx", "onnxruntime", "onnxscript")),
    "video": ("xlvin video as MP4", ("imageio_ffmpeg",)),
    "cluster": ("sweeps on Ray", ("ray",)),
}
EXAMPLES = """

examples:
  xlvin doctor
  xlvin doctor --json
"""


def doctor(
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> int:
    """Say which versions, devices and optional parts are here.

    Args:
        as_json: Print it as JSON.
    """
    found = examine()
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        print(_text(found))
    return 0 if all(state == "intact" for state in found["executors"].values()) else 1


def examine() -> dict[str, Any]:
    """Versions, devices, threads, shipped executors and optional parts."""
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "versions": versions(*PACKAGES),
        "system": platform.platform(),
        "gpus": names,
        "threads": {"used": torch.get_num_threads(), "cores": os.cpu_count()},
        "executors": {name: _state(name) for name in SHIPPED},
        "parts": {name: _part(name) for name in PARTS},
    }


def _state(executor: str) -> str:
    try:
        load_executor(executor)
    except (XLVINError, OSError) as error:
        return str(error)
    return "intact"


def _part(name: str) -> dict[str, Any]:
    purpose, modules = PARTS[name]
    present = all(importlib.util.find_spec(module) for module in modules)
    if name == "video":
        present = present or shutil.which("ffmpeg") is not None
    return {"for": purpose, "present": present, "install": f"pip install 'xlvin[{name}]'"}


def _text(found: dict[str, Any]) -> str:
    threads = found["threads"]
    lines = [
        ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
        f"system     {found['system']}",
        f"GPU        {', '.join(found['gpus']) or 'none that torch can use; everything runs on the CPU'}",
        f"threads    {threads['used']} of {threads['cores']} cores (OMP_NUM_THREADS sets them)",
        *(f"executor   {name}: {state}" for name, state in found["executors"].items()),
        "",
        "optional parts",
    ]
    for name, part in found["parts"].items():
        lines.append(f"  {name:<8} {'yes' if part['present'] else part['install']:<28} {part['for']}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Examine and print; exit code 1 if a shipped executor is damaged."""
    return tyro.cli(doctor, args=argv, prog="xlvin doctor", description=__doc__ + EXAMPLES)
