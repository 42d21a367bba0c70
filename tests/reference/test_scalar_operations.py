"""arith and math: hand-made values, specials, and agreement with exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from running import array, binary, execute, floats, unary

inf, nan = math.inf, math.nan


def check(text: str, inputs: list[np.ndarray], wanted: Sequence[float]) -> None:
    (result,) = execute(text, *inputs)
    found = floats(result) if result.dtype.kind not in "biu" else result
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), np.array(wanted, float))
    if result.dtype.kind not in "biu":
        signs = [math.copysign(1, w) for w in wanted if w == 0]
        assert [math.copysign(1, f) for f, w in zip(found, wanted, strict=True) if w == 0] == signs


@pytest.mark.parametrize(
    ("operation", "a", "b", "wanted"),
    [
        ("arith.addf", [1, 2**-8, inf, 3], [2**-8, 1, -inf, -3], [1, 1, nan, 0.0]),
        ("arith.subf", [1, 5, inf, 0.0], [0.5, 7, inf, 0.0], [0.5, -2, nan, 0.0]),
        ("arith.mulf", [3, -0.0, 1.0078125, 3e38], [2, 5, 1.0078125, 10], [6, -0.0, 1.015625, inf]),
        ("arith.divf", [1, 1, -1, 0], [3, 0, 0, 0], [0.333984375, inf, -inf, nan]),
        ("arith.maximumf", [1, nan, -0.0, 0.0], [2, 1, 0.0, -0.0], [2, nan, 0.0, 0.0]),
        ("arith.minimumf", [1, nan, -0.0, 0.0], [2, 1, 0.0, -0.0], [1, nan, -0.0, -0.0]),
        ("arith.maxnumf", [1, nan, -0.0, 0.0], [2, 1, 0.0, -0.0], [2, 1, 0.0, 0.0]),
        ("arith.minnumf", [1, nan, -0.0, 0.0], [2, 1, 0.0, -0.0], [1, 1, -0.0, -0.0]),
        ("math.powf", [2, 9, 0, -8], [10, 0.5, 0, 3], [1024, 3, 1, -512]),
        ("math.atan2", [0, 1, -1, 0], [1, 0, 0, -1], [0.0, 1.5703125, -1.5703125, 3.140625]),
        ("math.copysign", [1, -2, 3, 0], [-1, 1, -0.0, -5], [-1, 2, -3, -0.0]),
    ],
)
def test_binary_bf16(operation: str, a: list, b: list, wanted: list) -> None:
    check(binary(operation, "bf16"), [array(a, "bf16"), array(b, "bf16")], wanted)


@pytest.mark.parametrize(
    ("operation", "a", "wanted"),
    [
        ("arith.negf", [1, -0.0, inf, -2], [-1, 0.0, -inf, 2]),
        ("math.absf", [1, -0.0, -inf, -2], [1, 0.0, inf, 2]),
        ("math.exp", [0, 1, -inf, 100], [1, 2.71875, 0, 2.6894e43]),
        ("math.exp2", [0, 3, -1, 200], [1, 8, 0.5, 2.0**200]),
        ("math.log", [1, 0, -1, inf], [0, -inf, nan, inf]),
        ("math.sqrt", [4, 2, -1, 0], [2, 1.4140625, nan, 0.0]),
        ("math.rsqrt", [4, 0.25, 0, inf], [0.5, 2, inf, 0.0]),
        ("math.tanh", [0, 100, -100, 0.5], [0, 1, -1, 0.462890625]),
        ("math.erf", [0, 10, -10, 0.5], [0, 1, -1, 0.51953125]),
        ("math.floor", [1.5, -1.5, -0.0, 2], [1, -2, -0.0, 2]),
        ("math.ceil", [1.5, -1.5, -0.25, 2], [2, -1, -0.0, 2]),
        ("math.round", [0.5, -0.5, 2.5, -2.5], [1, -1, 3, -3]),
        ("math.roundeven", [0.5, -0.5, 2.5, -3.5], [0.0, -0.0, 2, -4]),
        ("math.trunc", [1.75, -1.75, -0.5, 9], [1, -1, -0.0, 9]),
    ],
)
def test_unary_bf16(operation: str, a: list, wanted: list) -> None:
    wanted = [float(floats(array(w, "bf16"))) for w in wanted]
    check(unary(operation, "bf16"), [array(a, "bf16")], wanted)


@pytest.mark.parametrize(
    "operation", ["exp", "tanh", "sin", "cos", "log2", "exp2", "sqrt", "rsqrt"]
)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_functions_are_correctly_rounded(operation: str, element: str) -> None:
    random = np.random.default_rng(1)
    values = array(np.abs(random.standard_normal(4)) * 3, element)
    (result,) = execute(unary(f"math.{operation}", element), values)
    for x, y in zip(floats(values), result, strict=True):
        exact = {
            "exp": math.exp,
            "tanh": math.tanh,
            "sin": math.sin,
            "cos": math.cos,
            "log2": math.log2,
            "exp2": lambda v: 2.0**v,
            "sqrt": math.sqrt,
            "rsqrt": lambda v: 1 / math.sqrt(v),
        }[operation](x)
        assert y == array(exact, element)


def test_fused_multiply_add_rounds_once() -> None:
    # In float64 the product plus c would round onto a float32 midpoint and then to even.
    a, b = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    c = np.float32(2.0**-77)
    text = """
