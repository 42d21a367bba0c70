"""Integer matmuls with zero points.

before: linalg.quantized_matmul ins(%a, %b, %za, %zb : i8, i8, i32, i32)
after:  zero points 0: npu_kernel.matmul i8, i8 -> i32
        otherwise: both operands cast to i32, the zero points subtracted, then the matmul
"""

from __future__ import annotations

from typing import cast

from tilewright.dialects.intents import Lane, Literal, shape_of, tensor_type
from tilewright.dialects.linalg_ext import StructuredOp
from tilewright.dialects.xdsl_api import SSAValue, TensorType
from tilewright.transforms.linalg_to_kernel.contractions import emit_contraction
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    filled_with,
    is_undefined,
    literal_of,
    loop_extents,
    loops_of,
)


def convert_quantised_matmul(emitter: Emitter, op: StructuredOp) -> None:
    type_ = cast(TensorType, op.results[0].type)
    check_element(type_.element_type)
    maps = op.operand_maps
    left, right, out = (cast("tuple[int, ...]", loops_of(maps[i], "")) for i in (0, 1, -1))
    lhs, rhs = (_shifted(emitter, op.operands[i], op.operands[i + 2], type_) for i in range(2))
    init = emitter.value(op.outputs[0])
    if is_undefined(init):
        raise Unmapped(
            "TW1226", "it adds to a tensor with undefined contents (tensor.empty)", "fill it first"
        )
    keep = None if filled_with(init) == 0 else init
    emitter.values[op.results[0]] = emit_contraction(
        emitter, (lhs, left), (rhs, right), (type_, out), keep, loop_extents(op)
    )


def _shifted(emitter: Emitter, operand: SSAValue, zero: SSAValue, type_: TensorType) -> SSAValue:
    """An operand minus its zero point, or itself where that is 0."""
    value, point = emitter.value(operand), literal_of(zero)
    if point is not None and point.value.value.data == 0:
        return value
    check_element(tensor_type(value).element_type)
    wide = emitter.unary("cast", value, type_.element_type)
    loops = tuple(range(len(shape_of(wide))))
    minus: Lane | Literal
    minus = point or Lane(emitter.scalar_tensor(emitter.value(zero)), ())
    extents = dict(enumerate(shape_of(wide)))
    return emitter.elementwise(
        "elementwise_sub", [Lane(wide, loops), minus], type_.element_type, extents
    ).tensor
