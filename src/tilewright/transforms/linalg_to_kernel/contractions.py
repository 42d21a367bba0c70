"""Sums of products as `npu_kernel.matmul`.

before: linalg.matmul, batch_matmul, matvec, …, or a generic with the same loops and body
after:  npu_kernel.matmul on [batch.., m, k] and [batch.., k, n], transposed operands marked, an
        initial value other than zero kept

Loops are sorted by who reads them: batch (both operands and the result), m (left and result),
n (right and result), k (both operands). Operands that are not already laid out like that, and groups
of several loops, go through transpose and reshape intents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.linalg_ext import StructuredOp
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    IntegerType,
    Operation,
    SSAValue,
    TensorType,
    bf16,
    f32,
)
from tilewright.transforms.linalg_to_kernel.demotion import demoted_matmul
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    filled_with,
    is_undefined,
    kernel_of,
    loop_extents,
    loops_of,
)

WIDENING = ("arith.extf", "arith.extsi", "arith.sitofp")


@dataclass(frozen=True)
class Product:
    """The two factors of a contraction: operand numbers, and the casts the body puts on them."""

    left: int
    right: int
    left_type: Attribute
    right_type: Attribute


def find_product(op: StructuredOp) -> Product | None:
    """The factors of a body `out + left * right`, else None."""
    block = op.body.block
    if len(op.outputs) != 1 or len(op.inputs) != 2:
        return None
    total = cast(Operation, block.last_op).operands[0].owner
    if getattr(total, "name", "") not in ("arith.addf", "arith.addi"):
        return None
    total = cast(Operation, total)
    accumulator = block.args[2]
    others = [value for value in total.operands if value is not accumulator]
    if len(others) != 1:
        return None
    product = others[0].owner
    if getattr(product, "name", "") not in ("arith.mulf", "arith.muli"):
        return None
    factors = [_factor(op, value) for value in cast(Operation, product).operands]
    if None in factors:
        return None
    (first, first_type), (second, second_type) = cast("list[tuple[int, Attribute]]", factors)
    if {first, second} != {0, 1}:
        return None
    if first > second:
        first, first_type, second, second_type = second, second_type, first, first_type
    return Product(first, second, first_type, second_type)


def _factor(op: StructuredOp, value: SSAValue) -> tuple[int, Attribute] | None:
    """The operand a factor reads, and the element type to hand to the kernel."""
    arguments = list(op.body.block.args)
    if value in arguments[:2]:
        return arguments.index(value), value.type  # type: ignore[arg-type]
    owner = value.owner
    if isinstance(owner, Operation) and len(owner.operands) == 1:
        source = owner.operands[0]
        if source in arguments[:2] and owner.name in WIDENING:
            return arguments.index(source), source.type  # type: ignore[arg-type]
        if source in arguments[:2] and owner.name == "arith.truncf":
            return arguments.index(source), value.type  # type: ignore[arg-type]
    return None


def convert_contraction(emitter: Emitter, op: StructuredOp, product: Product) -> None:
    """Emit the matmul of a contraction and what its operands need first."""
    type_ = cast(TensorType, op.results[0].type)
    for element in (product.left_type, product.right_type, type_.element_type):
        check_element(element)
    _check_types(product, type_.element_type)
    maps = op.operand_maps
    left = _loops(maps[product.left], "the left operand")
    right = _loops(maps[product.right], "the right operand")
    result = _loops(maps[-1], "the result")
    extents = loop_extents(op)
    lhs = _typed(emitter, emitter.value(op.operands[product.left]), product.left_type)
    rhs = _typed(emitter, emitter.value(op.operands[product.right]), product.right_type)
    init = emitter.value(op.outputs[0])
    if is_undefined(init):
        raise Unmapped(
            "TW1226",
            "it adds to an initial value with undefined contents (tensor.empty)",
            "fill the output with 0 first",
        )
    keep = None if filled_with(init) == 0 else init
    emitter.values[op.results[0]] = emit_contraction(
        emitter, (lhs, left), (rhs, right), (type_, result), keep, extents
    )


def _check_types(product: Product, result: Attribute) -> None:
    kinds = [isinstance(e, AnyFloat) for e in (product.left_type, product.right_type, result)]
    if len(set(kinds)) != 1:
        raise Unmapped(
            "TW1222",
            f"it multiplies {product.left_type} by {product.right_type} into {result}",
            "operands and result are all floats or all integers",
        )
    if not kinds[0] and cast(IntegerType, result).width.data == 1:
        raise Unmapped("TW1222", "it multiplies single bits", "widen the operands to i8")


def _loops(map_, what: str) -> tuple[int, ...]:
    loops = loops_of(map_, what)
    if None in loops:
        raise Unmapped(
            "TW1223", f"{what} of a contraction is read at a constant index", "drop that dimension"
        )
    return cast("tuple[int, ...]", loops)


def _typed(emitter: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    """The operand in the type the body multiplies it in, when that is narrower."""
    if tensor_type(value).element_type == element:
        return value
    return emitter.unary("cast", value, element)


Indexed = tuple[SSAValue, tuple[int, ...]]


def emit_contraction(
    emitter: Emitter,
    left: Indexed,
    right: Indexed,
    result: tuple[TensorType, tuple[int, ...]],
    init: SSAValue | None,
    extents: dict[int, int],
) -> SSAValue:
    """The contraction of two indexed tensors into an indexed result type."""
    (lhs, lhs_loops), (rhs, rhs_loops), (type_, out) = left, right, result
    lhs, lhs_loops = _sum_alone(emitter, lhs, lhs_loops, set(rhs_loops) | set(out))
    rhs, rhs_loops = _sum_alone(emitter, rhs, rhs_loops, set(lhs_loops) | set(out))
    batch = [d for d in out if d in lhs_loops and d in rhs_loops]
    rows = [d for d in out if d in lhs_loops and d not in rhs_loops]
    columns = [d for d in out if d in rhs_loops and d not in lhs_loops]
    summed = [d for d in sorted(extents) if d not in out and d in lhs_loops and d in rhs_loops]
    if len(batch) + len(rows) + len(columns) != len(out):
        raise Unmapped(
            "TW1223",
            "the result has a loop that no operand reads",
            "broadcast the result in an op of its own",
        )
    if rows and columns and out.index(rows[0]) > out.index(columns[0]):
        # n before m: the same product with the operands exchanged needs no transpose.
        lhs, rhs, lhs_loops, rhs_loops = rhs, lhs, rhs_loops, lhs_loops
        rows, columns = columns, rows
    a, transpose_lhs = _operand(emitter, lhs, lhs_loops, batch, rows, summed, extents)
    b, flipped = _operand(emitter, rhs, rhs_loops, batch, columns, summed, extents)
    transpose_rhs = not flipped
    b, transpose_rhs = _fold_transpose(b, transpose_rhs)
    a, transpose_lhs = _fold_transpose(a, transpose_lhs)
    groups = [[d] for d in batch] + [rows, columns]
    shape = [prod(extents[d] for d in group) for group in groups]
    order = [*batch, *rows, *columns]
    accumulator = None
    if init is not None:
        accumulator = emitter.reshape(emitter.transpose(init, [out.index(d) for d in order]), shape)
    wanted = TensorType(type_.element_type, shape)
    value = emit_matmul(emitter, a, b, wanted, accumulator, transpose_lhs, transpose_rhs)
    value = emitter.reshape(value, [extents[d] for d in order])
    return emitter.transpose(value, [order.index(d) for d in out])


def emit_matmul(
    emitter: Emitter,
    a: SSAValue,
    b: SSAValue,
    type_: TensorType,
    init: SSAValue | None,
    transpose_lhs: bool,
    transpose_rhs: bool,
) -> SSAValue:
    """The matmul itself, in bf16 where f32 scores are to be demoted."""
    rows, width = shape_of(b)[-2:]
    if transpose_rhs and not transpose_lhs and rows != width:
        # Shapes fit in this way only, so the mark goes without saying.
        transpose_rhs = False
    floats = all(isinstance(tensor_type(v).element_type, AnyFloat) for v in (a, b))
    if emitter.settings.demote_score_matmuls and type_.element_type == f32 and floats:
        return demoted_matmul(emitter, a, b, type_, init, transpose_lhs, transpose_rhs, bf16)
    return emitter.matmul(a, b, type_, init, transpose_lhs, transpose_rhs)


def _sum_alone(
    emitter: Emitter, value: SSAValue, loops: tuple[int, ...], shared: set[int]
) -> tuple[SSAValue, tuple[int, ...]]:
    """Loops that only this operand has would have to be summed first, which rounds differently."""
    alone = [d for d in loops if d not in shared]
    if alone:
        raise Unmapped(
            "TW1223",
            f"loop d{alone[0]} is read by one operand only and summed",
            "sum that operand in a reduction of its own first",
        )
    return value, loops


def _operand(
    emitter: Emitter,
    value: SSAValue,
    loops: tuple[int, ...],
    batch: Sequence[int],
    outer: Sequence[int],
    summed: Sequence[int],
    extents: dict[int, int],
) -> tuple[SSAValue, bool]:
    """The operand as [batch.., outer, summed], or [batch.., summed, outer] and True."""
    mine = [d for d in batch if d in loops]
    straight, turned = [*mine, *outer, *summed], [*mine, *summed, *outer]
    is_turned = list(loops) == turned and list(loops) != straight
    order = turned if is_turned else straight
    value = emitter.transpose(value, [loops.index(d) for d in order])
    groups = [[d] for d in mine] + ([summed, outer] if is_turned else [outer, summed])
    value = emitter.reshape(value, [prod(extents[d] for d in group) for group in groups])
    return value, is_turned


def _fold_transpose(value: SSAValue, transposed: bool) -> tuple[SSAValue, bool]:
    """Read through a transpose of the last two dimensions by turning the mark over."""
    found = kernel_of(value)
    if found and found[0] == "transpose":
        permutation = found[1].attributes["permutation"].get_values()  # type: ignore[attr-defined]
        rank = len(permutation)
        if list(permutation) == [*range(rank - 2), rank - 1, rank - 2]:
            return found[1].operands[0], not transposed
    return value, transposed
