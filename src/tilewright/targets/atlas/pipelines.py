"""Named pipelines: one readable list of passes per target."""

from __future__ import annotations

# Names as `tilewright opt --pipeline` takes them; entries as `-p` takes them.
PIPELINES: dict[str, list[str]] = {
    # Linalg to tile loops and launches for the Atlas machines.
    "atlas": [
        "unwrap-iree",
        "canonicalize",
        "convert-linalg-to-npu-kernel",
        "npu-verify-ukernel-symbols",
        "tile-npu-kernel-to-schedule",
        "convert-npu-kernel-to-schedule",
        "canonicalize",
        "cse",
        "npu-verify-ukernel-symbols",
    ],
    # The same down to scheduled code, by the code generator of models and kernels.
    **{
        f"{target}-native": [
            "unwrap-iree",
            "canonicalize",
            "convert-linalg-to-npu-kernel",
            "npu-verify-ukernel-symbols",
            f"tile-npu-kernel-for-atlas{{target={target}}}",
            "convert-npu-kernel-to-schedule",
            "canonicalize",
            "cse",
            f"convert-npu-schedule-to-isa{{target={target}}}",
        ]
        for target in ("atlas-v0", "atlas-v1")
    },
    # The same down to the abstract instruction stream, with planned addresses.
    "atlas-abstract": [
        "unwrap-iree",
        "canonicalize",
        "convert-linalg-to-npu-kernel",
        "npu-verify-ukernel-symbols",
        "convert-npu-kernel-to-schedule",
        "npu-verify-ukernel-symbols",
        "convert-npu-schedule-to-isa",
        "npu-plan-memory",
    ],
}
