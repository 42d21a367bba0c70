"""Reading numbers in MLIR text: `dense<…>`, integer types, affine maps.

xDSL writes one element out for every element of the type. Here a number that stands for many stays
one number: `dense<0.0> : tensor<1000000x1000000xf32>` takes four bytes. `elements_of` and everything
else that reads literals repeats it.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, cast

from xdsl.dialects.builtin import BytesAttr
from xdsl.ir.affine import AffineBinaryOpExpr, AffineExpr, AffineMap
from xdsl.utils.lexer import Span

from tilewright.dialects.xdsl_api import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Parser,
)

WRITTEN_OUT = 4096  # elements up to which a repeated number is written out, as in other literals
DEEPEST_EXPRESSION = 100  # affine expressions are walked by functions that call themselves
WIDEST_INTEGER = (1 << 24) - 1  # bits, as in MLIR
LARGEST_SHAPE = 1 << 62  # elements, so that sizes stay 64-bit integers when they are padded


class _LiteralElement(Parser._TensorLiteralElement):
    """One element of `dense<…>`; hexadecimal floats are bit patterns, as everywhere in MLIR."""

    def to_type(self, parser, type):
        text = self.span.text
        if isinstance(type, AnyFloat) and text[:2] in ("0x", "0X"):
            size = type.compile_time_size
            bits = int(text, 16)
            if bits >> (8 * size):
                parser.raise_error(f"{text} has more bits than {type}", self.span)
            return next(iter(type.iter_unpack(bits.to_bytes(size, "little"))))
        return super().to_type(parser, type)


class LiteralParser(Parser):
    """A parser that keeps repeated numbers short and integers within MLIR's limits."""

    _TensorLiteralElement = _LiteralElement

    def _parse_optional_integer_or_float_type(self):
        start = self._current_token.span
        digits = start.text.lstrip("su")[1:]
        if start.text.lstrip("su")[:1] == "i" and digits.isdecimal() and len(digits) > 9:
            self.raise_error(f"integers have at most {WIDEST_INTEGER} bits", start)
        found = super()._parse_optional_integer_or_float_type()
        if isinstance(found, IntegerType) and found.width.data > WIDEST_INTEGER:
            self.raise_error(f"integers have at most {WIDEST_INTEGER} bits", start)
        return found

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        token = self._current_token.span
        digits = token.text.lstrip("0")
        if digits.isdecimal() and (len(digits) > 19 or int(digits) > LARGEST_SHAPE):
            self._too_large(token)
        return super().parse_shape_dimension(allow_dynamic)

    def parse_dimension_list(self) -> list[int]:
        start = self._current_token.span
        found = super().parse_dimension_list()
        if math.prod(size for size in found if size > 0) > LARGEST_SHAPE:
            self._too_large(start)
        return found

    def _too_large(self, place: Span) -> NoReturn:
        self.raise_error(f"a shape has at most {LARGEST_SHAPE} elements", place)

    def parse_affine_map(self) -> AffineMap:
        start = self._current_token.span
        found = super().parse_affine_map()
        for result in found.results:
            if _depth(result) > DEEPEST_EXPRESSION:
                self.raise_error(
                    f"an affine expression has at most {DEEPEST_EXPRESSION} operations in a row",
                    start,
                )
        return found

    def parse_dense_int_or_fp_elements_attr(self, type) -> DenseIntOrFPElementsAttr:
        self.parse_punctuation("<", " in dense attribute")
        elements: list[Any] | None = []
        shape: list[int] | None = None  # None: nothing is written; []: one number for all
        words: str | None = None
        if self.parse_optional_punctuation(">") is None:
            words = self.parse_optional_str_literal()
            if words is None:
                elements, shape = self._parse_tensor_literal()
            self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        wanted = list(type.get_shape())
        count = math.prod(wanted)
        if words is not None:
            return self._packed(type, words, count)
        if shape is None and count:
            self.raise_error("Expected at least one element in the dense literal, but got None")
        if shape and shape != wanted:
            self.raise_error(
                f"Shape mismatch in dense literal. Expected {wanted} shape from the type, but got "
                f"{shape} shape."
            )
        values = [element.to_type(self, type.element_type) for element in elements]
        if isinstance(type.element_type, IntegerType):
            values = [type.element_type.get_normalized_value(cast(int, v)) for v in values]
        packed = cast(Any, type.element_type).pack(values)
        return DenseIntOrFPElementsAttr(type, BytesAttr(_repeated(packed, count, shape == [])))

    def _packed(self, type, words: str, count: int) -> DenseIntOrFPElementsAttr:
        """Elements as the hexadecimal digits of their bytes."""
        size = type.element_type.compile_time_size
        try:
            packed = bytes.fromhex(words[2:])
        except ValueError:
            self.raise_error("Hex string in denseAttr is invalid")
        splat = len(packed) == size
        if not splat and len(packed) != size * count:
            self.raise_error(
                f"Shape mismatch in dense literal. Expected {count} elements from the type, but "
                f"got {len(packed) // size} elements."
            )
        return DenseIntOrFPElementsAttr(type, BytesAttr(_repeated(packed, count, splat)))


def _depth(expression: AffineExpr) -> int:
    """How deep an expression is nested; counted level by level, however deep that is."""
    level, depth = [expression], 0
    while level:
        depth += 1
        level = [
            side for e in level if isinstance(e, AffineBinaryOpExpr) for side in (e.lhs, e.rhs)
        ]
    return depth


def _repeated(packed: bytes, count: int, splat: bool) -> bytes:
    """The bytes of a literal: one element where it stands for very many."""
    if not splat:
        return packed
    return packed if count > WRITTEN_OUT else packed * count
