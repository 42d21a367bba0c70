"""What a Coral machine is, for people: `tilewright targets`."""

from __future__ import annotations

from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.toolchain import toolchain_missing
from tilewright.targets.target import Description, Memory


def describe(machine: CoralMachine) -> Description:
    """A machine for people."""
    vectors = "f32 and int8" if machine.vector_float else "int8" if machine.vector else "no"
    summary = f"RV32IMF core, {vectors} vectors of 128 bits"
    memories = [
        Memory("imem", machine.code.size, 4, "ITCM: code, and constants if asked for"),
        Memory("dtcm", machine.data.size, 4, "constants, tensors and the stack"),
    ]
    memories += [
        Memory(m.name.lower(), m.size, 4, "weights that do not fit, through the bus, not timed")
        for m in machine.external
    ]
    return Description(
        name=machine.name,
        family="coral",
        summary=summary if machine.vector else "RV32IMF core without vectors",
        memories=tuple(memories),
        formats=("f32", "int8 with i32 sums and exact requantisation"),
        modelled=("every instruction bit by bit", "cycles by a scoreboard"),
        not_modelled=("caches and the bus to external memory", "matrix tiles"),
        missing=toolchain_missing() or "",
    )
