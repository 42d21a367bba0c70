"""Launches as the Atlas machine carries them out: every instruction's rounding, tile by tile.

With `Semantics(machine="atlas-v0")` a launch of one of these families on tiles of the machine (32
rows, bf16 in two halves of 16 columns, fp8 operands of products) gives the bits the kernel library
gives on that machine. Element-wise launches of any shape are included, the others need whole
tiles. Launches the library has no kernel for keep their machine-independent meaning.

Values are bit patterns (`arithmetic`): bf16 as uint16, fp8 as uint8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.kernel_call import KernelCall
from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as unit
from tilewright.reference import dtypes
from tilewright.reference.dtypes import BF16, F8E4M3FN, Array
from tilewright.reference.families import Call

MACHINES = ("atlas-v0",)
TILE = 32
HALF = 16
SUM_ORDER = "two_lanes"

TileFunction = Callable[..., Array]


def check_machine(name: str | None) -> None:
    """Fail for a machine whose kernels are not described here."""
    if name is not None and name not in MACHINES:
        raise TilewrightError(
            "TW1502",
            f"the reference executor has no kernels of the machine {name}",
            hint=f"use one of {', '.join(MACHINES)}, or none for the machine-independent meaning",
        )


def pattern(value: float) -> Array:
    """A constant as a bf16 pattern."""
    return unit.f64_to_bf16(np.asarray([value]))[0]


def table(name: str) -> Callable[[Array], Array]:
    """A function of one bf16 value, as the vector unit computes it."""
    return lambda x: unit.unary_table(name)[x]


exponential, reciprocal, square_root, tangent = (
    table(name) for name in ("vexp", "vrecip", "vsqrt", "vtanh")
)


def halves(x: Array) -> tuple[Array, Array]:
    return x[:, :HALF], x[:, HALF:]


def joined(left: Array, right: Array) -> Array:
    return np.concatenate((left, right), axis=1)


def row_sum(x: Array) -> Array:
    return unit.row_sum(x, SUM_ORDER)


def row_maximum(x: Array) -> Array:
    return unit.reduce_extreme(x, 1, larger=True)


# --------------------------------------------------------------------------- element by element


def silu(x: Array) -> Array:
    """x * recip(1 + exp(0 - x))"""
    turned = exponential(unit.subtract(np.zeros_like(x), x))
    return unit.multiply(x, reciprocal(unit.add(np.full_like(x, pattern(1.0)), turned)))


def gelu_tanh(x: Array) -> Array:
    """(x * 0.5) * (1 + tanh((x + ((x*x)*x) * 0.044715) * sqrt(2/pi)))"""
    cubic = unit.multiply(unit.multiply(unit.multiply(x, x), x), pattern(0.044715))
    inner = unit.multiply(unit.add(x, cubic), pattern(math.sqrt(2.0 / math.pi)))
    outer = unit.add(pattern(1.0), tangent(inner))
    return unit.multiply(unit.multiply(x, pattern(0.5)), outer)


ELEMENTWISE: dict[str, TileFunction] = {
    "elementwise_add": unit.add,
    "elementwise_sub": unit.subtract,
    "elementwise_mul": unit.multiply,
    "elementwise_div": lambda a, b: unit.multiply(a, reciprocal(b)),
    "elementwise_max": lambda a, b: unit.extreme(a, b, larger=True),
    "elementwise_min": lambda a, b: unit.extreme(a, b, larger=False),
    "elementwise_relu": unit.relu,
    "elementwise_recip": reciprocal,
    "elementwise_exp": exponential,
    "elementwise_exp2": table("vexp2"),
    "elementwise_log2": table("vlog2"),
    "elementwise_sqrt": square_root,
    "elementwise_tanh": tangent,
    "elementwise_sin": table("vsin"),
    "elementwise_cos": table("vcos"),
    "silu": silu,
    "gelu_tanh": gelu_tanh,
}


# --------------------------------------------------------------------------- rows of one tile


def softmax(x: Array) -> Array:
    left, right = halves(x)
    top = unit.extreme(row_maximum(left), row_maximum(right), larger=True)
    left, right = (exponential(unit.subtract(half, top)) for half in (left, right))
    factor = reciprocal(unit.add(row_sum(left), row_sum(right)))
    return joined(unit.multiply(left, factor), unit.multiply(right, factor))


def rms_norm(x: Array, epsilon: float) -> Array:
    left, right = halves(x)
    total = unit.add(row_sum(unit.multiply(left, left)), row_sum(unit.multiply(right, right)))
    mean = unit.multiply(total, pattern(1.0 / TILE))
    factor = reciprocal(square_root(unit.add(mean, pattern(epsilon))))
    return joined(unit.multiply(left, factor), unit.multiply(right, factor))


def reduction_sum(x: Array) -> Array:
    """One value per row: the halves are added first."""
    return row_sum(unit.add(*halves(x)))[:, :1]


# --------------------------------------------------------------------------- attention in blocks


@dataclass
class AttentionState:
    """Running maximum, sum (one half each) and four column blocks of the output, in bf16."""

    maximum: Array
    total: Array
    output: list[Array]

    def result(self) -> Array:
        factor = reciprocal(self.total)
        return np.concatenate([unit.multiply(block, factor) for block in self.output], axis=1)


def start_attention() -> AttentionState:
    """-100 stands in for minus infinity."""
    empty = np.zeros((TILE, HALF), np.uint16)
    return AttentionState(np.full_like(empty, pattern(-100.0)), empty, [empty] * 4)


def advance_attention(
    state: AttentionState, q: Array, keys: Array, v: Array, scale: float
) -> AttentionState:
    """One tile of 32 keys: q [32, 64], keys transposed [64, 32], v [32, 64], all bf16."""
    q8, k8, v8 = (unit.bf16_to_fp8(x) for x in (q, keys, v))
    score = unit.matmul(q8[:, :TILE], k8[:TILE])
    score = unit.matmul(q8[:, TILE:], k8[TILE:], score)
    left, right = (unit.multiply(half, pattern(scale)) for half in halves(score))
    top = unit.extreme(row_maximum(left), row_maximum(right), larger=True)
    top = unit.extreme(state.maximum, top, larger=True)
    fade = exponential(unit.subtract(state.maximum, top))
    left, right = (exponential(unit.subtract(half, top)) for half in (left, right))
    weights = unit.bf16_to_fp8(joined(left, right))
    products = [unit.matmul(weights, v8[:, :TILE]), unit.matmul(weights, v8[:, TILE:])]
    added = [half for product in products for half in halves(product)]
    output = [
        unit.add(unit.multiply(block, fade), more)
        for block, more in zip(state.output, added, strict=True)
    ]
    total = unit.add(unit.multiply(fade, state.total), unit.add(row_sum(left), row_sum(right)))
    return AttentionState(top, total, output)


# --------------------------------------------------------------------------- which launches


def bits(values: Array, element: dtypes.ElementType) -> Array:
    """Working values as the patterns the machine holds."""
    stored = dtypes.contiguous(dtypes.stored(values, element))
    return stored.view(np.uint16 if element is BF16 else np.uint8)


def working(patterns: Array) -> Array:
    """bf16 or fp8 patterns as working values."""
    if patterns.dtype == np.uint16:
        return unit.bf16_to_f32(patterns)
    return unit.fp8_to_f32(patterns)


def plain(kernel: KernelCall) -> bool:
    """Whether a call has no attributes that the library's kernels do not know."""
    return not {"operand_maps", "scalar_lhs", "scalar_rhs", "mask_kind", "causal"} & set(
        kernel.attributes
    )


