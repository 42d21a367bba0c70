"""The Coral NPU: RISC-V core with a vector unit, from a small model to one checked ELF."""

from tilewright.targets.target import Family

FAMILY = Family(
    name="coral",
    summary="a RISC-V core with vectors and two small memories",
    targets=("coral", "coral-highmem", "coral-zve32f", "coral-zve32f-highmem", "coral-scalar"),
    find="tilewright.targets.coral.target:find",
    commands={
        "coral": (
            "tilewright.targets.coral.cli:command",
            "compile small models to one ELF, run and study programs of the Coral NPU",
        )
    },
)
