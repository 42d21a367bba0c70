"""Operands that intents can read where they are: repeated, transposed, or one number everywhere."""

from __future__ import annotations

import math

from tilewright.dialects.intents import literal, map_attribute, shape_of, tensor_type
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import ArrayAttr
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    integers_of,
    maker,
    operand_reads,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

_BINARY = frozenset(
    f"elementwise_{n}" for n in ("add", "sub", "mul", "div", "max", "min", "pow")
) | {"compare"}
_MAPPED_OTHERS = frozenset(["select", "silu_gate", "cast"])


def read_in_place(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Read repeated operands where they come from, and numbers as literals."""
    name = family_name(op)
    if name not in _BINARY and name not in _MAPPED_OTHERS and not name.startswith("elementwise_"):
        return False
    if name == "select":
        return _literal_choice(op, known) or _unrepeated(op)
    return _literal(op, name, known) or _unrepeated(op)


def _literal_choice(op: UKernelGenericOp, known: KnownValues) -> bool:
    """A select with an alternative that is one number everywhere, as a literal."""
    names = [n for n in ("a", "b") if f"scalar_{n}" not in op.attributes]
    reads, shape = operand_reads(op), shape_of(op.result)
    for index, name in enumerate(names, 1):
        operand = op.operands[index]
        if not known.is_known(operand) or known.is_known(op.result):
            continue
        if known.stored(operand) != 1 and math.prod(shape_of(operand)) != 1:
            continue
        number = known.number(operand)
        kept = [i for i in range(len(op.operands)) if i != index]
        covered = {d for i in kept for d in reads[i]}
        if number is None or any(n != 1 and d not in covered for d, n in enumerate(shape)):
            continue
        attributes = dict(op.attributes)
        attributes[f"scalar_{name}"] = literal(number, tensor_type(op.result).element_type).value
        if "operand_maps" in attributes:
            maps = [map_attribute(len(shape), reads[i]) for i in kept]
            attributes["operand_maps"] = ArrayAttr(maps)
        operands = [op.operands[i] for i in kept]
        replace_value(op, BuilderBefore(op).call("select", operands, op.result.type, attributes))
        return True
    return False


def _literal(op: UKernelGenericOp, name: str, known: KnownValues) -> bool:
    """A binary intent with an operand that is one number everywhere, as a literal.

    before: mul(x, fill 0.125)   after: mul(x) {scalar_rhs = 0.125}
    """
    if name not in _BINARY or len(op.operands) != 2 or "roles" in op.attributes:
        return False
    for index, operand in enumerate(op.operands):
        other = op.operands[1 - index]
        if not known.is_known(operand) or known.is_known(other):
            continue
        if known.stored(operand) != 1 and math.prod(shape_of(operand)) != 1:
            continue
        number = known.number(operand)
        element = tensor_type(operand).element_type
        if number is None or element != tensor_type(other).element_type:
            continue
        read, wanted = operand_reads(op)[1 - index], shape_of(op.result)
        covered = {d for d in read if d is not None}
        if any(n != 1 and d not in covered for d, n in enumerate(wanted)):
            continue  # the literal's operand gives the result its size
        attributes = {k: v for k, v in op.attributes.items() if k != "operand_maps"}
        attributes["scalar_rhs" if index else "scalar_lhs"] = literal(number, element).value
        if not (shape_of(other) == wanted and read == tuple(range(len(wanted)))):
            attributes["operand_maps"] = ArrayAttr([map_attribute(len(wanted), read)])
        builder = BuilderBefore(op)
        replace_value(op, builder.call(name, [other], op.result.type, attributes))
        return True
    return False


def _unrepeated(op: UKernelGenericOp) -> bool:
    """Element-wise operands that only repeat another value, read from that value.

    before: add(x, cast 768 repeated to 1024x768)
    after:  add(x, bias) with operand maps (d0, d1) -> (d0, d1), (d0, d1) -> (d1)
    """
    reads, operands, found = operand_reads(op), list(op.operands), False
    for index, operand in enumerate(operands):
        inner = maker(operand, "cast")
        if inner is None or reads_plainly(inner):
            continue
        source = inner.operands[0]
        if tensor_type(source).element_type != tensor_type(operand).element_type:
            continue
        read = tuple(None if d is None else reads[index][d] for d in operand_reads(inner)[0])
        others = {d for i, r in enumerate(reads) for d in (read if i == index else r)}
        lost = any(n != 1 and d not in others for d, n in enumerate(shape_of(op.result)))
        if lost and family_name(op) != "cast":
            continue  # nothing else would have the size of that dimension
        operands[index], reads[index], found = source, read, True
    if not found:
        return False
    rank = len(shape_of(op.result))
    attributes = dict(op.attributes)
    attributes["operand_maps"] = ArrayAttr([map_attribute(rank, read) for read in reads])
    replace_value(op, BuilderBefore(op).call(family_name(op), operands, op.result.type, attributes))
    return True


def read_as_it_lies(op: MatmulOp) -> bool:
    """A product that reads a transposed operand as it lies, and says so.

    before: matmul %x, transpose(%w)   after: matmul %x, %w {transpose_rhs}
    """
    marks = list(op.transposes())
    operands = [op.lhs, op.rhs]
    changed = marks[1] and op.transpose_rhs is None  # where only the shapes told
    for index, operand in enumerate(operands):
        inner = maker(operand, "transpose")
        if inner is None:
            continue
        order = integers_of(inner, "permutation")
        rank = len(order)
        if order != (*range(rank - 2), rank - 1, rank - 2):
            continue
        operands[index], marks[index], changed = inner.operands[0], not marks[index], True
    if not changed:
        return False
    new = MatmulOp(
        operands[0], operands[1], op.result.type, op.init, marks[0], marks[1], op.attributes
    )
    BuilderBefore(op).add(new)
    replace_value(op, new.result)
    return True
