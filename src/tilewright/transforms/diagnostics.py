"""Warnings that passes give without stopping; the command line prints them, tests collect them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.dialects.locations import error_at
from tilewright.dialects.xdsl_api import Operation
from tilewright.errors import TilewrightError

_collected: ContextVar[list[TilewrightError] | None] = ContextVar("warnings", default=None)


def warn(op: Operation, code: str, message: str, hint: str | None = None) -> None:
    """Record a warning at an operation; without a collector it is dropped."""
    collected = _collected.get()
    if collected is not None:
        collected.append(error_at(op, code, message, hint))


@contextmanager
def collect_warnings() -> Iterator[list[TilewrightError]]:
    """The warnings given while the block runs."""
    collected: list[TilewrightError] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
