"""XDNA: GEMM on a spatial array of VLIW cores, from buffer descriptors up.

A design (object FIFOs, links, core programs, runtime sequence) is one object: it is checked,
executed in values, timed, drawn, and written as MLIR text.
"""

from tilewright.targets.target import Family

_SUBSETS = [f"npu2_{n}col" for n in range(1, 8)] + [f"npu1_{n}col" for n in range(1, 4)]
_BOARDS = ("npu2_strix_halo", *_SUBSETS)

FAMILY = Family(
    name="xdna",
    summary="a spatial array of VLIW cores for matrix products",
    targets=(
        "xdna2",
        "xdna1",
        "npu2",
        "npu1",
        "xdna2-ternary",
        "xdna1-ternary",
        "npu2-ternary",
        "npu1-ternary",
    ),
    variants=(*_BOARDS, *(f"{name}-ternary" for name in _BOARDS)),
    suffixes=(".toml", ".json", ".toml-ternary", ".json-ternary"),
    find="tilewright.targets.xdna.xdna_target:find",
    commands={
        "xdna": (
            "tilewright.targets.xdna.cli:command",
            "plan, check, simulate and emit GEMM designs for the XDNA array",
        )
    },
)
