"""`convert-linalg-to-npu-kernel`: every tensor op becomes kernel intents.

The work is in `linalg_to_kernel`: one module per kind of op, then the chains.

Error codes: TW1220 to TW1226 ops without a mapping (see `linalg_to_kernel/emitter.py`), TW1228 a bad
option value, TW1229 functions still in IREE's wrapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass
from tilewright.errors import TilewrightError
from tilewright.transforms.linalg_to_kernel.driver import convert_module
from tilewright.transforms.linalg_to_kernel.emitter import Settings

CHOICES = {
    "unmapped": ("error", "host"),
    "convolution": ("auto", "direct", "im2col"),
    "demote_casts": ("kernel", "linalg"),
}


@dataclass(frozen=True)
class ConvertLinalgToNPUKernel(ModulePass):
    """Turn linalg, tensor and attention ops into npu_kernel intents.

    Values do not change by a bit, unless a demotion asks for it. An op without a mapping is an
    error at its line, and the module stays as it was.

    before: %t = linalg.transpose ins(%w) outs(%e) permutation = [1, 0]
            %m = linalg.matmul ins(%x, %t) outs(%zero)
            %s = linalg.generic {… x / (1 + exp(-x)) …} ins(%m)
    after:  %m = npu_kernel.matmul %x, %w
            %s = npu_kernel.ukernel_generic "npu_uk_silu"(%m)
    """

    name = "convert-linalg-to-npu-kernel"

    unmapped: str = field(
        default="error",
        metadata={"meaning": "host leaves ops without a mapping in place, marked npu.host"},
    )
    demote_score_matmuls: bool = field(
        default=False,
        metadata={"meaning": "carry f32 matmuls out in bf16 and widen the result again"},
    )
    demote_casts: str = field(
        default="kernel", metadata={"meaning": "kernel or linalg: the casts a demotion adds"}
    )
    convolution: str = field(
        default="auto", metadata={"meaning": "auto, direct or im2col, where there is a choice"}
    )
    ignore_nan: bool = field(
        default=False,
        metadata={"meaning": "also name chains that differ only in what becomes of NaN"},
    )

    def settings(self) -> Settings:
        for option, allowed in CHOICES.items():
            value = getattr(self, option)
            if value not in allowed:
                raise TilewrightError(
                    "TW1228",
                    f"{self.name}: {option.replace('_', '-')} is {value!r}",
                    hint=f"use one of {', '.join(allowed)}",
                )
        return Settings(
            demote_score_matmuls=self.demote_score_matmuls,
            demote_casts=self.demote_casts,
            convolution=self.convolution,
            unmapped=self.unmapped,
            ignore_nan=self.ignore_nan,
        )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_module(op, self.settings()).install()
