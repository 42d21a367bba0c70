"""`npu_kernel`: kernel families on whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.family_checks import elementwise
from tilewright.dialects.fused import FusedOp
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.layers import LayersOp
from tilewright.reference import (
    dtypes,
    families_encoded,  # noqa: F401  registers its families
    families_movement,  # noqa: F401  registers its families
    families_products,  # noqa: F401  registers its families
)
from tilewright.reference.dtypes import Array
from tilewright.reference.families import FAMILY_FUNCTIONS, Call, remembering
from tilewright.reference.faults import fault
from tilewright.reference.ops_arith import named_weight
from tilewright.reference.program import (
    Builder,
    Evaluate,
    Slots,
    Step,
    as_array,
    control,
    operation,
)
from tilewright.reference.scalar_ops import attribute_of

LOOK_UPS = ("gather", "embedding")  # families that read a few rows of a table


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
    elements = [dtypes.element_type(t) for t in kernel.operand_types]
    by_role = kernel.operands_by_role(elements)
    kinds = {n: e[0] if isinstance(e, list) else e for n, e in by_role.items()}
    target = dtypes.element_type(kernel.result_type)
    if kernel.family.check is elementwise and target.is_float:
        # A result that is wider than the operands is computed in its own type.
        kinds = dict.fromkeys(kinds, target)
    widened = kernel.family.check is elementwise and any(e.work != target.work for e in elements)
    many = {role.name for role in kernel.family.roles if role.many}
    looked_up = "x" if kernel.family.name in LOOK_UPS else None  # stays as it is stored

    def make(*values: Any) -> Call:
        arrays: dict[str, Any] = {}
        for name, value, element in zip(names, values, elements, strict=True):
            array = as_array(value)
            if name != looked_up:
                array = dtypes.working(array, element)
            if widened:
                array = array.astype(target.work)
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


@operation("npu_kernel.fused")
def fused(op: Operation, builder: Builder) -> Evaluate:
    """The kernel and then every step of its epilogue, each with the rounding of its type."""
    assert isinstance(op, FusedOp)
    kernel = evaluate_call(op, op.call(), builder)
    count, extras = len(op.inputs), list(op.extras)
    steps = []
    for step in op.steps():
        places = [None if v is None else count + extras.index(v) for v in step.operands]
        steps.append((evaluate_call(op, step.call, builder), places))

    def evaluate(*values: Any) -> Array:
        value = kernel(*values[:count])
        for function, places in steps:
            value = function(*[value if at is None else values[at] for at in places])
        return value

    return evaluate


@operation("npu_kernel.launch", "npu_kernel.pack", "npu_kernel.unpack")
def stored(op: Operation, builder: Builder) -> Evaluate:
    """What the machine says about its own kernels and forms."""
    function = builder.semantics.stored
    if function is None:
        raise fault(
            op,
            "TW1501",
            f"{op.name} is for one machine, and none is chosen",
            "execute it with the semantics of the target it was encoded for",
        )
    return lambda *values: function(op, [as_array(value) for value in values])


@operation("npu_kernel.bitcast")
def bitcast(op: Operation, builder: Builder) -> Evaluate:
    return lambda value: value


@control("npu_kernel.layers")
def layers(op: Operation, builder: Builder) -> Step:
    """Iterations one after the other; weights are looked up when their iteration begins."""
    assert isinstance(op, LayersOp)
    start = [builder.slot(v) for v in op.start]
    each = [[builder.slot(v) for v in row] for row in op.each_values()]
    results = [builder.slot(v) for v in op.outputs]
    body = builder.block(builder.single_block(op.regions[0], op))
    weights = [
        [named_weight(op, builder, name, argument) for name in names]
        for argument, names in zip(op.weight_arguments, op.weight_names(), strict=True)
    ]
    width, kept = len(start), len(op.terminator.collected)

    def step(slots: Slots) -> None:
        carried = [slots[slot] for slot in start]
        collected: list[list[Any]] = [[] for _ in range(kept)]
        for number in range(op.iterations):
            given = [*carried, *(slots[row[number]] for row in each)]
            given += [row[number]() for row in weights]
            for slot, value in zip(body.arguments, given, strict=True):
                slots[slot] = value
            found = body.run(slots)
            carried = found[:width]
            for row, value in zip(collected, found[width:], strict=True):
                row.append(value)
        values = [*carried, *(value for row in collected for value in row)]
        for slot, value in zip(results, values, strict=True):
            slots[slot] = value

    return step
