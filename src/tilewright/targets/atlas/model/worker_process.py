"""A process that generates code of launches for another one: the far end of `workers.py`."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence

from tilewright.errors import TilewrightError
from tilewright.io.content_cache import caching
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.targets.atlas.model.joining import made_of
from tilewright.targets.atlas.model.kernel_code import KernelCode, to_bytes
from tilewright.targets.atlas.model.workers import receive, send


def serve() -> None:
    """Make the units that come in, until there are no more."""
    source, result = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else goes to the pipe
    with caching("off"):
        while True:
            try:
                unit, tuning = pickle.loads(receive(source))  # of the process that started us
            except EOFError:
                return
            try:
                with tuned(**tuning):
                    code: Sequence[KernelCode | None] = made_of(unit)
            except TilewrightError:
                code = [None] * len(unit.sources)
            for one in code:
                send(result, b"" if one is None else to_bytes(one))
