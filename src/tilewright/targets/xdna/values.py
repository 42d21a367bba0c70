"""A design executed in values: every descriptor walked, every FIFO filled and emptied.

FIFOs are first-in first-out and cores wait, so the result does not depend on time (a Kahn
network): whole streams are computed one FIFO after the other, each reorder as one strided copy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.core_kernels import (
    NUMPY,
    a_operand,
    accumulate,
    b_operand,
    c_object,
    cleared,
    multiplier_form,
)
from tilewright.targets.xdna.design import (
    CoreProgram,
    Design,
    Dimensions,
    Fifo,
    Kernel,
    Link,
    Replay,
    Tile,
    stream_order,
)
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.patterns import Pattern
from tilewright.targets.xdna.programs import CoreTrace, Invocation, trace_core

_CACHE_BYTES = 1 << 30
_COUNTABLE = 1 << 24  # elements of an overlapping walk that are counted one by one


def simulate_values(design: Design, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a design on host buffers (flat, in element types; bf16 as uint16); drains by buffer."""
    return _Values(design, inputs).run()


def _broken(sentence: str) -> TilewrightError:
    return TilewrightError("TW8042", sentence)


class _Values:
    def __init__(self, design: Design, inputs: Mapping[str, np.ndarray]) -> None:
        self.design = design
        self.host: dict[str, np.ndarray] = {}
        for buffer in design.buffers:
            dtype = np.dtype(NUMPY[buffer.element])
            given = inputs.get(buffer.name)
            if given is None:
                data = np.full(buffer.bytes, 0xA5, np.uint8).view(dtype)
            else:
                data = np.ascontiguousarray(given).reshape(-1)
                if data.dtype != dtype or data.size != buffer.count:
                    raise _broken(
                        f"buffer {buffer.name} takes {buffer.count} elements of {dtype},"
                        f" not {data.size} of {data.dtype}"
                    )
            self.host[buffer.name] = data
        self.cores = {core.tile: core for core in design.cores}
        self.streams: dict[str, np.ndarray] = {}
        self.pending: set[str] = set()
        self.operands: dict[tuple[str, Dimensions, str], np.ndarray] = {}
        self.made: dict[str, np.ndarray] = {}  # objects of FIFOs that cores produce

    def run(self) -> dict[str, np.ndarray]:
        for core in sorted(self.design.cores, key=lambda core: (core.tile.row, core.tile.column)):
            self._run_core(core)
        drained = {}
        for fifo in self.design.fifos:
            if any(consumer.row == SHIM_ROW for consumer in fifo.consumers):
                for name in self._drain(fifo):
                    drained[name] = self.host[name]
        return drained

    # -- streams ------------------------------------------------------------------------------

    def stream(self, fifo: Fifo) -> np.ndarray:
        """Everything that leaves the producer of a FIFO, in order."""
        if fifo.name in self.streams:
            return self.streams[fifo.name]
        if fifo.name in self.pending:
            raise _broken(f"FIFO @{fifo.name} waits for itself")
        self.pending.add(fifo.name)
        if fifo.producer.row == SHIM_ROW:
            made = self._filled(fifo)
        elif fifo.name in self.design.link_out_of:
            made = self._forwarded(fifo, self.design.link_out_of[fifo.name])
        else:
            if fifo.name not in self.made:
                core = self.cores.get(fifo.producer)
                if core is None:
                    raise _broken(f"nothing produces FIFO @{fifo.name}")
                self._run_core(core)
            objects = self.made[fifo.name]
            made = _leave(objects, stream_order(fifo.to_stream, fifo.object.count)).reshape(-1)
        self.pending.discard(fifo.name)
        self.streams[fifo.name] = made
        return made

    def _filled(self, fifo: Fifo) -> np.ndarray:
        """Walks of the host buffers that the controller pushes into a FIFO."""
        parts = []
        for move in self.design.transfers(fifo.name):
            data = self.host[move.buffer]
            if data.dtype.itemsize != fifo.object.element_bytes:
                raise _broken(f"FIFO @{fifo.name} and buffer {move.buffer} differ in type")
            parts.append(move.pattern.view(data).reshape(-1))
        dtype = NUMPY[fifo.object.element]
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    def arrived(self, fifo: Fifo, consumer: Tile) -> np.ndarray:
        """Objects (count, elements) as they lie at a consumer."""
        stream = self.stream(fifo)
        count = fifo.object.count
        if stream.size % count:
            raise _broken(
                f"FIFO @{fifo.name} ends in the middle of an object: {stream.size % count} of"
                f" {count} elements"
            )
        order = stream_order(fifo.arriving(fifo.consumers.index(consumer)), count)
        if not order.covers(count, exactly=True):
            raise _broken(f"objects of FIFO @{fifo.name} arrive with holes or overlaps")
        objects = np.empty(stream.size, stream.dtype)
        _batch(order, stream.size // count, count).view(objects)[...] = stream.reshape(
            -1, *order.sizes
        )
        return objects.reshape(-1, count)

    def _memory_objects(self, link: Link) -> np.ndarray:
        """Objects of a memory tile, in order."""
        design = self.design
        if not link.join:
            fifo = design.fifo(link.inputs[0])
            return self.arrived(fifo, fifo.consumers[0])
        whole = design.memory_fifo(link).object.count
        parts = [self.arrived(design.fifo(n), design.fifo(n).consumers[0]) for n in link.inputs]
        if len({len(part) for part in parts}) != 1:
            raise _broken(f"the parts joined into @{link.outputs[0]} differ in number")
        joined = np.empty((len(parts[0]), whole), parts[0].dtype)
        for part, offset, count in zip(parts, link.offsets, design.segments(link), strict=True):
            if part.shape[1] != count:
                raise _broken(
                    f"a part of @{link.outputs[0]} has {part.shape[1]} elements of {count}"
                )
            joined[:, offset : offset + count] = part
        return joined

    def _forwarded(self, fifo: Fifo, link: Link) -> np.ndarray:
        """What a memory tile sends: its objects, or a part of each, reordered."""
        design = self.design
        objects = self._memory_objects(link)
        segments = design.segments(link)
        offsets = link.offsets if len(segments) > 1 else (0,)
        if link.join:
            sent = [
                _leave(objects, stream_order(fifo.to_stream, count).moved(offset))
                for offset, count in zip(offsets, segments, strict=True)
            ]
            return np.concatenate(sent, axis=1).reshape(-1)
        i = link.outputs.index(fifo.name)
        order = stream_order(fifo.to_stream, segments[i]).moved(offsets[i])
        sent = _leave(objects, order)
        if link.residency is None:
            return sent.reshape(-1)
        panel = link.residency.objects
        if len(sent) % panel:
            raise _broken(f"the last resident panel of @{fifo.name} is not complete")
        pushes = [s for s in design.runtime if isinstance(s, Replay) and s.fifo == fifo.name]
        if len(pushes) * panel != len(sent):
            raise _broken(
                f"{len(sent) // panel} resident panels of @{fifo.name} are sent by {len(pushes)} pushes"
            )
        panels = sent.reshape(len(pushes), -1)
        return np.concatenate(
            [np.tile(one, push.sweeps) for one, push in zip(panels, pushes, strict=True)]
        )

    # -- cores --------------------------------------------------------------------------------

    def _operand(self, kernel: Kernel, fifo: Fifo, tile: Tile, role: str) -> np.ndarray:
        """All objects of an operand in multiplier form, kept for the cores that share them."""
        key = (fifo.name, fifo.arriving(fifo.consumers.index(tile)), role + kernel.name)
        if key not in self.operands:
            objects = self.arrived(fifo, tile)
            matrices = (a_operand if role == "a" else b_operand)(kernel, objects)
            if sum(o.nbytes for o in self.operands.values()) > _CACHE_BYTES:
                self.operands.clear()
            self.operands[key] = multiplier_form(kernel, matrices, 2 if role == "a" else 1)
        return self.operands[key]

    def _run_core(self, core: CoreProgram) -> None:
        design = self.design
        produced = [f for f in design.fifos if f.producer == core.tile]
        if produced and all(f.name in self.made for f in produced):
            return
        trace = trace_core(design, core)
        self._check_supply(core, trace)
        results: dict[str, dict[int, np.ndarray]] = {f.name: {} for f in produced}
        run = _Run()
        for call in trace.invocations:
            kernel = design.kernel_by_name.get(call.kernel)
            if kernel is None:
                raise _broken(f"core {core.tile} calls @{call.kernel}, which is not declared")
            target, index = call.fifos[-1], call.objects[-1]
            if target not in results:
                raise _broken(f"core {core.tile}: @{call.kernel} writes @{target}, which it reads")
            if kernel.kind == "multiply" and run.same(call, kernel):
                run.add(call)
                continue
            self._finish(core, run, results)
            if kernel.kind == "zero":
                results[target][index] = cleared(kernel)
            elif kernel.kind == "multiply":
                run = _Run(kernel, call)
            else:
                raise _broken(f"kernel @{kernel.name} has no meaning here: {kernel.kind}")
        self._finish(core, run, results)
        for fifo in produced:
            self.made[fifo.name] = self._produced(core, fifo, results[fifo.name], trace)

    def _check_supply(self, core: CoreProgram, trace: CoreTrace) -> None:
        """A core has to get every object it waits for, and to take every object that comes."""
        for fifo in self.design.fifos:
            if core.tile not in fifo.consumers:
                continue
            arrives = self.stream(fifo).size // fifo.object.count
            if arrives != trace.acquired.get(fifo.name, 0):
                raise _broken(
                    f"core {core.tile} takes {trace.acquired.get(fifo.name, 0)} objects of FIFO"
                    f" @{fifo.name} and {arrives} arrive"
                )

    def _finish(
        self, core: CoreProgram, run: _Run, results: dict[str, dict[int, np.ndarray]]
    ) -> None:
        """Compute the calls gathered on one C."""
        if run.kernel is None:
            return
        kernel, design = run.kernel, self.design
        a = self._operand(kernel, design.fifo(run.fifos[0]), core.tile, "a")
        b = self._operand(kernel, design.fifo(run.fifos[1]), core.tile, "b")
        target = results[run.fifos[2]]
        target[run.c] = accumulate(
            kernel, target[run.c], a[run.a_slice()], b[run.b_slice()], run.last
        )
        run.kernel = None

    def _produced(
        self, core: CoreProgram, fifo: Fifo, results: dict[int, np.ndarray], trace: CoreTrace
    ) -> np.ndarray:
        count = trace.released.get(fifo.name, 0)
        kernels = [k for k in self.design.kernels if k.kind == "multiply"]
        objects = np.empty((count, fifo.object.count), NUMPY[fifo.object.element])
        for index in range(count):
            if index not in results:
                raise _broken(f"core {core.tile} releases object {index} of @{fifo.name} unwritten")
            laid = c_object(kernels[0], results[index])
            if laid.dtype != objects.dtype or laid.size != objects.shape[1]:
                raise _broken(f"objects of FIFO @{fifo.name} are not what the kernel writes")
            objects[index] = laid
        return objects

    # -- drains -------------------------------------------------------------------------------

    def _drain(self, fifo: Fifo) -> list[str]:
        """Write what leaves the array into the host buffers."""
        stream = self.stream(fifo)
        start = 0
        names = []
        for move in self.design.transfers(fifo.name):
            pattern = move.pattern
            if start + pattern.count > stream.size:
                raise _broken(
                    f"a drain of FIFO @{fifo.name} waits for {pattern.count} elements,"
                    f" {stream.size - start} come"
                )
            target = self.host[move.buffer]
            pattern.view(target)[...] = stream[start : start + pattern.count].reshape(pattern.sizes)
            start += pattern.count
            names.append(move.buffer)
        if start != stream.size:
            raise _broken(f"{stream.size - start} elements of FIFO @{fifo.name} are never drained")
        return names


