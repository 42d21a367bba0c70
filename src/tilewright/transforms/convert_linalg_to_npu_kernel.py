"""`convert-linalg-to-npu-kernel`: every tensor op becomes kernel intents.

before:
    %t = linalg.transpose ins(%w) outs(%e) permutation = [1, 0]
    %m = linalg.matmul ins(%x, %t) outs(%zero) -> tensor<113x2560xf32>
    %s = linalg.generic {… x / (1 + exp(-x)) …} ins(%m)
after:
    %m = npu_kernel.matmul %x, %w : tensor<113x960xf32>, tensor<2560x960xf32> -> tensor<113x2560xf32>
    %s = npu_kernel.ukernel_generic "npu_uk_silu"(%m) : tensor<113x2560xf32> -> tensor<113x2560xf32>

Values do not change by a bit, unless `demote-score-matmuls` asks for bf16. An op without a mapping is
an error at its line, and the module stays as it was; with `unmapped=host` such ops stay in their
linalg form, marked `npu.host` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    before: linalg.matmul, linalg.generic, iree_linalg_ext.attention, tensor.extract_slice, …
    after:  npu_kernel.matmul and npu_kernel.ukernel_generic, chains named (softmax, rms_norm, …)

    unmapped: error (default), or host to leave ops without a mapping to the host
    demote-score-matmuls: carry f32 matmuls out in bf16 and widen the result again
    demote-casts: kernel (default) or linalg, the form of the casts a demotion adds
    convolution: auto (default), direct or im2col
    ignore-nan: also name chains that differ from the name only in what becomes of NaN
    """

    name = "convert-linalg-to-npu-kernel"
    unmapped: str = "error"
    demote_score_matmuls: bool = False
    demote_casts: str = "kernel"
    convolution: str = "auto"
    ignore_nan: bool = False

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
