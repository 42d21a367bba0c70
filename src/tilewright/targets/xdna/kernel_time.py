"""Cycles of the multiply kernel, from its operations on the issue slots of a core.

The kernel works on groups of 2 x 2 blocks of C: load four blocks into accumulators, run the inner
loop over k (two blocks of A, two of B, four multiplies), store the four blocks. The inner loop is
modulo scheduled. Around it, loads of C have to finish before the first multiply on each
accumulator, stores wait for the last one, and because C is read and written through one pointer,
the next group's loads of C wait for this group's stores; its loads of A and B do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.targets.xdna.design import ELEMENT_BYTES, Kernel
from tilewright.targets.xdna.device import ArrayDevice, CorePipeline, MacMode
from tilewright.targets.xdna.modulo import (
    Dependence,
    ModuloSchedule,
    Operation,
    modulo_schedule,
)

LOADS = ("ldb", "lda")  # loads of C widen, which only lda does: leave it free
REGISTER_BYTES = 64
_CONTROL_BUNDLES = 128  # acquires, releases, loops and the clearing of C: an estimate
_ITERATIONS = 6  # of a loop laid out to place the loads of C between its first loads


@dataclass(frozen=True)
class KernelTime:
    """Time of one group of blocks, and of the whole tile."""

    interval: int  # cycles per step of s
    unroll: int  # steps in one body of the inner loop
    overhead: int  # cycles of a group outside the inner loop's steps
    macs_per_cycle: float
    body: ModuloSchedule
    bundles: int  # program size estimate


def kernel_time(kernel: Kernel, device: ArrayDevice) -> KernelTime:
    """Cycles of a kernel on a device; the same for every kernel with these numbers."""
    return _kernel_time(
        device.core,
        device.mac[kernel.inputs],
        kernel.inputs,
        kernel.weights,
        kernel.output,
        kernel.b_layout,
        kernel.zero_point,
        kernel.wide_sum,
        kernel.k,
    )


@cache
def _kernel_time(
    core: CorePipeline,
    mode: MacMode,
    inputs: str,
    weights: str,
    output: str,
    b_layout: str,
    zero_point: str,
    wide_sum: bool,
    k: int,
) -> KernelTime:
    r, s, t = mode.shape
    body, unroll = _scheduled(core, mode, inputs, weights, b_layout, zero_point)
    stored = "f32" if wide_sum else output
    steps = k // s
    rounds = -(-steps // unroll)
    overhead = _overhead(core, body, r * t * ELEMENT_BYTES[stored], stored, unroll)
    group = rounds * body.interval + overhead
    return KernelTime(
        body.interval // unroll if body.interval % unroll == 0 else body.interval,
        unroll,
        overhead,
        2 * r * 2 * t * k / group,
        body,
        overhead + body.stages * body.interval + _CONTROL_BUNDLES,
    )


@cache
def _scheduled(
    core: CorePipeline, mode: MacMode, inputs: str, weights: str, b_layout: str, zero_point: str
) -> tuple[ModuloSchedule, int]:
    """The schedule of the inner loop, which is the same for every tile, and the steps it covers."""
    operations, edges, constants, unroll = inner_loop(
        core, mode, inputs, weights, b_layout, zero_point
    )
    return modulo_schedule(operations, edges, core.vector_registers - constants), unroll


def inner_loop(
    core: CorePipeline,
    mode: MacMode,
    inputs: str,
    weights: str,
    b_layout: str,
    zero_point: str = "sub",
) -> tuple[tuple[Operation, ...], tuple[Dependence, ...], int, int]:
    """Operations and dependences of one body, registers of its constants, and steps it covers."""
    r, s, t = mode.shape
    size = ELEMENT_BYTES[inputs]
    operations: list[Operation] = []
    edges: list[Dependence] = []
    unroll = 2 if weights == "ternary" else 1

    def load_block(name: str, block_bytes: int) -> list[str]:
        """Loads that together bring one block."""
        many = -(-block_bytes // core.access_bytes)
        names = [name if many == 1 else f"{name}.{i}" for i in range(many)]
        for each in names:
            held = min(block_bytes, core.access_bytes) / REGISTER_BYTES
            operations.append(Operation(each, LOADS, registers=held))
        return names

    sources: dict[str, list[tuple[str, int]]] = {}  # operand -> (operation, latency)
    for step in range(unroll):
        for i in (0, 1):
            names = load_block(f"A{i}.{step}", r * s * size)
            sources[f"A{i}.{step}"] = [(name, core.load_latency) for name in names]
    constants = 0
    if weights == "ternary":
        constants = 4 if zero_point == "sub" else 2
        operations.append(Operation("unpack", ("ldb",), registers=2 * s * t / REGISTER_BYTES))
        latency = core.load_latency + core.unpack_latency
        for step in range(unroll):
            for j in (0, 1):
                masked = f"and{j}.{step}"
                operations.append(Operation(masked, ("mv",), registers=s * t / REGISTER_BYTES))
                edges.append(Dependence("unpack", masked, latency))
                sources[f"B{j}.{step}"] = [(masked, core.move_latency)]
                if zero_point == "sub":
                    less = f"sub{j}.{step}"
                    operations.append(Operation(less, ("mv",), registers=s * t / REGISTER_BYTES))
                    edges.append(Dependence(masked, less, core.move_latency))
                    sources[f"B{j}.{step}"] = [(less, core.move_latency)]
    elif weights == "int4":
        operations.append(Operation("unpack", ("ldb",), registers=2 * s * t / REGISTER_BYTES))
        for j in (0, 1):
            sources[f"B{j}.0"] = [("unpack", core.load_latency + core.unpack_latency)]
    else:
        for j in (0, 1):
            names = load_block(f"B{j}.0", s * t * size)
            sources[f"B{j}.0"] = [(name, core.load_latency) for name in names]
            if b_layout == "col":
                turned = f"transpose{j}"
                operations.append(
                    Operation(
                        turned, ("mv",), max(1, s * t * size // REGISTER_BYTES),
                        registers=s * t * size / REGISTER_BYTES,
                    )
                )  # fmt: skip
                edges += [Dependence(name, turned, core.load_latency) for name in names]
                sources[f"B{j}.0"] = [(turned, core.move_latency)]
    for step in range(unroll):
        for i in (0, 1):
            for j in (0, 1):
                multiply = f"mac{i}{j}.{step}"
                operations.append(Operation(multiply, ("vec",), mode.interval))
                for operand in (f"A{i}.{step}", f"B{j}.{step}"):
                    edges += [
                        Dependence(source, multiply, latency)
                        for source, latency in sources[operand]
                    ]
                before = f"mac{i}{j}.{(step - 1) % unroll}"
                distance = 1 if step == 0 else 0
                edges.append(
                    Dependence(before, multiply, core.accumulate_latency, distance, value=False)
                )
    return tuple(operations), tuple(edges), constants, unroll


def _overhead(
    core: CorePipeline, body: ModuloSchedule, block_bytes: int, output: str, unroll: int
) -> int:
    """Cycles of a group beside rounds * II: loads of C before, stores of C after."""
    accesses = max(1, -(-block_bytes // core.c_access_bytes))
    convert = 0 if output in ("i32", "f32") else core.convert_latency
    blocks = ("00", "01", "10", "11")
    first = {b: body.times[f"mac{b}.0"] for b in blocks}
    final = {b: body.times[f"mac{b}.{unroll - 1}"] for b in blocks}
    loads = sorted(
        time + body.interval * i
        for name, time in body.times.items()
        if body.slots[name] == "lda"
        for i in range(_ITERATIONS)
    )
    ready_after = core.load_latency + convert
    # The smallest start of the first iteration that lets the loads of C come in time. Loads of A
    # and B wait for nothing: they may begin while the group before is still stored.
    start = -max(first.values())
    while True:
        taken = {start + time for time in loads}
        cycle, last_load, late = 0, 0, False
        for block in sorted(blocks, key=lambda b: first[b]):
            for _ in range(accesses):
                while cycle in taken:
                    cycle += 1
                last_load = cycle
                cycle += 1
            if last_load + ready_after > start + first[block]:
                late = True
                break
        if not late:
            break
        start += 1
    # Stores, counted from the first cycle after the last round began to drain.
    cycle = 0
    for block in sorted(blocks, key=lambda b: final[b]):
        ready = start + final[block] - body.interval + core.multiply_latency + convert
        cycle = max(cycle, ready)
        cycle += accesses
    return cycle
