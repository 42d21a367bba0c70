"""Printing modules as MLIR text."""

from __future__ import annotations

import io
from functools import lru_cache

from tilewright.dialects.xdsl_api import Attribute, ModuleOp, Printer, TensorType


class _Printer(Printer):
    """xDSL's printer, with names of resources as MLIR writes them.

    Types of tensors make up most of a text and are few: each is put into words once.
    """

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, TensorType):
            self.print_string(_words(attribute))
        else:
            super().print_attribute(attribute)

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        self.print_identifier_or_string_literal(handle)


@lru_cache(maxsize=4096)
def _words(attribute: TensorType) -> str:
    """The text of a type, which does not depend on where it stands."""
    stream = io.StringIO()
    Printer.print_attribute(_Printer(stream), attribute)
    return stream.getvalue()


def print_module(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """The text of a module, in custom or generic form, perhaps with where each op came from."""
    stream = io.StringIO()
    _Printer(stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"