def tile_result(call: Call) -> Array | None:
    """The machine's result of a launch without state, or None if it has no such kernel."""
    name = call.kernel.family.name
    kinds = set(call.elements.values())
    if not plain(call.kernel):
        return None
    if name in ELEMENTWISE and kinds == {BF16} and call.target is BF16:
        operands = [bits(v, BF16) for v in call.values.values()]
        if any(o.shape != call.shape for o in operands):
            return None
        return working(ELEMENTWISE[name](*operands))
    if name == "requant" and kinds == {BF16} and call.target is F8E4M3FN:
        if call.kernel.floating("scale") not in (None, 1.0) or "scale" in call.values:
            return None
        return working(unit.pack(bits(call.values["x"], BF16), 1))
    if name == "matmul" and product_fits(call):
        start = call.values.get("acc")
        acc = None if start is None else bits(start, BF16)
        return working(tile_product(call, acc))
    if kinds != {BF16} or call.values["x"].shape != (TILE, TILE):
        return None
    x = bits(call.values["x"], BF16)
    if name == "softmax" and call.axis() == 1:
        return working(softmax(x))
    if name == "rms_norm" and call.axis() == 1 and call.target is BF16:
        normal = rms_norm(x, call.kernel.floating("epsilon") or 0.0)
        if "weight" in call.values:
            normal = unit.multiply(normal, bits(call.values["weight"], BF16)[None, :])
        return working(normal)
    if (
        name == "reduction_sum"
        and call.kernel.integers("axes") == (1,)
        and "init" not in call.values
    ):
        return working(reduction_sum(x)).reshape(call.shape)
    return None


def product_fits(call: Call) -> bool:
    """fp8 operands of at most one tile along k, a bf16 result, no batch."""
    left, right = call.values["lhs"], call.values["rhs"]
    fp8 = call.elements["lhs"] is F8E4M3FN and call.elements["rhs"] is F8E4M3FN
    marks = call.kernel.flag("transpose_lhs") or call.kernel.flag("transpose_rhs")
    return (
        fp8
        and call.target is BF16
        and not marks
        and left.ndim == right.ndim == 2
        and left.shape[1] == right.shape[0] <= TILE
    )


def tile_product(call: Call, acc: Array | None) -> Array:
    """The accumulator after one product, as bf16 patterns."""
    left, right = (bits(call.values[name], F8E4M3FN) for name in ("lhs", "rhs"))
    return unit.matmul(left, right, acc)


def attention_fits(call: Call) -> bool:
    """bf16 operands of the shapes the chain kernels take: 32 queries and keys, heads of 64."""
    shapes = tuple(call.values[name].shape for name in ("q", "k", "v"))
    keys = (2 * TILE, TILE) if call.kernel.flag("transpose_k") else (TILE, 2 * TILE)
    kinds = {call.elements[name] for name in ("q", "k", "v")}
    return (
        plain(call.kernel)
        and kinds == {BF16}
        and shapes == ((TILE, 2 * TILE), keys, (TILE, 2 * TILE))
        and "mask" not in call.values
        and not call.kernel.flag("transpose_v")
        and call.kernel.integer("valid_keys") in (None, TILE)
    )


def attention_step(call: Call, state: AttentionState | None) -> AttentionState:
    """The state after one tile of keys."""
    q, k, v = (bits(call.values[name], BF16) for name in ("q", "k", "v"))
    if not call.kernel.flag("transpose_k"):
        k = np.ascontiguousarray(k.T)
    scale = call.kernel.floating("scale")
    factor = 1.0 / math.sqrt(q.shape[1]) if scale is None else scale
    return advance_attention(state or start_attention(), q, k, v, factor)
