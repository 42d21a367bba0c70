"""A design as MLIR text in the `aie` and `aiex` dialects.

Two spellings of the dialects are known: "2025" (transfers as one memcpy op each) and "2026"
(transfers as configured and started tasks). What the dialects have no words for (the meaning of a
kernel, the problem behind the design, a resident panel) stands in attributes named `tilewright.*`,
which other tools ignore.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import (
    Acquire,
    Await,
    Barrier,
    Call,
    CoreProgram,
    Design,
    Dimensions,
    Fifo,
    Kernel,
    Link,
    Loop,
    ObjectType,
    Release,
    Replay,
    SetParameter,
    Start,
    Statement,
    Step,
    Tile,
    Transfer,
)
from tilewright.targets.xdna.lowering import lower

SYNTAXES = ("2025", "2026")
BARRIER_LOCK = 15


def emit_mlir(design: Design, syntax: str = "2026") -> str:
    """The text of a design; the same design always gives the same text."""
    if syntax not in SYNTAXES:
        raise TilewrightError(
            "TW8070", f"there is no syntax {syntax!r}", hint=f"syntaxes: {', '.join(SYNTAXES)}"
        )
    return "\n".join(_Emitter(design, syntax).lines()) + "\n"


def record_text(record: Any) -> str:
    """A flat dataclass as `name=value;...`; tuples as numbers with `x` between them."""
    parts = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, tuple):
            value = "x".join(str(v) for v in value)
        parts.append(f"{field.name}={value}")
    return ";".join(parts)


def tile_name(tile: Tile) -> str:
    return f"%tile_{tile.column}_{tile.row}"


def memref(kind: ObjectType) -> str:
    return f"memref<{'x'.join(str(n) for n in kind.shape)}x{kind.element}>"


def _dimensions(dimensions: Dimensions) -> str:
    return "[" + ", ".join(f"<size = {n}, stride = {s}>" for n, s in dimensions) + "]"


class _Emitter:
    def __init__(self, design: Design, syntax: str) -> None:
        self.design = design
        self.new = syntax == "2026"

    def lines(self) -> Iterator[str]:
        design = self.design
        attributes = f'tilewright.syntax = "{"2026" if self.new else "2025"}"'
        if design.gemm is not None:
            attributes += f', tilewright.gemm = "{record_text(design.gemm)}"'
        array = design.device.dialect_name
        if design.device_name != array:  # a board: the dialects know its array only
            attributes += f', tilewright.device = "{design.device_name}"'
        yield f"module attributes {{{attributes}}} {{"
        yield f"  aie.device({array}) {{"
        for kernel in design.kernels:
            yield f"    {self._kernel(kernel)}"
        for tile in self._tiles():
            yield f"    {tile_name(tile)} = aie.tile({tile.column}, {tile.row})"
        for core in design.cores:
            if core.parameters:
                name = f"rtp_{core.tile.column}_{core.tile.row}"
                yield (
                    f"    %{name} = aie.buffer({tile_name(core.tile)})"
                    f' {{sym_name = "{name}"}} : memref<{core.parameters}xi32>'
                )
            if any(isinstance(s, Barrier) for s in core.body):
                name = f"barrier_{core.tile.column}_{core.tile.row}"
                yield (
                    f"    %{name} = aie.lock({tile_name(core.tile)}, {BARRIER_LOCK})"
                    f' {{init = 0 : i32, sym_name = "{name}"}}'
                )
        for fifo in design.fifos:
            yield f"    {self._fifo(fifo)}"
        for link in design.links:
            yield f"    {self._link(link)}"
        for core in design.cores:
            yield from (f"    {line}" for line in _CoreText(design, core, self.new).lines())
        yield from (f"    {line}" for line in self._sequence())
        yield "  }"
        yield "}"

    def _tiles(self) -> list[Tile]:
        tiles = {core.tile for core in self.design.cores}
        for fifo in self.design.fifos:
            tiles |= {fifo.producer, *fifo.consumers}
        return sorted(tiles)

    def _kernel(self, kernel: Kernel) -> str:
        operands = ", ".join(_signature(self.design, kernel))
        meaning = "" if kernel.kind == "opaque" else f'tilewright.kernel = "{record_text(kernel)}"'
        if self.new:
            meaning += (", " if meaning else "") + 'link_with = "kernels.o"'
        attributes = f" attributes {{{meaning}}}" if meaning else ""
        return f"func.func private @{kernel.name}({operands}){attributes}"

    def _fifo(self, fifo: Fifo) -> str:
        producer = tile_name(fifo.producer)
        if fifo.to_stream:
            producer += f" dimensionsToStream {_dimensions(fifo.to_stream)}"
        consumers = []
        for i, tile in enumerate(fifo.consumers):
            arriving = fifo.arriving(i)
            text = tile_name(tile)
            if arriving:
                text += f" dimensionsFromStream {_dimensions(arriving)}"
            consumers.append(text)
        return (
            f"aie.objectfifo @{fifo.name}({producer}, {{{', '.join(consumers)}}},"
            f" {fifo.depth} : i32) : !aie.objectfifo<{memref(fifo.object)}>"
        )

    def _link(self, link: Link) -> str:
        inputs = ", ".join(f"@{name}" for name in link.inputs)
        outputs = ", ".join(f"@{name}" for name in link.outputs)
        offsets = ", ".join(str(offset) for offset in link.offsets)
        if link.join:
            places = f"([{offsets}] [])"
        else:
            places = f"([] [{offsets or ('0' if self.new else '')}])"
        text = f"aie.objectfifo.link [{inputs}] -> [{outputs}]{places}"
        if link.residency is not None:
            slots = ", ".join(str(n) for n in link.residency.slots)
            room = link.residency.room
            text += (
                f" {{tilewright.slots = [{slots}], tilewright.sweeps ="
                f" {link.residency.sweeps} : i32"
                f"{f', tilewright.room = {room} : i32' if room else ''}}}"
            )
        return text

    # -- runtime sequence ---------------------------------------------------------------------

    def _sequence(self) -> Iterator[str]:
        arguments = ", ".join(
            f"%{buffer.name}: memref<{buffer.count}x{buffer.element}>"
            for buffer in self.design.buffers
        )
        dialect = "aie" if self.new else "aiex"
        yield f"{dialect}.runtime_sequence({arguments}) {{"
        self.open_tasks: dict[str, list[int]] = defaultdict(list)
        self.number = 0
        self.pushes = replay_pushes(self.design)
        for step in self.design.runtime:
            yield from (f"  {line}" for line in self._step(step))
        yield "}"

    def _step(self, step: Step) -> Iterator[str]:
        if isinstance(step, SetParameter):
            name = f"rtp_{step.tile.column}_{step.tile.row}"
            yield f"aiex.npu.rtp_write(@{name}, {step.index}, {step.value})"
        elif isinstance(step, Start):
            yield f"aiex.set_lock(%barrier_{step.tile.column}_{step.tile.row}, 1)"
        elif isinstance(step, Replay):
            yield from self._replay(step)
        elif isinstance(step, Await):
            if not self.new:
                yield f"aiex.npu.dma_wait {{symbol = @{step.fifo}}}"
                return
            if not self.open_tasks[step.fifo]:
                raise TilewrightError(
                    "TW8070", f"a token of @{step.fifo} is awaited that no task gives"
                )
            yield f"aiex.dma_await_task(%task_{self.open_tasks[step.fifo].pop(0)})"
        else:
            yield from self._transfer(step)

    def _transfer(self, step: Transfer) -> Iterator[str]:
        buffer = self.design.buffer_by_name[step.buffer]
        kind = f"memref<{buffer.count}x{buffer.element}>"
        sizes = ", ".join(str(n) for n in step.sizes)
        strides = ", ".join(str(n) for n in step.strides)
        token = "true" if step.token else "false"
        if not self.new:
            yield (
                f"aiex.npu.dma_memcpy_nd(%{step.buffer}[0, 0, 0, {step.offset}][{sizes}][{strides}])"
                f" {{id = {step.descriptor} : i64, issue_token = {token},"
                f" metadata = @{step.fifo}}} : {kind}"
            )
            return
        task = f"%task_{self.number}"
        if step.token:
            self.open_tasks[step.fifo].append(self.number)
        self.number += 1
        length = step.pattern.count // step.sizes[0]
        yield f"{task} = aiex.dma_configure_task_for @{step.fifo} {{"
        yield (
            f"  aie.dma_bd(%{step.buffer} : {kind} offset = {step.offset} len = {length}"
            f" sizes = [{sizes}] strides = [{strides}]) {{bd_id = {step.descriptor} : i32}}"
        )
        yield "  aie.end"
        yield f"}} {{issue_token = {token}, repeat_count = {step.sizes[0] - 1} : i32}}"
        yield f"aiex.dma_start_task({task})"

    def _replay(self, step: Replay) -> Iterator[str]:
        tile, channel, pushes = self.pushes[step.fifo]
        for i, (descriptor, repeat) in enumerate(pushes(step.sweeps)):
            sweeps = f", tilewright.sweeps = {step.sweeps} : i32" if i == 0 else ""
            yield (
                f"aiex.npu.push_queue({tile.column}, {tile.row}, MM2S:{channel})"
                f" {{bd_id = {descriptor} : i32, issue_token = false, repeat_count = {repeat} : i32,"
                f" tilewright.replay = @{step.fifo}{sweeps}}}"
            )


def replay_pushes(design: Design) -> dict[str, Any]:
    """For each FIFO that sends a resident panel: its tile, channel and the tasks of one panel."""
    found: dict[str, Any] = {}
    resident = [link.outputs[0] for link in design.links if link.residency is not None]
    if not resident:
        return found
    lowering = lower(design)
    for name in resident:
        end = lowering.end(name, design.fifo(name).producer, "MM2S")
        first = {role: next(u.identity for u in end.descriptors if u.role == role)
                 for role in ("first", "replay", "last")}  # fmt: skip

        def pushes(sweeps: int, first: dict[str, int] = first) -> list[tuple[int, int]]:
            middle = [(first["replay"], sweeps - 3)] if sweeps > 2 else []
            return [(first["first"], 0), *middle, (first["last"], 0)]

        found[name] = (end.tile, end.channel, pushes)
    return found


def _signature(design: Design, kernel: Kernel) -> list[str]:
    """Types of a kernel's operands, from the first call of it."""

    def find(body: tuple[Statement, ...]) -> Call | None:
        for statement in body:
            if isinstance(statement, Call) and statement.kernel == kernel.name:
                return statement
            if isinstance(statement, Loop):
                inner = find(statement.body)
                if inner is not None:
                    return inner
        return None

    for core in design.cores:
        call = find(core.body)
        if call is not None:
            types = [memref(design.fifo(name).object) for name, _ in call.operands]
            return [*types, "i32"] if call.last_step else types
    return []


