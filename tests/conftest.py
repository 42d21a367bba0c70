"""Settings of the whole test suite."""

from __future__ import annotations

import os

from hypothesis import settings

# Random examples find new mistakes on people's machines; a run in CI has to be repeatable.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
