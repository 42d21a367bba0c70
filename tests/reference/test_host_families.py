"""Host families that order and write, and whole numbers without a sign."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run


def execute(line: str, inputs: dict[str, tuple[str, np.ndarray]], result: str) -> np.ndarray:
    """The result of one kernel; inputs are name -> (type, array)."""
    arguments = ", ".join(f"%{name}: {kind}" for name, (kind, _) in inputs.items())
    text = f"""func.func @main({arguments}) -> {result} {{
      %y = npu_kernel.ukernel_generic {line} -> {result}
      func.return %y : {result}
    }}"""
    module = parse_text(text)
    verify_module(module)
    return run(module, [array for _, array in inputs.values()])[0]


@pytest.mark.parametrize(("mark", "wanted"), [("", [1, 3, 0, 2]), ("{descending}", [0, 2, 1, 3])])
def test_equal_elements_keep_their_order(mark: str, wanted: list[int]) -> None:
    x = np.array([2, 1, 2, 1], np.float32)
    line = f'"npu_uk_argsort"(%x) {mark} : tensor<4xf32>'
    got = execute(line, {"x": ("tensor<4xf32>", x)}, "tensor<4xi64>")
    np.testing.assert_array_equal(got, wanted)


def scattered(mark: str, indices: list[int]) -> np.ndarray:
    inputs = {
        "x": ("tensor<4x2xf32>", np.ones((4, 2), np.float32)),
        "i": ("tensor<3xi64>", np.array(indices)),
        "u": ("tensor<3x2xf32>", np.arange(2, 8, dtype=np.float32).reshape(3, 2)),
    }
    line = f'"npu_uk_scatter"(%x, %i, %u) {mark} : tensor<4x2xf32>, tensor<3xi64>, tensor<3x2xf32>'
    return execute(line, inputs, "tensor<4x2xf32>")


def test_rows_are_replaced_or_combined() -> None:
    wanted = np.array([[2, 3], [1, 1], [1, 1], [6, 7]], np.float32)
    np.testing.assert_array_equal(scattered("", [0, 3, 3]), wanted)
    total = scattered('{reduction = "sum"}', [0, 3, 3])
    np.testing.assert_array_equal(total[3], [1 + 4 + 6, 1 + 5 + 7])


def test_an_index_outside_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="leaves axis 0"):
        scattered("", [0, 4, 1])


@pytest.mark.parametrize(
    ("family", "wanted"), [("max", [200, 7]), ("min", [100, 3]), ("div", [2, 0])]
)
def test_numbers_without_a_sign(family: str, wanted: list[int]) -> None:
    kind = "tensor<2xui8>"
    inputs = {
        "a": (kind, np.array([200, 3], np.uint8)),
        "b": (kind, np.array([100, 7], np.uint8)),
    }
    line = f'"npu_uk_elementwise_{family}"(%a, %b) : {kind}, {kind}'
    np.testing.assert_array_equal(execute(line, inputs, kind), wanted)


@pytest.mark.parametrize("family", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, -1])
def test_running_values(family: str, axis: int) -> None:
    """Against one step after the other; NaN stays from where it is, infinity does not."""
    x = np.array([[2.0, -3.0, 0.5, 4.0], [np.nan, 1.0, -np.inf, 2.0], [0.0, 7.0, 1.5, -1.0]], np.float32)  # fmt: skip
    steps = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
    wanted = np.array(x)
    rows = wanted if axis == 0 else wanted.T
    with np.errstate(invalid="ignore"):
        for index in range(1, len(rows)):
            rows[index] = steps[family](rows[index - 1], rows[index])
    line = f'"npu_uk_{family}"(%x) {{axis = {axis} : i64}} : tensor<3x4xf32>'
    got = execute(line, {"x": ("tensor<3x4xf32>", x)}, "tensor<3x4xf32>")
    np.testing.assert_array_equal(got, wanted)
