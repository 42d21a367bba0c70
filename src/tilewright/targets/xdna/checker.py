"""Is a design legal? Every limit of the array, and every rule of FIFOs and tasks, by name.

The checker starts from the design and its lowering and recomputes what they should be; it shares
nothing with the mapper that made them.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.targets.xdna.check import Check
from tilewright.targets.xdna.deadlock import deadlock as deadlocks
from tilewright.targets.xdna.descriptors import legalise_one
from tilewright.targets.xdna.design import ELEMENT_BYTES, Design, Replay, Tile, Transfer
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.lowering import Lowering, lower
from tilewright.targets.xdna.lowering_checks import (
    consistency,
    declared_memory,
    descriptor_walks,
    descriptor_words,
    memory,
    resources,
)
from tilewright.targets.xdna.problem import Gemm
from tilewright.targets.xdna.programs import CoreTrace, trace_core
from tilewright.targets.xdna.routing import edge_streams
from tilewright.targets.xdna.structure import structure_problems
from tilewright.targets.xdna.tokens import check_tokens
from tilewright.targets.xdna.values import dram_counts

__all__ = ["Check", "check_design", "require"]


def check_design(
    design: Design, lowering: Lowering | None = None, deadlock: bool = True
) -> list[Check]:
    """All checks; a design that is not even well formed gets the check `structure` alone."""
    problems = structure_problems(design)
    if problems:
        return [Check("structure", len(problems), 0, False, "; ".join(problems[:4]))]
    checks = [Check("structure", 0, 0, True)]
    if lowering is None:
        try:
            lowering = lower(design)
        except TilewrightError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return [*checks, Check("descriptor_fields", 1, 0, False, error.message + hint)]
    checks += resources(design, lowering)
    checks.append(consistency(design, lowering))
    checks.append(descriptor_words(design, lowering))
    checks.append(descriptor_walks(design, lowering))
    checks += memory(design, lowering)
    if design.gemm is not None:
        checks.append(declared_memory(design, lowering))
    checks.append(_transfers(design))
    checks += _routing(design)
    checks += _programs(design)
    try:
        traces = {core.tile: trace_core(design, core) for core in design.cores}
    except TilewrightError as error:
        return [*checks, Check("core_programs", 1, 0, False, error.message)]
    checks.append(Check("core_programs", 0, 0, True))
    checks.append(_balance(design, traces))
    checks += _tokens(design, traces)
    checks.append(_coverage(design))
    if deadlock and all(check.ok for check in checks if check.name != "tokens"):
        checks.append(deadlocks(design))
    return checks


def require(checks: list[Check]) -> None:
    """Raise what is wrong, all of it."""
    errors = [
        TilewrightError(
            "TW8046",
            f"check {check.name} failed: {check.detail or f'{check.used} of {check.limit}'}",
        )
        for check in checks
        if not check.ok
    ]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise TilewrightErrors(errors)


def _transfers(design: Design) -> Check:
    """Each shim transfer is one legal descriptor inside its buffer."""
    problems: list[str] = []
    seen: set[tuple[object, ...]] = set()
    shim = design.device.tile["shim"]
    for step in design.runtime:
        if not isinstance(step, Transfer):
            continue
        fifo, buffer = design.fifo(step.fifo), design.buffer_by_name[step.buffer]
        pattern = step.pattern
        if pattern.lowest < 0 or pattern.highest >= buffer.count:
            problems.append(f"a transfer of @{step.fifo} leaves buffer {step.buffer}: {pattern}")
        if buffer.element != fifo.object.element:
            problems.append(
                f"@{step.fifo} moves {fifo.object.element}, {step.buffer} is {buffer.element}"
            )
        key = (fifo.object.element_bytes, step.sizes, step.strides, step.offset % 4)
        if key not in seen:
            seen.add(key)
            try:
                legalise_one(pattern, fifo.object.element_bytes, shim, iteration=True)
            except TilewrightError as error:
                hint = f" ({error.hint})" if error.hint else ""
                problems.append(f"@{step.fifo}: {error.message}{hint}")
            if step.sizes[0] > design.device.max_repeat:
                problems.append(f"@{step.fifo} repeats {step.sizes[0]} times")
        if not 0 <= step.descriptor < shim.descriptors:
            problems.append(f"@{step.fifo} uses descriptor {step.descriptor}")
    return Check("shim_transfers", len(problems), 0, not problems, "; ".join(problems[:3]))


def _routing(design: Design) -> list[Check]:
    """Streams over each edge of the switches against the ports there."""
    worst = Check("switch_edge_streams", 0, 1, True)
    for (tile, side), streams in edge_streams(design).items():
        ports = design.device.kind(tile.row).ports.get(side, (0, 0))[0]
        used = len(streams)
        if used / max(1, ports) > worst.used / max(1, worst.limit) or used > ports:
            detail = f"{used} streams leave {tile} to the {side}" if used > ports else ""
            worst = Check("switch_edge_streams", used, ports, used <= ports, detail)
            if not worst.ok:
                break
    return [worst]


def _programs(design: Design) -> list[Check]:
    """Bundles of the kernels against program memory."""
    room = design.device.tile["core"].program_bytes
    bundles = sum(
        kernel_time(kernel, design.device).bundles
        for kernel in design.kernels
        if kernel.kind == "multiply"
    )
    used = bundles * design.device.core.bundle_bytes
    return [Check("program_bytes", used, room, used <= room)] if design.kernels else []


# -- flow -------------------------------------------------------------------------------------


def _balance(design: Design, traces: dict[Tile, CoreTrace]) -> Check:
    """What enters each FIFO leaves it: whole objects, as many as the cores and drains take.

    A design that does not say what it computes may leave objects behind; whether they fit their
    slots is for the deadlock check.
    """
    problems = []
    left_over = []
    streams: dict[str, int] = {}

    def stream(name: str) -> int:
        """Elements that leave the producer of a FIFO."""
        if name in streams:
            return streams[name]
        streams[name] = 0  # a cycle ends here; the deadlock check names it
        fifo = design.fifo(name)
        link = design.link_out_of.get(name)
        if fifo.producer.row == SHIM_ROW:
            total = sum(move.pattern.count for move in design.transfers(name))
        elif link is not None:
            objects = [stream(i) // design.fifo(i).object.count for i in link.inputs]
            if len(set(objects)) > 1:
                problems.append(f"the parts joined into @{name} differ in number: {objects}")
            segments = design.segments(link)
            each = sum(segments) if link.join else segments[link.outputs.index(name)]
            total = objects[0] * each
            if link.residency is not None:
                pushes = [s for s in design.runtime if isinstance(s, Replay) and s.fifo == name]
                if len(pushes) * link.residency.objects != objects[0]:
                    problems.append(f"@{name} gets {objects[0]} objects for {len(pushes)} panels")
                total = sum(p.sweeps for p in pushes) * link.residency.objects * each
        else:
            trace = traces.get(fifo.producer)
            total = (trace.released.get(name, 0) if trace else 0) * fifo.object.count
        streams[name] = total
        return total

    for fifo in design.fifos:
        total = stream(fifo.name)
        if total % fifo.object.count:
            problems.append(f"@{fifo.name} ends in the middle of an object")
        for tile in fifo.consumers:
            if tile.row == SHIM_ROW:
                taken = sum(move.pattern.count for move in design.transfers(fifo.name))
                if taken != total:
                    problems.append(
                        f"@{fifo.name} carries {total} elements, its drains take {taken}"
                    )
            elif tile in traces:
                taken = traces[tile].acquired.get(fifo.name, 0)
                if taken * fifo.object.count != total:
                    allowed = design.gemm is None and taken * fifo.object.count < total
                    (left_over if allowed else problems).append(
                        f"@{fifo.name} brings {total // fifo.object.count} objects, core {tile}"
                        f" takes {taken}"
                    )
    detail = "; ".join((problems or left_over)[:3])
    return Check("flow_balance", len(problems), 0, not problems, detail)


def _tokens(design: Design, traces: dict[Tile, CoreTrace]) -> list[Check]:
    report = check_tokens(design, traces)
    most = max(report.most_outstanding.values(), default=0)
    queues = [p for p in report.problems if p.startswith("the queue")]
    others = [p for p in report.problems if not p.startswith("the queue")]
    return [
        Check("task_queue", most, design.device.outstanding, not queues, "; ".join(queues[:2])),
        Check("tokens", len(others), 0, not others, "; ".join(others[:3])),
    ]


def _coverage(design: Design) -> Check:
    """Drained buffers are written once everywhere, filled ones read equally often everywhere."""
    drained = {
        step.buffer
        for step in design.runtime
        if isinstance(step, Transfer) and not design.is_fill(design.fifo(step.fifo))
    }
    try:
        counts = dram_counts(design)
    except TilewrightError as error:
        return Check("dram_coverage", 1, 0, False, error.message)
    problems = []
    used = {step.buffer for step in design.runtime if isinstance(step, Transfer)}
    for name in used:
        low, high = int(counts[name].min()), int(counts[name].max())
        if name in drained and (low, high) != (1, 1):
            problems.append(f"elements of {name} are written {low} to {high} times")
        elif design.gemm is not None and low != high and not (name == "B" and design.gemm.stagger):
            problems.append(f"elements of {name} are read {low} to {high} times")
    if design.gemm is not None and not problems:
        if design.gemm.stagger and "B" in used and not _panels_covered(design.gemm, counts["B"]):
            problems.append("panels of B cross DRAM other than once, or twice where they begin")
        expected = design.gemm.dram_bytes()
        for name in used:
            element = ELEMENT_BYTES[design.buffer_by_name[name].element]
            moved = int(counts[name].sum(dtype=np.int64)) * element
            if moved != expected[name.lower()]:
                problems.append(f"{moved} bytes of {name} cross DRAM, the policy says otherwise")
    return Check("dram_coverage", len(problems), 0, not problems, "; ".join(problems[:3]))


def _panels_covered(gemm: Gemm, counts: np.ndarray) -> bool:
    """Each panel of B once, the first panel of a column that begins in the middle twice."""
    _, K, _ = gemm.padded
    if gemm.packed or gemm.b_layout == "col":
        by_panel = counts.reshape(gemm.column_tiles, gemm.columns, -1)
    else:
        by_panel = counts.reshape(K, gemm.column_tiles, gemm.columns, gemm.n)
        by_panel = by_panel.transpose(1, 2, 0, 3).reshape(gemm.column_tiles, gemm.columns, -1)
    wanted = np.ones((gemm.column_tiles, gemm.columns, 1), counts.dtype)
    wanted[0, :, 0] += [phase > 0 for phase in gemm.phases()]
    return bool((by_panel == wanted).all())
