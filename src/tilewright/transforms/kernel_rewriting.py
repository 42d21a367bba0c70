"""Small tools for passes that rewrite kernel intents in place."""

from __future__ import annotations

from tilewright.dialects.intents import IntentBuilder, shape_of, tensor_type
from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AnyFloat,
    ArrayAttr,
    Block,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    Operation,
    OpResult,
    SSAValue,
)

LAYER = "tw.layer"  # the part of the model an intent came from


class BuilderBefore(IntentBuilder):
    """Builds intents in front of `root`, at its place in the user's text and in its layer."""

    def __init__(self, root: Operation) -> None:
        super().__init__()
        self.root = root

    def add(self, op: Operation) -> OpResult:
        assert self.root.parent is not None
        self.root.parent.insert_op_before(op, self.root)
        op.location = self.root.location
        layer = self.root.attributes.get(LAYER)
        if layer is not None and isinstance(op, UKernelGenericOp | MatmulOp):
            op.attributes.setdefault(LAYER, layer)
        self.ops.append(op)
        return op.results[0]

    def discard(self) -> None:
        """Take back what was built."""
        for op in reversed(self.ops):
            op.detach()
            op.erase()
        self.ops.clear()


def family_name(op: Operation) -> str:
    """The family of an intent, `matmul` for a contraction, "" for any other op."""
    if isinstance(op, UKernelGenericOp):
        family = family_of(op.symbol.data)
        return family.name if family else ""
    return "matmul" if isinstance(op, MatmulOp) else ""


def maker(value: SSAValue, *families: str) -> UKernelGenericOp | None:
    """The intent behind a value, when it is of one of the families."""
    op = value.owner
    if isinstance(op, UKernelGenericOp) and family_name(op) in families:
        return op
    return None


def product_behind(value: SSAValue) -> MatmulOp | None:
    op = value.owner
    return op if isinstance(op, MatmulOp) else None


def integers_of(op: Operation, name: str) -> tuple[int, ...]:
    """An attribute that lists integers; none when it is absent."""
    value = op.attributes.get(name)
    if not isinstance(value, DenseArrayBase):
        return ()
    return tuple(int(v) for v in value.get_values())


def number_of(op: Operation, name: str) -> float | int | None:
    """A literal attribute's value."""
    value = op.attributes.get(name)
    return value.value.data if isinstance(value, FloatAttr | IntegerAttr) else None


def literal_operand(op: Operation) -> tuple[SSAValue, float | int, bool] | None:
    """The tensor and the literal of an intent on both, and whether the literal is on the left."""
    if len(op.operands) == 1:
        for name in ("scalar_rhs", "scalar_lhs"):
            number = number_of(op, name)
            if number is not None:
                return op.operands[0], number, name == "scalar_lhs"
    return None


def operand_reads(op: UKernelGenericOp) -> list[tuple[int | None, ...]]:
    """For each operand, the result dimension behind each of its dimensions (None: read at 0)."""
    maps = op.attributes.get("operand_maps")
    if not isinstance(maps, ArrayAttr):
        identity = tuple(range(len(shape_of(op.result))))
        return [identity] * len(op.operands)
    return [
        tuple(e.position if isinstance(e, AffineDimExpr) else None for e in m.data.results)  # type: ignore[attr-defined]
        for m in maps
    ]


def reads_plainly(op: UKernelGenericOp, index: int = 0) -> bool:
    """Whether an operand is read element by element."""
    operand = op.operands[index]
    if shape_of(operand) != shape_of(op.result):
        return False
    read = operand_reads(op)[index]
    shape = shape_of(op.result)
    return all(d == place or n == 1 for place, (d, n) in enumerate(zip(read, shape, strict=True)))


def is_float(value: SSAValue) -> bool:
    return isinstance(tensor_type(value).element_type, AnyFloat)


def has_one_user(op: Operation) -> bool:
    """Whether exactly one operation reads the result, any number of times."""
    return len({use.operation for use in op.results[0].uses}) == 1


def replace_value(op: Operation, value: SSAValue) -> None:
    """Put `value` in the place of the op's result, which disappears."""
    result = op.results[0]
    if value.name_hint is None and isinstance(value.owner, Operation):
        value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def function_blocks(module: ModuleOp) -> list[Block]:
    """The blocks of all functions."""
    functions = [op for op in module.walk() if op.name == "func.func"]
    return [block for function in functions for block in function.regions[0].blocks]


def slice_within(
    piece: UKernelGenericOp, x: SSAValue
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Offsets, sizes and strides of a slice as one of x, of which it may be by a detour.

    before: x = slice(y, 8 to 24), piece = slice(y, 16 to 24)    after: piece = slice(x, 8 to 16)
    """
    rank = len(shape_of(piece.operands[0]))
    offsets, sizes = integers_of(piece, "offsets"), integers_of(piece, "sizes")
    strides = integers_of(piece, "strides") or (1,) * rank
    if not offsets or not sizes:
        return None
    if piece.operands[0] is x:
        return offsets, sizes, strides
    part = maker(x, "slice")
    if part is None or part.operands[0] is not piece.operands[0]:
        return None
    first, extent = integers_of(part, "offsets"), integers_of(part, "sizes")
    if extent != shape_of(x) or set(integers_of(part, "strides") or (1,)) != {1}:
        return None
    starts = tuple(a - b for a, b in zip(offsets, first, strict=True))
    ends = (s + (n - 1) * t for s, n, t in zip(starts, sizes, strides, strict=True))
    inside = all(s >= 0 for s in starts) and all(e < n for e, n in zip(ends, extent, strict=True))
    return (starts, sizes, strides) if inside else None
