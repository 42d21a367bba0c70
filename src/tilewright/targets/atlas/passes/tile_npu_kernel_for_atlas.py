"""tile-npu-kernel-for-atlas: whole-tensor kernels become loops over the blocks Atlas works best on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.dialects.kernel_call import KernelCall
from tilewright.targets.atlas.kernels.blocking import SIDE, choose_blocking
from tilewright.targets.atlas.profile import load_profile
from tilewright.transforms.kernel_manifest import Manifest
from tilewright.transforms.tile_contractions import TileSizes, matmul_dimensions
from tilewright.transforms.tile_npu_kernel_to_schedule import TileNPUKernelToSchedule


@dataclass(frozen=True)
class TileNPUKernelForAtlas(TileNPUKernelToSchedule):
    """tile-npu-kernel-to-schedule with the blocks of a profile: the same cost model cuts matrix
    products here and in kernels of the tile language.

    A launch gets whole rows (or columns) of blocks with all of K, so that tiles which share an
    operand are computed side by side on both matrix units.

    before: %0 = npu_kernel.matmul %a, %b : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> …
    after:  scf.for %n step 32 {
              %t = launch "npu_uk_matmul"(a[0, 0] [128, 128], b[0, n] [128, 32])
              insert %t at [0, n] }
    """

    name = "tile-npu-kernel-for-atlas"

    target: str = field(
        default="atlas-v1", metadata={"meaning": "profile of the machine: a name, or a file"}
    )

    def sizes(self, call: KernelCall, manifest: Manifest | None) -> TileSizes:
        sizes = super().sizes(call, manifest)
        if call.family.name != "matmul":
            return sizes
        m, n, k, *_ = matmul_dimensions(call)
        plan = choose_blocking(m, k, n, load_profile(self.target))
        height, width = (plan.rows, SIDE) if plan.rows else (SIDE, plan.columns)
        return TileSizes(height, width, k, ragged=True, columns_outside=not plan.rows)

    def merges(self, call: KernelCall, manifest: Manifest | None) -> bool:
        return False  # every matrix of a batch has tiles of its own