func.func @main(%a: tensor<1xf32>, %b: tensor<1xf32>, %c: tensor<1xf32>) -> tensor<1xf32> {
  %r = math.fma %a, %b, %c : tensor<1xf32>
  return %r : tensor<1xf32>
}"""
    (result,) = execute(text, *[np.array([v], np.float32) for v in (a, b, c)])
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a tie that c breaks upwards.
    assert result[0] == np.float32(1 + 2**-11 + 2**-23)


def test_integer_arithmetic() -> None:
    a, b = array([7, -7, -128, 100], "i8"), array([2, 2, -1, 100], "i8")
    for operation, wanted in {
        "arith.addi": [9, -5, 127, -56],
        "arith.subi": [5, -9, -127, 0],
        "arith.muli": [14, -14, -128, 16],
        "arith.floordivsi": [3, -4, -128, 1],
        "arith.remsi": [1, -1, 0, 0],
        "arith.divui": [3, 124, 0, 1],
        "arith.maxui": [7, -7, -1, 100],
        "arith.minsi": [2, -7, -128, 100],
        "arith.andi": [2, 0, -128, 100],
        "arith.xori": [5, -5, 127, 0],
    }.items():
        check(binary(operation, "i8"), [a, b], wanted)
    check(binary("arith.divsi", "i32"), [array([7, -7, 7, -8], "i32"), array([2, 2, -2, 3], "i32")], [3, -3, -3, -2])  # fmt: skip
    shift = array([0, 1, 7, 9], "i8")
    check(binary("arith.shli", "i8"), [a, shift], [7, -14, 0, 0])
    check(binary("arith.shrsi", "i8"), [a, shift], [7, -4, -1, 0])
    check(binary("arith.shrui", "i8"), [a, shift], [7, 124, 1, 0])
    check(unary("math.ctpop", "i32"), [array([0, 1, 255, -1], "i32")], [0, 1, 8, 32])
    check(unary("math.ctlz", "i32"), [array([0, 1, 255, -1], "i32")], [32, 31, 24, 0])
    check(unary("math.cttz", "i32"), [array([0, 1, 256, -1], "i32")], [32, 0, 8, 0])


def test_bits_of_i1() -> None:
    a, b = array([0, 0, 1, 1], "i1"), array([0, 1, 0, 1], "i1")
    check(binary("arith.andi", "i1"), [a, b], [0, 0, 0, 1])
    check(binary("arith.addi", "i1"), [a, b], [0, 1, 1, 0])
    check(binary("arith.muli", "i1"), [a, b], [0, 0, 0, 1])
    check(unary("arith.extui", "i1", "i32"), [a], [0, 0, 1, 1])
    check(unary("arith.extsi", "i1", "i32"), [a], [0, 0, -1, -1])
    check(unary("arith.uitofp", "i1", "f32"), [a], [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("operation", "source", "target", "values", "wanted"),
    [
        ("arith.truncf", "f32", "f8E4M3FN", [449, 0.1, -1e9, nan], [448, 0.1015625, -448, nan]),
        ("arith.truncf", "f32", "f8E5M2", [61439, 61440, -1e9, 0.1], [57344, inf, -inf, 0.09375]),
        ("arith.truncf", "f32", "bf16", [1.00390625, 1.01171875, 3.4e38, 1], [1, 1.015625, inf, 1]),
        ("arith.extf", "f8E4M3FN", "f32", [448, -0.0, 2**-9, nan], [448, -0.0, 2**-9, nan]),
        ("arith.sitofp", "i32", "bf16", [257, -257, 259, 2**30], [256, -256, 260, 2**30]),
        ("arith.uitofp", "i8", "f32", [-1, 127, -128, 0], [255, 127, 128, 0]),
        ("arith.fptosi", "f32", "i8", [1.9, -1.9, 300, nan], [1, -1, 127, 0]),
        ("arith.fptoui", "f32", "i8", [1.9, 255, -3, 1e9], [1, -1, 0, -1]),
        ("arith.trunci", "i32", "i8", [300, -1, 128, 5], [44, -1, -128, 5]),
        ("arith.extui", "i8", "i32", [-1, 1, -128, 5], [255, 1, 128, 5]),
        ("arith.bitcast", "f32", "i32", [1, -0.0, 0, 2], [0x3F800000, -(2**31), 0, 0x40000000]),
        ("arith.bitcast", "bf16", "i16", [1, -0.0, 0, 2], [0x3F80, -(2**15), 0, 0x4000]),
        ("arith.bitcast", "i8", "f8E4M3FN", [0x7E, 0x38, -128, 1], [448, 1, -0.0, 2**-9]),
    ],
)
def test_conversions(operation: str, source: str, target: str, values: list, wanted: list) -> None:
    check(unary(operation, source, target), [array(values, source)], wanted)


def test_large_integers_round_once() -> None:
    # 2^60 + 2^36 + 1 is just above a midpoint of float32; through float64 it would be on it.
    value = 2**60 + 2**36 + 1
    text = unary("arith.sitofp", "i64", "f32")
    (result,) = execute(text, np.array([value, -value, 2**60 + 2**36, 3], np.int64))
    assert result.tolist() == [2.0**60 + 2.0**37, -(2.0**60) - 2.0**37, 2.0**60, 3.0]


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("oeq", [0, 1, 0, 0]),
        ("one", [1, 0, 0, 1]),
        ("olt", [1, 0, 0, 0]),
        ("ule", [1, 1, 1, 0]),
        ("une", [1, 0, 1, 1]),
        ("ord", [1, 1, 0, 1]),
        ("uno", [0, 0, 1, 0]),
        ("ogt", [0, 0, 0, 1]),
    ],
)
def test_float_comparisons(predicate: str, wanted: list) -> None:
    text = binary(f"arith.cmpf {predicate},", "f32", "i1")
    check(text, [array([1, -0.0, nan, 3], "f32"), array([2, 0, 1, 1], "f32")], wanted)


def test_integer_comparisons() -> None:
    a, b = array([-1, 5, 3, 0], "i8"), array([1, 5, -3, 0], "i8")
    for predicate, wanted in {
        "eq": [0, 1, 0, 1],
        "slt": [1, 0, 0, 0],
        "ult": [0, 0, 1, 0],
        "sge": [0, 1, 1, 1],
        "uge": [1, 1, 0, 1],
    }.items():
        check(binary(f"arith.cmpi {predicate},", "i8", "i1"), [a, b], wanted)
