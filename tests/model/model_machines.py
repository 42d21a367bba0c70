"""Machines as the waist sees them, for tests: one like each of those that use codes."""

from __future__ import annotations

from tilewright.model.capture import Graph, Node, dtype_of
from tilewright.model.formats import CodeRules, Codes, Floats, Format, Product
from tilewright.model.prepare import Machine

FLOATS = ("f32", "f16", "bf16")


def floats_only(node: Node) -> str | None:
    if node.call.family.runs_on == "host":
        return f"it has no {node.family}"
    if dtype_of(node.result) not in FLOATS:
        return f"it has no {dtype_of(node.result)}"
    return None


def _f16_around_products(node: Node, graph: Graph) -> Format:
    if node.family in ("matmul", "conv2d"):
        return Product("i8", "tensor", "auto", "f16")
    if node.family in ("pool_max", "elementwise_add") and _is_image(node):
        return Codes("f16")
    return Floats("f16", wide="f32")


def _is_image(node: Node) -> bool:
    return all(len(v.type.get_shape()) == 4 for v in node.operands)  # type: ignore[attr-defined]


def _codes_throughout(node: Node, graph: Graph) -> Format:
    if node.family in ("matmul", "conv2d"):
        return Product("i8", "tensor", "codes", "f32")
    return Codes("f32", tables=True)


def _rows(weights: str):
    def formats(node: Node, graph: Graph) -> Format:
        return Product(weights, "row", "floats", "f32") if node.family == "matmul" else Floats()

    return formats


def only_integer_products(node: Node) -> str | None:
    if node.family == "matmul" and dtype_of(node.operands[0]) == "i8":
        return None
    return "the array only multiplies integers"


SHAVED = Machine("f16 around int8", floats_only, True, _f16_around_products)
WHOLE = Machine(
    "int8 throughout",
    floats_only,
    False,
    _codes_throughout,
    CodeRules(symmetric=False, arithmetic="fixed", method="divide"),
)
ROWS = Machine("rows", floats_only, False, _rows("i8"), supports_encoded=only_integer_products)
TERNARY = Machine(
    "ternary", floats_only, False, _rows("ternary"), supports_encoded=only_integer_products
)
MACHINES = (SHAVED, WHOLE, ROWS, TERNARY)
