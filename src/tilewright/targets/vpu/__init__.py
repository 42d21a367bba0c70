"""The VPU: DMA, matrix and vector engines that run one task list, kept in step by barriers."""

from tilewright.targets.target import Family

FAMILY = Family(
    name="vpu",
    summary="one task list on DMA, matrix and vector queues with barriers",
    targets=("vpu37", "vpu40", "vpu50"),
    find="tilewright.targets.vpu.vpu_target:find",
    commands={
        "vpu": (
            "tilewright.targets.vpu.cli:command",
            "schedule, verify and study task lists of the VPU",
        )
    },
)
