"""Building kernel intents on whole tensors.

An element-wise intent reads each operand through the loops of its result: `Lane` is a tensor with,
for each of its dimensions, the loop that indexes it, or None for a dimension of size 1 that is
always read at 0. `Literal` is a constant. The builder turns lanes and literals into
`npu_kernel.ukernel_generic` with the smallest result that holds all loops read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tilewright.dialects.kernel_symbols import symbol_for
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    Operation,
    OpResult,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    i64,
)

Scalar = FloatAttr | IntegerAttr


@dataclass(frozen=True)
class Lane:
    """A tensor and the loop that indexes each of its dimensions (None: read at 0)."""

    tensor: SSAValue
    loops: tuple[int | None, ...]

    @property
    def element(self) -> Attribute:
        return tensor_type(self.tensor).element_type


@dataclass(frozen=True)
class Literal:
    """A constant with its element type."""

    value: Scalar

    @property
    def element(self) -> Attribute:
        return self.value.type


def tensor_type(value: SSAValue) -> TensorType:
    return cast(TensorType, value.type)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(tensor_type(value).get_shape())


def literal(value: float | int, element: Attribute) -> Literal:
    """A constant of an element type; floats are rounded to it."""
    if isinstance(element, AnyFloat):
        return Literal(FloatAttr(float(value), element))
    return Literal(IntegerAttr(int(value), element))  # type: ignore[arg-type]


def integers(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def map_attribute(rank: int, loops: Sequence[int | None]) -> AffineMapAttr:
    """The affine map from `rank` dimensions that reads `loops`."""
    results = tuple(AffineConstantExpr(0) if d is None else AffineDimExpr(d) for d in loops)
    return AffineMapAttr(AffineMap(rank, 0, results))


@dataclass
class IntentBuilder:
    """Appends intents to `ops`; every method returns the new value."""

    ops: list[Operation] = field(default_factory=list)

    def add(self, op: Operation) -> OpResult:
        self.ops.append(op)
        return op.results[0]

    def call(
        self,
        family: str,
        operands: Sequence[SSAValue],
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
        suffix: Sequence[Attribute] = (),
    ) -> OpResult:
        """One intent of `family`."""
        symbol = symbol_for(family, *suffix)
        return self.add(UKernelGenericOp(symbol, operands, result_type, attributes))

    # Element-wise

    def elementwise(
        self,
        family: str,
        operands: Sequence[Lane | Literal],
        element: Attribute,
        extents: Mapping[int, int],
        attributes: Mapping[str, Attribute] | None = None,
        loops: Sequence[int] | None = None,
    ) -> Lane:
        """An element-wise intent over the loops its operands read, or over `loops` if given.

        Literals become attributes where the family has them, else tensors of rank 0.
        """
        attributes = dict(attributes or {})
        names = _SCALAR_ROLES.get(family, ("lhs", "rhs"))
        lanes: list[Lane] = []
        count = sum(isinstance(operand, Lane) for operand in operands)
        for position, operand in enumerate(operands):
            if isinstance(operand, Lane):
                lanes.append(operand)
            elif count and len(operands) > 1 and names[position]:
                attributes[f"scalar_{names[position]}"] = operand.value
            else:
                lanes.append(Lane(self.fill(operand.value, ()), ()))
                count += 1
        if loops is None:
            loops = sorted({d for lane in lanes for d in lane.loops if d is not None})
        result = TensorType(element, [extents[d] for d in loops])
        number = {loop: index for index, loop in enumerate(loops)}
        reads = [tuple(None if d is None else number[d] for d in lane.loops) for lane in lanes]
        identity = tuple(range(len(loops)))
        if any(read != identity for read in reads):
            attributes["operand_maps"] = ArrayAttr(
                [map_attribute(len(loops), read) for read in reads]
            )
        value = self.call(family, [lane.tensor for lane in lanes], result, attributes)
        return Lane(value, tuple(loops))

    def unary(self, family: str, x: SSAValue, element: Attribute | None = None) -> OpResult:
        """An element-wise intent with the shape of its one operand."""
        type_ = tensor_type(x)
        return self.call(family, [x], TensorType(element or type_.element_type, type_.get_shape()))

    def fill(self, value: Scalar, shape: Sequence[int]) -> OpResult:
        return self.call("fill", [], TensorType(value.type, list(shape)), {"value": value})

    def broadcast(self, lane: Lane, loops: Sequence[int], extents: Mapping[int, int]) -> SSAValue:
        """The lane's tensor with exactly the dimensions `loops`: itself, transposed or repeated."""
        if lane.loops == tuple(loops):
            return lane.tensor
        if None not in lane.loops and sorted(cast("tuple[int, ...]", lane.loops)) == sorted(loops):
            return self.transpose(lane.tensor, [lane.loops.index(d) for d in loops])
        kept = [d for d in lane.loops if d is not None]
        if kept == [d for d in loops if extents[d] > 1 or d in kept] and all(
            extents[d] == 1 for d in loops if d not in kept
        ):
            return self.reshape(lane.tensor, [extents[d] for d in loops])
        return self.elementwise("cast", [lane], lane.element, extents, loops=loops).tensor

    # Movement

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        if list(permutation) == list(range(len(permutation))):
            return x
        shape = shape_of(x)
        result = TensorType(tensor_type(x).element_type, [shape[p] for p in permutation])
        return self.call("transpose", [x], result, {"permutation": integers(permutation)})

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        if shape_of(x) == tuple(shape):
            return x
        return self.call("reshape", [x], TensorType(tensor_type(x).element_type, list(shape)))

    def slice(
        self,
        x: SSAValue,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        result_shape: Sequence[int] | None = None,
    ) -> SSAValue:
        attributes: dict[str, Attribute] = {"offsets": integers(offsets), "sizes": integers(sizes)}
        if any(step != 1 for step in strides):
            attributes["strides"] = integers(strides)
        result = TensorType(tensor_type(x).element_type, list(result_shape or sizes))
        return self.call("slice", [x], result, attributes)

    def concat(self, parts: Sequence[SSAValue], axis: int) -> SSAValue:
        shape = list(shape_of(parts[0]))
        shape[axis] = sum(shape_of(part)[axis] for part in parts)
        result = TensorType(tensor_type(parts[0]).element_type, shape)
        return self.call("concat", parts, result, {"axis": IntegerAttr(axis, i64)})

    # Rows and contractions

    def reduction(
        self,
        kind: str,
        x: SSAValue,
        axes: Sequence[int],
        keepdims: bool = False,
        init: SSAValue | None = None,
    ) -> OpResult:
        shape = shape_of(x)
        if keepdims:
            kept = [1 if d in axes else n for d, n in enumerate(shape)]
        else:
            kept = [n for d, n in enumerate(shape) if d not in axes]
        attributes: dict[str, Attribute] = {"axes": integers(axes)}
        if keepdims:
            attributes["keepdims"] = UnitAttr()
        operands = [x] if init is None else [x, init]
        result = TensorType(tensor_type(x).element_type, kept)
        return self.call(f"reduction_{kind}", operands, result, attributes)

    def matmul(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        init: SSAValue | None = None,
        transpose_lhs: bool = False,
        transpose_rhs: bool = False,
    ) -> OpResult:
        return self.add(MatmulOp(lhs, rhs, result_type, init, transpose_lhs, transpose_rhs))


# The operand that a `scalar_…` attribute of each family may stand for, in operand order.
_SCALAR_ROLES: dict[str, tuple[str, ...]] = {"select": ("", "a", "b")}


def float_attribute(value: float) -> FloatAttr:
    return FloatAttr(value, f32)


def text(value: str) -> StringAttr:
    return StringAttr(value)
