"""What every kernel family computes, on working arrays; `FAMILY_FUNCTIONS` is the table.

A function takes a `Call` and returns values that the caller rounds once to the result's element type.
Families of one arithmetic step round in their element type, families of several steps are those of
`composites`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineMap

from tilewright.dialects.kernel_call import KernelCall
from tilewright.reference import composites, dtypes
from tilewright.reference.dtypes import Array, ElementType
from tilewright.reference.encoded_operands import sum_of_codes, sums_codes
from tilewright.reference.faults import fault
from tilewright.reference.reductions import combine, fold
from tilewright.reference.scalar_integers import convert
from tilewright.reference.scalar_ops import (
    compare_floats,
    float_function,
    integer_function,
)
from tilewright.reference.views import operand_view


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a family with its operands as working arrays, by role."""

    op: Operation
    kernel: KernelCall
    shape: tuple[int, ...]
    values: dict[str, Any]
    elements: dict[str, ElementType]
    target: ElementType

    def axis(self) -> int:
        return self.kernel.axis(np.ndim(self.values["x"]))


_DECODING = (
    "integer", "floating", "value", "string", "integers", "axis", "operand_maps", "role_names",
)  # fmt: skip


def remembering(kernel: KernelCall) -> KernelCall:
    """The call with each attribute decoded once: tile loops run the same launch many times."""
    copy = replace(kernel)
    for name in _DECODING:
        copy.__dict__[name] = _once(getattr(copy, name))
    return copy


