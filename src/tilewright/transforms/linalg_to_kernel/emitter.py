"""Where converters put their intents, and how they say that they cannot.

The conversion never edits the function it reads. It builds a new block beside the old one; only
when every op has found its intents does the new block take the old one's place. `Emitter` holds the
new block, the old-to-new values, and which source ops each intent came from.

Error codes: TW1220 dynamic shape, TW1221 op without a mapping, TW1222 element type without a
mapping, TW1223 maps without a mapping, TW1224 rank or layout without a mapping, TW1225 body without
a mapping, TW1226 undefined contents are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from tilewright.dialects.intents import IntentBuilder, Literal, shape_of
from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.linalg_ext import StructuredOp
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
    AnyFloat,
    Attribute,
    Block,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    Operation,
    OpResult,
    SSAValue,
    TensorType,
    UnrankedTensorType,
    arith,
    f64,
    i64,
    tensor,
)


class Unmapped(Exception):
    """An op has no mapping: the code, the reason, what to do."""

    def __init__(self, code: str, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.hint = hint


@dataclass
class Settings:
    """The options of the pass that converters look at."""

    demote_score_matmuls: bool = False
    demote_casts: str = "kernel"
    convolution: str = "auto"
    unmapped: str = "error"
    ignore_nan: bool = False


@dataclass
class Emitter(IntentBuilder):
    """A builder that appends to the new block and remembers sources."""

    block: Block = field(default_factory=Block)
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    sources: dict[Operation, tuple[Operation, ...]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    source: Operation | None = None

    def add(self, op: Operation) -> OpResult:
        self.block.add_op(op)
        if self.source is not None:
            self.sources[op] = (self.source,)
            op.location = self.source.location
        return op.results[0]

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """As in the base; a reshape of a reshape is one."""
        found = kernel_of(x)
        if found and found[0] == "reshape" and shape_of(x) != tuple(shape):
            x = found[1].operands[0]
        return super().reshape(x, shape)

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """As in the base; a transpose of a transpose is one."""
        found = kernel_of(x)
        straight = list(permutation) == list(range(len(permutation)))
        if found and found[0] == "transpose" and not straight:
            inner = found[1].attributes["permutation"].get_values()  # type: ignore[attr-defined]
            x, permutation = found[1].operands[0], [int(inner[p]) for p in permutation]
        return super().transpose(x, permutation)

    def inside(self, block: Block) -> Emitter:
        """An emitter for a nested block that sees the same values."""
        return Emitter(
            ops=self.ops,
            block=block,
            values=self.values,
            sources=self.sources,
            settings=self.settings,
        )

    def value(self, old: SSAValue) -> SSAValue:
        """The new value of an old one."""
        return self.values.get(old, old)

    def scalar_tensor(self, scalar: SSAValue) -> SSAValue:
        """A scalar as a tensor of rank 0."""
        return self.add(
            tensor.FromElementsOp.build(
                operands=[[scalar]], result_types=[TensorType(scalar.type, [])]
            )
        )


# ------------------------------------------------------------------------------ looking at values


def constant_of(value: SSAValue) -> FloatAttr | IntegerAttr | None:
    """The number of a scalar constant or of a tensor constant that holds one number."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp):
        return None
    attribute = op.value
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute
    if isinstance(attribute, DenseIntOrFPElementsAttr) and len(attribute) and attribute.is_splat():
        element = attribute.get_element_type()
        number = cast("int | float", attribute.get_values()[0])
        if isinstance(element, AnyFloat):
            return FloatAttr(float(number), element)
        if isinstance(element, IntegerType | IndexType):
            return IntegerAttr(int(number), element)
    return None


def kernel_of(value: SSAValue) -> tuple[str, UKernelGenericOp] | None:
    """The family and op that produced a value, if a kernel intent did."""
    op = value.owner
    if not isinstance(op, UKernelGenericOp):
        return None
    family = family_of(op.symbol.data)
    return (family.name, op) if family else (op.symbol.data, op)


