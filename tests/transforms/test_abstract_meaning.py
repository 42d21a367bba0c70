"""What the abstract instructions of a launch say is what the launch means."""

from __future__ import annotations

import re

import numpy as np
import pytest
from abstract_machine import carry_out

from tilewright.dialects.context import make_context
from tilewright.dialects.encoded_families import ENCODED
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.reference import dtypes
from tilewright.reference.executor import run
from tilewright.targets.atlas.passes.text_isa import text_program
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

X = "5x8xf32"
MAPS = "operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]"
QKV = ["2x6x8xf32", "2x7x8xf32", "2x7x4xf32"]
UNARY = [
    "neg",
    "abs",
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "recip",
    "tanh",
    "sin",
    "cos",
    "erf",
    "relu",
    "sigmoid",
    "square",
    "cube",
    "floor",
    "ceil",
    "round",
]

# Family, types of operands, type of the result, attributes.
CALLS: list[tuple[str, list[str], str, str]] = [
    *((f"elementwise_{name}", [X], X, "") for name in UNARY),
    *((f"elementwise_{name}", [X, X], X, "") for name in ("add", "sub", "mul", "div", "max", "min", "pow")),
    *((f"elementwise_{name}", [X, "8xf32"], X, MAPS) for name in ("add", "sub", "div")),
    ("elementwise_sub", [X], X, "scalar_lhs = 3.0 : f32"), ("elementwise_div", [X], X, "scalar_rhs = 4.0 : f32"),
    ("elementwise_mul", [X], X, "scalar_rhs = 0.125 : f32"),
    ("silu", [X], X, ""), ("silu_gate", [X, X], X, ""), ("gelu_tanh", [X], X, ""), ("gelu_erf", [X], X, ""),
    ("compare", [X, X], "5x8xi1", 'predicate = "lt"'), ("compare", [X], "5x8xi1", 'predicate = "ge", scalar_rhs = 0.5 : f32'),
    ("select", ["5x8xi1", X, X], X, ""), ("select", ["5x8xi1", X], X, "scalar_b = -2.0 : f32"),
    ("logical_and", ["5x8xi1"] * 2, "5x8xi1", ""), ("logical_or", ["5x8xi1"] * 2, "5x8xi1", ""),
    ("logical_xor", ["5x8xi1"] * 2, "5x8xi1", ""), ("logical_not", ["5x8xi1"], "5x8xi1", ""),
    ("clamp", [X], X, "min = -0.5 : f32, max = 0.75 : f32"), ("clamp", [X], X, "max = 0.75 : f32"),
    ("cast", [X], "5x8xi32", ""),
    ("reduction_sum", [X], "5xf32", "axes = array<i64: 1>"), ("reduction_max", [X], "8xf32", "axes = array<i64: 0>"),
    ("reduction_min", [X], "5x1xf32", "axes = array<i64: 1>, keepdims"), ("reduction_prod", [X], "5xf32", "axes = array<i64: 1>"),
    ("reduction_mean", [X], "8xf32", "axes = array<i64: 0>"),
    ("softmax", [X], X, ""), ("softmax", [X], X, "axis = 0 : i64"),
    ("rms_norm", [X, "8xf32"], X, "epsilon = 1.0e-5 : f32"), ("rms_norm", [X], X, "epsilon = 0.5 : f32"),
    ("layer_norm", [X, "8xf32", "8xf32"], X, "epsilon = 1.0e-5 : f32"),
    ("rope", ["5x8xf32", "5x8xf32", "5x8xf32"], X, ""),
    ("rope", ["5x8xf32", "5x4xf32", "5x4xf32"], X, 'style = "interleaved"'),
    ("matmul", ["5x8xf32", "8x3xf32"], "5x3xf32", ""), ("matmul", ["5x8xf32", "3x8xf32"], "5x3xf32", "transpose_rhs"),
    ("matmul", ["8x5xf32", "8x3xf32", "5x3xf32"], "5x3xf32", "transpose_lhs"),
    ("gemma_attention", QKV, "2x6x4xf32", ""), ("gemma_attention", QKV, "2x6x4xf32", "scale = 0.25 : f32"),
    ("gemma_attention", QKV, "2x6x4xf32", "causal"), ("gemma_attention", QKV, "2x6x4xf32", "causal, valid_keys = 3 : i64"),
    ("gemma_attention", [*QKV, "2x6x7xf32"], "2x6x4xf32", 'mask_kind = "additive"'),
    ("gemma_attention", [*QKV, "2x6x7xi1"], "2x6x4xf32", 'mask_kind = "bool"'),
    ("gemma_attention", ["4x6x8xf32", "2x8x7xf32", "2x4x7xf32"], "4x6x4xf32", "transpose_k, transpose_v, kv_group = 2 : i64"),
    ("conv2d", ["1x4x6x7xf32", "6x2x3x2xf32", "6xf32"], "1x6x5x7xf32",
     "groups = 2 : i64, padding = array<i64: 1, 0, 0, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>"),
    ("pool_max", ["1x3x6x6xf32"], "1x3x3x3xf32", "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>"),
    ("pool_sum", ["1x3x6x6xf32"], "1x3x5x5xf32", "kernel = array<i64: 2, 2>"),
    ("pool_avg", ["1x3x6x6xf32"], "1x3x6x6xf32", "kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>"),
    ("pool_avg", ["1x3x6x6xf32"], "1x3x6x6xf32", "kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>, count_include_pad"),
    ("requant", [X], "5x8xi8", "scale = 0.25 : f32"), ("dequant", ["5x8xi8"], X, "scale = 0.25 : f32"),
    ("transpose", ["2x3x4xf32"], "4x2x3xf32", "permutation = array<i64: 2, 0, 1>"),
    ("reshape", ["2x3x4xf32"], "6x4xf32", ""),
    ("slice", ["6x8xf32"], "2x3xf32", "offsets = array<i64: 1, 2>, sizes = array<i64: 2, 3>, strides = array<i64: 2, 1>"),
    ("insert_slice", ["2x3xf32", "6x8xf32"], "6x8xf32", "offsets = array<i64: 1, 2>, sizes = array<i64: 2, 3>"),
    ("concat", ["2x3xf32", "2x4xf32", "2x1xf32"], "2x8xf32", "axis = 1 : i64"),
    ("pad", ["2x3xf32"], "4x4xf32", "low = array<i64: 1, 0>, high = array<i64: 1, 1>, value = 7.0 : f32"),
    ("fill", [], "2x3xf32", "value = 2.5 : f32"), ("iota", [], "2x3xi32", "axis = 1 : i64"),
]  # fmt: skip
# Parts of chains: their state lies in a unit, so that one launch alone has no result to compare.
CHAINS = {
    f"{name}_acc_{part}" for name in ("matmul", "attention") for part in ("first", "mid", "last")
}


