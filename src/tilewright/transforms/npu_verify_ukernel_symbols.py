"""npu-verify-ukernel-symbols: every symbol names a kernel that exists."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.kernel_symbols import SYMBOL_PREFIX, split_symbol
from tilewright.dialects.locations import error_at
from tilewright.dialects.npu_kernel import KernelCallOp
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass, TensorType
from tilewright.transforms.diagnostics import warn
from tilewright.transforms.kernel_manifest import Manifest, load_manifest


@dataclass(frozen=True)
class VerifyUKernelSymbols(ModulePass):
    """Check that the symbol of every kernel and launch is known; nothing is changed.

    A symbol is known when it names a kernel family and the element types it ends with are those
    of its operands and result (TW1312, TW1313). With a manifest, launches must also be found
    there (TW1314). Strict checking stops at the first unknown symbol; lenient checking warns.

    before: npu_schedule.ukernel_launch "npu_uk_sofmax"(%a)
    after:  TW1312 no kernel family has the symbol "npu_uk_sofmax"; did you mean npu_uk_softmax?
    """

    name = "npu-verify-ukernel-symbols"

    strict: bool = field(default=True, metadata={"meaning": "errors; false: warnings"})
    kernel_manifest: str | None = field(
        default=None, metadata={"meaning": "launches must be in this manifest too"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        manifest = None if self.kernel_manifest is None else load_manifest(self.kernel_manifest)
        for kernel in op.walk():
            if isinstance(kernel, KernelCallOp):
                problem = _problem(kernel, manifest)
                if problem is None:
                    continue
                if self.strict:
                    raise error_at(kernel, *problem)
                warn(kernel, *problem)


def _problem(op: KernelCallOp, manifest: Manifest | None) -> tuple[str, str, str | None] | None:
    """Code, message and hint of what is wrong with a symbol."""
    symbol = op.symbol.data
    found = split_symbol(symbol)
    if found is None:
        known = [SYMBOL_PREFIX + name for name in FAMILIES]
        close = difflib.get_close_matches(symbol, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"symbols start with {SYMBOL_PREFIX}"
        return "TW1312", f'no kernel family has the symbol "{symbol}"', hint
    _, suffix = found
    types = [t for t in (*op.operand_types, op.result.type) if isinstance(t, TensorType)]
    elements = [str(t.element_type) for t in types]
    if suffix and not _fits(suffix, elements):
        return (
            "TW1313",
            f'"{symbol}" ends with {", ".join(suffix)}, the tensors hold {", ".join(elements)}',
            "name the operands' element types in order, then the result's",
        )
    if manifest is not None and op.name.startswith("npu_schedule.") and not manifest.find(symbol):
        return "TW1314", f'the kernel manifest has no kernel for "{symbol}"', None
    return None


def _fits(suffix: tuple[str, ...], elements: list[str]) -> bool:
    """Whether the types at the end of a symbol are operand types, then perhaps the result's.

    `gemma_attention_bf16_bf16` names the input and the output of a kernel with three inputs.
    """
    inputs, result = elements[:-1], elements[-1]
    *named, last = suffix
    if last not in (result, *inputs[-1:]):
        return False
    return all(name == element for name, element in zip(named, inputs, strict=False))
