"""`arith`, `math` and `affine` outside of tensor bodies: scalars, index arithmetic, whole tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault, name_of
from tilewright.reference.program import (
    OPERATIONS,
    Builder,
    Evaluate,
    as_array,
    element_of,
    is_index_scalar,
    operation,
    tensor_shape,
    unknown_operation,
)
from tilewright.reference.scalar_ops import attribute_of, constant_array, scalar_function

# Index scalars are Python integers while running: tile loops compute many of them.
_INDEX_OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.floordivsi": operator.floordiv,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.minsi": min,
    "arith.maxsi": max,
}
_INDEX_COMPARISONS = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


@operation("arith.constant")
def constant(op: Operation, builder: Builder) -> Evaluate:
    value = attribute_of(op, "value")
    if isinstance(value, builtin.DenseResourceAttr):
        return named_weight(op, builder, value.resource_handle.data, op.results[0])
    array = constant_array(op)
    if is_index_scalar(op.results[0]):
        number = int(array)
        return lambda: number
    return lambda: array


def named_weight(op: Operation, builder: Builder, name: str, value: SSAValue) -> Evaluate:
    """A weight looked up when it is needed, so that only live weights are in memory.

    value: what it becomes in the program.
    """
    element, shape = element_of(value), tensor_shape(value)

    def load() -> Array:
        found = builder.weights(name)
        if found is None:
            raise fault(
                op,
                "TW1503",
                f"the module uses the weight {name}, which was not given",
                "pass weights= with a mapping or a safetensors file that has it",
            )
        array = dtypes.from_safetensors(np.asarray(found), element)
        if array.shape != shape:
            raise fault(
                op,
                "TW1504",
                f"the weight {name} has shape {list(array.shape)}, the module needs {list(shape)}",
            )
        return array

    return load


def _elementwise(op: Operation, builder: Builder) -> Evaluate:
    name = name_of(op)
    if len(op.results) == 1 and all(is_index_scalar(v) for v in op.operands):
        if name in _INDEX_OPERATIONS and is_index_scalar(op.results[0]):
            return _INDEX_OPERATIONS[name]
        if name == "arith.cmpi":
            predicate = attribute_of(op, "predicate").value.data
            if predicate < 6:
                compare = _INDEX_COMPARISONS[predicate]
                return lambda a, b: np.asarray(compare(a, b))
    function = scalar_function(op)
    if function is None:
        raise unknown_operation(op)
    sources = [element_of(v) for v in op.operands]
    target = element_of(op.results[0])
    to_index = is_index_scalar(op.results[0])

    def evaluate(*arguments: Any) -> Any:
        given = [dtypes.working(as_array(a), e) for a, e in zip(arguments, sources, strict=True)]
        result = dtypes.stored(np.asarray(function(*given)), target)
        return int(result) if to_index else result

    return evaluate


for _name in [
    "addi",
    "subi",
    "muli",
    "divsi",
    "divui",
    "floordivsi",
    "ceildivsi",
    "ceildivui",
    "remsi",
    "remui",
    "maxsi",
    "maxui",
    "minsi",
    "minui",
    "andi",
    "ori",
    "xori",
    "shli",
    "shrsi",
    "shrui",
    "cmpi",
    "cmpf",
    "select",
    "addf",
    "subf",
    "mulf",
    "divf",
    "remf",
    "negf",
    "maximumf",
    "maxnumf",
    "minimumf",
    "minnumf",
    "bitcast",
    "index_cast",
    "index_castui",
    "fptosi",
    "fptoui",
    "sitofp",
    "uitofp",
    "extf",
    "truncf",
    "trunci",
    "extsi",
    "extui",
]:
    OPERATIONS[f"arith.{_name}"] = _elementwise
for _name in [
    "absf",
    "absi",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "ctlz",
    "ctpop",
    "cttz",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fma",
    "fpowi",
    "ipowi",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "powf",
    "round",
    "roundeven",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]:
    OPERATIONS[f"math.{_name}"] = _elementwise


def _affine_map(op: Operation) -> Any:
    return attribute_of(op, "map").data


@operation("affine.apply")
def affine_apply(op: Operation, builder: Builder) -> Evaluate:
    affine = _affine_map(op)
    count = affine.num_dims
    return lambda *values: affine.eval(list(values[:count]), list(values[count:]))[0]


@operation("affine.min", "affine.max")
def affine_extreme(op: Operation, builder: Builder) -> Evaluate:
    affine = _affine_map(op)
    count = affine.num_dims
    choose = min if name_of(op) == "affine.min" else max
    return lambda *values: choose(affine.eval(list(values[:count]), list(values[count:])))


@operation("cf.assert")
def check(op: Operation, builder: Builder) -> Evaluate:
    message = attribute_of(op, "msg")
    text = message.data if isinstance(message, builtin.StringAttr) else "assertion"

    def evaluate(condition: Array) -> None:
        if not np.all(condition):
            raise fault(op, "TW1505", f"the program's own check failed: {text}")

    return evaluate


@operation("ub.poison")
def poison(op: Operation, builder: Builder) -> Evaluate:
    array = np.zeros(tensor_shape(op.results[0]), element_of(op.results[0]).storage)
    return lambda: array
