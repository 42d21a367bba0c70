"""Statistics of a run: as JSON, and as tables for a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.atlas.outcome import Statistics
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text import instruction_text, label_names

CAUSE_TEXT = {
    "delay": "delay instructions",
    "dma_wait": "waiting for DMA",
    "unit_busy": "unit busy",
    "channel_busy": "DMA channel busy",
    "dependency": "registers or VMEM held",
}


def hottest(statistics: Statistics, program: Program, count: int = 10) -> list[dict[str, Any]]:
    """The instructions decode spent most ticks on, delays and waits included."""
    ticks = np.asarray(statistics.issue_ticks)
    order = np.argsort(-ticks, kind="stable")[:count]
    names = label_names(program)
    rows = []
    for index in order.tolist():
        if not ticks[index]:
            break
        place = program.location(index)
        rows.append(
            {
                "index": index,
                "line": place.line or None,
                "text": instruction_text(program, index, names),
                "executions": int(statistics.executions[index]),
                "cycles": int(ticks[index]),
                "share": _share(int(ticks[index]), statistics.cycles),
            }
        )
    return rows


def dma_bound(statistics: Statistics) -> int:
    """Ticks the DMA engine needs for the transfers of the run, whatever else happens."""
    return statistics.units["DMA"].busy if "DMA" in statistics.units else 0


def statistics_json(statistics: Statistics, program: Program, hot: int = 10) -> dict[str, Any]:
    cycles = statistics.cycles
    return {
        "cycles": cycles,
        "instructions": statistics.instructions,
        "static_instructions": len(program),
        "units": {
            name: {
                "busy": use.busy,
                "instructions": use.operations,
                "share": _share(use.busy, cycles),
            }
            for name, use in statistics.units.items()
        },
        "dma_bytes": statistics.dma_loaded + statistics.dma_stored,
        "dma_bytes_loaded": statistics.dma_loaded,
        "dma_bytes_stored": statistics.dma_stored,
        "lost": dict(statistics.lost),
        "hottest": hottest(statistics, program, hot),
    }


def print_statistics(console: Any, statistics: Statistics, program: Program, hot: int = 8) -> None:
    """Tables: units, DMA, lost ticks, hottest instructions."""
    from rich.padding import Padding
    from rich.table import Table

    cycles = statistics.cycles

    def table(*columns: tuple[str, str]) -> Table:
        result = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
        for name, side in columns:
            number = side == "right"
            result.add_column(name, justify="right" if number else "left", no_wrap=number)
        return result

    def show(item: Table) -> None:
        console.print(Padding(item, (0, 0, 1, 2), expand=False))

    units = table(("unit", "left"), ("busy", "right"), ("share", "right"), ("", "left"),
                  ("instructions", "right"))  # fmt: skip
    for name, use in statistics.units.items():
        bar = _bar(use.busy, cycles)
        units.add_row(name, f"{use.busy:,}", _percent(use.busy, cycles), bar, f"{use.operations:,}")
    show(units)

    moved = statistics.dma_loaded + statistics.dma_stored
    if moved:
        rate = moved / cycles if cycles else 0.0
        console.print(
            f"  DMA moved {moved:,} bytes ({statistics.dma_loaded:,} in, "
            f"{statistics.dma_stored:,} out), {rate:.2f} bytes per cycle; the transfers alone "
            f"need {dma_bound(statistics):,} cycles",
            soft_wrap=True,
        )
        console.print()

    lost = {cause: ticks for cause, ticks in statistics.lost.items() if ticks}
    if lost:
        causes = table(("cycles without issue", "left"), ("cycles", "right"), ("share", "right"))
        for cause, ticks in sorted(lost.items(), key=lambda item: -item[1]):
            causes.add_row(CAUSE_TEXT.get(cause, cause), f"{ticks:,}", _percent(ticks, cycles))
        show(causes)

    rows = hottest(statistics, program, hot)
    if rows:
        hot_table = table(("hottest in decode", "left"), ("line", "right"), ("executed", "right"),
                          ("cycles", "right"), ("share", "right"))  # fmt: skip
        for row in rows:
            line = str(row["line"] or f"#{row['index']}")
            executed, ticks = f"{row['executions']:,}", f"{row['cycles']:,}"
            hot_table.add_row(row["text"], line, executed, ticks, _percent(row["cycles"], cycles))
        show(hot_table)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _bar(part: int, whole: int, width: int = 20) -> str:
    """A bar of blocks, in eighths."""
    eighths = min(round(8 * width * part / whole), 8 * width) if whole else 0
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else " ▏▎▍▌▋▊▉"[eighths % 8])
