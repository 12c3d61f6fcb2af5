"""How curves are drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How an arm is drawn; colours are from Okabe and Ito."""

    label: str
    colour: str
    line: str = "-"
    marker: str = ""
