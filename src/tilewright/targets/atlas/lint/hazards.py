"""Which hazards an instruction runs into when it is dispatched at a given tick."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.atlas.lint.facts import TENSOR_MASK, Facts, Role, register_names
from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.values import Value, overlap
from tilewright.targets.atlas.profile import Profile

BLOCK = 32


@dataclass(slots=True, frozen=True)
class Problem:
    """A hazard between the instruction in decode and an older operation."""

    code: str
    text: str  # after the mnemonic: "reads m2 2 ticks before"
    certain: bool
    resume: int  # dispatch tick from which it is gone
    other: Operation | None
    blocking: bool  # the machine itself faults or waits here
    detail: str = ""
    channel: int = -1  # waiting for this DMA channel cures it


@dataclass(slots=True)
class Access:
    """What the instruction in decode is about to do with memory and when."""

    start: Value
    length: Value
    low: int  # completion tick
    high: int


def release(holder: Operation, tick: int, position: int) -> int:
    """Dispatch tick from which an accept on `position` finds `holder` completed at `tick`."""
    return tick - 1 if holder.position < position else tick


def conflicts(state: State, facts: Facts, tick: int, access: Access) -> list[Problem]:
    """Conflict sets that operations in flight still hold at the accept after `tick`."""
    found: list[Problem] = []
    holders = state.flight
    if facts.held:
        for holder in holders:
            shared = facts.held & holder.facts.held
            if shared and not holder.facts.pair_range:
                certain = release(holder, holder.low, facts.position) > tick
                names = register_names(shared)[0]
                resume = release(holder, holder.high, facts.position)
                text = f"takes {names} {_ticks(resume - tick)} before"
                found.append(Problem("TW2002", text, certain, resume, holder, True, "MRF"))
    if facts.memory in ("tensor", "dma"):
        for holder in holders:
            if holder.facts.memory not in ("tensor", "dma") or holder.facts.pair_range:
                continue
            meets = overlap(access.start, access.length, holder.start, holder.length, BLOCK)
            if meets:
                early = release(holder, holder.low, facts.position) > tick
                resume = release(holder, holder.high, facts.position)
                text = f"touches VMEM {_ticks(resume - tick)} before"
                found.append(
                    Problem("TW2003", text, early and meets == 2, resume, holder, True, "VMEM",
                            _channel(holder))
                )  # fmt: skip
    return found


def order_problems(
    state: State, facts: Facts, tick: int, access: Access, profile: Profile
) -> list[Problem]:
    """Silent hazards: operations in flight that must complete before this one does.

    Every operation reads and writes at its completion, so the rule is one comparison of
    completion events for each register or byte that both touch.
    """
    found: list[Problem] = []
    checked = profile.conflict != "ignore"
    ignore = TENSOR_MASK if checked else 0
    reads, writes = facts.reads & ~ignore, facts.writes & ~ignore
    touched = reads | writes
    for older in state.flight:
        other = older.facts
        stored = facts.memory and other.memory and (facts.stores or other.stores)
        if not (stored or other.writes & touched or other.reads & writes):
            continue  # nothing in common
        both_dma = other.role is Role.DMA and facts.role is Role.DMA
        if both_dma:
            continue  # the queue keeps them in order
        late = max(older.high - access.low + (older.position > facts.position), 0)
        early = older.low - access.high + (older.position > facts.position) > 0
        # A DMA takes its count, and every checked access its address, already at accept.
        taken = 0
        if facts.role is Role.DMA or (facts.memory == "tensor" and checked):
            taken = other.writes & facts.reads
        shared = other.writes & reads
        if shared and (late or taken):
            wait = release(older, older.high, facts.position) - tick if taken else late
            names = ", ".join(register_names(shared))
            sure = early or (bool(taken) and release(older, older.low, facts.position) > tick)
            text = f"reads {names} {_ticks(wait)} before"
            found.append(Problem("TW2005", text, sure, tick + wait, older, False, names))
        shared = other.reads & writes
        if shared and late:
            names = ", ".join(register_names(shared))
            code = "TW2009" if other.role is Role.DMA else "TW2006"
            text = f"changes {names} {_ticks(late)} before"
            found.append(
                Problem(code, text, early, tick + late, older, False, names, _channel(older))
            )
        elif shared and other.role is Role.DMA:
            found.append(_unknown_done(older, "TW2011", shared, tick))
        shared = other.writes & writes & ~other.reads
        if shared and late:
            names = ", ".join(register_names(shared))
            text = f"writes {names} {_ticks(late)} before"
            found.append(Problem("TW2007", text, early, tick + late, older, False, names))
        found += _memory_order(facts, older, tick, access, late, early, checked)
    for older in state.unwaited:
        shared = older.facts.reads & facts.writes
        if shared and facts.role is not Role.DMA:
            found.append(_unknown_done(older, "TW2011", shared, tick))
        if (
            facts.memory in ("scalar", "tensor")
            and (facts.stores or older.facts.stores)
            and overlap(access.start, access.length, older.start, older.length)
        ):
            found.append(_unknown_done(older, "TW2010", 0, tick))
    return found


def _memory_order(
    facts: Facts, older: Operation, tick: int, access: Access, late: int, early: bool, checked: bool
) -> list[Problem]:
    """Accesses to the same VMEM bytes, one of them a store, out of order."""
    other = older.facts
    if facts.memory is None or other.memory is None or not (facts.stores or other.stores):
        return []
    if checked and facts.memory != "scalar" and other.memory != "scalar":
        return []  # both hold conflict sets
    meets = overlap(access.start, access.length, older.start, older.length)
    if not meets:
        return []
    verb = "writes" if facts.stores else "reads"
    if late:
        text = f"{verb} VMEM {_ticks(late)} before"
        return [
            Problem("TW2008", text, early and meets == 2, tick + late, older, False, "VMEM",
                    _channel(older))
        ]  # fmt: skip
    if other.role is Role.DMA:
        return [_unknown_done(older, "TW2010", 0, tick)]
    if facts.role is Role.DMA:
        return [_over_flight(older, facts, tick)]
    return []


def halt_problems(state: State, tick: int) -> list[Problem]:
    """Operations whose results a halt dispatched at `tick` throws away."""
    found = []
    for older in state.flight:
        if older.high > tick + 1:
            certain = older.low > tick + 1
            text = f"stops the machine {_ticks(older.high - tick - 1)} before"
            found.append(
                Problem("TW2015", text, certain, older.high - 1, older, False, "",
                        _channel(older))
            )  # fmt: skip
    return found


def _unknown_done(older: Operation, code: str, shared: int, tick: int) -> Problem:
    names = ", ".join(register_names(shared))
    text = f"changes {names} of" if shared else "uses VMEM of"
    return Problem(code, text, True, tick, older, False, names, older.facts.channel)


def _over_flight(older: Operation, facts: Facts, tick: int) -> Problem:
    resume = release(older, older.high, facts.position)
    return Problem(
        "TW2012", f"is issued {_ticks(resume - tick)} before", True, resume, older, False
    )


def _channel(operation: Operation) -> int:
    return operation.facts.channel if operation.facts.role is Role.DMA else -1


def _ticks(count: int) -> str:
    return "1 tick" if count == 1 else f"{count} ticks"
