"""Checking the errors and warnings a text says it expects.

`// expected-error {{part of the text}}` on the line of the error, or `@+1`, `@-2`, `@below`,
`@above`, `@unknown` before the braces to name another line. The text is matched against
`CODE message`. Error code: TW1310.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import Location, TilewrightError

_EXPECTATION = re.compile(
    r"expected-(error|warning)\s*(?:@(\+\d+|-\d+|below|above|unknown))?\s*\{\{(.*?)\}\}"
)


@dataclass(frozen=True)
class Expectation:
    """A diagnostic the text asks for; line 0 means one without a place."""

    kind: str
    line: int
    text: str
    written_at: int


def expectations(text: str, first_line: int = 1) -> list[Expectation]:
    """The expectations written in comments of a text."""
    found = []
    for number, line in enumerate(text.splitlines(), start=first_line):
        for match in _EXPECTATION.finditer(line):
            kind, place, wanted = match.groups()
            offset = {"below": 1, "above": -1, None: 0, "unknown": 0}.get(place)
            target = number + (int(place) if offset is None else offset)
            found.append(Expectation(kind, 0 if place == "unknown" else target, wanted, number))
    return found


def check_expectations(
    file: str,
    wanted: Iterable[Expectation],
    errors: Iterable[TilewrightError],
    warnings: Iterable[TilewrightError],
) -> list[TilewrightError]:
    """What was expected and did not come, and what came and was not expected."""
    open_expectations = list(wanted)
    problems: list[TilewrightError] = []
    for kind, given in (("error", errors), ("warning", warnings)):
        for diagnostic in given:
            line = diagnostic.location.line if diagnostic.location else 0
            text = f"{diagnostic.code} {diagnostic.message}"
            for expectation in open_expectations:
                if (
                    expectation.kind == kind
                    and expectation.line == line
                    and expectation.text in text
                ):
                    open_expectations.remove(expectation)
                    break
            else:
                problems.append(
                    TilewrightError("TW1310", f"unexpected {kind}: {text}", diagnostic.location)
                )
    for missing in open_expectations:
        problems.append(
            TilewrightError(
                "TW1310",
                f'expected {missing.kind} "{missing.text}" did not come',
                Location(file, missing.written_at),
            )
        )
    return problems
