"""npu-verify-buffers: buffers and transfers keep the rules, whoever planned them.

Error codes: TW1350 a buffer that holds nothing yet, TW1351 a buffer with a transfer under way,
TW1352 a wait for nothing, TW1353 a transfer that nobody waits for, TW1354 buffers that overlap while
both live, TW1355 a buffer used after it was freed, or never freed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilewright.dialects.locations import error_at
from tilewright.dialects.npu_schedule import (
    AllocOp,
    BufferType,
    DmaLoadOp,
    DmaStoreOp,
    FreeOp,
    ReadOp,
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
    func,
)

_WIDTH = {"f8E4M3FN": 1, "f8E5M2": 1, "bf16": 2, "f16": 2, "f32": 4}


@dataclass(frozen=True)
class VerifyBuffers(ModulePass):
    """Check that every buffer is read after the wait of its load, that no two live buffers share
    bytes, and that every transfer is waited for; nothing is changed.

    before: %k = npu_schedule.dma_load %a into %b; %t = npu_schedule.read %b
    after:  TW1351 the buffer is read while a transfer into it is under way
    """

    name = "npu-verify-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if not function.is_declaration:
                _Checker().block(function.body.block)


@dataclass
class _Checker:
    """What is known at a place of the program."""

    live: dict[SSAValue, Operation] = field(default_factory=dict)
    filled: set[SSAValue] = field(default_factory=set)
    loading: dict[SSAValue, SSAValue] = field(default_factory=dict)  # token -> buffer
    storing: dict[SSAValue, SSAValue] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        """Check a body; what it starts it has to end, since it may run any number of times."""
        before, pending = set(self.live), {*self.loading, *self.storing}
        for op in block.ops:
            self._operation(op, pending)
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
        for token in {*self.loading, *self.storing} - pending:
            raise error_at(_owner(token), "TW1353", "nothing waits for this transfer")
        for buffer in set(self.live) - before:
            raise error_at(self.live[buffer], "TW1355", "the buffer is never freed")

    def _operation(self, op: Operation, outside: set[SSAValue]) -> None:
        if isinstance(op, AllocOp):
            self._alloc(op)
        elif isinstance(op, DmaLoadOp):
            self._idle(op, op.buffer, "loaded into")
            self.filled.discard(op.buffer)
            self.loading[op.token] = op.buffer
        elif isinstance(op, WriteOp):
            self._idle(op, op.buffer, "written")
            self.filled.add(op.buffer)
        elif isinstance(op, ReadOp | DmaStoreOp):
            self._holds(op, op.buffer)
            if isinstance(op, DmaStoreOp):
                self.storing[op.token] = op.buffer
        elif isinstance(op, WaitOp):
            self._wait(op, outside)
        elif isinstance(op, FreeOp):
            self._idle(op, op.buffer, "freed")
            self.live.pop(op.buffer)
            self.filled.discard(op.buffer)

    def _alloc(self, op: AllocOp) -> None:
        span = _span(op)
        for other in self.live.values():
            assert isinstance(other, AllocOp)
            known = _span(other)
            if span and known and span[0] < known[1] and known[0] < span[1]:
                raise error_at(
                    op,
                    "TW1354",
                    f"bytes {span[0]} to {span[1]} of a buffer that lives are in {known[0]} to "
                    f"{known[1]} of another",
                )
        self.live[op.buffer] = op

    def _known(self, op: Operation, buffer: SSAValue) -> None:
        if buffer not in self.live:
            raise error_at(op, "TW1355", "the buffer is used after it was freed")

    def _idle(self, op: Operation, buffer: SSAValue, what: str) -> None:
        self._known(op, buffer)
        if buffer in self.loading.values() or buffer in self.storing.values():
            raise error_at(op, "TW1351", f"the buffer is {what} while a transfer is under way")

    def _holds(self, op: Operation, buffer: SSAValue) -> None:
        self._known(op, buffer)
        if buffer in self.loading.values():
            raise error_at(op, "TW1351", "the buffer is read while a transfer into it is under way")
        if buffer not in self.filled:
            raise error_at(op, "TW1350", "the buffer holds nothing yet")

    def _wait(self, op: WaitOp, outside: set[SSAValue]) -> None:
        if op.token in outside or op.token not in {*self.loading, *self.storing}:
            raise error_at(
                op,
                "TW1352",
                "no transfer of this body is left to wait for",
                "wait once for every transfer, in the body that starts it",
            )
        if op.token in self.loading:
            self.filled.add(self.loading.pop(op.token))
        else:
            self.storing.pop(op.token)


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def _span(op: AllocOp) -> tuple[int, int] | None:
    """The bytes of a buffer with an address."""
    address, type_ = op.attributes.get("address"), op.buffer.type
    if not isinstance(address, IntegerAttr) or not isinstance(type_, BufferType):
        return None
    start = address.value.data
    return start, start + prod(type_.tile.get_shape()) * _WIDTH.get(str(type_.tile.element_type), 4)
