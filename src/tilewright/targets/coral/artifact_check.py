"""What can be said about a program of a bundle without the code that made it.

Error codes: TW5053 the ELF is not for the machine, TW5054 its symbols are not the model's, TW5055
two tensors share bytes while both matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import Finding, Port, Tensor
from tilewright.targets.coral.elf import check_loadable
from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.program import DTYPES, Value
from tilewright.targets.coral.scan import scan

if TYPE_CHECKING:
    from tilewright.targets.coral.artifact import Entry


def check_entry(
    machine: CoralMachine, entry: Entry, inputs: Sequence[Port], outputs: Sequence[Port]
) -> Iterator[Finding]:
    """Instructions the core has, symbols as the ports say, tensors that do not touch."""
    elf = entry.image
    try:
        check_loadable(elf, machine, (*machine.memories, *machine.external))
    except TilewrightError as error:
        yield Finding("TW5053", f"{entry.name}: {error.message}")
        return
    for found in scan(elf, machine)[:8]:
        yield Finding("TW5053", f"{entry.name}: {found}")
    for stem, ports, values in (
        ("input", inputs, entry.program.inputs),
        ("output", outputs, entry.program.outputs),
    ):
        if len(ports) != len(values):
            yield Finding(
                "TW5054", f"{entry.name} has {len(values)} {stem}s, the model {len(ports)}"
            )
            continue
        for index, (port, value) in enumerate(zip(ports, values, strict=True)):
            yield from _check_port(entry, f"{stem}_{index}", port, value)
    yield from _check_overlaps(entry)


def _check_port(entry: Entry, symbol: str, port: Port, value: Value) -> Iterator[Finding]:
    dtype = "f32" if value.scale is not None else value.dtype
    if tuple(port.shape) != value.shape or port.dtype != dtype:
        yield Finding(
            "TW5054",
            f"{entry.name}: {port.name} is {port.dtype} of {list(port.shape)}, {symbol} is "
            f"{dtype} of {list(value.shape)}",
        )
    found = entry.image.symbols.get(symbol)
    size = DTYPES[value.dtype].itemsize * value.elements
    if found is None or found.size != size:
        there = "no such symbol" if found is None else f"{found.size} bytes"
        yield Finding("TW5054", f"{entry.name}: {symbol} needs {size} bytes, the ELF has {there}")


def _check_overlaps(entry: Entry) -> Iterator[Finding]:
    """Every pair of tensors that matter at the same time lies apart.

    A result may lie on an operand that its own step reads for the last time.
    """
    for index, a in enumerate(entry.tensors):
        for b in entry.tensors[index + 1 :]:
            if a.space != b.space or a.end <= b.address or b.end <= a.address:
                continue
            first, second = (a, b) if a.first <= b.first else (b, a)
            if first.last < second.first or _in_place(entry, first, second):
                continue
            yield Finding("TW5055", f"{entry.name}: {a.name} and {b.name} share bytes")


def _in_place(entry: Entry, old: Tensor, new: Tensor) -> bool:
    step = entry.steps[new.first] if new.first < len(entry.steps) else None
    reads = step.operands.values() if step is not None else ()
    return old.last == new.first and old.address == new.address and old.name in reads
