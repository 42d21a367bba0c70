"""What all abstract instructions share: integer fields, and a line of text."""

from __future__ import annotations

from typing import ClassVar

from tilewright.dialects.xdsl_api import (
    Attribute,
    IntegerAttr,
    IRDLOperation,
    Parser,
    Printer,
    VerifyException,
    i64,
)


def integer(value: Attribute | None) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data


class Instruction(IRDLOperation):
    """An abstract instruction: integer fields, perhaps tensors that show the data flow.

    `FIELDS` are its fields in printing order, `TEXT` its mnemonic in the text form.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    OPTIONAL_FIELDS: ClassVar[tuple[str, ...]] = ()
    TEXT: ClassVar[str] = ""

    def fields(self) -> dict[str, int]:
        """Field name -> value, in printing order; optional fields only when set."""
        return {
            name: integer(self.properties[name]) for name in self.FIELDS if name in self.properties
        }

    def text(self) -> str:
        """One line of the text form: `mnemonic key=value, key=value`."""
        return f"{self.TEXT} {', '.join(f'{k}={v}' for k, v in self.fields().items())}"

    def print_fields(self, printer: Printer) -> None:
        printer.print_string(", ".join(f"{k}={v}" for k, v in self.fields().items()))

    @classmethod
    def parse_fields(cls, parser: Parser) -> dict[str, Attribute]:
        fields: dict[str, Attribute] = {}

        def parse_field() -> None:
            position = parser.pos
            name = parser.parse_identifier()
            if name not in cls.FIELDS:
                parser.raise_error(f"{cls.name} has no field {name}", position)
            if name in fields:
                parser.raise_error(f"field {name} is given twice", position)
            parser.parse_punctuation("=")
            fields[name] = IntegerAttr(parser.parse_integer(), i64)

        parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_field)
        missing = [n for n in cls.FIELDS if n not in fields and n not in cls.OPTIONAL_FIELDS]
        if missing:
            parser.raise_error(f"{cls.name} needs the field {missing[0]}")
        return fields

    @classmethod
    def parse(cls, parser: Parser):
        return cls.create(
            properties=cls.parse_fields(parser), attributes=parser.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_fields(printer)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        for name in self.FIELDS:
            value = self.properties.get(name)
            if value is not None and integer(value) < 0:
                raise VerifyException(f"field {name} is negative")
