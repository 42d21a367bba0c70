"""The xDSL context with every dialect Tilewright reads, loaded when first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from tilewright import extensions
from tilewright.dialects.xdsl_api import Context, Dialect

# Dialect -> (module, variable). Ours replace upstream definitions of the same name.
DIALECTS: dict[str, tuple[str, str]] = {
    "func": ("xdsl.dialects.func", "Func"),
    "arith": ("tilewright.dialects.arith_ext", "Arith"),
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
    "stablehlo": ("tilewright.dialects.stablehlo", "StableHLO"),
    "chlo": ("tilewright.dialects.stablehlo", "CHLO"),
    "npu_kernel": ("tilewright.dialects.npu_kernel", "NPUKernel"),
    "npu_schedule": ("tilewright.dialects.npu_schedule", "NPUSchedule"),
}


def _factory(module: str, variable: str) -> Callable[[], Dialect]:
    return lambda: getattr(importlib.import_module(module), variable)


def _builtin() -> Dialect:
    """The builtin dialect with resources of its own.

    xDSL keeps the names and bytes of `dense_resource` in the dialect object, which all contexts
    would share: a second module with a weight of the same name would see it renamed.
    """
    builtin = importlib.import_module("xdsl.dialects.builtin").Builtin
    interface = importlib.import_module("xdsl.dialect_interfaces.op_asm").OpAsmDialectInterface
    return Dialect("builtin", list(builtin.operations), list(builtin.attributes), [interface()])


def make_context() -> Context:
    """A fresh context; operations of unknown dialects are accepted in generic form."""
    context = Context(allow_unregistered=True)
    for name, (module, variable) in DIALECTS.items():
        context.register_dialect(name, _factory(module, variable))
    for name, place in extensions.DIALECTS.items():
        context.register_dialect(name, partial(extensions.load, place))
    context.register_dialect("builtin", _builtin)
    return context
