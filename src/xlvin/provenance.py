"""What a result was made with: versions and machine. Nothing here imports torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "numpy", "gymnasium", "xlvin")


def provenance() -> dict[str, dict[str, Any]]:
    """The versions and the machine, as fields of these names."""
    return {
        "versions": versions(*PACKAGES),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
    }


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of installed packages."""
    found = {package: importlib.metadata.version(package) for package in packages}
    return {"python": platform.python_version()} | found


def _cpu() -> str:
    """The processor's marketing name where Linux tells it, else its architecture."""
    path = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", path.read_text(), re.MULTILINE) if path.exists() else None
    return named.group(1).strip() if named else platform.processor() or platform.machine()


def _gpu() -> str | None:
    """The first NVIDIA GPU's name, asked from its Linux driver; None without one."""
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        if named := re.search(r"^Model:\s*(.+)$", path.read_text(), re.MULTILINE):
            return named.group(1).strip()
    return None
