"""Portable artifacts of StableHLO as text, read by jaxlib in a process of its own.

    python -m tilewright.frontend.artifact_reader < model.stablehlo > model.mlir

jaxlib's reader of bytecode trusts its input: a damaged file can end the process. Here that ends
only this one. Exit codes: 0 text follows, 3 jaxlib is missing, 4 it refuses the file.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

MISSING, REFUSED = 3, 4


def main() -> int:
    try:
        ir: Any = importlib.import_module("jaxlib.mlir.ir")
        extension: Any = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
        chlo: Any = importlib.import_module("jaxlib.mlir.dialects.chlo")
        stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    except ImportError:
        return MISSING
    registry, context = ir.DialectRegistry(), ir.Context()
    extension.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    try:
        module = stablehlo.deserialize_portable_artifact(context, sys.stdin.buffer.read())
        text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    except Exception as error:
        print((str(error).strip().splitlines() or [type(error).__name__])[0], file=sys.stderr)
        return REFUSED
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
