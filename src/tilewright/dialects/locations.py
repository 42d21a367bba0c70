"""Where an operation stands in the user's text.

The parser of `dialects/parsing.py` gives every operation its file, line and column; a pass that
makes new operations copies the place of the one it replaces, so that every later error can name
the user's own line.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    Operation,
    UnregisteredOp,
)
from tilewright.errors import Location, TilewrightError


def name_of(op: Operation) -> str:
    """The name of an operation as the user wrote it, also for dialects nobody knows."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def location_of(op: Operation) -> Location | None:
    """The place of `op`, or of the nearest enclosing operation that has one."""
    current: Operation | None = op
    while current is not None:
        place = file_place(current.location)
        if place is not None:
            return Location(place.filename.data, place.line.data, place.column.data)
        current = current.parent_op()
    return None


def file_place(location: Attribute) -> FileLineColLoc | None:
    """The file, line and column in a location: of the innermost call, or the first that has one."""
    if isinstance(location, FileLineColLoc):
        return location
    if isinstance(location, (NameLoc, CallSiteLoc, FusedLoc)):
        for value in vars(location).values():
            parts = value.data if isinstance(value, ArrayAttr) else (value,)
            for part in parts:
                if isinstance(part, Attribute) and (found := file_place(part)) is not None:
                    return found
    return None


def copy_location(source: Operation, *targets: Operation) -> None:
    """Give `targets` the place of `source`, unless they have their own."""
    place = source.location
    if isinstance(place, FileLineColLoc):
        for target in targets:
            if not isinstance(target.location, FileLineColLoc):
                target.location = place


def copy_locations(source: Operation, targets: Iterable[Operation]) -> None:
    """Give every target, and the operations nested in it, the place of `source`."""
    for target in targets:
        for op in target.walk():
            copy_location(source, op)


def error_at(op: Operation, code: str, message: str, hint: str | None = None) -> TilewrightError:
    """An error that names the operation and its place; the caller raises it."""
    return TilewrightError(code, f"{name_of(op)}: {message}", location_of(op), hint)
