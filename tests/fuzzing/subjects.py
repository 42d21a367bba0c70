"""Everything that reads what others wrote, and how often each is tried out of about a hundred and forty times."""

from __future__ import annotations

from fuzzing import bundles, commands, files, machines, programs, texts, tiles
from fuzzing.running import Subject

SUBJECTS: list[Subject] = [
    *programs.SUBJECTS,
    *texts.SUBJECTS,
    *files.SUBJECTS,
    *bundles.SUBJECTS,
    *tiles.SUBJECTS,
    *machines.SUBJECTS,
    *commands.SUBJECTS,
]
SHARES: dict[str, int] = {
    "assembly": 6, "text": 5, "hex": 3, "binary": 4, "json": 5, "profile": 4, "planner": 2,
    "mlir": 12, "linalg-model": 5, "stablehlo": 8, "executor": 8, "launch": 3, "pipelines": 2,
    "onnx": 8, "pt2": 6, "artifact": 1, "safetensors": 4, "npy": 3,
    "bundle": 8, "state-bundle": 4, "other-bundle": 4, "snapshot": 4, "manifest": 2, "tile": 8, "cli": 4,
    "elf": 6, "vpu-graph": 4, "vpu-list": 4, "vpu-text": 2, "vpu-machine": 2, "design": 5, "array": 3, "folder": 4,
}  # fmt: skip


def shares(count: int) -> dict[str, int]:
    """How many of `count` cases each subject gets, at least one."""
    whole = sum(SHARES.values())
    return {name: max(1, round(count * share / whole)) for name, share in SHARES.items()}
