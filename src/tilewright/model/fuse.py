"""Epilogues: what follows a kernel element by element becomes part of it.

before: %a = matmul i8 -> i32; %b = add %a, %bias; %c = rescale %b, %factors; %d = add %c, %residual
after:  %d = npu_kernel.fused "npu_uk_matmul" epilogue [elementwise_add, rescale, elementwise_add]

A step joins when nobody else reads the value before it, it reads that value element by element and
keeps its shape. Which kernels and steps a machine takes is its own choice (`Fuses`). The meaning
is that of the operations one after the other; `unfuse` gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tilewright.dialects.fused import SO_FAR, EpilogueStepAttr, FusedOp
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import SYMBOL_PREFIX
from tilewright.dialects.locations import copy_location
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    ArrayAttr,
    Attribute,
    Block,
    DictionaryAttr,
    IntAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    func,
)
from tilewright.reference.ops_npu_kernel import contraction_call, symbol_call

# Whether a kernel that already has these steps takes one more.
Fuses = Callable[[KernelCall, list[KernelCall], KernelCall], bool]
KERNELS = (
    *("matmul", "conv2d", "gemma_attention", "rms_norm", "layer_norm", "softmax", "rope"),
    *("silu_gate", "pool_sum", "reduction_sum"),
)
STEPS = ("rescale", "rescale_fixed", "quantise", "dequantise", "table", "encoded_add")


def usual(kernel: KernelCall, steps: list[KernelCall], step: KernelCall) -> bool:
    """Everything element-wise, after products, attention and operations on rows."""
    family = step.family
    return kernel.family.name in KERNELS and (family.kind == "elementwise" or family.name in STEPS)


def call_of(op: Operation) -> KernelCall | None:
    """A kernel call as its family sees it; None for other operations."""
    if isinstance(op, MatmulOp):
        return contraction_call(op)
    if isinstance(op, UKernelGenericOp):
        return symbol_call(op)
    return op.call() if isinstance(op, FusedOp) else None


@dataclass
class _Growing:
    """A kernel while its epilogue grows."""

    kernel: Operation
    call: KernelCall
    last: Operation
    steps: list[EpilogueStepAttr] = field(default_factory=list)
    calls: list[KernelCall] = field(default_factory=list)
    extras: list[SSAValue] = field(default_factory=list)
    absorbed: list[Operation] = field(default_factory=list)


def fuse_epilogues(function: func.FuncOp, fuses: Fuses = usual) -> int:
    """Fuse within a function; how many steps became parts of kernels."""
    block = function.body.block
    taken: set[Operation] = set()
    count = 0
    # From the end: of two kernels whose results are added, the later one takes the addition.
    for op in reversed(list(block.ops)):
        call = call_of(op)
        if call is None or op in taken or isinstance(op, FusedOp):
            continue
        found = _grow(_Growing(op, call, op), block, taken, fuses)
        if found.steps:
            _replace(found, block)
            taken.update((op, *found.absorbed))
            count += len(found.steps)
    return count


def _grow(found: _Growing, block: Block, taken: set[Operation], fuses: Fuses) -> _Growing:
    while True:
        value = found.last.results[0]
        if value.uses.get_length() != 1:
            return found
        use = next(iter(value.uses))
        step = use.operation
        if step.parent is not block or step in taken or not isinstance(step, UKernelGenericOp):
            return found
        call = symbol_call(step)
        if not _joins(step, call, use.index, value) or not fuses(found.call, found.calls, call):
            return found
        arguments = []
        for index, operand in enumerate(step.operands):
            if index == use.index:
                arguments.append(IntAttr(SO_FAR))
            else:
                arguments.append(IntAttr(len(found.extras)))
                found.extras.append(operand)
        kind = step.result.type
        assert isinstance(kind, TensorType)
        options = {k: v for k, v in step.attributes.items() if k != "tw.layer"}
        attribute = EpilogueStepAttr(
            StringAttr(call.symbol), ArrayAttr(arguments), DictionaryAttr(options), kind
        )
        found.steps.append(attribute)
        found.calls.append(call)
        found.absorbed.append(step)
        found.last = step


def _joins(step: UKernelGenericOp, call: KernelCall, index: int, value: SSAValue) -> bool:
    """Whether a step keeps the shape of a value and reads it element by element."""
    kind, result = value.type, step.result.type
    assert isinstance(kind, TensorType) and isinstance(result, TensorType)
    if tuple(kind.get_shape()) != tuple(result.get_shape()):
        return False
    if call.family.kind != "elementwise" and call.family.name not in STEPS:
        return False
    if "operand_maps" not in call.attributes:
        return True
    read = call.operand_maps()[index].results
    return [e.position for e in read if isinstance(e, AffineDimExpr)] == list(range(len(read)))


def _replace(found: _Growing, block: Block) -> None:
    kernel = found.kernel
    attributes: dict[str, Attribute] = dict(kernel.attributes)
    if isinstance(kernel, MatmulOp):
        attributes.update({k: v for k, v in kernel.properties.items() if k.startswith("transpose")})
    kind = kernel.results[0].type
    assert isinstance(kind, TensorType)
    made = FusedOp(
        found.call.symbol, list(kernel.operands), kind, found.steps, found.extras, attributes
    )
    copy_location(kernel, made)
    made.result.name_hint = found.last.results[0].name_hint
    block.insert_op_before(made, found.last)
    found.last.results[0].replace_all_uses_with(made.result)
    for op in (*reversed(found.absorbed), kernel):
        op.detach()
        op.erase()


def unfuse(function: func.FuncOp) -> None:
    """Every fused kernel as the operations it stands for."""
    for op in list(function.walk()):
        if isinstance(op, FusedOp):
            _expand(op)


def _expand(op: FusedOp) -> None:
    block = op.parent
    assert block is not None
    layer = {k: v for k, v in op.attributes.items() if k == "tw.layer"}
    made: Operation = _plain(op)
    parts = [made]
    for step in op.steps():
        operands = [parts[-1].results[0] if v is None else v for v in step.operands]
        options = {**layer, **step.call.attributes}
        parts.append(UKernelGenericOp(step.call.symbol, operands, step.call.result_type, options))
    for part in parts:
        copy_location(op, part)
        block.insert_op_before(part, op)
    parts[-1].results[0].name_hint = op.result.name_hint
    op.result.replace_all_uses_with(parts[-1].results[0])
    op.detach()
    op.erase()


def _plain(op: FusedOp) -> Operation:
    """The kernel without its epilogue."""
    attributes = dict(op.attributes)
    if op.symbol.data == f"{SYMBOL_PREFIX}matmul":
        left = attributes.pop("transpose_lhs", None) is not None
        right = attributes.pop("transpose_rhs", None) is not None
        init = op.inputs[2] if len(op.inputs) > 2 else None
        return MatmulOp(op.inputs[0], op.inputs[1], op.accumulator, init, left, right, attributes)
    return UKernelGenericOp(op.symbol.data, list(op.inputs), op.accumulator, attributes)


def fuse_all(functions: Iterable[func.FuncOp], fuses: Fuses = usual) -> int:
    """Fuse within each of several functions."""
    return sum(fuse_epilogues(function, fuses) for function in functions)
