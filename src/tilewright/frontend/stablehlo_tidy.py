"""Movement that cancels: what is left between forms once they have their names.

| before | after |
|---|---|
| transpose(transpose(x)) | one transpose, or x |
| a transpose that moves only dimensions of size 1 | reshape |
| a transpose of a tensor with such dimensions put in | the transpose without them, then put in |
| a transpose of a tensor with dimensions split that stay side by side | split afterwards |
| reshape(reshape(x)) | one reshape, or x |
"""

from __future__ import annotations

import math

from tilewright.dialects.intents import IntentBuilder, integers, shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import Block, SSAValue, TensorType
from tilewright.frontend.aten_builder import LAYER
from tilewright.transforms.linalg_to_kernel.chains.match import family_name


def tidy_movement(block: Block) -> None:
    """Merge transposes and reshapes of a block, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for op in list(block.ops):
            if (
                isinstance(op, UKernelGenericOp)
                and op.result.uses
                and (value := _tidied(op)) is not None
            ):
                if value.name_hint is None:
                    value.name_hint = op.result.name_hint
                op.result.replace_all_uses_with(value)
                changed = True


def _tidied(op: UKernelGenericOp) -> SSAValue | None:
    """A simpler value for a transpose or reshape, or None; the op itself is left for dead."""
    family = family_name(op)
    if family not in ("transpose", "reshape"):
        return None
    x = op.operands[0]
    before = x.owner
    inner = family_name(before) if isinstance(before, UKernelGenericOp) else ""
    if family == "reshape":
        if shape_of(x) == shape_of(op.result):
            return x
        return _made(op, "reshape", before.operands[0]) if inner == "reshape" else None  # type: ignore[union-attr]
    order = permutation(op)
    if order == sorted(order):
        return x
    if inner == "transpose":
        first = permutation(before)  # type: ignore[arg-type]
        return _made(op, "transpose", before.operands[0], [first[p] for p in order])  # type: ignore[union-attr]
    wide = [p for p in order if shape_of(x)[p] != 1]
    if wide == sorted(wide):
        return _made(op, "reshape", x)
    if inner == "reshape":
        groups, coarse = _merged(order, shape_of(x))
        source = before.operands[0]  # type: ignore[union-attr]
        if shape_of(source) == tuple(coarse) and len(coarse) < len(order):
            shape = [coarse[g] for g in groups]
            return _made(op, "reshape", _made(op, "transpose", source, groups, shape))
    # Leading dimensions that stay, such as a batch of one, are no nuisance.
    first = next((i for i, p in enumerate(order) if p != i), len(order))
    kept = [p for p in order if shape_of(x)[p] != 1 or p < first]
    if inner == "reshape" and len(kept) < len(order):
        return _without_units(op, before.operands[0], kept)  # type: ignore[union-attr]
    return None


def _merged(order: list[int], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """A permutation with dimensions that stay side by side as one: it, and the sizes it works on."""
    runs: list[list[int]] = []
    for p in order:
        if runs and p == runs[-1][-1] + 1:
            runs[-1].append(p)
        else:
            runs.append([p])
    ordered = sorted(runs)
    sizes = [math.prod(shape[d] for d in run) for run in ordered]
    return [ordered.index(run) for run in runs], sizes


def _without_units(op: UKernelGenericOp, source: SSAValue, kept: list[int]) -> SSAValue:
    """The same transpose of some dimensions; the others, of size 1, are put in afterwards."""
    shape = shape_of(op.operands[0])
    thin = _made(op, "reshape", source, shape=[shape[d] for d in sorted(kept)])
    order = [sorted(kept).index(p) for p in kept]
    turned = _made(op, "transpose", thin, order, [shape[p] for p in kept])
    return _made(op, "reshape", turned)


def permutation(op: UKernelGenericOp) -> list[int]:
    return [int(p) for p in op.attributes["permutation"].get_values()]  # type: ignore[attr-defined]


def _made(
    op: UKernelGenericOp,
    family: str,
    x: SSAValue,
    order: list[int] | None = None,
    shape: list[int] | None = None,
) -> SSAValue:
    """A new intent before `op`, with its place, and its shape unless another is given."""
    assert op.parent is not None
    target = tuple(shape) if shape is not None else shape_of(op.result)
    if family == "reshape" and shape_of(x) == target:
        return x
    builder = IntentBuilder()
    attributes = {} if order is None else {"permutation": integers(order)}
    result = TensorType(tensor_type(x).element_type, list(target))
    made = builder.call(family, [x], result, attributes)
    new = builder.ops[0]
    op.parent.insert_op_before(new, op)
    new.location = op.location
    if LAYER in op.attributes:
        new.attributes[LAYER] = op.attributes[LAYER]
    return made
