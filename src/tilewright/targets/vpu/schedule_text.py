"""A schedule as text: buffers, copies, launches and waits of `npu_schedule`, and back.

Operations stand in the order of their planned starts. Read one after the other they are a legal
run: a wait holds back what follows it, a buffer is free before its bytes are given to another.
The queues, which is what the machine goes by, are attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.dialects.npu_schedule import (
    AllocOp,
    BufferType,
    CopyOp,
    FreeOp,
    LaunchOp,
    TokenType,
    ViewOp,
    WaitOp,
)
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Block,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    func,
    i8,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.scheduling.plan import TASK
from tilewright.targets.vpu.scheduling.schedule import Schedule
from tilewright.targets.vpu.task_list import DDR, Range
from tilewright.targets.vpu.tile_graph import DMA

_DRAM = "dram"  # what the dialect calls DDR


@dataclass(slots=True)
class TextTask:
    """A transfer or launch of a text: what a task list says of it, waits as names."""

    name: str
    kind: str
    queues: tuple[str, ...]
    cycles: int
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    waits: tuple[str, ...] = ()


def tasks_of(made: Schedule) -> list[TextTask]:
    """The entries of a schedule, as its text has to say them."""
    standing: dict[int, list[str]] = {}
    for queue, entries in made.draft.queues.items():
        for entry in entries:
            standing.setdefault(entry, []).append(queue)
    labels = made.draft.labels
    return [
        TextTask(
            labels[entry],
            item.kind,
            tuple(standing[entry]),
            item.cycles,
            item.reads,
            item.writes,
            tuple(sorted(labels[other] for other in made.assignment.edges[entry])),
        )
        for entry, item in enumerate(made.draft.items)
    ]


def schedule_module(made: Schedule) -> ModuleOp:
    """A function with all operations of a schedule."""
    return _Writer(made).run()


@dataclass(slots=True)
class _Writer:
    made: Schedule
    block: Block = field(default_factory=Block)
    tokens: dict[int, SSAValue] = field(default_factory=dict)
    resident: dict[int, tuple[int, SSAValue]] = field(default_factory=dict)  # root: address, buffer
    outside: dict[tuple[int, int], SSAValue] = field(default_factory=dict)  # DDR: first, end

    def run(self) -> ModuleOp:
        for name, (address, size) in self.made.tasks.ddr.items():
            self.outside[address, address + size] = self._alloc(name, _DRAM, address, size)
        last = self._last_uses()
        entries = tasks_of(self.made)
        for entry, (task, step) in enumerate(zip(entries, self.made.draft.steps, strict=True)):
            for other in sorted(self.made.assignment.edges[entry]):
                self.block.add_op(WaitOp(operands=[self.tokens[other]]))
            for root, address in step.addresses.items():
                self._place(root, address)
            self._emit(entry, task)
            for root in step.addresses:
                if last[root, self.resident[root][0], entry]:
                    self.block.add_op(FreeOp(operands=[self.resident.pop(root)[1]]))
        self.block.add_op(func.ReturnOp())
        types = FunctionType.from_lists([], [])
        return ModuleOp([func.FuncOp("schedule", types, Region(self.block))])

    def _last_uses(self) -> dict[tuple[int, int, int], bool]:
        """Whether an entry is the last one of a residence: the next use lies elsewhere, or nowhere."""
        following: dict[int, int] = {}
        found: dict[tuple[int, int, int], bool] = {}
        steps = self.made.draft.steps
        for entry in range(len(steps) - 1, -1, -1):
            for root, address in steps[entry].addresses.items():
                again = steps[entry].kind != "reload" and self._reloads(following.get(root), root)
                found[root, address, entry] = root not in following or again
                following[root] = entry
        return found

    def _reloads(self, entry: int | None, root: int) -> bool:
        if entry is None:
            return False
        step = self.made.draft.steps[entry]
        return step.kind == "reload" and step.index == root

    def _alloc(self, name: str, space: str, address: int, size: int) -> SSAValue:
        kind = BufferType(TensorType(i8, [size]), StringAttr(space))
        op = AllocOp(
            result_types=[kind],
            attributes={"id": StringAttr(name), "address": IntegerAttr(address, i64)},
        )
        self.block.add_op(op)
        return op.buffer

    def _place(self, root: int, address: int) -> None:
        if root not in self.resident:
            buffer = self.made.problem.graph.buffers[root]
            space = self.made.draft.machine.space(buffer.tile)
            made = self._alloc(buffer.id, space, address, buffer.bytes)
            self.resident[root] = (address, made)

    def _view(self, entry: int, item: Range, reading: bool) -> SSAValue:
        base, buffer, size = self._home(entry, item, reading)
        offset = item.address - base
        if offset == 0 and item.count == 1 and item.bytes == size:
            return buffer
        shape = [item.bytes] if item.count == 1 else [item.count, item.bytes]
        space = _DRAM if item.space == DDR else item.space
        op = ViewOp(
            operands=[buffer],
            result_types=[BufferType(TensorType(i8, shape), StringAttr(space))],
            properties={
                "offset": IntegerAttr(offset, i64),
                "stride": IntegerAttr(item.stride, i64),
            },
        )
        self.block.add_op(op)
        return op.result

    def _home(self, entry: int, item: Range, reading: bool) -> tuple[int, SSAValue, int]:
        """The buffer that holds a range: its address, itself, its size."""
        if item.space == DDR:
            for (first, end), buffer in self.outside.items():
                if first <= item.address and item.end <= end:
                    return first, buffer, end - first
            buffer = self._alloc(
                f"ddr+{item.address}", _DRAM, item.address, item.end - item.address
            )
            self.outside[item.address, item.end] = buffer
            return item.address, buffer, item.end - item.address
        step, problem = self.made.draft.steps[entry], self.made.problem
        roots = tuple(step.addresses)
        if step.kind == TASK:
            roots = (problem.read_roots if reading else problem.write_roots)[step.index]
        for root in roots:
            address, buffer = self.resident[root]
            size = problem.sizes[root]
            space = self.made.draft.machine.space(problem.graph.buffers[root].tile)
            if space == item.space and address <= item.address and item.end <= address + size:
                return address, buffer, size
        raise AssertionError(f"{item} lies in no buffer")

    def _emit(self, entry: int, task: TextTask) -> None:
        reads = [self._view(entry, item, True) for item in task.reads]
        writes = [self._view(entry, item, False) for item in task.writes]
        attributes = {
            "id": StringAttr(task.name),
            "kind": StringAttr(task.kind),
            "queues": ArrayAttr([StringAttr(queue) for queue in task.queues]),
            "cycles": IntegerAttr(task.cycles, i64),
        }
        operands, results = [reads, writes], [TokenType()]
        if self.made.draft.items[entry].engine == DMA:
            op: Operation = CopyOp(operands=operands, result_types=results, attributes=attributes)
        else:
            step = self.made.draft.steps[entry]
            work = self.made.problem.tasks[step.index].operation
            symbol = StringAttr(work.name if work is not None else task.kind)
            op = LaunchOp(
                operands=operands,
                result_types=results,
                properties={"symbol": symbol},
                attributes=attributes,
            )
        self.block.add_op(op)
        self.tokens[entry] = op.results[0]


# --- Reading -------------------------------------------------------------------------------------


def read_schedule(module: ModuleOp, machine: Machine) -> list[TextTask]:
    """The tasks of a text in order; errors where buffers overlap or are used when they are gone."""
    return _Reader(machine).run(module)


@dataclass(slots=True)
class _Reader:
    machine: Machine
    live: dict[SSAValue, Range] = field(default_factory=dict)
    views: dict[SSAValue, tuple[SSAValue, Range]] = field(default_factory=dict)
    names: dict[SSAValue, str] = field(default_factory=dict)  # of tokens
    waits: list[str] = field(default_factory=list)
    leaving: dict[SSAValue, Range] = field(default_factory=dict)
    tasks: list[TextTask] = field(default_factory=list)

    def run(self, module: ModuleOp) -> list[TextTask]:
        for op in module.walk():
            if isinstance(op, AllocOp):
                self._alloc(op)
            elif isinstance(op, ViewOp):
                base = self._range(op.buffer)
                shape = op.result.type.tile.get_shape()  # type: ignore[attr-defined]
                count, size = (1, shape[0]) if len(shape) == 1 else shape
                place = base.address + op.offset.value.data
                stride = op.stride.value.data
                self.views[op.result] = (op.buffer, Range(base.space, place, size, count, stride))
            elif isinstance(op, FreeOp):
                self._range(op.buffer)
                del self.live[op.buffer]
            elif isinstance(op, WaitOp):
                self.waits.append(self.names[op.token])
            elif isinstance(op, CopyOp):
                self._task(op, op.sources, op.targets)
            elif isinstance(op, LaunchOp):
                self._task(op, op.inputs, op.outputs)
        return self.tasks

    def _alloc(self, op: AllocOp) -> None:
        kind = op.buffer.type
        assert isinstance(kind, BufferType)
        space = DDR if kind.space.data == _DRAM else kind.space.data
        address, size = _number(op, "address"), kind.tile.get_shape()[0]
        capacity = None if space == DDR else self.machine.cmx_bytes
        if capacity is not None and address + size > capacity:
            raise _bad(op, f"ends at byte {address + size} of {capacity}")
        self.live[op.buffer] = Range(space, address, size)

    def _range(self, value: SSAValue) -> Range:
        if value in self.views:
            buffer, part = self.views[value]
            self._range(buffer)
            return part
        if value not in self.live:
            raise TilewrightError("TW7029", "a buffer is used after it was freed")
        return self.live[value]

    def _task(self, op: Operation, reads, writes) -> None:
        self._check_live(op, reads, writes)
        name, queues = _text(op, "id"), op.attributes.get("queues")
        if not isinstance(queues, ArrayAttr) or not all(isinstance(q, StringAttr) for q in queues):
            raise _bad(op, "needs a list of texts 'queues'")
        self.tasks.append(
            TextTask(
                name,
                _text(op, "kind"),
                tuple(queue.data for queue in queues),  # type: ignore[attr-defined]
                _number(op, "cycles"),
                tuple(self._range(value) for value in reads),
                tuple(self._range(value) for value in writes),
                tuple(sorted(self.waits)),
            )
        )
        self.waits.clear()
        self.names[op.results[0]] = name

    def _check_live(self, op: Operation, reads, writes) -> None:
        """Buffers that are alive together lie apart, but for an output in its input's place."""
        own = {self.views[v][0] if v in self.views else v for v in writes}
        inputs = {self.views[v][0] if v in self.views else v for v in reads}
        for value in own:
            place = self._range(value)
            for other, taken in self.live.items():
                apart = taken.end <= place.address or place.end <= taken.address
                if other is value or taken.space != place.space or apart or other in inputs:
                    continue
                raise _bad(op, "writes bytes of a buffer that is still alive")


def _bad(op: Operation, what: str) -> TilewrightError:
    return TilewrightError("TW7029", f"{_text(op, 'id')}: {what}")


def _text(op: Operation, name: str) -> str:
    value = op.attributes.get(name)
    if not isinstance(value, StringAttr):
        raise TilewrightError("TW7029", f"{op.name} needs a text {name!r}")
    return value.data


def _number(op: Operation, name: str) -> int:
    value = op.attributes.get(name)
    if not isinstance(value, IntegerAttr):
        raise TilewrightError("TW7029", f"{op.name} needs a number {name!r}")
    return value.value.data
