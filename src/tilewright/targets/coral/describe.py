"""What a Coral machine is, for people: `tilewright targets`."""

from __future__ import annotations

from pathlib import Path

from tilewright.targets.coral.machines import machine_named
from tilewright.targets.coral.toolchain import toolchain_missing
from tilewright.targets.target import Described, Description, Memory


def find(name: str | Path) -> Described:
    """A machine by its name."""
    machine = machine_named(str(name))
    vectors = "f32 and int8" if machine.vector_float else "int8" if machine.vector else "no"
    description = Description(
        name=machine.name,
        family="coral",
        summary=f"RV32IMF core, {vectors} vectors of 128 bits"
        if machine.vector
        else "RV32IMF core without vectors",
        memories=(
            Memory("itcm", machine.code.size, 4, "code and constants"),
            Memory("dtcm", machine.data.size, 4, "tensors and the stack"),
        ),
        formats=("f32", "int8 with i32 sums and exact requantisation"),
        modelled=("every instruction bit by bit", "cycles by a scoreboard"),
        not_modelled=("caches and the bus to external memory", "matrix tiles"),
        missing=toolchain_missing() or "",
    )
    return Described(description, "compile small models with: tilewright coral compile --help")
