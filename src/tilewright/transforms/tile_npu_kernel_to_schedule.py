"""tile-npu-kernel-to-schedule: whole-tensor kernels become loops over tiles."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    Context,
    ModuleOp,
    ModulePass,
    Operation,
    SSAValue,
)
from tilewright.transforms.kernel_manifest import Manifest, load_manifest
from tilewright.transforms.tile_contractions import (
    TileSizes,
    attention_is_one_tile,
    emit_attention,
    emit_matmul,
    matmul_is_one_tile,
)
from tilewright.transforms.tile_emitter import Emitter
from tilewright.transforms.tile_parallel import emit_plan, merge_leading, plan_call
from tilewright.transforms.tile_windows import emit_window, plan_window


@dataclass(frozen=True)
class TileNPUKernelToSchedule(ModulePass):
    """Split whole-tensor kernels into loops over tiles with one launch per tile.

    Batch dimensions, M and N (blocks of queries for attention) become scf.for loops that carry
    the result. K, and the keys of attention, become a chain of launches first, mid, last; a
    chain longer than unroll-limit keeps its ends and loops over the middle. Sizes that are no
    multiple of the tile are padded and the result is cut back. Row-wise kernels keep their rows
    whole. Kernels that already are one tile are left to convert-npu-kernel-to-schedule.

    before: %0 = npu_kernel.matmul %a, %b : tensor<64x96xf8E4M3FN>, tensor<96x32xf8E4M3FN>
                   -> tensor<64x32xbf16>
    after:  scf.for %m { scf.for %n {
              launch "npu_uk_matmul_acc_first"(a[m, 0], b[0, n])
              launch "npu_uk_matmul_acc_mid"(a[m, 32], b[32, n])
              %t = launch "npu_uk_matmul_acc_last"(a[m, 64], b[64, n])
              insert %t at [m, n] } }
    """

    name = "tile-npu-kernel-to-schedule"

    tile: tuple[int, ...] = field(
        default=(32, 32), metadata={"meaning": "tile of M, N and K; K is 32 when left out"}
    )
    kernel_manifest: str | None = field(
        default=None,
        metadata={"meaning": "take tile shapes from this manifest (a file, or atlas-v0)"},
    )
    unroll_limit: int = field(
        default=8, metadata={"meaning": "longest chain that is unrolled launch by launch"}
    )
    pad_small: bool = field(
        default=False, metadata={"meaning": "pad dimensions below the tile up to it"}
    )

    def __post_init__(self) -> None:
        if not 2 <= len(self.tile) <= 3 or min(self.tile) < 1:
            raise ValueError("tile takes two or three positive sizes")
        if self.unroll_limit < 2:
            raise ValueError("unroll-limit is at least 2: a chain has two ends")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        manifest = None if self.kernel_manifest is None else load_manifest(self.kernel_manifest)
        constants: dict[Block, dict[int, SSAValue]] = {}
        for kernel in [k for k in op.walk() if isinstance(k, (MatmulOp, UKernelGenericOp))]:
            entry = _entry_block(kernel)
            self._tile(kernel, Emitter(entry, constants.setdefault(entry, {})), manifest)

    def _tile(
        self, kernel: MatmulOp | UKernelGenericOp, emitter: Emitter, manifest: Manifest | None
    ) -> None:
        """Replace one kernel by its tiles, unless it is a single tile already."""
        call = call_of(kernel)
        if call is None or _is_empty(call):
            return
        sizes = self.sizes(call, manifest)
        operands = list(kernel.operands)
        value: SSAValue | None = None
        kind = call.family.kind
        if kind == "matmul" and call.family.state is None:
            if not matmul_is_one_tile(call, sizes):
                value = emit_matmul(call, operands, sizes, emitter)
        elif kind == "attention" and call.family.state is None:
            if not attention_is_one_tile(call, sizes) or call.flag("causal"):
                value = emit_attention(call, operands, sizes, emitter)
        elif kind == "window":
            window = plan_window(call, sizes.n, sizes.m * sizes.n)
            if window is not None:
                value = emit_window(window, call, operands, emitter)
        else:
            value = _emit_parallel(call, operands, sizes, emitter, self.merges(call, manifest))
        if value is not None:
            emitter.finish(kernel, value)

    def merges(self, call: KernelCall, manifest: Manifest | None) -> bool:
        """Whether leading dimensions may become rows. Kernels of a manifest find tensors tile by
        tile, a batch never sharing a tile."""
        rows = call.result.get_shape()[-2:-1]
        return manifest is None or not rows or rows[0] % self.sizes(call, manifest).m == 0

    def sizes(self, call: KernelCall, manifest: Manifest | None) -> TileSizes:
        """Tile sizes of the kernel's entry in the manifest, or the pass's own."""
        shape = self.tile
        if manifest is not None and (entry := manifest.find(call.symbol)) is not None:
            shape = entry.tile_shape
        k = shape[2] if len(shape) == 3 else TileSizes.k
        return TileSizes(shape[0], shape[1], k, self.unroll_limit, self.pad_small)


def _emit_parallel(
    call: KernelCall,
    operands: list[SSAValue],
    sizes: TileSizes,
    emitter: Emitter,
    mergeable: bool = True,
) -> SSAValue | None:
    """Tiles of a kernel with independent elements or rows, or None when it stays as it is."""
    plan = plan_call(call, (sizes.m, sizes.n), sizes.pad_small)
    if plan is None or plan.is_one_tile:
        return None
    merged = merge_leading(call, emitter, operands) if mergeable else None
    if merged is None:
        return emit_plan(plan, call, operands, emitter)
    merged_plan = plan_call(merged, (sizes.m, sizes.n), sizes.pad_small)
    assert merged_plan is not None
    if merged_plan.is_one_tile:
        value = emitter.launch(merged.symbol, operands, merged.result, merged.attributes)
    else:
        value = emit_plan(merged_plan, merged, operands, emitter)
    return emitter.reshape(value, call.result.get_shape())


def _is_empty(call: KernelCall) -> bool:
    """Whether some tensor has no elements, so that there is nothing to cut."""
    return any(0 in type_.get_shape() for type_ in (*call.tensor_types(), call.result))


def call_of(kernel: MatmulOp | UKernelGenericOp) -> KernelCall | None:
    """A kernel operation as a call; `npu_kernel.matmul` becomes the symbol `npu_uk_matmul`."""
    if isinstance(kernel, UKernelGenericOp):
        return kernel.call()
    attributes: dict[str, Attribute] = {
        name: value for name, value in kernel.properties.items() if name.startswith("transpose")
    }
    attributes.update(kernel.attributes)
    return kernel_call("npu_uk_matmul", kernel.operand_types, attributes, kernel.result.type)


def _entry_block(op: Operation) -> Block:
    """The first block of the function (or other top-level region) around an operation."""
    current: Operation = op
    while True:
        parent = current.parent_op()
        assert parent is not None
        if isinstance(parent, ModuleOp) or parent.parent_op() is None:
            block = current.parent
            assert block is not None
            return block
        if isinstance(parent.parent_op(), ModuleOp):
            region = parent.regions[0]
            assert region.first_block is not None
            return region.first_block
        current = parent
