"""Looking at intents by role, and replacing a matched chain by one intent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tilewright.dialects.intents import IntentBuilder, shape_of, tensor_type
from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntegerAttr,
    Operation,
    OpResult,
    SSAValue,
    TensorType,
)
from tilewright.transforms.linalg_to_kernel.emitter import Settings


def family_name(op: UKernelGenericOp) -> str:
    family = family_of(op.symbol.data)
    return family.name if family else op.symbol.data.removeprefix("npu_uk_")


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without dimensions of size 1."""
    return tuple(n for n in shape if n != 1)


def is_unit_reshape(op: Operation) -> bool:
    """Whether an op only adds or drops dimensions of size 1."""
    return (
        isinstance(op, UKernelGenericOp)
        and family_name(op) == "reshape"
        and squeezed(shape_of(op.operands[0])) == squeezed(shape_of(op.result))
    )


def stem(value: SSAValue) -> SSAValue:
    """The value before reshapes that only add or drop dimensions of size 1."""
    while isinstance(value.owner, Operation) and is_unit_reshape(value.owner):
        value = value.owner.operands[0]
    return value


@dataclass(frozen=True)
class Read:
    """An operand and the result dimensions it follows, dimensions of size 1 left out."""

    value: SSAValue
    loops: tuple[int, ...]

    def covers(self, shape: Sequence[int]) -> bool:
        """Whether the operand has every element of a result of `shape`, in its order."""
        return self.loops == tuple(d for d, n in enumerate(shape) if n != 1)


@dataclass(frozen=True)
class Node:
    """An intent: its family, what it reads, its literal operands."""

    op: UKernelGenericOp
    family: str
    reads: tuple[Read, ...]

    @property
    def result(self) -> SSAValue:
        return self.op.result

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.op.result)

    @property
    def element(self) -> Attribute:
        return tensor_type(self.op.result).element_type

    def number(self, name: str) -> float | int | None:
        """A literal attribute's value."""
        value = self.op.attributes.get(name)
        return value.value.data if isinstance(value, FloatAttr | IntegerAttr) else None

    def scalar(self, value: float) -> Read | None:
        """The other operand of a commutative intent whose one operand is the literal `value`."""
        for name in ("scalar_lhs", "scalar_rhs"):
            if self.number(name) == rounded(value, self.element) and len(self.reads) == 1:
                return self.reads[0]
        return None

    def either_way(self) -> Iterable[tuple[Read, Read]]:
        """Both orders of the operands of a commutative intent."""
        if len(self.reads) == 2:
            first, second = self.reads
            yield first, second
            yield second, first


def rounded(value: float, element: Attribute) -> float:
    """A number as a literal of `element` holds it."""
    if not isinstance(element, AnyFloat):
        return value
    return FloatAttr(value, element).value.data  # type: ignore[arg-type]


def node_of(value: SSAValue, *families: str) -> Node | None:
    """The intent behind a value, when it is of one of the families."""
    op = value.owner
    if not isinstance(op, UKernelGenericOp):
        return None
    name = family_name(op)
    if families and name not in families:
        return None
    return make_node(op, name)


def make_node(op: UKernelGenericOp, name: str | None = None) -> Node:
    maps = op.attributes.get("operand_maps")
    result = shape_of(op.result)
    reads = []
    for index, operand in enumerate(op.operands):
        shape = shape_of(operand)
        if isinstance(maps, ArrayAttr):
            expressions = maps.data[index].data.results  # type: ignore[attr-defined]
            loops = tuple(
                e.position
                for e, n in zip(expressions, shape, strict=True)
                if isinstance(e, AffineDimExpr) and n != 1
            )
        elif len(shape) == len(result):
            loops = tuple(d for d, n in enumerate(shape) if n != 1)
        else:
            loops = tuple(range(len(shape)))
        reads.append(Read(stem(operand), loops))
    return Node(op, name or family_name(op), tuple(reads))


@dataclass
class Rewriter:
    """Replaces chains in one block."""

    sources: dict[Operation, tuple[Operation, ...]]
    settings: Settings
    erased: set[Operation] = field(default_factory=set)

    def private(self, inner: Sequence[Operation], root: Operation) -> bool:
        """Whether nobody outside the chain reads its inner values."""
        members = {*inner, root}

        def inside(user: Operation) -> bool:
            return user in members or (
                is_unit_reshape(user) and all(inside(use.operation) for use in user.results[0].uses)
            )

        return all(inside(use.operation) for op in inner for r in op.results for use in r.uses)

    def replace(
        self,
        root: UKernelGenericOp,
        inner: Sequence[Operation],
        family: str,
        operands: Sequence[SSAValue],
        attributes: Mapping[str, Attribute] | None = None,
        result: Attribute | None = None,
    ) -> UKernelGenericOp | None:
        """One intent in the place of a chain, or None when inner values are read elsewhere.

        Operands may be values that a `builder` has just made; see `building`.
        """
        inner = list(dict.fromkeys(inner))
        if not self.private(inner, root):
            return None
        builder = IntentBuilder()
        # What others have noted on the end of the chain, such as its layer, stays on the name.
        notes = {key: value for key, value in root.attributes.items() if "." in key}
        attributes = {**(attributes or {}), **notes}
        builder.call(family, operands, result or root.result.type, attributes)
        new = cast(UKernelGenericOp, builder.ops[0])
        self.insert(new, root, inner)
        value = self.helper(root, new.result, shape_of(root.result))
        cast(OpResult, value).name_hint = root.result.name_hint
        root.result.replace_all_uses_with(value)
        self.erase([*inner, root])
        return new

    def insert(self, new: Operation, root: Operation, inner: Sequence[Operation] = ()) -> None:
        """Put an op before `root`, with the sources of the chain."""
        assert root.parent is not None
        root.parent.insert_op_before(new, root)
        found = dict.fromkeys(s for op in (*inner, root) for s in self.sources.get(op, ()))
        self.sources[new] = tuple(found)
        new.location = root.location

    def helper(self, root: Operation, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value` in another shape, computed before `root`."""
        if shape_of(value) == tuple(shape):
            return value
        builder = IntentBuilder()
        result = TensorType(tensor_type(value).element_type, list(shape))
        new = builder.call("reshape", [value], result).owner
        self.insert(cast(Operation, new), root)
        return cast(Operation, new).results[0]

    def erase(self, ops: Sequence[Operation]) -> None:
        """Erase a chain from its end, as far as nobody reads it."""
        order = sorted(ops, key=_depth_key(ops), reverse=True)
        for op in order:
            if op in self.erased:
                continue
            for use in [use for r in op.results for use in r.uses]:
                if is_unit_reshape(use.operation):
                    self.erase([use.operation])
            if not any(r.uses for r in op.results):
                self.erased.add(op)
                op.detach()
                op.erase()


def _depth_key(ops: Sequence[Operation]) -> Callable[[Operation], int]:
    """Users after what they use."""
    members = set(ops)
    depth: dict[Operation, int] = {}

    def measure(op: Operation) -> int:
        if op not in depth:
            depth[op] = 0
            # Reshapes in between go with what they reshape, once nobody reads them.
            inner = [o for o in (stem(v).owner for v in op.operands) if o in members]
            depth[op] = 1 + max((measure(cast(Operation, o)) for o in inner), default=0)
        return depth[op]

    return measure


Recogniser = Callable[[UKernelGenericOp, Rewriter], UKernelGenericOp | None]
