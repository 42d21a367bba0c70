"""The xDSL context with every dialect Tilewright reads, loaded when first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tilewright.dialects.xdsl_api import Context, Dialect

# Dialect -> (module, variable). Ours replace upstream definitions of the same name.
DIALECTS: dict[str, tuple[str, str]] = {
    "builtin": ("xdsl.dialects.builtin", "Builtin"),
    "func": ("xdsl.dialects.func", "Func"),
    "arith": ("xdsl.dialects.arith", "Arith"),
    "math": ("xdsl.dialects.math", "Math"),
    "scf": ("xdsl.dialects.scf", "Scf"),
    "cf": ("xdsl.dialects.cf", "Cf"),
    "affine": ("xdsl.dialects.affine", "Affine"),
    "memref": ("xdsl.dialects.memref", "MemRef"),
    "tensor": ("xdsl.dialects.tensor", "Tensor"),
    "linalg": ("tilewright.dialects.linalg_ext", "Linalg"),
    "iree_linalg_ext": ("tilewright.dialects.iree_ext", "IREELinalgExt"),
    "iree_tensor_ext": ("tilewright.dialects.iree_wrappers", "IREETensorExt"),
    "util": ("tilewright.dialects.iree_wrappers", "Util"),
    "hal": ("tilewright.dialects.iree_wrappers", "Hal"),
    "npu_kernel": ("tilewright.dialects.npu_kernel", "NPUKernel"),
    "npu_schedule": ("tilewright.dialects.npu_schedule", "NPUSchedule"),
    "npu_isa": ("tilewright.dialects.npu_isa", "NPUIsa"),
}


def _factory(module: str, variable: str) -> Callable[[], Dialect]:
    return lambda: getattr(importlib.import_module(module), variable)


def make_context() -> Context:
    """A fresh context; operations of unknown dialects are accepted in generic form."""
    context = Context(allow_unregistered=True)
    for name, (module, variable) in DIALECTS.items():
        context.register_dialect(name, _factory(module, variable))
    return context
