"""Compiling makes millions of small objects that live to the end.

Looking for cycles among them again and again finds nothing and takes a third of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
