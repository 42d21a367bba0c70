"""What to do about text that does not parse and operations that do not verify.

xDSL says what is wrong; the rows here say, by the words of its message, what helps. The last row
always fits.
"""

from __future__ import annotations

import re

_PARSE_HINTS: tuple[tuple[str, str], ...] = (
    (r"already defined", "give one of the two another name"),
    (r"unexpected character", "MLIR text is expected here; look for a stray or invisible character"),
    (r"closing string literal", 'close the string with "; escapes are \\" \\\\ \\n \\t and two hex digits'),
    (r"undefined symbol alias", "define it at the top of the file: #name = … or !name = …"),
    (r"expected shape type", "sizes are whole numbers, or ? where one is unknown"),
    (r"no meaning on", "use a ranked tensor of floats or integers that the operation is defined for"),
    (r"operation name expected", "an operation starts with its results or its dialect and name"),
    (r"holds no operation", "write a module, or at least one function"),
    (r"nested too deeply", "regions and attributes may lie about 150 levels deep"),
    (r"blocks it does not have", "define the block, or correct its name"),
    (r"already bound|given \d+ to bind", "name as many results as the operation has"),
    (r"types? .*(mismatch|but|differ)|has type", "give the value the type it was defined with"),
    (r"", "compare it with the generic form printed by tilewright opt --print-generic"),
)  # fmt: skip

_VERIFY_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"indexing.?map|inferred input/output|gives loop|number of loops",
        "one map for every operand, one result for every dimension of it, one size for every loop",
    ),
    (r"before it is defined", "move the operation that defines it up"),
    (r"symbol table|could not be found", "define the function, or declare it as func.func private"),
    (r"[Rr]edefinition|defined twice", "give one of the two another name"),
    (r"same types as the function output types", "return values of the types the function declares"),
    (r"is not one of the input's", "dimensions count from 0"),
    (r"does not end with", "end the body with func.return and the function's results"),
    (r"iterator", 'iterator types are "parallel", "reduction" or "window", one for every loop'),
    (r"buffer holds", "give the buffer and the tensor the same type"),
    (r"", "make shapes and types of operands, attributes and results agree"),
)  # fmt: skip


def parse_hint(message: str) -> str:
    """What to do about text the parser refused with this message."""
    return _first(_PARSE_HINTS, message)


def verify_hint(message: str) -> str:
    """What to do about an operation that is refused with this message."""
    return _first(_VERIFY_HINTS, message)


def _first(rows: tuple[tuple[str, str], ...], message: str) -> str:
    return next(hint for pattern, hint in rows if re.search(pattern, message))
