"""The check of passes itself: broken passes are caught, and precision changes stay in their bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from pass_checks import check_passes
from rounding_bounds import demoted_product, product_magnitude
from running import array, execute

from random_modules import Module, Value
from tilewright.dialects.context import make_context
from tilewright.dialects.npu_kernel import KernelCallOp
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.xdsl_api import (
    Context,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    ModulePass,
    StringAttr,
    f32,
    i64,
)
from tilewright.reference.compare import compare
from tilewright.reference.executor import run
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

TILE = "tile-npu-kernel-to-schedule"


@dataclass(frozen=True)
class Broken(ModulePass):
    """A pass with one mistake."""

    name = "broken"
    change: Callable[[KernelCallOp], None] = lambda op: None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed = [k for k in op.walk() if isinstance(k, KernelCallOp)]
        assert changed
        for kernel in changed:
            self.change(kernel)


def swap_operands(op: KernelCallOp) -> None:
    first, second = op.operands[0], op.operands[1]
    op.operands[0], op.operands[1] = second, first


def drop_last_operand(op: KernelCallOp) -> None:
    op.operands = op.operands[:-1]


def other_axis(op: KernelCallOp) -> None:
    op.attributes["axis"] = IntegerAttr(0, i64)


def other_scale(op: KernelCallOp) -> None:
    op.attributes["scale"] = FloatAttr(0.126, f32)


def no_mark(op: KernelCallOp) -> None:
    op.attributes.pop("transpose_k")


def other_offset(op: KernelCallOp) -> None:
    op.attributes["offsets"] = DenseArrayBase.from_list(i64, [1, 2])


def restart_chain(op: KernelCallOp) -> None:
    if op.symbol.data.endswith("_acc_mid"):
        op.properties["symbol"] = StringAttr("npu_uk_matmul_acc_first")


def other_family(op: KernelCallOp) -> None:
    op.properties["symbol"] = StringAttr("npu_uk_gelu_erf")


def call(
    symbol: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], attributes: str
) -> Module:
    arguments = [Value(f"%a{i}", s, "f32") for i, s in enumerate(shapes)]
    target = Value("%r", result, "f32")
    listed = ", ".join(a.type for a in arguments)
    text = (
        f"func.func @main({', '.join(f'{a.name}: {a.type}' for a in arguments)}) -> {target.type} {{\n"
        f'  %r = npu_kernel.ukernel_generic "npu_uk_{symbol}"({", ".join(a.name for a in arguments)}) '
        f"{attributes} : ({listed}) -> {target.type}\n  return %r : {target.type}\n}}"
    )
    return Module(text, arguments, [], [1 if "attention" in symbol else 0])


MISTAKES: dict[str, tuple[Module, list[str], Callable[[KernelCallOp], None]]] = {
    "operands of a difference swapped": (
        call("elementwise_sub", [(5, 7), (5, 7)], (5, 7), ""), [], swap_operands),
    "softmax along another axis": (
        call("softmax", [(6, 6)], (6, 6), "{axis = 1 : i64}"), [], other_axis),
    "attention with a slightly different scale": (
        call("gemma_attention", [(4, 8), (6, 8), (6, 8)], (4, 8), "{scale = 0.125 : f32}"), [], other_scale),
    "attention without its mask": (
        call("gemma_attention", [(4, 8), (6, 8), (6, 8), (4, 6)], (4, 8), ""), [], drop_last_operand),
    "transposed keys read straight": (
        call("gemma_attention", [(4, 6), (6, 6), (6, 6)], (4, 6), "{transpose_k}"), [], no_mark),
    "the weight of a norm forgotten": (
        call("rms_norm", [(4, 8), (8,)], (4, 8), "{epsilon = 1.0e-5 : f32}"), [], drop_last_operand),
    "a slice one element off": (
        call("slice", [(5, 7)], (2, 3), "{offsets = array<i64: 1, 1>, sizes = array<i64: 2, 3>}"), [], other_offset),
    "gelu by erf instead of tanh": (
        call("gelu_tanh", [(5, 7)], (5, 7), ""), [], other_family),
    "an initial value dropped": (
        call("reduction_sum", [(5, 7), (5,)], (5,), "{axes = array<i64: 1>}"), [], drop_last_operand),
    "a chain that starts again in the middle": (
        call("matmul", [(8, 120), (120, 8)], (8, 8), ""), [TILE], restart_chain),
}  # fmt: skip


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_caught(mistake: str) -> None:
    module, before, change = MISTAKES[mistake]
    check_passes(module, [*before, "canonicalize"])
    with pytest.raises(AssertionError, match=r"^broken.* changed result 0"):
        check_passes(module, [*before, Broken(change)])


@pytest.mark.parametrize("shape", [(5, 40, 7), (33, 100, 65)])
def test_demoted_products_stay_within_their_bound(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    text = f"""
func.func @main(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %r = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}"""
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k)).astype(np.float32)
    b = random.standard_normal((k, n)).astype(np.float32)
    (expected,) = execute(text, a, b)
    context = make_context()
    module = parse_text(text, context=context)
    demote = "convert-linalg-to-npu-kernel{demote-score-matmuls=true}"
    run_passes(module, parse_pipeline(f"{demote},{TILE}"), context)
    (actual,) = run(module, [a, b])
    bound = demoted_product(product_magnitude(a.astype(float), b.astype(float)))
    result = compare(actual, expected, bound)
    assert result.within, result
    assert result.different > m * n // 2, "nothing was demoted"


def test_the_check_also_sees_one_wrong_bit() -> None:
    expected = array(np.ones((3, 3)), "bf16")
    actual = expected.copy()
    actual.view(np.uint16)[1, 2] ^= 1
    result = compare(actual, expected)
    assert not result.within and result.different == 1 and result.worst == (1, 2)
