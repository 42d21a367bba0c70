"""Seeds of random tests: new ones on people's machines, and for random models everywhere; others
are always the same where a run has to be repeatable (the environment variable CI)."""

from __future__ import annotations

import os
import time

FIXED = 20_261_116


def fresh_seed() -> int:
    """A seed that nobody has tried, everywhere."""
    return time.time_ns() % 1_000_000_000


def repeatable_seed() -> int:
    return FIXED if os.environ.get("CI") else fresh_seed()
