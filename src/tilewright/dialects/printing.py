"""Printing modules as MLIR text."""

from __future__ import annotations

import io

from tilewright.dialects.xdsl_api import Attribute, ModuleOp, Printer


class _Printer(Printer):
    """xDSL's printer, with names of resources as MLIR writes them.

    Every compile prints its module after each phase, so what is printed often is short: text
    without line breaks goes straight to the stream, types and attributes are spelled once.
    """

    def __init__(self, stream: io.StringIO, generic: bool, locations: bool) -> None:
        super().__init__(stream, print_generic_format=generic, print_debuginfo=locations)
        self.text = stream
        # By identity: the module keeps its attributes while it is printed.
        self.spelled: dict[int, tuple[Attribute, str]] = {}

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self.text.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        known = self.spelled.get(id(attribute))
        if known is None:
            start = self.text.tell()
            super().print_attribute(attribute)
            self.text.seek(start)
            self.spelled[id(attribute)] = (attribute, self.text.read())
        else:
            self.text.write(known[1])

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        self.print_identifier_or_string_literal(handle)


def print_module(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """The text of a module, in custom or generic form, perhaps with where each op came from."""
    stream = io.StringIO()
    _Printer(stream, generic, locations).print_op(module)
    return stream.getvalue() + "\n"
