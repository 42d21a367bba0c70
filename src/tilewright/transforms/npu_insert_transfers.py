"""npu-insert-transfers: tiles get buffers on chip, and transfers in and out of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilewright.dialects.locations import copy_location
from tilewright.dialects.npu_schedule import (
    AllocOp,
    BufferType,
    DmaLoadOp,
    DmaStoreOp,
    FreeOp,
    ReadOp,
    TokenType,
    WaitOp,
    WriteOp,
)
from tilewright.dialects.xdsl_api import (
    Block,
    Context,
    IntegerAttr,
    ModuleOp,
    ModulePass,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    func,
    i64,
    tensor,
)
from tilewright.planning.buffers import Buffer
from tilewright.planning.plan import plan
from tilewright.transforms.launches import call_of_launch

_BITS = {"f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32}


@dataclass(frozen=True)
class InsertTransfers(ModulePass):
    """Load every slice that a launch reads into a buffer of its own, and store every tile that is
    inserted into a tensor from one; buffers that never live together share addresses.

    before: %t = tensor.extract_slice %a[%i, 0] [32, 32]; %r = launch(%t); insert %r into %o
    after:  %b = npu_schedule.alloc {address = 0}; %k = npu_schedule.dma_load %s into %b
            npu_schedule.wait %k; %t = npu_schedule.read %b; npu_schedule.free %b
            %r = launch(%t); %c = alloc {address = 2048}; write %r into %c; dma_store %c …
    """

    name = "npu-insert-transfers"

    capacity: int = field(default=1 << 20, metadata={"meaning": "bytes of the memory on chip"})
    alignment: int = field(default=1024, metadata={"meaning": "of buffers, in bytes"})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if function.is_declaration:
                continue
            for launch in [o for o in function.walk() if call_of_launch(o) is not None]:
                for index, operand in enumerate(launch.operands):
                    if isinstance(operand.owner, tensor.ExtractSliceOp) and _has_bytes(operand):
                        launch.operands[index] = _loaded(launch, operand)
            for insert in [o for o in function.walk() if isinstance(o, tensor.InsertSliceOp)]:
                made = insert.source.owner
                launched = isinstance(made, Operation) and call_of_launch(made) is not None
                if launched and _has_bytes(insert.source):
                    insert.operands[0] = _stored(insert, insert.source)
            self._place(function)

    def _place(self, function: func.FuncOp) -> None:
        """Give every buffer the bytes of an address while it lives."""
        position = {op: k for k, op in enumerate(function.walk())}
        buffers: list[Buffer] = []
        allocs = [op for op in position if isinstance(op, AllocOp)]
        for number, alloc in enumerate(allocs):
            last = max(position[use.operation] for use in alloc.buffer.uses)
            size = _bytes(alloc.buffer.type)
            buffers.append(Buffer(str(number), size, position[alloc], last + 1))
        if not buffers:
            return
        planned = plan(buffers, self.capacity, self.alignment)
        for number, alloc in enumerate(allocs):
            alloc.attributes["address"] = IntegerAttr(planned.offsets[str(number)], i64)


def _has_bytes(tile: SSAValue) -> bool:
    """Whether a tile's elements are whole bytes, which transfers move."""
    return isinstance(tile.type, TensorType) and str(tile.type.element_type) in _BITS


def _bytes(type_: object) -> int:
    assert isinstance(type_, BufferType)
    return prod(type_.tile.get_shape()) * _BITS[str(type_.tile.element_type)] // 8


def _buffer(tile: SSAValue) -> AllocOp:
    assert isinstance(tile.type, TensorType)
    return AllocOp.create(result_types=[BufferType(tile.type, StringAttr("vmem"))])


def _loaded(launch: Operation, part: SSAValue) -> SSAValue:
    """The slice through a buffer, loaded where it is cut and read where it is used."""
    cut = part.owner
    assert isinstance(cut, Operation)
    block, using = cut.parent, launch.parent
    assert isinstance(block, Block) and isinstance(using, Block)
    alloc = _buffer(part)
    load = DmaLoadOp.create(operands=[part, alloc.buffer], result_types=[TokenType()])
    wait = WaitOp.create(operands=[load.token])
    read = ReadOp.create(operands=[alloc.buffer], result_types=[part.type])
    free = FreeOp.create(operands=[alloc.buffer])
    copy_location(launch, alloc, load, wait, read, free)
    if block is using:
        block.insert_ops_after([alloc, load], cut)
        using.insert_ops_before([wait, read, free], launch)
    else:  # cut before a loop that uses it: loaded where it is used
        using.insert_ops_before([alloc, load, wait, read, free], launch)
    return read.result


def _stored(insert: tensor.InsertSliceOp, tile: SSAValue) -> SSAValue:
    alloc = _buffer(tile)
    write = WriteOp.create(operands=[tile, alloc.buffer])
    store = DmaStoreOp.create(operands=[alloc.buffer], result_types=[tile.type, TokenType()])
    wait = WaitOp.create(operands=[store.token])
    free = FreeOp.create(operands=[alloc.buffer])
    copy_location(insert, alloc, write, store, wait, free)
    block = insert.parent
    assert isinstance(block, Block)
    block.insert_ops_before([alloc, write, store, wait, free], insert)
    return store.result