def filled_with(value: SSAValue) -> float | int | None:
    """The number every element of a new value holds, when that is known.

    Not for -0.0: it equals 0, but is another start of a sum of negative zeros.
    """
    constant = constant_of(value)
    found = kernel_of(value)
    if constant is None and found and found[0] == "fill" and not found[1].operands:
        constant = cast(FloatAttr, found[1].attributes["value"])
    if constant is None:
        return None
    number = constant.value.data
    return None if number == 0 and math.copysign(1.0, number) < 0 else number


def is_undefined(value: SSAValue) -> bool:
    """Whether a new value is a tensor without defined contents."""
    return isinstance(value.owner, tensor.EmptyOp)


def literal_of(value: SSAValue) -> Literal | None:
    constant = constant_of(value)
    return Literal(constant) if constant is not None else None


# ------------------------------------------------------------------------------ checking what comes

NUMERIC_BITS = (1, 4, 8, 16, 32, 64)


def check_element(element: Attribute) -> None:
    """Refuse element types that no kernel has."""
    if isinstance(element, AnyFloat):
        if element == f64:
            raise Unmapped(
                "TW1222",
                "no kernel works on f64",
                "compute in f32, fold it into a constant, or keep the op on the host "
                "with unmapped=host",
            )
        return
    if isinstance(element, IndexType):
        return
    if isinstance(element, IntegerType) and element.width.data in NUMERIC_BITS:
        return
    raise Unmapped(
        "TW1222",
        f"no kernel works on {element}",
        "use f32, bf16, f16, f8E4M3FN or an integer of 1 to 64 bits",
    )


def is_dynamic(type_: Attribute) -> bool:
    """Whether a tensor type leaves a size, or how many there are, open."""
    if isinstance(type_, UnrankedTensorType):
        return True
    return isinstance(type_, TensorType) and any(n < 0 for n in type_.get_shape())


def check_static(op: Operation) -> None:
    """Refuse dynamic shapes and encodings, named by the first operand or result with one."""
    for kind, values in (("operand", op.operands), ("result", op.results)):
        for index, value in enumerate(values):
            if is_dynamic(value.type):
                raise Unmapped(
                    "TW1220",
                    f"{kind} {index} has the dynamic shape {value.type}",
                    "export the model with fixed sizes",
                )
            if isinstance(value.type, TensorType) and not isinstance(value.type.encoding, NoneAttr):
                raise Unmapped(
                    "TW1222",
                    f"{kind} {index} has the encoding {value.type.encoding}",
                    "store tensors densely",
                )


def loops_of(map_: AffineMap, what: str) -> tuple[int | None, ...]:
    """The loop behind each result of a map; None for the constant 0."""
    found: list[int | None] = []
    for expression in map_.results:
        if isinstance(expression, AffineDimExpr):
            found.append(expression.position)
        elif isinstance(expression, AffineConstantExpr) and expression.value == 0:
            found.append(None)
        else:
            raise Unmapped(
                "TW1223",
                f"{what} is read through {map_}",
                "kernels read dimensions, repeated or reordered, but no arithmetic on indices",
            )
    seen = [d for d in found if d is not None]
    if len(set(seen)) != len(seen):
        raise Unmapped(
            "TW1223",
            f"{what} is read along a diagonal, {map_}",
            "take the diagonal out of the loop, or keep the op on the host",
        )
    return tuple(found)


def loop_extents(op: StructuredOp) -> dict[int, int]:
    """The number of iterations of each loop, from the operands' shapes."""
    extents: dict[int, int] = {}
    for operand, map_ in zip(op.operands, op.operand_maps, strict=True):
        if not isinstance(operand.type, TensorType):
            continue
        for expression, size in zip(map_.results, operand.type.get_shape(), strict=True):
            if isinstance(expression, AffineDimExpr):
                extents.setdefault(expression.position, size)
    return extents


def index_free(element: Attribute) -> Attribute:
    """Index values are 64-bit integers in kernels."""
    return i64 if isinstance(element, IndexType) else element
