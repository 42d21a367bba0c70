"""A module turned into closures over numbered slots: compiled once, run on arrays.

Every SSA value of a function has a slot in a list. Each operation becomes a *step*, a function
of that list; a block is a list of steps, each with the slots whose values die there, so an array
is freed after its last use. An operation that returns a changed copy of an operand
(`tensor.insert_slice`) may reuse the operand's memory when nothing else refers to it.

Dialects register their operations with `operation` (arrays in, arrays out) or `control` (the
step itself, for operations with regions or special memory use).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.errors import TilewrightError
from tilewright.reference.dtypes import Array, ElementType, element_type
from tilewright.reference.faults import fault, name_of

Slots = list[Any]
Step = Callable[[Slots], None]
Watch = Mapping[SSAValue, Callable[[Array], None]]  # who is told a value whenever it is made
Evaluate = Callable[..., Any]


@dataclass(frozen=True)
class Semantics:
    """What the executor leaves open.

    accumulate  "wide": sums and contractions add exact products in float64 and round once to the
                result type; "stepwise": every step rounds as the body of the operation says.
    machine     None: kernel launches mean the same as the whole-tensor operations they came from;
                "atlas-v0": launches round as that machine's kernels do (`machine_kernels`).
    families    what kernel families compute on a machine, where that differs from the table of
                `families`: a function of the `Call`, whose result is rounded to the result's type.
    stored      what a machine computes on stored tensors: a function of `npu_kernel.launch`, `pack`
                or `unpack` and its operands, to its result, or to all if there are several. Without it
                these have no meaning.
    """

    accumulate: str = "wide"
    machine: str | None = None
    families: Mapping[str, Callable[[Any], Array]] = field(
        default_factory=dict, compare=False, hash=False
    )
    stored: Callable[[Operation, Sequence[Array]], Array | list[Array]] | None = field(
        default=None, compare=False, hash=False
    )


def _nothing(slots: Slots) -> None:
    """The step before the first one."""


@dataclass
class BlockProgram:
    """The steps of one block and what it hands to its parent."""

    arguments: list[int]
    steps: list[tuple[Step, tuple[int, ...]]] = field(default_factory=list)
    terminator: Operation | None = None
    yields: list[int] = field(default_factory=list)
    dying: tuple[int, ...] = ()
    operations: list[Operation] = field(default_factory=list)  # of the steps

    def run(self, slots: Slots) -> list[Any]:
        """Execute and return the terminator's operands; values of the block are released."""
        step: Step = _nothing
        try:
            for step, dead in self.steps:
                step(slots)
                for slot in dead:
                    slots[slot] = None
        except MemoryError as error:
            raise self._failed(step, "needs more memory than there is", error) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._failed(step, "cannot be evaluated", error) from error
        results = [slots[slot] for slot in self.yields]
        for slot in self.dying:
            slots[slot] = None
        return results

    def _failed(self, step: Step, what: str, error: Exception) -> TilewrightError:
        """The error about the operation of a step."""
        number = next(n for n, (other, _) in enumerate(self.steps) if other is step)
        op = self.operations[number]
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return fault(op, "TW1507", f"{name_of(op)} {what}: {reason}")


OperationMaker = Callable[[Operation, "Builder"], Evaluate]
ControlMaker = Callable[[Operation, "Builder"], Step]
OPERATIONS: dict[str, OperationMaker] = {}
CONTROLS: dict[str, ControlMaker] = {}


def operation(*names: str) -> Callable[[OperationMaker], OperationMaker]:
    """Register a maker: operation -> function from operand arrays to the result array(s)."""

    def register(maker: OperationMaker) -> OperationMaker:
        for name in names:
            OPERATIONS[name] = maker
        return maker

    return register


def control(*names: str) -> Callable[[ControlMaker], ControlMaker]:
    """Register a maker: operation -> step over the slots."""

    def register(maker: ControlMaker) -> ControlMaker:
        for name in names:
            CONTROLS[name] = maker
        return maker

    return register


