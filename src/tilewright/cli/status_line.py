"""What a command is doing, on the last line of a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from rich.status import Status


class StatusLine:
    """A line on standard error while something takes long; nothing where nobody watches.

    after: seconds before the line appears, for what is mostly done sooner.
    """

    def __init__(self, watched: bool = True, after: float = 0.0) -> None:
        self.shown = watched and sys.stderr is not None and sys.stderr.isatty()
        self._after, self._began = after, time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Self | None:
        """Itself, to be told how far it is; None where that interests nobody."""
        self._began = time.monotonic()
        return self if self.shown else None

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        if not self.shown or self.spent < self._after:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
