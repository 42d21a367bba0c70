"""Printing modules as MLIR text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from tilewright.dialects.xdsl_api import (
    Attribute,
    DenseArrayBase,
    IntegerType,
    ModuleOp,
    Operation,
    Printer,
    SSAValue,
    tensor,
)

DYNAMIC = -(2**63)


class _Printer(Printer):
    """xDSL's printer, with names of resources as MLIR writes them.

    Every compile prints its module after each phase, so what is printed often is short: text
    without line breaks goes straight to the stream, types and attributes are spelled once, and
    slices, of which a traced kernel is full, are written without their format's interpreter.
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

    def print_op(self, op: Operation) -> None:
        plain = not (self.print_generic_format or self.print_debuginfo or op.attributes)
        if plain and isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp):
            self._print_slice(op)
        else:
            super().print_op(op)

    def _print_slice(self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> None:
        self._print_results(op)
        write = self.text.write
        write(f"{op.name} ")
        self.print_ssa_value(op.source)
        last: Attribute = op.result.type
        word = "to"
        if isinstance(op, tensor.InsertSliceOp):
            write(" into ")
            self.print_ssa_value(op.dest)
            last, word = op.dest.type, "into"
        self._print_places(op.offsets, op.static_offsets)
        write(" ")
        self._print_places(op.sizes, op.static_sizes)
        write(" ")
        self._print_places(op.strides, op.static_strides)
        write(" : ")
        self.print_attribute(op.source.type)
        write(f" {word} ")
        self.print_attribute(last)

    def _print_places(
        self, dynamic: Sequence[SSAValue], static: DenseArrayBase[IntegerType]
    ) -> None:
        """Numbers, and names where they are not known before."""
        values, between = iter(dynamic), "["
        for number in static.get_values():
            self.text.write(between)
            if number == DYNAMIC:
                self.print_ssa_value(next(values))
            else:
                self.text.write(str(number))
            between = ", "
        self.text.write("]" if between != "[" else "[]")

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        self.print_identifier_or_string_literal(handle)


def print_module(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """The text of a module, in custom or generic form, perhaps with where each op came from."""
    stream = io.StringIO()
    _Printer(stream, generic, locations).print_op(module)
    return stream.getvalue() + "\n"
