"""After how many ticks a scheduled piece may start again."""

from __future__ import annotations

from tilewright.targets.atlas.codegen.list_schedule import Schedule
from tilewright.targets.atlas.codegen.loop_shifting import aged, moving
from tilewright.targets.atlas.codegen.virtual import Code
from tilewright.targets.atlas.isa import Kind

BEHIND = 2  # ticks of the counter and the branch, which come before the last instructions


def initiation_interval(code: Code, result: Schedule) -> int:
    """Ticks after which the same piece may start again."""
    first_unit: dict[str, int] = {}
    free_unit: dict[str, int] = {}
    first: dict[tuple[Kind, int | None, int], int] = {}
    last: dict[tuple[Kind, int | None, int], int] = {}
    period = 0
    tensor_end = 0
    first_transfer = None
    places = result.places
    late = _late(code, result)
    for node, tick, done in result.dispatched:
        opcode = node.op.opcode
        if tick >= late:
            done += BEHIND
        if node.op.site is not None and opcode.timing == "dma_transfer":
            first_transfer = tick if first_transfer is None else min(first_transfer, tick)
        if node.unit not in ("SCALAR", "DECODE", "DMA"):
            first_unit[node.unit] = min(first_unit.get(node.unit, tick), tick)
            free_unit[node.unit] = max(free_unit.get(node.unit, 0), done)
        if opcode.memory in ("tensor load", "tensor store"):
            tensor_end = max(tensor_end, done)
        for register, low, count, _, _ in node.rows:
            for part in range(low, low + count):
                if register.kind is Kind.X:
                    key = (Kind.X, None, id(register))
                    if not register.carried:
                        continue
                else:
                    key = (register.kind, register.unit, places[register] + part)
                first[key] = min(first.get(key, tick), tick)
                last[key] = max(last.get(key, 0), done)
    for unit, tick in first_unit.items():
        period = max(period, free_unit[unit] - tick)
    for key, tick in first.items():
        period = max(period, last[key] - tick)
    if first_transfer is not None:
        period = max(period, tensor_end - first_transfer)
    period = max(
        period, _until_buffers_are_free(code, result), _until_scalars_are_free(code, result)
    )
    return max(period, result.issues[-1].tick + 1 if result.issues else 0)


def _until_buffers_are_free(code: Code, result: Schedule) -> int:
    """Ticks until no transfer of the next iteration meets a tensor access of this one."""
    moved = moving(code)
    late = _late(code, result)
    transfers, accesses = [], []
    for node, tick, done in result.dispatched:
        if node.op.opcode.timing == "dma_transfer" and node.op.site is None:
            transfers.append((tick, aged(node.op, 1, moved)))
        elif node.op.opcode.memory in ("tensor load", "tensor store"):
            done += BEHIND if tick >= late else 0
            accesses.append((done, aged(node.op, 0, moved)))
    accesses.sort(key=lambda entry: -entry[0])
    period = 0
    for tick, ranges in transfers:
        for done, others in accesses:
            if done - tick <= period:
                break
            if any(x.overlaps(y) for x in ranges for y in others):
                period = done - tick
                break
    return period


def _until_scalars_are_free(code: Code, result: Schedule) -> int:
    """Ticks until the next iteration overwrites no scalar or scale register still to be read.

    Transfers are left out: they are waited for within the piece, repeated ones by their waits.
    """
    late = _late(code, result)
    first_write: dict[tuple[Kind, int], int] = {}
    last_read: dict[tuple[Kind, int], int] = {}
    for issue in result.issues:
        opcode = issue.instruction.opcode
        timing = code.profile.timing_of(opcode)
        if timing.unit in ("DMA", "DECODE"):
            continue
        done = issue.tick + timing.latency + (BEHIND if issue.tick >= late else 0)
        for operand, place in zip(opcode.operands, issue.instruction.operands, strict=True):
            if operand.kind not in (Kind.X, Kind.E):
                continue
            key = (operand.kind, place)
            if operand.writes:
                first_write.setdefault(key, issue.tick)
            if operand.reads:
                last_read[key] = max(last_read.get(key, 0), done)
    return max((last_read.get(key, 0) - tick for key, tick in first_write.items()), default=0)


def _late(code: Code, result: Schedule) -> int:
    """The tick from which instructions end up in the delay slots of the branch."""
    slots = code.profile.delay_slots
    return result.issues[-slots].tick if len(result.issues) >= slots else 0
