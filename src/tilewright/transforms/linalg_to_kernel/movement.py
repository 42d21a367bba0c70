"""Ops that move elements: slices, concat, pad, reshape, transpose, broadcast, fill, gather.

before: tensor.extract_slice %x[0, 32] [4, 32] [1, 1]
after:  ukernel "npu_uk_slice"(%x) {offsets, sizes}

Slices with offsets computed at run time stay as they are: they address tiles, they compute nothing.
Pieces inserted side by side into an empty tensor until it is full are a concat.
"""

from __future__ import annotations

from typing import cast

from tilewright.dialects.intents import Lane, integers, shape_of
from tilewright.dialects.linalg_ext import GenericOp, StructuredOp, TransposeOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    IntegerAttr,
    Operation,
    SSAValue,
    TensorType,
    i64,
    tensor,
)
from tilewright.transforms.linalg_to_kernel.bodies import Body
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    constant_of,
    is_undefined,
    kernel_of,
    literal_of,
)

DYNAMIC = -(2**63)


def _static(op: Operation, name: str) -> list[int] | None:
    """A list of numbers, or None where some are only known at run time."""
    attribute = op.properties.get(f"static_{name}")
    numbers = [int(n) for n in attribute.get_values()]  # type: ignore[union-attr]
    return None if DYNAMIC in numbers else numbers


def has_dynamic_place(op: Operation) -> bool:
    """Whether a slice op has offsets, sizes or strides that are values."""
    return any(_static(op, name) is None for name in ("offsets", "sizes", "strides"))


def convert_slice(emitter: Emitter, op: tensor.ExtractSliceOp) -> None:
    offsets, sizes, strides = (_static(op, n) or [] for n in ("offsets", "sizes", "strides"))
    source = emitter.value(op.source)
    shape = cast(TensorType, op.result.type).get_shape()
    if source.type == op.result.type:
        emitter.values[op.result] = source
        return
    emitter.values[op.result] = emitter.slice(source, offsets, sizes, strides, shape)


def convert_insert_slice(emitter: Emitter, op: tensor.InsertSliceOp) -> None:
    offsets, sizes, strides = (_static(op, n) or [] for n in ("offsets", "sizes", "strides"))
    part, into = emitter.value(op.source), emitter.value(op.dest)
    type_ = cast(TensorType, op.result.type)
    if sizes == list(type_.get_shape()):
        emitter.values[op.result] = emitter.reshape(part, type_.get_shape())
        return
    attributes: dict[str, Attribute] = {"offsets": integers(offsets), "sizes": integers(sizes)}
    if any(step != 1 for step in strides):
        attributes["strides"] = integers(strides)
    joined = _joined(emitter, part, into, offsets, sizes, strides, type_)
    if joined is not None:
        emitter.values[op.result] = joined
        return
    # An undefined rest may hold anything; the empty tensor stays until it is known to be covered.
    emitter.values[op.result] = emitter.call("insert_slice", [part, into], type_, attributes)


def _joined(
    emitter: Emitter,
    part: SSAValue,
    into: SSAValue,
    offsets: list[int],
    sizes: list[int],
    strides: list[int],
    type_: TensorType,
) -> SSAValue | None:
    """A concat, when this insertion fills what earlier ones left of an empty tensor."""
    shape = list(type_.get_shape())
    places = [(offsets, sizes, part)]
    if any(step != 1 for step in strides):
        return None
    current = into
    while (found := kernel_of(current)) is not None and found[0] == "insert_slice":
        op = found[1]
        if "strides" in op.attributes:
            return None
        numbers = [list(op.attributes[k].get_values()) for k in ("offsets", "sizes")]  # type: ignore[attr-defined]
        places.append((numbers[0], numbers[1], op.operands[0]))
        current = op.operands[1]
    if not is_undefined(current):
        return None
    axes = {d for _, size, _ in places for d, n in enumerate(size) if n != shape[d]}
    if len(axes) != 1:
        return None
    axis = axes.pop()
    places.sort(key=lambda place: place[0][axis])
    end = 0
    for offset, size, _ in places:
        if offset[axis] != end or any(offset[d] for d in range(len(shape)) if d != axis):
            return None
        end += size[axis]
    if end != shape[axis]:
        return None
    return emitter.concat([emitter.reshape(v, size) for _, size, v in places], axis)


def convert_concat(emitter: Emitter, op: tensor.ConcatOp) -> None:
    parts = [emitter.value(v) for v in op.inputs]
    axis = op.dim.value.data
    if not 0 <= axis < len(shape_of(parts[0])):
        raise Unmapped("TW1224", f"it joins along dimension {axis}, which is none", "count from 0")
    emitter.values[op.result] = parts[0] if len(parts) == 1 else emitter.concat(parts, axis)