@dataclass
class Builder:
    """Builds the steps of one function; shared state of a run hangs here."""

    functions: Mapping[str, Operation]
    weights: Callable[[str], Any]
    semantics: Semantics
    call: Callable[[str, Sequence[Any], Operation], list[Any]]
    slot_of: dict[SSAValue | str, int] = field(default_factory=dict)
    # Slots that die at the operation being built; makers that build regions read it first.
    dying: frozenset[int] = frozenset()
    watch: Watch = field(default_factory=dict)

    def slot(self, value: SSAValue) -> int:
        """The number of a value's slot."""
        found = self.slot_of.get(value)
        if found is None:
            found = self.slot_of[value] = len(self.slot_of)
        return found

    def hidden_slot(self, name: str) -> int:
        """The slot of state that no SSA value shows, such as a matrix unit's accumulator."""
        return self.slot_of.setdefault(name, len(self.slot_of))

    def single_block(self, region: Region, op: Operation) -> Block:
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise fault(op, "TW1502", f"{op.name} with {len(blocks)} blocks cannot be executed")
        return blocks[0]

    def block(self, block: Block) -> BlockProgram:
        """Compile a block: its steps with the slots that die at each."""
        operations = list(block.ops)
        last_use: dict[SSAValue, int] = {argument: -1 for argument in block.args}
        for index, op in enumerate(operations):
            for result in op.results:
                last_use[result] = index
            for value in values_used(op):
                if value in last_use:
                    last_use[value] = index
        program = BlockProgram([self.slot(a) for a in block.args])
        deaths: dict[int, list[SSAValue]] = {}
        for value, index in last_use.items():
            deaths.setdefault(max(index, 0), []).append(value)
        for index, op in enumerate(operations):
            dead = [self.slot(v) for v in deaths.get(index, ())]
            if is_terminator(op):
                program.terminator = op
                program.yields = [self.slot(v) for v in op.operands]
                program.dying = tuple(dead)
                break
            step = self.watched(op.results, self.step(op, frozenset(dead)))
            program.steps.append((step, tuple(dead)))
            program.operations.append(op)
        return program

    def step(self, op: Operation, dead: frozenset[int]) -> Step:
        """The step of one operation; `dead` are the slots that die at it."""
        self.dying = dead
        name = name_of(op)
        if name in CONTROLS:
            return CONTROLS[name](op, self)
        maker = OPERATIONS.get(name)
        if maker is None:
            raise unknown_operation(op)
        return self.evaluation_step(op, maker(op, self))

    def watched(self, values: Sequence[SSAValue], step: Step) -> Step:
        """A step that tells the values it makes to whoever watches them."""
        told = [(self.slot(v), self.watch[v]) for v in values if v in self.watch]
        if not told:
            return step

        def watched(slots: Slots) -> None:
            step(slots)
            for slot, tell in told:
                tell(as_array(slots[slot]))

        return watched

    def evaluation_step(self, op: Operation, evaluate: Evaluate) -> Step:
        # Makers of operations with a body get what the body captures after the operands.
        operands = [self.slot(v) for v in (*op.operands, *captures(op))]
        results = [self.slot(v) for v in op.results]
        if len(results) == 1:
            target = results[0]
            if len(operands) == 1:
                only = operands[0]

                def unary(slots: Slots) -> None:
                    slots[target] = evaluate(slots[only])

                return unary

            def single(slots: Slots) -> None:
                slots[target] = evaluate(*[slots[i] for i in operands])

            return single

        def several(slots: Slots) -> None:
            values = evaluate(*[slots[i] for i in operands])
            for slot, value in zip(results, values or (), strict=True):
                slots[slot] = value

        return several


TERMINATORS = {
    "func.return",
    "util.return",
    "scf.yield",
    "scf.condition",
    "linalg.yield",
    "tensor.yield",
    "affine.yield",
    "iree_linalg_ext.yield",
    "scf.forall.in_parallel",
    "scf.reduce",
}


def is_terminator(op: Operation) -> bool:
    """Whether an operation ends its block here (by name: it may be unregistered)."""
    name = name_of(op)
    return name in TERMINATORS or (op.next_op is None and name.endswith((".yield", ".return")))


def unknown_operation(op: Operation) -> Exception:
    return fault(
        op,
        "TW1501",
        f"the reference executor does not know the operation {name_of(op)}",
        "lower it to func, arith, math, tensor, linalg, scf, attention or npu operations first",
    )


def values_used(op: Operation) -> list[SSAValue]:
    """Operands of an operation and of everything nested in it, in order, without repeats."""
    used: dict[SSAValue, None] = dict.fromkeys(op.operands)
    for region in op.regions:
        for inner in region.walk():
            used.update(dict.fromkeys(inner.operands))
    return list(used)


def captures(op: Operation) -> list[SSAValue]:
    """Values used inside an operation's regions but defined outside of it, in order."""
    if not op.regions:
        return []
    inside: set[SSAValue] = set()
    inner = [nested for region in op.regions for nested in region.walk()]
    for owner in (op, *inner):
        for region in owner.regions:
            for block in region.blocks:
                inside.update(block.args)
        if owner is not op:
            inside.update(owner.results)
    used = (value for nested in inner for value in nested.operands)
    return list(dict.fromkeys(value for value in used if value not in inside))


# --------------------------------------------------------------------------- small helpers


def tensor_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value's type; -1 for a dynamic dimension, () for a scalar."""
    if isinstance(value.type, builtin.ShapedType):
        return tuple(-1 if size < 0 else size for size in value.type.get_shape())
    return ()


def element_of(value: SSAValue) -> ElementType:
    """The element type of a value."""
    return element_type(value.type)


def is_index_scalar(value: SSAValue) -> bool:
    return isinstance(value.type, builtin.IndexType)


def as_array(value: Any) -> Array:
    """A value as an array (index scalars are Python integers while running)."""
    return np.asarray(value, dtype=np.int64) if isinstance(value, int) else np.asarray(value)


def integers(attribute: Any) -> tuple[int, ...]:
    """The integers of a dense array, dense elements, or array attribute; () for None."""
    if attribute is None:
        return ()
    if isinstance(attribute, builtin.DenseArrayBase):
        return tuple(int(v) for v in attribute.get_values())
    if isinstance(attribute, builtin.DenseIntOrFPElementsAttr):
        return tuple(int(v) for v in attribute.get_values())  # pyright: ignore
    if isinstance(attribute, builtin.ArrayAttr):
        return tuple(int(v.value.data) for v in attribute.data)  # pyright: ignore
    if isinstance(attribute, builtin.IntegerAttr):
        return (attribute.value.data,)
    raise TypeError(f"no integers in {attribute}")


def segments(op: Operation, count: int) -> list[list[SSAValue]]:
    """Operands by `operandSegmentSizes`; without it every group but the first takes one operand."""
    sizes = op.properties.get("operandSegmentSizes", op.attributes.get("operandSegmentSizes"))
    operands = list(op.operands)
    if sizes is None:
        lengths = [len(operands) - (count - 1)] + [1] * (count - 1)
    else:
        lengths = list(integers(sizes))
    groups: list[list[SSAValue]] = []
    start = 0
    for length in lengths:
        groups.append(operands[start : start + length])
        start += length
    return groups
