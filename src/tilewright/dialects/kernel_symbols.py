"""Symbols of micro-kernels, `npu_uk_<family>[_<dtype>...]`, and calls of them as their family sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from tilewright.dialects.encodings import check_encodings
from tilewright.dialects.kernel_call import Family, KernelCall
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.xdsl_api import Attribute

SYMBOL_PREFIX = "npu_uk_"

# Element types as they are spelled at the end of a symbol.
DTYPE_SUFFIXES = frozenset(
    ["f8E4M3FN", "f8E5M2", "f8E8M0FNU", "bf16", "f16", "f32", "f64", "index"]
) | {"i1", "i2", "i4", "i8", "i16", "i32", "i64", "ui8"}
_NAMES: dict[str, Family] = {
    name: family for family in FAMILIES.values() for name in (family.name, *family.aliases)
}


@cache
def split_symbol(symbol: str) -> tuple[Family, tuple[str, ...]] | None:
    """A symbol's family and element types, or None when no family has that name.

    The longest family name wins and what follows must be element types, so
    `npu_uk_matmul_acc_first` is never taken for `npu_uk_matmul`.
    """
    if not symbol.startswith(SYMBOL_PREFIX):
        return None
    words = symbol[len(SYMBOL_PREFIX) :].split("_")
    for end in range(len(words), 0, -1):
        family = _NAMES.get("_".join(words[:end]))
        if family is not None:
            suffix = tuple(words[end:])
            return (family, suffix) if DTYPE_SUFFIXES.issuperset(suffix) else None
    return None


def family_of(symbol: str) -> Family | None:
    """The family a symbol names, or None."""
    found = split_symbol(symbol)
    return found[0] if found else None


def symbol_for(family: str, *element_types: Attribute) -> str:
    """The symbol of a family, with element types appended when given."""
    return "_".join([SYMBOL_PREFIX + family, *(str(t) for t in element_types)])


def kernel_call(
    symbol: str,
    operand_types: Sequence[Attribute],
    attributes: Mapping[str, Attribute],
    result_type: Attribute,
) -> KernelCall | None:
    """The call as its family sees it, or None for a symbol without a family."""
    family = family_of(symbol)
    if family is None:
        return None
    return KernelCall(family, symbol, tuple(operand_types), attributes, result_type)


def check_call(call: KernelCall) -> None:
    """Raise a TilewrightError unless operands, attributes and result fit the family."""
    call.check_attributes()
    call.role_names()
    _ = call.tensor_types(), call.result
    if call.family.check is not None:
        call.family.check(call)
    check_encodings(call)
