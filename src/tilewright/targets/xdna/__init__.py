"""XDNA: GEMM on a spatial array of VLIW cores, from buffer descriptors up.

A design (object FIFOs, links, core programs, runtime sequence) is one object: it is checked,
executed in values, timed, drawn, and written as MLIR text.
"""

from tilewright.targets.target import Family

FAMILY = Family(
    name="xdna",
    summary="a spatial array of VLIW cores for matrix products",
    targets=("xdna1", "xdna2"),
    find="tilewright.targets.xdna.describe:find",
    commands={
        "xdna": (
            "tilewright.targets.xdna.cli:command",
            "plan, check, simulate and emit GEMM designs for the XDNA array",
        )
    },
)
