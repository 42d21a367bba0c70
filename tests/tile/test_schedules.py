"""Schedules made by the compiler, compiled to programs and compared with the reference executor."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from late_runs import run_late

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run
from tilewright.tile.layouts import NUMPY
from tilewright.tile.schedules import compile_schedule
from tilewright.transforms.pass_pipeline import named_pipeline, run_passes

PROFILES = ("atlas-v0", "atlas-v1")


def lowered(text):
    module = parse_text(text)
    run_passes(module, named_pipeline("atlas"), make_context())
    return module


def check(text, tolerance, seed=0, profiles=PROFILES, positive=False):
    """Both profiles, memory poisoned and transfers late, against the meaning of the source."""
    compiled = None
    for profile in profiles:
        compiled = compile_schedule(lowered(text), profile)
        random = np.random.default_rng(seed)
        arrays = []
        for name in compiled.inputs:
            layout = compiled.layouts[name]
            numbers = random.normal(size=layout.shape) * 0.5
            numbers = np.abs(numbers) + 0.1 if positive else numbers
            arrays.append(numbers.astype(NUMPY[layout.dtype]))
        assert not compiled.lint().findings
        wanted = run(parse_text(text), arrays)
        for found, want in zip(run_late(compiled, *arrays), wanted, strict=True):
            got = found.astype(np.float64)
            expected = np.asarray(want).astype(np.float64)
            assert got.shape == expected.shape
            assert np.abs(got - expected).max() <= tolerance * max(1.0, np.abs(expected).max())
    return compiled


def matmul(m, k, n, marks=""):
    b = f"{n}x{k}" if "rhs" in marks else f"{k}x{n}"
    return f"""
    func.func @f(%a: tensor<{m}x{k}xf8E4M3FN>, %b: tensor<{b}xf8E4M3FN>) -> tensor<{m}x{n}xbf16> {{
      %0 = npu_kernel.ukernel_generic "npu_uk_matmul"(%a, %b) {marks}
        : tensor<{m}x{k}xf8E4M3FN>, tensor<{b}xf8E4M3FN> -> tensor<{m}x{n}xbf16>
      return %0 : tensor<{m}x{n}xbf16>
    }}"""


@pytest.mark.parametrize(
    ("sizes", "marks"),
    [
        ((32, 32, 32), ""),
        ((20, 30, 10), ""),
        ((50, 97, 33), ""),
        ((64, 64, 64), "{transpose_rhs}"),
        ((33, 400, 40), ""),  # the middle of the chain is a loop
        ((1, 64, 96), ""),
        ((40, 1, 40), ""),
        ((200, 40, 1), ""),
    ],
)
def test_products(sizes, marks):
    m, k, n = sizes
    check(matmul(m, k, n, marks), 0.02)


def test_linalg_matmul():
    check(
        """
        func.func @f(%a: tensor<50x97xf8E4M3FN>, %b: tensor<97x33xf8E4M3FN>) -> tensor<50x33xbf16> {
          %z = arith.constant 0.0 : bf16
          %e = tensor.empty() : tensor<50x33xbf16>
          %f = linalg.fill ins(%z : bf16) outs(%e : tensor<50x33xbf16>) -> tensor<50x33xbf16>
          %0 = linalg.matmul ins(%a, %b : tensor<50x97xf8E4M3FN>, tensor<97x33xf8E4M3FN>)
            outs(%f : tensor<50x33xbf16>) -> tensor<50x33xbf16>
          return %0 : tensor<50x33xbf16>
        }""",
        0.02,
    )


def test_batches():
    check(
        """
        func.func @f(%a: tensor<3x40x50xf8E4M3FN>, %b: tensor<3x50x33xf8E4M3FN>) -> tensor<3x40x33xbf16> {
          %0 = npu_kernel.ukernel_generic "npu_uk_matmul"(%a, %b)
            : tensor<3x40x50xf8E4M3FN>, tensor<3x50x33xf8E4M3FN> -> tensor<3x40x33xbf16>
          return %0 : tensor<3x40x33xbf16>
        }""",
        0.02,
    )


def rows(m, n, body, extra=""):
    return f"""
    func.func @f(%x: tensor<{m}x{n}xbf16>, %w: tensor<{n}xbf16>{extra}) -> tensor<{m}x{n}xbf16> {{
      {body.replace("T", f"tensor<{m}x{n}xbf16>").replace("V", f"tensor<{n}xbf16>")}
    }}"""


ROWS = {
    "softmax": """%0 = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 1 : i64} : T -> T
      return %0 : T""",
    "rms_norm": """%0 = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%x, %w) {epsilon = 1.0e-5 : f32} : T, V -> T
      return %0 : T""",
    "layer_norm": """%0 = npu_kernel.ukernel_generic "npu_uk_layer_norm"(%x, %w, %w) {epsilon = 1.0e-5 : f32} : T, V, V -> T
      return %0 : T""",
    "chain": """%0 = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, %w) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : T, V -> T
      %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%0) : T -> T
      %2 = npu_kernel.ukernel_generic "npu_uk_silu_gate"(%1, %x) : T, T -> T
      %3 = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%2) {scalar_rhs = 1.5 : f32} : T -> T
      %4 = npu_kernel.ukernel_generic "npu_uk_clamp"(%3) {min = -1.0 : f32, max = 0.5 : f32} : T -> T
      return %4 : T""",
}


@pytest.mark.parametrize("shape", [(20, 30), (97, 33)])
@pytest.mark.parametrize("name", ROWS)
def test_rows_and_element_wise_chains(name, shape):
    down, across = shape
    check(rows(down, across, ROWS[name]), 0.04)


def test_reductions_and_columns():
    """A row maximum subtracted from its rows; the maximum itself is a result too."""
    check(
        """
        #id = affine_map<(d0, d1) -> (d0, d1)>
        #column = affine_map<(d0, d1) -> (d0, 0)>
        func.func @f(%x: tensor<50x70xbf16>) -> (tensor<50x70xbf16>, tensor<50x1xbf16>) {
          %0 = npu_kernel.ukernel_generic "npu_uk_reduction_max"(%x) {axes = array<i64: 1>, keepdims}
            : tensor<50x70xbf16> -> tensor<50x1xbf16>
          %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%x, %0) {operand_maps = [#id, #column]}
            : tensor<50x70xbf16>, tensor<50x1xbf16> -> tensor<50x70xbf16>
          return %1, %0 : tensor<50x70xbf16>, tensor<50x1xbf16>
        }""",
        0.01,
    )


def test_a_block_of_several_kernels():
    """rms_norm, requantise, matmul, add, in one program; every intermediate is ragged."""
    check(
        """
        func.func @f(%x: tensor<50x70xbf16>, %w: tensor<70x40xf8E4M3FN>, %r: tensor<50x40xbf16>)
            -> tensor<50x40xbf16> {
          %0 = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%x) {epsilon = 1.0e-6 : f32}
            : tensor<50x70xbf16> -> tensor<50x70xbf16>
          %1 = npu_kernel.ukernel_generic "npu_uk_requant"(%0) {scale = 0.5 : f32}
            : tensor<50x70xbf16> -> tensor<50x70xf8E4M3FN>
          %2 = npu_kernel.ukernel_generic "npu_uk_matmul"(%1, %w)
            : tensor<50x70xf8E4M3FN>, tensor<70x40xf8E4M3FN> -> tensor<50x40xbf16>
          %3 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%2, %r)
            : tensor<50x40xbf16>, tensor<50x40xbf16> -> tensor<50x40xbf16>
          return %3 : tensor<50x40xbf16>
        }""",
        0.05,
    )


def test_what_lies_beyond_an_edge_stays_out():
    """exp makes ones of padding; a product of two such results must not see them."""
    check(
        """
        func.func @f(%x: tensor<50x40xbf16>, %y: tensor<40x50xbf16>) -> tensor<50x50xbf16> {
          %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%x)
            : tensor<50x40xbf16> -> tensor<50x40xbf16>
          %1 = npu_kernel.ukernel_generic "npu_uk_requant"(%0)
            : tensor<50x40xbf16> -> tensor<50x40xf8E4M3FN>
          %2 = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%y)
            : tensor<40x50xbf16> -> tensor<40x50xbf16>
          %3 = npu_kernel.ukernel_generic "npu_uk_requant"(%2)
            : tensor<40x50xbf16> -> tensor<40x50xf8E4M3FN>
          %4 = npu_kernel.ukernel_generic "npu_uk_matmul"(%1, %3)
            : tensor<50x40xf8E4M3FN>, tensor<40x50xf8E4M3FN> -> tensor<50x50xbf16>
          return %4 : tensor<50x50xbf16>
        }""",
        0.02,
    )


def attention(heads, m, n, d, marks="", mask=""):
    q, k = f"tensor<{heads}x{m}x{d}xbf16>", f"tensor<{heads}x{n}x{d}xbf16>"
    extra = f", %m: tensor<{heads}x{m}x{n}xbf16>" if mask else ""
    types = f"{q}, {k}, {k}" + (f", tensor<{heads}x{m}x{n}xbf16>" if mask else "")
    return f"""
    func.func @f(%q: {q}, %k: {k}, %v: {k}{extra}) -> {q} {{
      %0 = npu_kernel.ukernel_generic "npu_uk_gemma_attention"(%q, %k, %v{mask}) {marks}
        : {types} -> {q}
      return %0 : {q}
    }}"""


@pytest.mark.parametrize(
    "case",
    [
        attention(1, 20, 30, 32),
        attention(2, 50, 70, 64),
        attention(1, 33, 400, 32, "{scale = 0.25 : f32}"),
        attention(2, 40, 50, 32, '{mask_kind = "additive"}', ", %m"),
    ],
    ids=["one tile", "several", "long", "mask"],
)
def test_attention(case):
    check(case, 0.05)


def test_an_argument_comes_back():
    check(
        """
        func.func @f(%x: tensor<20x40xbf16>) -> (tensor<20x40xbf16>, tensor<20x40xbf16>) {
          %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_neg"(%x)
            : tensor<20x40xbf16> -> tensor<20x40xbf16>
          return %x, %0 : tensor<20x40xbf16>, tensor<20x40xbf16>
        }""",
        0,
    )


def one(symbol, types, result, attributes=""):
    arguments = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
    names = ", ".join(f"%x{i}" for i in range(len(types)))
    return f"""
    func.func @f({arguments}) -> {result} {{
      %0 = npu_kernel.ukernel_generic "npu_uk_{symbol}"({names}) {attributes} : {", ".join(types)} -> {result}
      return %0 : {result}
    }}"""


B, F = "tensor<32x32xbf16>", "tensor<32x32xf32>"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (one("elementwise_add", [F, F], F), "TW1466", "f32 has no tiles"),
        (one("elementwise_erf", [B], B), "TW1464", "elementwise_erf has no micro-kernel"),
        (one("matmul", [B, B], B), "TW1466", "the matrix units take fp8"),
        (
            one("transpose", [B], B, "{permutation = array<i64: 1, 0>}"),
            "TW1466",
            "only fp8 tiles can be transposed",
        ),
        (
            one(
                "reduction_sum", ["tensor<40x40xbf16>"], "tensor<40xbf16>", "{axes = array<i64: 1>}"
            ),
            "TW1466",
            "cannot be stored as a vector",
        ),
        (
            "func.func @f(%x: tensor<8xbf16>) -> tensor<8xbf16> {\n  return %x : tensor<8xbf16>\n}\n"
            "func.func @g(%x: tensor<8xbf16>) -> tensor<8xbf16> {\n  return %x : tensor<8xbf16>\n}",
            "TW1470",
            "2 functions",
        ),
        (
            "func.func @f(%x: bf16, %y: tensor<8xbf16>) -> tensor<8xbf16> {\n"
            "  return %y : tensor<8xbf16>\n}",
            "TW1466",
            "tensors of fixed sizes",
        ),
    ],
)
def test_what_has_no_tiles(text, code, words):
    with pytest.raises(TilewrightError) as caught:
        compile_schedule(lowered(text), "atlas-v1")
    assert caught.value.code == code and words in caught.value.message


def test_results_are_the_same_every_time():
    text = matmul(50, 97, 33)
    first, again = (compile_schedule(lowered(text), "atlas-v1").program for _ in range(2))
    assert first.same_code(again)


def test_text_is_taken_as_well():
    compiled = compile_schedule(str(lowered(matmul(32, 64, 32))), "atlas-v1", "f")
    a, b = (np.ones(s).astype(ml_dtypes.float8_e4m3fn) for s in ((32, 64), (64, 32)))
    assert np.array_equal(compiled.run(a, b).astype(float), np.full((32, 32), 64.0))
