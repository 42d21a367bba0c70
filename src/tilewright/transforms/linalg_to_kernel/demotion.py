"""f32 matmuls carried out in bf16, only where the user asks for it.

before: %r = npu_kernel.matmul %a, %b : f32, f32 -> f32
after:  %r = cast(npu_kernel.matmul(cast %a, cast %b) : bf16, bf16 -> bf16) to f32

With `demote-casts=linalg` the casts are `linalg.generic` with `arith.truncf` and `arith.extf`, the
form in which other tools expect them.
"""

from __future__ import annotations

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.linalg_ext import PARALLEL, GenericOp, YieldOp
from tilewright.dialects.xdsl_api import (
    AffineMap,
    AffineMapAttr,
    Attribute,
    Block,
    Region,
    SSAValue,
    TensorType,
    arith,
    f32,
    tensor,
)
from tilewright.transforms.linalg_to_kernel.emitter import Emitter


def demoted_matmul(
    emitter: Emitter,
    a: SSAValue,
    b: SSAValue,
    type_: TensorType,
    init: SSAValue | None,
    transpose_lhs: bool,
    transpose_rhs: bool,
    narrow: Attribute,
) -> SSAValue:
    """The matmul with operands and result in `narrow`, its result widened to f32 again."""
    a, b = (_cast(emitter, value, narrow) for value in (a, b))
    init = None if init is None else _cast(emitter, init, narrow)
    result = TensorType(narrow, type_.get_shape())
    value = emitter.matmul(a, b, result, init, transpose_lhs, transpose_rhs)
    return _cast(emitter, value, f32)


def _cast(emitter: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    source = tensor_type(value).element_type
    if source == element or (source != f32 and element != f32):
        return value
    if emitter.settings.demote_casts == "kernel":
        return emitter.unary("cast", value, element)
    type_ = TensorType(element, shape_of(value))
    empty = emitter.add(tensor.EmptyOp([], type_))
    block = Block(arg_types=[source, element])
    cast = (arith.TruncFOp if source == f32 else arith.ExtFOp)(block.args[0], element)  # type: ignore[arg-type]
    block.add_ops([cast, YieldOp(cast.results[0])])
    identity = AffineMapAttr(AffineMap.identity(len(shape_of(value))))
    return emitter.add(
        GenericOp(
            [value],
            [empty],
            Region(block),
            [identity, identity],
            [PARALLEL] * len(shape_of(value)),
            [type_],
        )
    )