def _once(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, asked once for the same arguments. `functools.cache` takes longer to make than
    most calls take."""
    known: dict[tuple, Any] = {}

    def decoded(*arguments: Any) -> Any:
        if arguments not in known:
            known[arguments] = method(*arguments)
        return known[arguments]

    return decoded


FamilyFunction = Callable[[Call], Array]
FAMILY_FUNCTIONS: dict[str, FamilyFunction] = {}


def family(*names: str) -> Callable[[FamilyFunction], FamilyFunction]:
    """Register the meaning of families."""

    def register(function: FamilyFunction) -> FamilyFunction:
        for name in names:
            FAMILY_FUNCTIONS[name] = function
        return function

    return register


# --------------------------------------------------------------------------- element-wise


def mapped(call: Call) -> dict[str, Array]:
    """Operands seen over the result's dimensions, scalars included, by role."""
    maps = call.kernel.operand_maps()
    shape = call.shape
    found: dict[str, Array] = {}
    names = call.kernel.role_names()
    for name, affine in zip(names, maps, strict=True):
        found[name] = operand_view(call.op, call.values[name], affine, shape)
    element = next(iter(call.elements.values()), call.target)
    for role in call.kernel.family.roles:
        literal = call.kernel.value(f"scalar_{role.name}")
        if literal is not None:
            chosen = role.name in ("a", "b")  # what select chooses between has the result's type
            found[role.name] = literal_value(literal, call.target if chosen else element)
    return found


def literal_value(literal: int | float, element: ElementType) -> Array:
    """A literal of an attribute as a working scalar of a type."""
    if element.is_float:
        return dtypes.rounded(np.asarray(literal, dtype=np.float64), element)
    return dtypes.wrapped(np.asarray(int(literal)), element)


_BINARY = {
    "elementwise_add": ("arith.addf", "arith.addi"),
    "elementwise_sub": ("arith.subf", "arith.subi"),
    "elementwise_mul": ("arith.mulf", "arith.muli"),
    "elementwise_div": ("arith.divf", "arith.divsi"),
    "elementwise_max": ("arith.maximumf", "arith.maxsi"),
    "elementwise_min": ("arith.minimumf", "arith.minsi"),
    "elementwise_pow": ("math.powf", "math.ipowi"),
    "elementwise_rem": ("arith.remf", "arith.remsi"),
    "logical_and": (None, "arith.andi"),
    "logical_or": (None, "arith.ori"),
    "logical_xor": (None, "arith.xori"),
}
_UNARY = {
    "elementwise_neg": ("arith.negf", None),
    "elementwise_abs": ("math.absf", "math.absi"),
    "elementwise_exp": ("math.exp", None),
    "elementwise_exp2": ("math.exp2", None),
    "elementwise_log": ("math.log", None),
    "elementwise_log2": ("math.log2", None),
    "elementwise_sqrt": ("math.sqrt", None),
    "elementwise_rsqrt": ("math.rsqrt", None),
    "elementwise_tanh": ("math.tanh", None),
    "elementwise_sin": ("math.sin", None),
    "elementwise_cos": ("math.cos", None),
    "elementwise_erf": ("math.erf", None),
    "elementwise_floor": ("math.floor", None),
    "elementwise_ceil": ("math.ceil", None),
    "elementwise_round": ("math.roundeven", None),
}


_UNSIGNED = {
    "arith.divsi": "arith.divui",
    "arith.maxsi": "arith.maxui",
    "arith.minsi": "arith.minui",
    "arith.remsi": "arith.remui",
}


def _step(call: Call, names: tuple[str | None, str | None], *arguments: Array) -> Array:
    """One scalar operation in the result's type."""
    name = names[0] if call.target.is_float else names[1]
    if name and not call.target.signed:
        name = _UNSIGNED.get(name, name)
    lookup = float_function if call.target.is_float else integer_function
    function = lookup(name, call.target) if name else None
    if function is None:
        raise fault(
            call.op, "TW1502", f"{call.kernel.family.name} has no meaning on {call.target.name}"
        )
    return function(*arguments)


@family(*_BINARY)
def binary(call: Call) -> Array:
    operands = mapped(call)
    names = _BINARY[call.kernel.family.name]
    return _step(call, names, operands["lhs"], operands["rhs"])


@family(*_UNARY)
def unary(call: Call) -> Array:
    return _step(call, _UNARY[call.kernel.family.name], mapped(call)["x"])


def _zero_minus(call: Call) -> Array:
    x = mapped(call)["x"]
    if call.target.is_float:
        return -x
    return _step(call, (None, "arith.subi"), np.zeros_like(x), x)


FAMILY_FUNCTIONS["elementwise_neg"] = _zero_minus


@family("elementwise_recip")
def reciprocal(call: Call) -> Array:
    x = mapped(call)["x"]
    return _step(call, ("arith.divf", None), np.asarray(1, dtype=x.dtype), x)


@family("elementwise_relu")
def relu(call: Call) -> Array:
    x = mapped(call)["x"]
    return _step(call, ("arith.maximumf", "arith.maxsi"), x, np.asarray(0, dtype=x.dtype))


@family("elementwise_square")
def square(call: Call) -> Array:
    x = mapped(call)["x"]
    return _step(call, ("arith.mulf", "arith.muli"), x, x)


@family("elementwise_cube")
def cube(call: Call) -> Array:
    x = mapped(call)["x"]
    return composites.cube(x) if call.target.is_float else dtypes.wrapped(x * x * x, call.target)


_ACTIVATIONS: dict[str, Callable[[Array, ElementType], Array]] = {
    "elementwise_sigmoid": composites.sigmoid,
    "silu": composites.silu,
}


@family(*_ACTIVATIONS)
def activation(call: Call) -> Array:
    return _ACTIVATIONS[call.kernel.family.name](mapped(call)["x"], call.target)


@family("gelu_erf")
def gelu_erf(call: Call) -> Array:
    inner_scale = call.kernel.floating("inner_scale")
    return composites.gelu_erf(mapped(call)["x"], call.target, inner_scale)


@family("gelu_tanh")
def gelu_tanh(call: Call) -> Array:
    inner_scale = call.kernel.floating("inner_scale") or math.sqrt(2.0 / math.pi)
    return composites.gelu_tanh(mapped(call)["x"], call.target, inner_scale)


@family("silu_gate")
def silu_gate(call: Call) -> Array:
    operands = mapped(call)
    return composites.silu_gate(operands["gate"], operands["up"], call.target)


@family("clamp")
def clamp(call: Call) -> Array:
    x = mapped(call)["x"]
    low, high = call.kernel.value("min"), call.kernel.value("max")
    if low is not None:
        names = ("arith.maximumf", "arith.maxsi")
        x = _step(call, names, x, literal_value(low, call.target))
    if high is not None:
        names = ("arith.minimumf", "arith.minsi")
        x = _step(call, names, x, literal_value(high, call.target))
    return x


@family("logical_not")
def logical_not(call: Call) -> Array:
    return np.logical_not(mapped(call)["x"]) if call.target.kind == "bool" else ~mapped(call)["x"]


_FLOAT_PREDICATES = {
    "eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "one": 6, "ord": 7,
    "ueq": 8, "ugt": 9, "uge": 10, "ult": 11, "ule": 12, "ne": 13, "uno": 14,
}  # fmt: skip
_INTEGER_PREDICATES: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@family("compare")
def compare(call: Call) -> Array:
    operands = mapped(call)
    left, right = operands["lhs"], operands["rhs"]
    predicate = call.kernel.string("predicate") or "eq"
    element = next(iter(call.elements.values()))
    if element.is_float:
        return compare_floats(_FLOAT_PREDICATES[predicate], left, right)
    unsigned = predicate[0] == "u"
    view = dtypes.unsigned_view if unsigned else dtypes.signed_view
    comparison = _INTEGER_PREDICATES[predicate[1:] if unsigned else predicate]
    return comparison(view(left, element), view(right, element))


@family("select")
def select(call: Call) -> Array:
    operands = mapped(call)
    return np.where(operands["cond"], operands["a"], operands["b"])


@family("cast")
def cast(call: Call) -> Array:
    return convert(mapped(call)["x"], call.elements["x"], call.target)


# --------------------------------------------------------------------------- rows


@family("reduction_sum", "reduction_max", "reduction_min", "reduction_prod", "reduction_mean")
def reduction(call: Call) -> Array:
    kind = call.kernel.family.name.removeprefix("reduction_")
    if kind == "sum" and sums_codes(call):
        return sum_of_codes(call)
    x, element = call.values["x"], call.elements["x"]
    axes = call.kernel.integers("axes") or ()
    initial = call.values.get("init")
    if kind == "mean":
        if not element.is_float:
            raise fault(call.op, "TW1502", f"a mean of {element.name} is not defined")
        count = math.prod(x.shape[a] for a in axes)
        wide = x.sum(axis=axes, keepdims=True, dtype=np.float64).reshape(call.shape)
        steps = composites.Steps(element)
        wide = wide if initial is None else wide + initial
        return steps.divide(dtypes.rounded(wide, element), steps.constant(count))
    kind = {"prod": "product"}.get(kind, kind)
    folded = fold(x, axes, kind, element).reshape(call.shape)
    return folded if initial is None else combine(initial, folded, kind, call.target)


@family("softmax")
def softmax(call: Call) -> Array:
    return composites.softmax(call.values["x"], call.axis(), call.elements["x"])


@family("rms_norm")
def rms_norm(call: Call) -> Array:
    epsilon = call.kernel.floating("epsilon") or 0.0
    weight = call.values.get("weight")
    return composites.rms_norm(call.values["x"], weight, epsilon, call.axis(), call.target)


@family("layer_norm")
def layer_norm(call: Call) -> Array:
    weight, bias = call.values.get("weight"), call.values.get("bias")
    epsilon = call.kernel.floating("epsilon") or 0.0
    return composites.layer_norm(call.values["x"], weight, bias, epsilon, call.axis())


@family("rope")
def rope(call: Call) -> Array:
    style = call.kernel.string("style") or "split_half"
    names = call.kernel.role_names()
    given = "operand_maps" in call.kernel.attributes
    maps = dict(zip(names, call.kernel.operand_maps(), strict=True)) if given else {}
    x = call.values["x"]
    rank = len(call.shape)
    tables = [_table_over(call.values[n], rank, maps.get(n)) for n in ("cos", "sin")]
    if "x" in maps:
        x = operand_view(call.op, x, maps["x"], call.shape)
    axis = call.kernel.axis(rank)
    return composites.rope(x, tables[0], tables[1], axis, style, call.elements["x"])


def _table_over(table: Array, rank: int, affine: AffineMap | None) -> Array:
    """A table with its axes at the result's dimensions its map names, the rest of size 1."""
    if affine is None:
        return table.reshape((1,) * (rank - table.ndim) + table.shape)
    shape = [1] * rank
    order = []
    for axis, expression in enumerate(affine.results):
        if isinstance(expression, AffineDimExpr):
            shape[expression.position] = table.shape[axis]
            order.append((expression.position, axis))
    kept = [axis for _, axis in sorted(order)]
    dropped = [axis for axis in range(table.ndim) if axis not in kept]
    return table.transpose(kept + dropped).reshape(shape)
