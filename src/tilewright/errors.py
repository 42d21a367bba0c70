"""How Tilewright speaks about bad input: a stable code, one sentence, the user's line, a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_ABOUT_CODE = re.compile(r"'?\w+'? object |NoneType|argument|positional|not callable|unpack|<class")
LONGEST_MESSAGE = 1500


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a user's file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [printable(self.file)] + [str(n) for n in (self.line, self.column) if n]
        return ":".join(parts)


def printable(text: str) -> str:
    """The text with what no encoding has, such as half of a character, written out."""
    return text.encode("utf-8", "backslashreplace").decode()


class TilewrightError(Exception):
    """Bad input, described for the person who wrote it.

    The code is stable (`TW` and four digits, one meaning each), the message is one
    sentence without a trailing stop, the hint says what to do.
    """

    def __init__(
        self,
        code: str,
        message: str,
        location: Location | None = None,
        hint: str | None = None,
    ) -> None:
        if len(message) > LONGEST_MESSAGE:  # it quotes something endless
            message = f"{message[: LONGEST_MESSAGE - 100]} … {message[-90:]}"
        message = printable(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.location = location
        self.hint = None if hint is None else printable(hint)

    def at(self, location: Location) -> TilewrightError:
        """The same error at a place, unless it already has one."""
        if self.location is None:
            self.location = location
        return self

    def to_json(self) -> dict[str, object]:
        place = self.location
        return {
            "code": self.code,
            "message": self.message,
            "file": place.file if place else None,
            "line": place.line if place and place.line else None,
            "column": place.column if place and place.column else None,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        place = f" {self.location}" if self.location else ""
        text = f"{self.code}{place}  {self.message}"
        if self.hint:
            text += f"\n        hint: {self.hint}"
        return text


class TilewrightErrors(TilewrightError):
    """Several mistakes of one file, reported together; it reads like its first one."""

    def __init__(self, errors: list[TilewrightError], stopped: bool = False) -> None:
        first = errors[0]
        super().__init__(first.code, first.message, first.location, first.hint)
        self.errors = errors
        self.stopped = stopped  # whether reading ended here and there may be more

    def __str__(self) -> str:
        text = "\n".join(str(error) for error in self.errors)
        if self.stopped:
            text += f"\nstopped after {len(self.errors)} mistakes"
        return text


def plain_reason(error: BaseException) -> str:
    """What an exception says to someone who has never seen our code: its first line, if it is about
    values and not about Python's objects."""
    text = (str(error).splitlines() or [""])[0].strip()
    if isinstance(error, AttributeError | StopIteration) or not text or _ABOUT_CODE.search(text):
        return "a value is missing or of another kind than it should be"
    return text


@contextmanager
def within_memory(what: str, place: Location | None = None) -> Iterator[None]:
    """Say of work that is too large for this computer what it was, instead of a traceback."""
    try:
        yield
    except MemoryError as error:
        detail = str(error).split(" and data type")[0]
        reason = f": {detail[:1].lower()}{detail[1:]}" if detail else ""
        raise TilewrightError(
            "TW0015", f"{what} needs more memory than there is{reason}", place
        ) from None


def each_error(error: TilewrightError) -> list[TilewrightError]:
    """The single mistakes an error reports."""
    return error.errors if isinstance(error, TilewrightErrors) else [error]
