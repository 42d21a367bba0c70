"""Kernels that no chip holds are refused soon, at the line that asks for them."""

from __future__ import annotations

import time

import pytest

from tilewright.errors import TilewrightError
from tilewright.tile.schedules import compile_schedule

SOFTMAX = """
func.func @rows(%x: tensor<32x{n}xbf16>) -> tensor<32x{n}xbf16> {{
  %y = npu_schedule.softmax_fragment %x : tensor<32x{n}xbf16> -> tensor<32x{n}xbf16>
  return %y : tensor<32x{n}xbf16>
}}
"""


@pytest.mark.parametrize(("columns", "code"), [(16_383, "TW1454"), (1_000_000, "TW1680")])
def test_softmax_of_endless_rows(columns: int, code: str) -> None:
    before = time.process_time()
    with pytest.raises(TilewrightError) as found:
        compile_schedule(SOFTMAX.format(n=columns), "atlas-v1")
    assert found.value.code == code
    assert found.value.location is None or "kernel.py" not in found.value.location.file
    # Seconds; tracing all of a million columns takes minutes.
    assert time.process_time() - before < 40
