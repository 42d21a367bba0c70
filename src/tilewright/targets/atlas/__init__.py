"""Atlas: the NPU of the Merlin documents, profiles atlas-v0 and atlas-v1."""

from tilewright.targets.atlas.pipelines import PIPELINES
from tilewright.targets.target import Family

_HERE = "tilewright.targets.atlas"

FAMILY = Family(
    name="atlas",
    summary="tile machines with matrix and vector units, a scratchpad and scheduled code",
    targets=("atlas-v0", "atlas-v1"),
    find=f"{_HERE}.atlas_target:find",
    suffixes=(".toml",),
    commands={
        "asm": (f"{_HERE}.cli.asm:command", "assemble a program into another form"),
        "disasm": (f"{_HERE}.cli.disasm:command", "print a program as assembly"),
        "lint": (f"{_HERE}.cli.lint:command", "find hazards in a program without running it"),
        "sim": (f"{_HERE}.cli.sim:command", "run a program on the simulated machine"),
        "kernels": (
            f"{_HERE}.cli.kernels:command",
            "list, show, measure and check the kernel library",
        ),
        "translate": (f"{_HERE}.cli.translate:command", "turn npu_isa MLIR into a program"),
        "isa": (f"{_HERE}.cli.isa:command", "look up instructions and machine profiles"),
    },
    dialects={"npu_isa": f"{_HERE}.dialect.npu_isa:NPUIsa"},
    passes={
        "tile-npu-kernel-for-atlas": (
            f"{_HERE}.passes.tile_npu_kernel_for_atlas:TileNPUKernelForAtlas"
        ),
        "convert-npu-schedule-to-isa": (
            f"{_HERE}.passes.convert_npu_schedule_to_isa:ConvertNPUScheduleToISA"
        ),
        "npu-plan-memory": f"{_HERE}.passes.npu_plan_memory:PlanNPUMemory",
    },
    pipelines=PIPELINES,
    manifests={"atlas-v0": f"{_HERE}.manifest.atlas_v0_manifest"},
)
