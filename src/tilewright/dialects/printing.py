"""Printing modules as MLIR text."""

from __future__ import annotations

import io

from tilewright.dialects.xdsl_api import ModuleOp, Printer


class _Printer(Printer):
    """xDSL's printer, with names of resources as MLIR writes them."""

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        self.print_identifier_or_string_literal(handle)


def print_module(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """The text of a module, in custom or generic form, perhaps with where each op came from."""
    stream = io.StringIO()
    _Printer(stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"
