"""Where the time of a run went, as text: per op, per line of C, per instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.targets.coral.disassembly import listing
from tilewright.targets.coral.simulator import TIMING_TABLE, CoralSimulator, Outcome
from tilewright.targets.coral.source_lines import LineTable

WIDEST = 120


def profile_rows(simulator: CoralSimulator) -> list[dict[str, Any]]:
    """Counts and cycles of every instruction that ran, with its function and line of C."""
    lines = {line.address: line for line in listing(simulator.elf)}
    table = LineTable(simulator.elf)
    made = []
    for pc, count, cycles in simulator.profile():
        line = lines.get(pc)
        source = table.at(pc)
        made.append(
            {
                "pc": pc,
                "count": count,
                "cycles": cycles,
                "text": line.text if line else None,
                "function": line.function if line else None,
                "source": f"{source.file}:{source.line}" if source and source.line else None,
            }
        )
    return made


def budget_lines(sizes: Mapping[str, Any]) -> Iterator[str]:
    """Memories, and the code of every op."""
    for name in ("itcm", "dtcm"):
        if name in sizes:
            yield f"{name.upper()} {sizes[name]['used']:>9,} of {sizes[name]['size']:,} bytes"
    for name, size in sizes.get("ops", {}).items():
        yield f"  {name:<28}{size:>8,} bytes of code"


def time_lines(outcome: Outcome) -> Iterator[str]:
    """Instructions and cycles, of the whole and of every op."""
    cycles = "no estimate of cycles: memory behind the bus is not timed"
    if outcome.region_cycles is not None:
        cycles = f"{outcome.region_cycles:,} cycles estimated (table {TIMING_TABLE})"
    yield f"{outcome.region_instructions or 0:,} instructions, {cycles}"
    for name, (instructions, spent) in outcome.steps.items():
        yield f"  {name:<28} {instructions:>12,} instructions {spent:>12,} cycles"


def hot_lines(rows: list[dict[str, Any]], source: list[str], top: int) -> Iterator[str]:
    """Lines of the generated C by the cycles of their instructions, and single instructions."""
    cycles: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["source"]:
            key = (row["source"], row["function"] or "")
            cycles[key] = cycles.get(key, 0) + row["cycles"]
    yield "hot lines"
    for (place, function), spent in sorted(cycles.items(), key=lambda item: -item[1])[:top]:
        text = _text_at(place, source)
        yield f"  {spent:>10,} cycles  {place:<16} {function:<20} {text[:90]}"
    yield ""
    yield "hot instructions"
    for row in sorted(rows, key=lambda row: -row["cycles"])[:top]:
        yield (
            f"  {row['cycles']:>10,} cycles {row['count']:>10,} x  {row['pc']:6x} "
            f"{row['function'] or '':<20} {row['text']}"
        )


def annotated(rows: list[dict[str, Any]], source: list[str]) -> Iterator[str]:
    """Every instruction that ran, under the line of C it belongs to."""
    place = function = None
    for row in rows:
        if row["function"] != function:
            function = row["function"]
            yield ""
            yield f"{function}:"
        if row["source"] and row["source"] != place:
            place = row["source"]
            yield f"  {place}  {_text_at(place, source)}"[:WIDEST]
        yield f"    {row['pc']:6x} {row['count']:>10,} x {row['cycles']:>12,}  {row['text']}"


def _text_at(place: str, source: list[str]) -> str:
    file, _, line = place.rpartition(":")
    inside = file == "model.c" and 0 < int(line) <= len(source)
    return source[int(line) - 1].strip() if inside else ""


def profile_text(
    sizes: Mapping[str, Any],
    simulator: CoralSimulator,
    outcome: Outcome,
    source: str,
    top: int = 12,
) -> str:
    """All of it, the summary first."""
    rows, lines = profile_rows(simulator), source.splitlines()
    parts = [*budget_lines(sizes), "", *time_lines(outcome), "", *hot_lines(rows, lines, top)]
    return "\n".join([*parts, *annotated(rows, lines)]) + "\n"
