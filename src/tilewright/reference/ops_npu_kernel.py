"""`npu_kernel`: kernel families on whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_families import kernel_call
from tilewright.reference import (
    dtypes,
    families_encoded,  # noqa: F401  registers its families
    families_movement,  # noqa: F401  registers its families
    families_products,  # noqa: F401  registers its families
)
from tilewright.reference.dtypes import Array
from tilewright.reference.families import FAMILY_FUNCTIONS, Call, remembering
from tilewright.reference.faults import fault
from tilewright.reference.program import Builder, Evaluate, as_array, element_of, operation
from tilewright.reference.scalar_ops import attribute_of


def contraction_call(op: Operation) -> KernelCall:
    """`npu_kernel.matmul` or `npu_schedule.matmul_tile` as a call of the matmul family."""
    marks = {k: v for k, v in op.properties.items() if k.startswith("transpose")}
    call = kernel_call("npu_uk_matmul", [v.type for v in op.operands], marks, op.results[0].type)
    assert call is not None
    return call


def symbol_call(op: Operation) -> KernelCall:
    """A call by symbol; fails for a symbol no family has."""
    symbol = attribute_of(op, "symbol").data
    types = [v.type for v in op.operands]
    call = kernel_call(symbol, types, op.attributes, op.results[0].type)
    if call is None:
        raise fault(
            op,
            "TW1501",
            f"the reference executor does not know the kernel {symbol}",
            "its family must be one of the kernel family table",
        )
    return call


def bind(op: Operation, kernel: KernelCall) -> Any:
    """A function from operand arrays to a `Call`."""
    kernel = remembering(kernel)
    names = kernel.role_names()
    shape = tuple(kernel.result.get_shape())
    elements = [element_of(v) for v in op.operands]
    by_role = kernel.operands_by_role(elements)
    kinds = {n: e[0] if isinstance(e, list) else e for n, e in by_role.items()}
    target = element_of(op.results[0])
    many = {role.name for role in kernel.family.roles if role.many}

    def make(*values: Any) -> Call:
        arrays: dict[str, Any] = {}
        for name, value, element in zip(names, values, elements, strict=True):
            array = dtypes.working(as_array(value), element)
            if name in many:
                arrays.setdefault(name, []).append(array)
            else:
                arrays[name] = array
        return Call(op, kernel, shape, arrays, kinds, target)  # pyright: ignore

    return make


def finish(call: Call, values: Array) -> Array:
    """A family's values as the stored result."""
    if values.shape != call.shape:
        values = np.broadcast_to(values, call.shape)
    if not values.flags.c_contiguous:
        values = dtypes.contiguous(values)
    return dtypes.stored(values, call.target)


def evaluate_call(op: Operation, kernel: KernelCall, builder: Builder | None = None) -> Evaluate:
    """A function from operand arrays to the result of a family without machine state."""
    name = kernel.family.name
    own = builder.semantics.families if builder is not None else {}
    function = own.get(name) or FAMILY_FUNCTIONS.get(name)
    if function is None:
        raise fault(op, "TW1501", f"the kernel family {kernel.family.name} has no meaning here")
    make = bind(op, kernel)

    def evaluate(*values: Any) -> Array:
        call = make(*values)
        return finish(call, function(call))

    return evaluate


@operation("npu_kernel.matmul")
def matmul(op: Operation, builder: Builder) -> Evaluate:
    return evaluate_call(op, contraction_call(op), builder)


@operation("npu_kernel.ukernel_generic")
def ukernel_generic(op: Operation, builder: Builder) -> Evaluate:
    return evaluate_call(op, symbol_call(op), builder)
