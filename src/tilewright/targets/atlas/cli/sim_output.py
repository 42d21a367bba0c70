"""What `tilewright sim` prints for people."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tilewright.targets.atlas.outcome import Fault
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.simulate import Expected, Result
from tilewright.targets.atlas.statistics import print_statistics
from tilewright.targets.atlas.text import instruction_text, label_names

ENDS = {
    "end": "ran to its end",
    "halt": "halted",
    "fault": "faulted",
    "limit": "stopped at the limit of --max-cycles",
    "until": "stopped where asked",
    "breakpoint": "stopped at a breakpoint",
    "watch": "stopped at a watch",
}

ADVICE = {
    "structural": "`tilewright lint {file}` finds every such place, `lint --fix` inserts the delays",
    "bank_conflict": "`tilewright lint {file}` finds every such place, `lint --fix` inserts the delays",
    "channel_busy": "put a dma.wait on the channel first; `tilewright lint {file}` finds every such place",
    "delay_slot": "keep branches and jumps out of the slots behind another one",
    "pair_range": "a bf16 tile takes two registers: m62 is the last that can start one",
    "bounds": "check the address registers: they are read when the operation completes; "
    "`--break {index} --registers` shows them",
    "misaligned": "tensor and DMA addresses and sizes are multiples of 32 bytes",
    "illegal": "`tilewright isa` shows what the machine has; a branch needs its delay slots behind it",
}
SHOWN_FAULTS = 20


def print_result(
    result: Result, stats: bool, hottest: int, registers: bool, files: list[str]
) -> None:
    """Everything a person wants after a run."""
    console = Console(highlight=False, markup=False, emoji=False)
    statistics = result.statistics
    speed = f"{result.run_seconds:.3f} s on the {result.machine_name} machine"
    console.print(
        f"{result.program.source} {ENDS[result.halted]}: {result.cycles:,} cycles, "
        f"{statistics.instructions:,} instructions ({result.profile.name}, {speed})",
        soft_wrap=True,
    )
    console.print()
    if stats:
        print_statistics(console, statistics, result.program, hottest)
    faults = result.faults
    for fault in faults[:SHOWN_FAULTS]:
        _print_fault(console, result.program, fault)
    if len(faults) > SHOWN_FAULTS:
        console.print(f"… and {len(faults) - SHOWN_FAULTS:,} more faults (see --json)\n")
    if result.stopped_at is not None:
        _print_place(console, result)
    if registers or result.halted == "breakpoint":
        _print_registers(console, result)
    for expected in result.expected:
        _print_expected(console, expected)
    for file in files:
        console.print(f"wrote {file}", soft_wrap=True)


def source_line(program: Program, index: int) -> str | None:
    """The line of the user's file, if it can still be read."""
    place = program.location(index)
    if not place.line:
        return None
    try:
        with Path(place.file).open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if number == place.line:
                    return line.rstrip()[:200]
    except OSError:
        return None
    return None


def _print_fault(console: Console, program: Program, fault: Fault) -> None:
    place = program.location(fault.index)
    console.print(
        f"fault {fault.kind} in tick {fault.cycle:,} at {place} (pc {fault.pc:#x})",
        style="bold red",
        soft_wrap=True,
    )
    text = source_line(program, fault.index)
    if text is not None:
        console.print(f"  {place.line:5} | {text}", soft_wrap=True)
    console.print(f"  {fault.message}", soft_wrap=True)
    advice = ADVICE.get(fault.kind, "").format(file=program.source, index=fault.index)
    if advice:
        console.print(f"  hint: {advice}", soft_wrap=True)
    console.print()


def _print_place(console: Console, result: Result) -> None:
    assert result.stopped_at is not None
    index = result.stopped_at.index
    text = instruction_text(result.program, index, label_names(result.program))
    console.print(f"tick {result.cycles:,}, before {result.program.location(index)}: {text}\n")


def _print_registers(console: Console, result: Result) -> None:
    values = result.registers()
    for start in range(0, 32, 4):
        row = (f"x{i:<2} {values[f'x{i}'] & 0xFFFFFFFF:#010x}" for i in range(start, start + 4))
        console.print("  " + "   ".join(row))
    scales = [f"e{i}={values[f'e{i}']}" for i in range(32) if values[f"e{i}"]]
    base, pc = values["dma.base"], values["pc"]
    console.print(f"  dma.base {base:#x}   fetch pc {pc:#x}   {' '.join(scales)}".rstrip())
    console.print()


def _print_expected(console: Console, expected: Expected) -> None:
    what, outcome = expected.expectation, expected.comparison
    name = f"{what.tensor.name} at {what.place}"
    rule = "bit by bit"
    if what.tolerance is not None:
        rule = f"rtol {what.tolerance.relative:g}, atol {what.tolerance.absolute:g}"
    worst = ""
    if outcome.worst is not None:
        index = ", ".join(str(i) for i in outcome.worst.index)
        worst = (
            f"; worst at [{index}]: expected {outcome.worst.expected:g}, "
            f"found {outcome.worst.actual:g}, off by {outcome.worst.error:g}"
        )
    if outcome.holds:
        console.print(
            f"ok {name}: {outcome.elements:,} {what.tensor.element} elements ({rule}){worst}",
            style="green",
            soft_wrap=True,
        )
    else:
        console.print(
            f"DIFFERS {name}: {outcome.different:,} of {outcome.elements:,} "
            f"{what.tensor.element} elements ({rule}){worst}",
            style="bold red",
            soft_wrap=True,
        )