def convert_pad(emitter: Emitter, op: tensor.PadOp) -> None:
    low, high = _static(op, "low"), _static(op, "high")
    if low is None or high is None:
        raise Unmapped("TW1220", "its border is only known at run time", "pad by fixed sizes")
    terminator = cast(Operation, op.region.block.last_op)
    value = constant_of(terminator.operands[0])
    if value is None:
        raise Unmapped("TW1225", "its border is no constant", "pad with a constant")
    attributes: dict[str, Attribute] = {
        "low": integers(low),
        "high": integers(high),
        "value": value,
    }
    source, type_ = emitter.value(op.source), op.result.type
    check_element(cast(TensorType, type_).element_type)
    emitter.values[op.result] = (
        source if source.type == type_ else emitter.call("pad", [source], type_, attributes)
    )


def convert_reshape(emitter: Emitter, op: Operation) -> None:
    """collapse_shape, expand_shape, reshape and casts between equal static shapes."""
    type_ = cast(TensorType, op.results[0].type)
    emitter.values[op.results[0]] = emitter.reshape(
        emitter.value(op.operands[0]), type_.get_shape()
    )


def convert_transpose(emitter: Emitter, op: TransposeOp) -> None:
    permutation = [int(p) for p in op.permutation.get_values()]
    emitter.values[op.results[0]] = emitter.transpose(emitter.value(op.inputs[0]), permutation)


def convert_splat(emitter: Emitter, op: Operation) -> None:
    """tensor.splat: every element is one scalar."""
    type_ = cast(TensorType, op.results[0].type)
    constant = literal_of(op.operands[0])
    if constant is not None:
        emitter.values[op.results[0]] = emitter.fill(constant.value, type_.get_shape())
        return
    scalar = emitter.scalar_tensor(emitter.value(op.operands[0]))
    emitter.values[op.results[0]] = emitter.call("fill", [scalar], type_)


# ---------------------------------------------------------------------------------------- gather

_ASSERTS = ("cf.assert",)


def find_gather(op: StructuredOp) -> tensor.ExtractOp | None:
    """The `tensor.extract` of a body that looks up a row per index, else None."""
    extracts = [o for o in op.body.block.ops if isinstance(o, tensor.ExtractOp)]
    if not isinstance(op, GenericOp) or len(extracts) != 1:
        return None
    return extracts[0]


def convert_gather(emitter: Emitter, op: StructuredOp, extract: tensor.ExtractOp) -> None:
    """A lookup, which the host does; it checks the index as the body's assertions do.

    before: generic { %i = index_cast %in; tensor.extract %table[%i, %d] }
    after:  ukernel "npu_uk_embedding"(%table, %indices)
    """
    table = emitter.value(extract.tensor)
    body = Body(emitter, op)
    type_ = cast(TensorType, op.results[0].type)
    loops = body.output_loops()
    axis: int | None = None
    picked: Lane | None = None
    rest: list[int] = []
    for place, index in enumerate(extract.indices):
        loop = _loop_index(index)
        if loop is not None:
            rest.append(body.number[loop])
            continue
        lane = body.value(index)
        if axis is not None or not isinstance(lane, Lane):
            raise Unmapped(
                "TW1225", "it looks up with several computed indices", "use one index per lookup"
            )
        axis, picked = place, lane
    if axis is None or picked is None:
        raise Unmapped("TW1225", "its body reads a tensor at its own loops", "pass it as an input")
    mine = [d for d in loops if d not in rest]
    wanted = (*rest[:axis], *mine, *rest[axis:])
    if loops != wanted or None in loops or len(picked.loops) != len(mine):
        raise Unmapped("TW1223", "the looked-up dimensions are reordered", "transpose afterwards")
    if picked.loops != tuple(mine):
        raise Unmapped("TW1223", "the indices are read out of order", "transpose them first")
    used = list(op.body.block.ops)
    allowed = ("arith.index_cast", "arith.cmpi", "arith.constant", "linalg.index", "linalg.yield")
    for inner in used:
        if inner is not extract and inner.name not in (*allowed, *_ASSERTS):
            raise Unmapped("TW1225", f"its body mixes a lookup with {inner.name}", "split the op")
    if cast(Operation, op.body.block.last_op).operands[0] is not extract.result:
        raise Unmapped("TW1225", "its body does not yield what it looked up", "split the op")
    indices, table_shape = picked.tensor, shape_of(table)
    family = "embedding" if axis == 0 and len(table_shape) == 2 else "gather"
    emitter.values[op.results[0]] = emitter.call(
        family, [table, indices], type_, {"axis": IntegerAttr(axis, i64)}
    )


def _loop_index(value: SSAValue) -> int | None:
    owner = value.owner
    if getattr(owner, "name", "") == "linalg.index":
        return cast(Operation, owner).properties["dim"].value.data  # type: ignore[attr-defined]
    return None
