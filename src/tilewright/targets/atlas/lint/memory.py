"""Alignment and range of memory accesses, checked when an operation completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.values import (
    Value,
    add,
    raw_sum,
    residue,
    unsigned,
    unsigned_range,
)

if TYPE_CHECKING:
    from tilewright.targets.atlas.lint.session import Session

ROW = 32


def check_access(run: Session, state: State, operation: Operation) -> None:
    """Report what the machine would fault on at completion, in the machine's order."""
    facts = operation.facts
    if facts.memory != "dma":
        align = facts.size if facts.memory == "scalar" else ROW
        start = add(state.x[facts.rs1], facts.immediate)
        _check(run, state, operation, "VMEM", start, facts.size, align)
        return
    inside, outside = facts.rd, facts.rs1
    if not facts.stores:
        inside, outside = outside, inside
    count = state.x[facts.rs2]
    fewest, most = unsigned_range(count)
    limit = run.profile.dma.max_bytes
    if limit and most > limit:
        run.report(
            state, "TW2024", operation.index,
            f"{facts.shown} moves {_shown(count)} bytes, more than the {limit} of one transfer",
            certain=fewest > limit, tick=operation.high, hint="split the transfer",
        )  # fmt: skip
        if fewest > limit:
            return
    if _check(run, state, operation, "VMEM", state.x[inside], count, ROW):
        _check(run, state, operation, "DRAM", state.x[outside], count, ROW)


def _check(
    run: Session, state: State, operation: Operation, space: str, start: Value, count: Value,
    align: int,
) -> bool:  # fmt: skip
    """Check one range; False when the machine surely stops here."""
    name = operation.facts.shown
    checked = [("address", start)] + ([("count", count)] if align == ROW else [])
    for what, value in checked:
        step, rest = residue(value, align)
        if step == align and rest == 0:
            continue
        run.report(
            state, "TW2025", operation.index,
            f"the {space} {what} {_shown(value)} of {name} is not a multiple of {align}",
            certain=rest != 0, tick=operation.high, detail=f"{space} {what}",
        )  # fmt: skip
        if rest != 0:
            return False
    size = run.profile.vmem_bytes if space == "VMEM" else run.profile.dram_bytes
    low, high = _end_range(start, count)
    if space == "DRAM":
        base_low, base_high = unsigned_range(state.base)
        low, high = low + (base_low << 32), high + (base_high << 32)
    if high <= size:
        return True
    run.report(
        state, "TW2022" if space == "VMEM" else "TW2023", operation.index,
        f"{name} reaches {space} address {_shown_end(low, high)}, but {space} ends at {size}",
        certain=low > size, tick=operation.high, detail=space,
    )  # fmt: skip
    return low <= size


def _end_range(start: Value, count: Value) -> tuple[int, int]:
    """Smallest and largest end of start .. start + count."""
    first, number = unsigned(start), unsigned(count)
    if first is not None and number is not None:
        end = raw_sum(first, number)
        return (end, end) if isinstance(end, int) else (end.low, end.high)
    (start_low, start_high), (count_low, count_high) = unsigned_range(start), unsigned_range(count)
    return start_low + count_low, start_high + count_high


def _shown(value: Value) -> str:
    low, high = unsigned_range(value)
    return str(low) if low == high else f"{low} to {high}"


def _shown_end(low: int, high: int) -> str:
    return str(low) if low == high else f"up to {high}"
