"""canonicalize: fold what says nothing, drop what nobody uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.dialects.locations import copy_location
from tilewright.dialects.npu_kernel import KernelCallOp
from tilewright.dialects.xdsl_api import (
    Context,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IsTerminator,
    ModuleOp,
    ModulePass,
    Operation,
    Rewriter,
    SSAValue,
    arith,
    i32,
    i64,
    is_side_effect_free,
    scf,
    tensor,
)
from tilewright.transforms.tile_emitter import DYNAMIC


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Fold degenerate loops, slices and copies, and remove dead pure operations.

    before: scf.for %i = %c0 to %c32 step %c32 iter_args(%acc = %init) { body }
    after:  body with %i = %c0 and %acc = %init

    Loops of one iteration are inlined, loops of none give their initial values; index arithmetic
    on constants is folded; slice offsets that are constants become part of the slice; slices,
    inserts and pads that change nothing, and reshapes and casts to the same type, disappear.
    Nothing that computes on tensors is changed.
    """

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Folding one operation can make another foldable, at most as deep as they are nested.
        changed = True
        while changed:
            changed = False
            for candidate in list(op.walk()):
                rule = _RULES.get(type(candidate))
                if rule is not None and candidate.parent is not None:
                    changed = rule(candidate) or changed
            changed = remove_dead(op) or changed


def remove_dead(module: ModuleOp) -> bool:
    """Erase pure operations without uses, users before what they use; True when some went."""
    removed = False
    for op in reversed(list(module.walk())):
        if (
            op.results
            and op.parent is not None
            and all(result.first_use is None for result in op.results)
            and not op.has_trait(IsTerminator, value_if_unregistered=False)
            and is_side_effect_free(op)
        ):
            op.detach()
            op.erase()
            removed = True
    return removed


def constant_index(value: SSAValue) -> int | None:
    """The integer a value is known to be, or None."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _replace(op: Operation, value: SSAValue) -> bool:
    Rewriter.replace_op(op, [], [value])
    return True


def _fold_loop(op: Operation) -> bool:
    """A loop of no iteration gives its initial values, a loop of one becomes its body."""
    assert isinstance(op, scf.ForOp)
    start, stop, step = (constant_index(v) for v in (op.lb, op.ub, op.step))
    if start is None or stop is None or step is None or step <= 0:
        return False
    if stop <= start:
        Rewriter.replace_op(op, [], op.iter_args)
        return True
    if stop - start > step:
        return False
    body = op.body.block
    for argument, value in zip(body.args, (op.lb, *op.iter_args), strict=True):
        argument.replace_all_uses_with(value)
    last = body.last_op
    assert last is not None
    results = list(last.operands)
    inner = [child for child in body.ops if child is not last]
    for child in inner:
        child.detach()
    Rewriter.replace_op(op, inner, results)
    return True


def _fold_index_arithmetic(
    compute: Callable[[int, int], int],
) -> Callable[[Operation], bool]:
    def fold(op: Operation) -> bool:
        left, right = (constant_index(v) for v in op.operands)
        if left is None or right is None or not isinstance(op.results[0].type, IndexType):
            return False
        try:
            value = compute(left, right)
        except ZeroDivisionError:
            return False
        constant = arith.ConstantOp(IntegerAttr(value, IndexType()))
        copy_location(op, constant)
        Rewriter.replace_op(op, constant)
        return True

    return fold


def _static_offsets(op: tensor.ExtractSliceOp | tensor.InsertSliceOp, first: int) -> bool:
    """Move constant offsets from the operands into the slice; `first` is where they start."""
    if not op.offsets:
        return False
    offsets = list(op.static_offsets.get_values())
    remaining = []
    dynamic = iter(op.offsets)
    for position, offset in enumerate(offsets):
        if offset == DYNAMIC:
            value = next(dynamic)
            known = constant_index(value)
            if known is None:
                remaining.append(value)
            else:
                offsets[position] = known
    if len(remaining) == len(op.offsets):
        return False
    operands = list(op.operands)
    op.operands = [*operands[:first], *remaining, *operands[first + len(op.offsets) :]]
    op.properties["static_offsets"] = DenseArrayBase.from_list(i64, offsets)
    segments = op.properties["operandSegmentSizes"]
    assert isinstance(segments, DenseArrayBase)
    sizes = [int(n) for n in segments.get_values()]
    sizes[1 if first == 1 else 2] = len(remaining)
    op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    return True


def _is_whole(op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> bool:
    return not op.offsets and not any(op.static_offsets.get_values())


def _fold_extract(op: Operation) -> bool:
    assert isinstance(op, tensor.ExtractSliceOp)
    changed = _static_offsets(op, 1)
    if _is_whole(op) and op.source.type == op.result.type:
        return _replace(op, op.source)
    return changed


def _fold_insert(op: Operation) -> bool:
    assert isinstance(op, tensor.InsertSliceOp)
    changed = _static_offsets(op, 2)
    if _is_whole(op) and op.source.type == op.dest.type:
        return _replace(op, op.source)
    return changed


def _fold_same_type(op: Operation) -> bool:
    """An operation whose result has the type of its only operand and changes nothing."""
    if len(op.operands) == 1 and op.operands[0].type == op.results[0].type:
        return _replace(op, op.operands[0])
    return False


def _fold_call(op: Operation) -> bool:
    assert isinstance(op, KernelCallOp)
    call = op.call()
    if call is not None and call.family.name in ("reshape", "cast") and not op.attributes:
        return _fold_same_type(op)
    return False


def _rules() -> dict[type[Operation], Callable[[Operation], bool]]:
    from tilewright.dialects.npu_kernel import UKernelGenericOp
    from tilewright.dialects.npu_schedule import UKernelLaunchOp

    return {
        scf.ForOp: _fold_loop,
        arith.AddiOp: _fold_index_arithmetic(lambda a, b: a + b),
        arith.SubiOp: _fold_index_arithmetic(lambda a, b: a - b),
        arith.MuliOp: _fold_index_arithmetic(lambda a, b: a * b),
        arith.DivUIOp: _fold_index_arithmetic(lambda a, b: a // b),
        tensor.ExtractSliceOp: _fold_extract,
        tensor.InsertSliceOp: _fold_insert,
        tensor.PadOp: _fold_same_type,
        tensor.CastOp: _fold_same_type,
        tensor.CollapseShapeOp: _fold_same_type,
        tensor.ExpandShapeOp: _fold_same_type,
        UKernelGenericOp: _fold_call,
        UKernelLaunchOp: _fold_call,
    }


_RULES = _rules()
