"""Fields of configurations: what they may hold, and their names."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from xlvin.errors import XLVINError

WANTED = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", NoneType: "None"}


def check_fields(part: Any, where: str = "") -> None:
    """Refuse a dataclass in which a field holds another type than its own, or a number that is not finite.

    NumPy's numbers, such as the size of an action space, become Python's.
    """
    for name, hint in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if isinstance(value, np.number):
            value = value.item()
            object.__setattr__(part, name, value)  # the dataclass may be frozen
        several = isinstance(value, tuple)
        numbers = [each for each in (value if several else (value,)) if isinstance(each, float)]
        if not all(map(math.isfinite, numbers)):
            wanted = "finite numbers" if several else "a finite number"
            raise XLVINError(f"{where}{name} is {value}; give {wanted}.")
        if not _fits(value, hint):
            raise XLVINError(f"{where}{name} is {value!r}; {_wanted(hint)}.")


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every field of a configuration, as `dataclasses.asdict` has it, by its dotted name."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        nested = isinstance(value, dict)
        found |= flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return found


def _fits(value: Any, hint: Any) -> bool:
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return value in inner
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if kind is tuple:
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if hint in (int, float):  # True is an int to Python, and no number to us
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)


def _wanted(hint: Any) -> str:
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return f"choose one of {', '.join(inner)}"
    if kind in (Union, UnionType):
        return " or ".join([_wanted(inner[0]), *(WANTED[each] for each in inner[1:])])
    if kind is tuple:
        return f"give a tuple with {WANTED[inner[0]]} for each dimension, such as ({inner[0](2)},)"
    return f"give {WANTED.get(hint) or 'xlvin.' + hint.__name__ + '(...)'}"
