"""Rows of the table of kernel families for the encoded level: products, sums and tables of codes.

Machines lower them in ways of their own.
"""

from __future__ import annotations

from tilewright.dialects import encoded_checks
from tilewright.dialects.kernel_call import OPERAND_MAPS, AttributeSpec, Family, axis, roles

ENCODED_FAMILIES = [
    Family(
        "quantise",
        "codes of x: x divided by the scale of the result's encoding, or times the operand factor, "
        "rounded to even, plus the zero point, saturated",
        roles("x [factor]"),
        (
            AttributeSpec(
                "method",
                "string",
                "x * f32(1 / scale), or x / scale",
                "multiply",
                False,
                ("multiply", "divide"),
            ),
            OPERAND_MAPS,
        ),
        encoded_checks.quantise,
        "quant",
    ),
    Family(
        "dequantise",
        "f32(code - zero) * scale, of the operand's encoding",
        roles("x"),
        (),
        encoded_checks.dequantise,
        "quant",
    ),
    Family(
        "rescale",
        "f32(x) * factor; for codes rounded to even, plus the zero point, saturated",
        roles("x [factor]"),
        (AttributeSpec("factor", "float", "when there is no operand for it"), OPERAND_MAPS),
        encoded_checks.rescale,
        "quant",
    ),
    Family(
        "rescale_fixed",
        "h = (x << left) * multiplier >> 32; h / 2^shift rounded to even, plus the zero point, "
        "saturated",
        roles("x multiplier shift"),
        (AttributeSpec("left", "integer", "bits that x is shifted left before", 0), OPERAND_MAPS),
        encoded_checks.rescale_fixed,
        "quant",
    ),
    Family(
        "encoded_add",
        "codes of the sum of two tensors of codes",
        roles("lhs rhs"),
        (
            AttributeSpec(
                "method",
                "string",
                "float: each code times the f32 ratio of scales, one f32 addition; fixed: integer "
                "ratios in units of 2^-20",
                "float",
                False,
                ("float", "fixed"),
            ),
        ),
        encoded_checks.encoded_add,
        "quant",
    ),
    Family(
        "table",
        "table[code + 128]: a function of an 8-bit code",
        roles("x table"),
        (),
        encoded_checks.table,
        "quant",
    ),
    Family(
        "absmax_factor",
        "limit / max(largest magnitude along axis, least), the dimension stays with size 1",
        roles("x"),
        (
            axis(-1),
            AttributeSpec("limit", "float", "the largest code", 127.0),
            AttributeSpec("least", "float", "the smallest magnitude that counts", 1e-5),
        ),
        encoded_checks.absmax_factor,
        "rows",
    ),
]

ENCODED = frozenset(family.name for family in ENCODED_FAMILIES)
