"""What a launch does: the micro-kernel body of a family, with the launch's attributes applied.

The same body runs in both places, on registers when compiled and on numpy when eager, so an
eager run and a compiled one differ in nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.tile.bodies import BODIES, Body

# Machine instructions of a body, about; loops are unrolled by them.
_COST = {
    "elementwise_log": 3,
    "elementwise_rsqrt": 3,
    "elementwise_div": 4,
    "elementwise_abs": 4,
    "elementwise_sigmoid": 6,
    "silu": 8,
    "silu_gate": 10,
    "gelu_tanh": 14,
    "softmax": 8,
    "cast": 0,
}


def cost(family: str) -> int:
    """A rough count of instructions."""
    return _COST.get(family, 2)


def launch_body(family: str, attributes: Mapping[str, Any]) -> Body:
    """The function over tile operations and input tiles that a launch runs.

    attributes: `scalar_lhs`, `scalar_rhs` (a number in place of an operand), `axes` (of a
    reduction), `scale` (requant divides, dequant multiplies by it), `unit` (of a product),
    `value` and `dtype` (of a fill).
    """
    if family.startswith("reduction_"):
        return _reduction(family.removeprefix("reduction_"), tuple(attributes["axes"]))
    if family == "cast":
        return lambda t, x: x
    if family == "fill":
        return _fill(attributes["value"], attributes["dtype"])
    if family in ("requant", "dequant"):
        body, scale = BODIES[family], attributes.get("scale")
        code = None if scale is None else round(1 / scale)
        return lambda t, x: body(t, x, code)
    if family in ("matmul", "matmul_acc_first"):
        return _product(family == "matmul", attributes.get("unit", 1))
    body = BODIES[family]
    if "scalar_lhs" in attributes:
        number = attributes["scalar_lhs"]
        return lambda t, b: body(t, t.constant(number), b)
    if "scalar_rhs" in attributes:
        number = attributes["scalar_rhs"]
        return lambda t, a: body(t, a, t.constant(number))
    return body


def _fill(number: float, dtype: str) -> Body:
    if dtype == "bf16":
        return lambda t: t.constant(number)
    if number == 1.0:
        return lambda t: t.pinned_ones()
    return lambda t: t.pack(t.constant(number))


def _reduction(kind: str, axes: tuple[int, ...]) -> Body:
    if axes == (1,):
        return lambda t, x: t.rows(kind, x)
    if axes == (0,):
        return lambda t, x: t.columns(kind, x)
    raise ValueError(f"a tile is reduced along one dimension, not {axes}")


def _product(pop: bool, unit: int) -> Body:
    """The first product of a chain, on top of a tile if there is one."""

    def body(t, a, b, start=None):
        acc = t.accumulator(unit)
        if start is not None:
            t.preset(acc, start)
        t.multiply(acc, a, t.weight(b, unit), first=start is None)
        return t.pop(acc) if pop else acc

    return body
