"""Seeds of random tests: new ones on people's machines, always the same where a run has to be
repeatable (the environment variable CI)."""

from __future__ import annotations

import os
import time

FIXED = 20_261_116


def fresh_seed() -> int:
    return FIXED if os.environ.get("CI") else time.time_ns() % 1_000_000_000
