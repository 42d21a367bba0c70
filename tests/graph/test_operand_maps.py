"""Element-wise operations whose operands have the same elements in other tiles."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.dialects.parsing import parse_text
from tilewright.frontend.imported import Imported, TensorSpec

TEXT = """
func.func @main(%x: tensor<{m}x{n}xf32>, %y: tensor<{m}xf32>) -> tensor<{m}x{n}xf32> {{
  %0 = npu_kernel.ukernel_generic "npu_uk_{what}"({operand}) {attributes} : {kind} -> tensor<{m}xf32>
  %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_abs"(%0) : tensor<{m}xf32> -> tensor<{m}xf32>
  %2 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%1) {{scalar_lhs = 1.0 : f32, operand_maps = [affine_map<(d0, d1) -> (d0)>]}} : tensor<{m}xf32> -> tensor<{m}x1xf32>
  %3 = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%x, %2) {{operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>]}} : tensor<{m}x{n}xf32>, tensor<{m}x1xf32> -> tensor<{m}x{n}xf32>
  func.return %3 : tensor<{m}x{n}xf32>
}}
"""


@pytest.mark.parametrize("rows", [2, 33])
@pytest.mark.parametrize("computed", [True, False])
def test_a_row_read_as_a_column(rows: int, computed: bool):
    """[m] read as [m, 1]: a row of tiles and a column of tiles are not the same."""
    text = TEXT.format(
        m=rows,
        n=5,
        what="reduction_sum" if computed else "elementwise_tanh",
        operand="%x" if computed else "%y",
        attributes="{axes = array<i64: 1>}" if computed else "",
        kind=f"tensor<{rows}x5xf32>" if computed else f"tensor<{rows}xf32>",
    )
    specs = TensorSpec("x", (rows, 5), "f32"), TensorSpec("y", (rows,), "f32")
    outputs = (TensorSpec("z", (rows, 5), "f32"),)
    model = Imported(parse_text(text, "<text>"), {}, specs, outputs, "maps")
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, 5)).astype(np.float32)
    y = random.standard_normal(rows).astype(np.float32)
    divisor = 1 + np.abs(x.sum(1) if computed else np.tanh(y))[:, None]
    program = tw.compile(model)
    assert np.allclose(program(x, y), x / divisor, rtol=0.05, atol=0.02)
    assert program.verify().ok
