"""`npu_schedule`: launches on tiles, chains with machine state, buffers and transfers.

A function call has one matmul accumulator (one per `slot`) and one attention state, as the machine
does. `first` starts the state, `mid` and `last` update it, `last` returns the result and ends it; results of `first` and
`mid` are undefined. The accumulator holds the exact sum (float64), so a chain over K gives the same
bits as the whole product.

Transfers land when they are waited for: a buffer, or a stored tensor, that is read before its wait
holds undefined values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.reference import attention, machine_kernels
from tilewright.reference.dtypes import BF16, Array, element_type
from tilewright.reference.families import Call
from tilewright.reference.families_products import (
    attention_operands,
    block_scores,
    matrix_product,
)
from tilewright.reference.faults import fault
from tilewright.reference.ops_npu_kernel import (
    bind,
    contraction_call,
    evaluate_call,
    finish,
    symbol_call,
)
from tilewright.reference.ops_tensor import undefined
from tilewright.reference.program import (
    Builder,
    Evaluate,
    Slots,
    Step,
    control,
    element_of,
    operation,
    tensor_shape,
)


def evaluate_launch(op: Operation, kernel: KernelCall, builder: Builder) -> Evaluate:
    """A launch without state: as the machine rounds it if one was asked for, else its meaning."""
    evaluate = evaluate_call(op, kernel)
    if builder.semantics.machine is None:
        return evaluate
    make = bind(op, kernel)

    def on_machine(*values: Any) -> Array:
        call = make(*values)
        found = machine_kernels.tile_result(call)
        return evaluate(*values) if found is None else finish(call, found)

    return on_machine


@operation("npu_schedule.matmul_tile")
def matmul_tile(op: Operation, builder: Builder) -> Evaluate:
    return evaluate_launch(op, contraction_call(op), builder)


@operation("npu_schedule.softmax_fragment")
def softmax_fragment(op: Operation, builder: Builder) -> Evaluate:
    types = [v.type for v in op.operands]
    kernel = kernel_call("npu_uk_softmax", types, op.properties, op.results[0].type)
    assert kernel is not None
    return evaluate_launch(op, kernel, builder)


@control("npu_schedule.ukernel_launch")
def launch(op: Operation, builder: Builder) -> Step:
    kernel = symbol_call(op)
    if kernel.family.state is None:
        return builder.evaluation_step(op, evaluate_launch(op, kernel, builder))
    part = kernel.family.name.rsplit("_", 1)[1]
    slot = kernel.integer("slot") or 0
    state = builder.hidden_slot(f"{kernel.family.state}.{slot}" if slot else kernel.family.state)
    operands = [builder.slot(v) for v in op.operands]
    target = builder.slot(op.results[0])
    make = bind(op, kernel)
    matmul = kernel.family.kind == "matmul"
    advance = _advance_accumulator if matmul else _advance_attention
    if builder.semantics.machine is not None:
        advance = _advance_product_on_machine if matmul else _advance_attention_on_machine

    def step(slots: Slots) -> None:
        if part == "first":
            slots[state] = None
        elif slots[state] is None:
            raise fault(
                op,
                "TW1505",
                f"{kernel.symbol} continues a chain that no first launch has started",
            )
        call = make(*[slots[i] for i in operands])
        slots[state] = advance(call, kernel, slots[state])
        if part != "last":
            slots[target] = undefined(call.shape, call.target)
            return
        held = slots[state]
        result = held if matmul else held.result()
        if result.dtype == np.uint16:
            result = machine_kernels.working(result)
        slots[target] = finish(call, result)
        slots[state] = None

    return step


def _advance_accumulator(call: Call, kernel: KernelCall, held: Array | None) -> Array:
    product = matrix_product(call)
    return product if held is None else held + product


def _advance_attention(
    call: Call, kernel: KernelCall, held: attention.RunningState | None
) -> attention.RunningState:
    q, k, v, mask = attention_operands(call)
    start = (kernel.integer("query_start") or 0, kernel.integer("key_start") or 0)
    return attention.update(held, block_scores(call, q, k, mask, start, 0), v)


def _advance_product_on_machine(call: Call, kernel: KernelCall, held: Array | None) -> Array:
    """As `_advance_accumulator`, with the bf16 accumulator of the machine where its kernel fits."""
    if not machine_kernels.product_fits(call):
        return _advance_accumulator(call, kernel, held)
    if held is None and "acc" in call.values:
        held = machine_kernels.bits(call.values["acc"], BF16)
    return machine_kernels.tile_product(call, held)


def _advance_attention_on_machine(call: Call, kernel: KernelCall, held: Any) -> Any:
    if not machine_kernels.attention_fits(call):
        return _advance_attention(call, kernel, held)
    return machine_kernels.attention_step(call, held)


# --------------------------------------------------------------------------- buffers and transfers


@dataclass
class Buffer:
    """An on-chip buffer; `contents` is None once it is freed."""

    contents: Array | None


@dataclass
class Transfer:
    """A transfer in flight: where the data will land, and the data."""

    target: Buffer | Array
    data: Array


@operation("npu_schedule.alloc")
def alloc(op: Operation, builder: Builder) -> Evaluate:
    tile = op.results[0].type.tile  # pyright: ignore
    shape, element = tuple(tile.get_shape()), element_type(tile)
    return lambda: Buffer(undefined(shape, element))


def _contents(op: Operation, buffer: Buffer) -> Array:
    if buffer.contents is None:
        raise fault(op, "TW1505", "a buffer is used after it was freed")
    return buffer.contents


@operation("npu_schedule.free")
def free(op: Operation, builder: Builder) -> Evaluate:
    def evaluate(buffer: Buffer) -> tuple[()]:
        _contents(op, buffer)
        buffer.contents = None
        return ()

    return evaluate


@operation("npu_schedule.read")
def read(op: Operation, builder: Builder) -> Evaluate:
    return lambda buffer: np.array(_contents(op, buffer))


@operation("npu_schedule.write")
def write(op: Operation, builder: Builder) -> Evaluate:
    def evaluate(tile: Array, buffer: Buffer) -> tuple[()]:
        _contents(op, buffer)
        buffer.contents = np.array(tile)
        return ()

    return evaluate


@operation("npu_schedule.dma_load")
def dma_load(op: Operation, builder: Builder) -> Evaluate:
    def evaluate(source: Array, buffer: Buffer) -> Transfer:
        _contents(op, buffer)
        buffer.contents = undefined(source.shape, element_of(op.operands[0]))
        return Transfer(buffer, source)

    return evaluate


@operation("npu_schedule.dma_store")
def dma_store(op: Operation, builder: Builder) -> Evaluate:
    shape, element = tensor_shape(op.results[0]), element_of(op.results[0])

    def evaluate(buffer: Buffer) -> tuple[Array, Transfer]:
        landing = undefined(shape, element)
        return landing, Transfer(landing, np.array(_contents(op, buffer)))

    return evaluate


@operation("npu_schedule.wait")
def wait(op: Operation, builder: Builder) -> Evaluate:
    def evaluate(transfer: Transfer) -> tuple[()]:
        if isinstance(transfer.target, Buffer):
            _contents(op, transfer.target)
            transfer.target.contents = transfer.data
        else:
            transfer.target[...] = transfer.data
        return ()

    return evaluate
