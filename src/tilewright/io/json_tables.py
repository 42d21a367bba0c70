"""JSON documents of unknown origin, read field by field.

A `Table` takes nothing on trust: every value has the type and range its field has, unknown and
missing fields are errors that say where they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.garbage import no_cycle_collection
from tilewright.io.pieces import Content

MAX_RANK = 16
MAX_BYTES = 1 << 44  # of a tensor, and the largest address
MAX_ENTRIES = 1 << 20  # of any list or table
MAX_NAME = 1024
MAX_DOCUMENT = 256 << 20


def plain(value: Any, where: str) -> Any:
    """The value as JSON holds it; what JSON cannot hold is an error that says where it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    raise TilewrightError("TW3107", f"{where} is {value!r}, which a bundle cannot hold")


def load_document(text: str, source: str) -> Any:
    """Any JSON document; objects that name a key twice are refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise ValueError(f"an object has the key {shown(twice)} twice")
        return result

    try:
        with no_cycle_collection():
            return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = Location(source, error.lineno, error.colno)
        raise TilewrightError("TW1057", f"this is not JSON: {error.msg}", place) from None
    except ValueError as error:
        reason = str(error).split(";")[0]
        raise TilewrightError(
            "TW1057", f"this is not usable JSON: {reason}", Location(source)
        ) from None
    except RecursionError:
        raise TilewrightError(
            "TW1057", "this JSON is nested too deeply", Location(source)
        ) from None


def read_document(members: Mapping[str, Content], name: str, place: Location) -> Any:
    """The JSON document among the files of a bundle."""
    if name not in members:
        raise TilewrightError("TW3105", f"the bundle lacks {name}", place)
    if len(members[name]) > MAX_DOCUMENT:
        raise TilewrightError("TW3104", f"{name} is too large", place)
    try:
        return load_document(member_text(members, name, place), str(place.file))
    except TilewrightError as error:
        if error.code == "TW3105":
            raise
        message = f"the manifest is malformed: {error.message}"
        raise TilewrightError("TW3104", message, place) from None


def member_text(members: Mapping[str, Content], name: str, place: Location) -> str:
    try:
        return members[name].tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{name} is not UTF-8 text at byte {error.start}"
        raise TilewrightError("TW3105", message, place) from None


class Table:
    """One object of a document, read field by field."""

    def __init__(self, value: Any, where: str, place: Location) -> None:
        self.where, self.place = where, place
        if not isinstance(value, dict):
            raise self.bad("is not an object")
        self.values, self.unread = value, set(value)

    def bad(self, reason: str) -> TilewrightError:
        return TilewrightError(
            "TW3104", f"the manifest is malformed: {self.where} {reason}", self.place
        )

    def take(self, key: str) -> Any:
        if key not in self.values:
            raise self.bad(f"lacks {key!r}")
        self.unread.discard(key)
        return self.values[key]

    def done(self) -> None:
        if self.unread:
            raise self.bad(f"has an unknown field {min(self.unread)!r}"[:200])

    def integer(self, key: str, low: int = 0, high: int = MAX_BYTES) -> int:
        value = self.take(key)
        if type(value) is not int or not low <= value <= high:
            raise self.bad(f"has {key} {shown(value)}, must be a number from {low} to {high}")
        return value

    def real(self, key: str) -> float:
        return self._finite(key, self.take(key))

    def reals(self, key: str) -> dict[str, float]:
        """An object of numbers."""
        return {name: self._finite(f"{key} {name}", n) for name, n in self.table(key).items()}

    def _finite(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise self.bad(f"has {key} {shown(value)}, must be a number")
        return float(value)

    def text(self, key: str, most: int = MAX_NAME) -> str:
        return self._name(key, self.take(key), most)

    def _name(self, key: str, value: Any, most: int = MAX_NAME) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_unicode(value):
            raise self.bad(f"has {key} {shown(value)}, must be a text of at most {most} characters")
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.take(key)
        if value not in allowed:
            raise self.bad(f"has {key} {shown(value)}, must be {' or '.join(allowed)}")
        return value

    def list(self, key: str, most: int = MAX_ENTRIES) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.bad(f"has {key} that is no list of at most {most} entries")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        return tuple(self._name(key, item) for item in self.list(key))

    def numbers(self, key: str, most: int, high: int = MAX_BYTES) -> tuple[int, ...]:
        values = self.list(key, most)
        if any(type(n) is not int or not 0 <= n <= high for n in values):
            raise self.bad(f"has {key} {shown(values)}, must be numbers from 0 to {high}")
        return tuple(values)

    def table(self, key: str) -> dict[str, Any]:
        """A JSON object with any content, its keys checked."""
        value = self.take(key)
        if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
            raise self.bad(f"has {key} that is no object of at most {MAX_ENTRIES} entries")
        for name in value:
            self._name(f"in {key} a name", name)
        return value

    def texts(self, key: str) -> dict[str, str]:
        return {name: self._name(key, text) for name, text in self.table(key).items()}

    def inner(self, where: str, value: Any) -> Table:
        return Table(value, where, self.place)

    def each(self, key: str, noun: str, read: Callable[[Table], Any]) -> list[Any]:
        """A list of objects, all read the same way."""
        found = []
        for number, item in enumerate(self.list(key)):
            table = self.inner(f"{noun} {number}", item)
            found.append(read(table))
            table.done()
        return found

    def shape(self, smallest: int = 0) -> tuple[int, ...]:
        """The field `shape`, of a tensor that a machine could hold."""
        shape = self.numbers("shape", MAX_RANK)
        if any(n < smallest for n in shape) or math.prod(max(1, n) for n in shape) > MAX_BYTES:
            raise self.bad(f"has shape {shown(list(shape))}, which no machine can hold")
        return shape


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; JSON can spell halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."
