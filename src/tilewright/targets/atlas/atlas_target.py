"""An Atlas machine as a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.io.pieces import Content
from tilewright.targets.atlas.codegen.tile_machine import AtlasTileMachine
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.statistics import CAUSE_TEXT
from tilewright.targets.target import Description, Memory

if TYPE_CHECKING:
    import numpy as np

    from tilewright.errors import Location
    from tilewright.frontend.imported import Imported
    from tilewright.model.options import CompileOptions, Progress
    from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
    from tilewright.targets.compiled_model import CompiledModel

LANES = ("MXU0", "MXU1", "VPU", "LSU", "DMA", "SCALAR")  # as people read them
TILE_MACS = 32 * 32 * 32


@dataclass(frozen=True)
class AtlasTarget:
    """One profile."""

    profile: Profile
    calibrated_formats = (None, "fp8")  # of --quantize: those with scales from calibration
    keeps_layers = True  # products of some layers may be more precise than those of others
    reads_weights_late = True  # weights may be `Deferred`

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def family(self) -> str:
        return "atlas"

    def tile_machine(self) -> AtlasTileMachine:
        return self.profile.tile_machine()

    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[AtlasArtifact]:
        from tilewright.targets.atlas.model.compiler import compile_model

        return compile_model(
            model,
            self.profile,
            replace(options, instruction_memory=self.profile.imem_bytes // 4),
            samples,
            progress,
        )

    def read(self, members: Mapping[str, Content], place: Location) -> AtlasArtifact:
        from tilewright.targets.atlas.artifact.members import read

        return read(members, place)

    def describe(self) -> Description:
        profile = self.profile
        return Description(
            name=profile.name,
            family=self.family,
            summary=profile.description,
            memories=(
                Memory("dram", profile.dram_bytes, 4096, "tensors, weights, constants"),
                Memory(
                    "vmem", profile.vmem_bytes, 1024, "scratchpad of the vector and matrix units"
                ),
                Memory("imem", profile.imem_bytes, 4, "instructions"),
            ),
            formats=(
                "fp8 (E4M3) operands of matrix products",
                "bf16 everything else",
            ),
            modelled=(
                "every value bit by bit, every cycle, hazards, transfers",
                "two simulators that agree in every byte and cycle",
            ),
            not_modelled=("energy", "contention outside the chip"),
            units=tuple(unit for unit in LANES if unit in profile.units),
            macs_per_cycle=_macs_per_cycle(profile),
            losses=CAUSE_TEXT,
        )


def _macs_per_cycle(profile: Profile) -> float:
    intervals = (profile.timing[f"matmul_mxu{n}"].interval for n in (0, 1))
    return sum(TILE_MACS / interval for interval in intervals if interval)


@lru_cache(maxsize=64)
def _of(profile: Profile) -> AtlasTarget:
    return AtlasTarget(profile)


def find(name: str | Path) -> AtlasTarget:
    """A built-in profile by name, or a user's by the path of its file."""
    return _of(load_profile(str(name)))
