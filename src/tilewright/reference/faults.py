"""Errors of the reference executor: always with the operation and, where known, its place.

TW1501  an operation the executor has no meaning for
TW1502  a type, attribute or form of a known operation it cannot evaluate
TW1503  a weight named by the module that was not given
TW1504  an input or weight of the wrong shape, type or number
TW1505  a run-time check of the program failed (an assertion, an index out of range)
TW1506  no function of that name
TW1507  an operation that fails on the values it gets, or that needs more memory than there is
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.errors import Location, TilewrightError


def location_of(op: Operation) -> Location | None:
    """Where an operation stands in the user's text, if that was recorded."""
    try:
        from tilewright.dialects import locations
    except ImportError:
        return None
    return locations.location_of(op)


def name_of(op: Operation) -> str:
    """The operation's name; xDSL keeps the name of one without a definition in an attribute."""
    if op.name == "builtin.unregistered":
        return op.attributes["op_name__"].data  # pyright: ignore
    return op.name


def fault(op: Operation, code: str, message: str, hint: str | None = None) -> TilewrightError:
    """An error about an operation."""
    return TilewrightError(code, message, location_of(op), hint)
