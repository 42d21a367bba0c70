"""Compiling makes millions of small objects that live to the end.

Looking for cycles among them again and again finds nothing and takes a third of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARE = (50_000, 20, 20)  # Python's own are (700, 10, 10)


@contextmanager
def no_cycle_collection() -> Iterator[None]:
    """Without the search for cycles; objects are still freed when nobody refers to them."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


@contextmanager
def rare_cycle_collection() -> Iterator[None]:
    """With a search for cycles now and then: modules that are done with go, and are cycles.

    Where somebody wants even fewer, that stays.
    """
    before = gc.get_threshold()
    if before[0] == 0 or before[0] >= RARE[0]:
        yield
        return
    gc.set_threshold(*RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)
