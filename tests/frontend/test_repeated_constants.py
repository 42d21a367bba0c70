"""Known values that repeat along different axes are different, and are written as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.frontend.mlir_model import import_mlir
from tilewright.reference.executor import Executor

TEXT = """func.func @main(%x: tensor<NxNxf32>) -> tensor<MxNxf32> {
  %i = stablehlo.iota dim = 0 : tensor<Nxf32>
  %down = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<Nxf32>) -> tensor<NxNxf32>
  %across = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<Nxf32>) -> tensor<NxNxf32>
  %y = stablehlo.concatenate %x, %down, %across, dim = 0 : (tensor<NxNxf32>, tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<MxNxf32>
  return %y : tensor<MxNxf32>
}
"""


@pytest.mark.parametrize("size", [2, 4, 20])
def test_rows_and_columns_of_one_vector(size: int) -> None:
    imported = import_mlir(TEXT.replace("N", str(size)).replace("M", str(3 * size)), "repeated")
    x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    (got,) = Executor(imported.module, imported.weights).run([x], "main")
    down = np.broadcast_to(np.arange(size, dtype=np.float32)[:, None], (size, size))
    np.testing.assert_array_equal(got, np.concatenate([x, down, down.T]))