class _CoreText:
    """The body of one core."""

    def __init__(self, design: Design, core: CoreProgram, new: bool) -> None:
        self.design, self.core, self.new = design, core, new
        self.number = 0
        self.held: dict[str, str] = {}

    def fresh(self) -> str:
        self.number += 1
        return f"%{self.number}"

    def lines(self) -> Iterator[str]:
        tile = self.core.tile
        yield f"%core_{tile.column}_{tile.row} = aie.core({tile_name(tile)}) {{"
        yield "  %zero = arith.constant 0 : index"
        yield "  %one = arith.constant 1 : index"
        yield from (f"  {line}" for line in self._body(self.core.body, None))
        yield "  aie.end"
        link = "" if self.new else 'link_with = "kernels.o", '
        yield f"}} {{{link}stack_size = {self.core.stack_bytes} : i32}}"

    def _body(self, body: tuple[Statement, ...], loop: tuple[str, str] | None) -> Iterator[str]:
        for statement in body:
            if isinstance(statement, Barrier):
                tile = self.core.tile
                yield f"aie.use_lock(%barrier_{tile.column}_{tile.row}, AcquireGreaterEqual, 1)"
            elif isinstance(statement, Loop):
                yield from self._loop(statement)
            elif isinstance(statement, Acquire):
                view = self.fresh()
                self.held[statement.fifo] = view
                kind = memref(self.design.fifo(statement.fifo).object)
                yield (
                    f"{view} = aie.objectfifo.acquire @{statement.fifo}({self._port(statement.fifo)},"
                    f" {statement.count}) : !aie.objectfifosubview<{kind}>"
                )
            elif isinstance(statement, Release):
                yield (
                    f"aie.objectfifo.release @{statement.fifo}({self._port(statement.fifo)},"
                    f" {statement.count})"
                )
            else:
                yield from self._call(statement, loop)

    def _port(self, fifo: str) -> str:
        return "Produce" if self.design.fifo(fifo).producer == self.core.tile else "Consume"

    def _loop(self, loop: Loop) -> Iterator[str]:
        limit = self.fresh()
        if isinstance(loop.count, int):
            yield f"{limit} = arith.constant {loop.count} : index"
        else:
            tile, at, loaded = self.core.tile, self.fresh(), self.fresh()
            yield f"{at} = arith.constant {loop.count.index} : index"
            yield (
                f"{loaded} = memref.load %rtp_{tile.column}_{tile.row}[{at}]"
                f" : memref<{self.core.parameters}xi32>"
            )
            yield f"{limit} = arith.index_cast {loaded} : i32 to index"
        index = self.fresh()
        yield f"scf.for {index} = %zero to {limit} step %one {{"
        yield from (f"  {line}" for line in self._body(loop.body, (index, limit)))
        yield "}"

    def _call(self, call: Call, loop: tuple[str, str] | None) -> Iterator[str]:
        names, types = [], []
        for fifo, position in call.operands:
            kind = memref(self.design.fifo(fifo).object)
            name = self.fresh()
            yield (
                f"{name} = aie.objectfifo.subview.access {self.held[fifo]}[{position}]"
                f" : !aie.objectfifosubview<{kind}> -> {kind}"
            )
            names.append(name)
            types.append(kind)
        if call.last_step:
            index, limit = loop if loop is not None else ("%zero", "%one")
            before, same, flag = self.fresh(), self.fresh(), self.fresh()
            yield f"{before} = arith.subi {limit}, %one : index"
            yield f"{same} = arith.cmpi eq, {index}, {before} : index"
            yield f"{flag} = arith.extui {same} : i1 to i32"
            names.append(flag)
            types.append("i32")
        yield f"func.call @{call.kernel}({', '.join(names)}) : ({', '.join(types)}) -> ()"