def module_of(dialect: str, family: str, operands: list[str], result: str, attributes: str) -> str:
    names = [f"%a{k}" for k in range(len(operands))]
    parameters = ", ".join(f"{n}: tensor<{t}>" for n, t in zip(names, operands, strict=True))
    types = ", ".join(f"tensor<{t}>" for t in operands)
    dictionary = f" {{{attributes}}}" if attributes else ""
    return (
        f"func.func @main({parameters}) -> tensor<{result}> {{\n"
        f'  %0 = {dialect} "npu_uk_{family}"({", ".join(names)}){dictionary} : ({types}) -> tensor<{result}>\n'
        f"  return %0 : tensor<{result}>\n}}\n"
    )


def numbers(kind: str, generator: np.random.Generator, positive: bool) -> np.ndarray:
    *sizes, element = kind.split("x")
    shape = tuple(map(int, sizes))
    if element == "i1":
        return generator.random(shape) < 0.6
    if element.startswith("i"):
        return generator.integers(-100, 100, shape).astype(f"int{element[1:]}")
    made = generator.normal(0, 2, shape)
    return (np.abs(made) + 0.1 if positive else made).astype(np.float32)


def test_every_family_is_tried() -> None:
    wanted = {f.name for f in FAMILIES.values() if f.runs_on == "npu"} - CHAINS - ENCODED
    assert {family for family, *_ in CALLS} == wanted


@pytest.mark.parametrize(
    "call", CALLS, ids=lambda c: re.sub(r"[^\w,=]+", "-", f"{c[0]}-{c[3]}")[:70]
)
def test_instructions_mean_what_the_launch_means(call: tuple[str, list[str], str, str]) -> None:
    family, operands, *_ = call
    generator = np.random.default_rng(len(family))
    positive = any(word in family for word in ("log", "sqrt", "pow", "recip", "div"))
    inputs = [numbers(kind, generator, positive) for kind in operands]
    launch = parse_text(module_of("npu_schedule.ukernel_launch", *call))
    verify_module(launch)
    wanted = run(parse_text(module_of("npu_kernel.ukernel_generic", *call)), inputs)[0]
    run_passes(launch, parse_pipeline("convert-npu-schedule-to-isa"), make_context())
    text = str(launch)
    assert "npu_schedule" not in text
    got = carry_out(text, inputs)
    want = (
        wanted
        if wanted.dtype == np.bool_
        else dtypes.working(wanted, dtypes.of_array(wanted)).astype(float)
    )
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2e-5, atol=2e-6)


def test_a_row_that_sees_nothing_is_zero() -> None:
    call = ("gemma_attention", [*QKV, "2x6x7xi1"], "2x6x4xf32", 'mask_kind = "bool"')
    inputs = [
        *(numbers(kind, np.random.default_rng(1), False) for kind in QKV),
        np.zeros((2, 6, 7), bool),
    ]
    launch = parse_text(module_of("npu_schedule.ukernel_launch", *call))
    run_passes(launch, parse_pipeline("convert-npu-schedule-to-isa"), make_context())
    assert (carry_out(str(launch), inputs) == 0).all()


def test_attention_shows_its_scale() -> None:
    call = ("gemma_attention", QKV, "2x6x4xf32", "scale = 0.25 : f32")
    launch = parse_text(module_of("npu_schedule.ukernel_launch", *call))
    run_passes(launch, parse_pipeline("convert-npu-schedule-to-isa"), make_context())
    lines = text_program(launch).splitlines()
    product = next(n for n, line in enumerate(lines) if line.startswith("matmul"))
    assert lines[product + 1] == "vli vrd=4  # value = 2.500000e-01 : f32"
    assert lines[product + 2] == "vmul vrd=5, vs1=3, vs2=4"
