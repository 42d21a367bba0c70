"""The C of values that are cut: a loop over parts around the groups, and where a part lies."""

from __future__ import annotations

from tilewright.targets.coral.emit import Emitter, Writer
from tilewright.targets.coral.emit_streaming import turn_name
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import C_TYPES, Value
from tilewright.targets.coral.slicing import HEAD, ROW, Slices
from tilewright.targets.coral.storage import Scratch


def part_buffer(cut: Slices, value: Value) -> str:
    return f"part_{cut.first}_{cut.inner.index(value)}"


def part_name(e: Emitter, cut: Slices, part: Value) -> str:
    """The C expression of a part: a buffer of its own, or its place in the whole value."""
    value = cut.views[part]
    if value in cut.readers:
        return f"(({C_TYPES[value.dtype]} *){part_buffer(cut, value)})"
    turn = {
        HEAD: f"{turn_name(cut)} / {cut.parts_of_head}",
        ROW: f"{turn_name(cut)} % {cut.parts_of_head}",
    }
    return f"({e.name(value)} + {turn.get(cut.by.get(part, ''), turn_name(cut))} * {part.elements})"


def part_scratch(cut: Slices, groups: list[Group]) -> list[Scratch]:
    """Buffers of one part each, from the group that fills one to its last reader."""
    makers = {v: index for index, group in enumerate(groups) for v in group.stored}
    return [
        Scratch(part_buffer(cut, value), value.bytes // cut.turns, makers[value], last)
        for value, last in cut.readers.items()
    ]


def part_variable(cut: Slices) -> list[str]:
    return [f"static int {turn_name(cut)};  /* the part */"]


def part_loop(cut: Slices, names: list[str]) -> list[str]:
    """The lines of main that carry out a run of groups; `names` are of their functions."""
    writer = Writer(depth=1)
    turn = turn_name(cut)
    with writer.block(f"for ({turn} = 0; {turn} < {cut.turns}; {turn}++)"):
        for name in names:
            writer.line(f"{name}();")
    return writer.lines
