"""Arguments of the public functions, of the kind that they have to be, or said to be another.

Error code: TW0070 an argument of the wrong kind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError


def wrong(name: str, wanted: str, value: Any) -> TilewrightError:
    return TilewrightError("TW0070", f"{name} is {wanted}, not {_shown(value)}")


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, "True or False", value)
    return bool(value)


def whole(name: str, value: Any, least: int = 0) -> int:
    good = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
    if not good:
        raise wrong(name, f"a whole number from {least} on", value)
    return int(value)


def number(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise wrong(name, "a number", value)
    return float(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    return value


def names(name: str, value: Any) -> tuple[str, ...]:
    """Names of layers; one alone may be given as it is."""
    if isinstance(value, str):
        return (value,)
    rows = isinstance(value, list | tuple | set | frozenset)
    if not rows or not all(isinstance(one, str) for one in value):
        raise wrong(name, "a list of layers' names", value)
    return tuple(value)


def table(name: str, value: Any) -> Mapping[Any, Any] | None:
    if value is not None and not isinstance(value, Mapping):
        raise wrong(name, "a table by name", value)
    return value


def path(name: str, value: Any) -> str | os.PathLike[str]:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise wrong(name, "the name of a file", value)
    return value


def _shown(value: Any) -> str:
    """A value in a sentence: short things as they are, others by their type."""
    if value is None or isinstance(value, bool | int | float | str):
        shown = repr(value)
        return shown if len(shown) <= 40 else f"one of {len(shown)} characters"
    return f"something of type {type(value).__name__}"
