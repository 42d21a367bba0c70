"""Loops inside of one that follow more addresses than there are scalar registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.targets.atlas.codegen import lower_nest
from tilewright.targets.atlas.codegen.routine import PointersExceeded


def towers(loops: int) -> tw.Kernel:
    """So many loops over rows, one after the other, in one over the batch."""

    @tw.kernel
    def kernel(
        x: tw.bf16["B", "M", "N"], y: tw.bf16["B", "M", "N"], out: tw.bf16["B", "L", "M", "N"]
    ):  # fmt: skip
        for b in tw.each(x.B):
            for k in range(loops):
                for m in tw.grid(x.M):
                    out[b, k, m, :] = tw.exp(x[b, m, :] * (k / 8)) + y[b, m, :]

    return kernel


def checked(loops: int, profile: str) -> Any:
    kernel, random = towers(loops), np.random.default_rng(loops)
    rows = 900 if profile == "atlas-v1" else 1500 // loops  # memory is small there
    x, y = (random.normal(size=(2, rows, 20)) for _ in range(2))
    compiled = kernel.compile(x, y, L=loops, target=profile)
    wanted: Any = kernel.eager(x, y, L=loops, profile=profile)
    found = compiled.run(x, y)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()
    assert compiled.lint().clean
    return compiled


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("loops", [2, 5, 14])
def test_loops_get_by(loops: int, profile: str):
    checked(loops, profile)


def test_without_other_ways_registers_run_out(monkeypatch: pytest.MonkeyPatch):
    """What the test above gets by."""
    monkeypatch.setattr(lower_nest, "REGISTER_USES", lower_nest.REGISTER_USES[:1])
    with pytest.raises(PointersExceeded, match="at most 25 fit"):
        checked(14, "atlas-v1")