class _Run:
    """Calls of one multiply kernel on one C with operands one after the other."""

    def __init__(self, kernel: Kernel | None = None, call: Invocation | None = None) -> None:
        self.kernel = kernel
        self.last: list[bool] = []
        if call is not None:
            self.name, self.fifos = call.kernel, call.fifos
            self.a, self.b, self.c = call.objects
            self.last = [call.last]

    def same(self, call: Invocation, kernel: Kernel) -> bool:
        many = len(self.last)
        return (
            self.kernel is kernel
            and self.fifos == call.fifos
            and call.objects == (self.a + many, self.b + many, self.c)
        )

    def add(self, call: Invocation) -> None:
        self.last.append(call.last)

    def a_slice(self) -> slice:
        return slice(self.a, self.a + len(self.last))

    def b_slice(self) -> slice:
        return slice(self.b, self.b + len(self.last))


def _batch(order: Pattern, objects: int, stride: int) -> Pattern:
    """The same walk in each of several objects."""
    return Pattern((objects, *order.sizes), (stride, *order.strides), order.offset)


def _leave(objects: np.ndarray, order: Pattern) -> np.ndarray:
    """Objects (count, elements) in the order they are sent."""
    many, size = objects.shape
    if many == 0:
        return objects
    if order.lowest < 0 or order.highest >= size:
        raise _broken(f"the walk {order} leaves an object of {size} elements")
    flat = np.ascontiguousarray(objects).reshape(-1)
    return _batch(order, many, size).view(flat).reshape(many, -1)


def dram_counts(design: Design) -> dict[str, np.ndarray]:
    """How often each element of each host buffer is read or written."""
    counts = {buffer.name: np.zeros(buffer.count, np.int32) for buffer in design.buffers}
    for fifo in design.fifos:
        for move in design.transfers(fifo.name):
            _count(counts[move.buffer], move.pattern)
    return counts


def _count(counts: np.ndarray, pattern: Pattern) -> None:
    """Add a walk to the counts; repetitions at once, overlapping walks element by element."""
    times = 1
    loops = []
    for size, stride in zip(pattern.sizes, pattern.strides, strict=True):
        if stride == 0:
            times *= size
        else:
            loops.append((size, stride))
    if times >= 1 << 31:
        raise _broken(f"the walk {pattern} repeats {times} times")
    once = Pattern(tuple(n for n, _ in loops), tuple(s for _, s in loops), pattern.offset)
    view = once.view(counts)  # inside the buffer
    if once.injective:
        view += times
    elif once.count <= _COUNTABLE:
        np.add.at(counts, once.walk(), times)
    else:
        raise _broken(f"the walk {pattern} visits elements more than once")
