"""Settings of the VPU tests."""

from __future__ import annotations

import pytest

from tilewright.targets.vpu.scheduling import search


@pytest.fixture
def little_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """How good schedules are is measured by benchmarks/vpu_schedules.py; here they are checked."""
    monkeypatch.setattr(search, "_BUDGET", 600)
