"""Calls that work row by row or element by element, as SHAVE tasks (and DPU element-wise ones)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import Chip, Operand
from tilewright.targets.vpu.lowering.groups import (
    Group,
    Rectangle,
    element_layout,
    element_rectangles,
    laid_out,
    pieces,
    row_rectangles,
    steps,
)
from tilewright.targets.vpu.lowering.network import Call, Value
from tilewright.targets.vpu.operations.numbers import DTYPES

UNARY_COSTS = {
    "exp": "exp", "tanh": "tanh", "sigmoid": "sigmoid", "silu": "swish", "gelu_tanh": "gelu",
    "gelu_erf": "gelu", "relu": "add", "neg": "add", "abs": "add", "square": "multiply",
    "recip": "divide", "sqrt": "divide", "rsqrt": "divide", "log": "gelu", "erf": "gelu",
    "floor": "cast", "ceil": "cast", "round": "cast", "exp2": "exp", "log2": "gelu",
    "sin": "gelu", "cos": "gelu", "cube": "multiply",
}  # fmt: skip
BINARY_COSTS = {
    "add": "add", "subtract": "add", "multiply": "multiply", "divide": "divide", "maximum": "add",
    "minimum": "add",
}  # fmt: skip
_DPU_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def bits_of(*values: Value) -> int:
    return max(8 * DTYPES[value.dtype].itemsize for value in values)


def scales(chip: Chip, call: Call) -> dict[str, Any]:
    """Options of a kernel that come from the scales of its i8 operands and result."""
    result = chip.values[call.result]
    options: dict[str, Any] = {}
    if result.dtype == "i8":
        options["output_scale"] = float(_scale(result))
    inputs = [chip.values[name] for name in call.operands.values()]
    if any(value.dtype == "i8" for value in inputs):
        options["input_scales"] = tuple(
            float(_scale(value)) if value.dtype == "i8" else 1.0 for value in inputs
        )
    return options


def _scale(value: Value) -> float:
    if value.scale is None:
        raise TilewrightError("TW7083", f"{value.name!r} is i8 and has no scale")
    return float(value.scale)


def _limit(chip: Chip, values: list[Value]) -> int:
    """Elements of one task, so that several tasks' operands fit beside each other."""
    size = sum(DTYPES[value.dtype].itemsize for value in values)
    return max(256, chip.machine.cmx_bytes // (8 * size))


def row_call(chip: Chip, call: Call, group: Group) -> None:
    """Softmax, norms and reductions: each result row depends on one row."""
    x, result = chip.values[call.operands["x"]], chip.values[call.result]
    weights = [role for role in ("weight", "bias") if role in call.operands]
    options = dict(call.attributes) | scales(chip, call)
    family = call.family
    cost = f"row_{options['function']}" if family == "reduce" else family
    if family == "reduce" and options["function"] == "min":
        cost = "row_max"
    for part in row_rectangles(chip, group, x.width):
        operands = [chip.fetch(x.name, part.rows, part.columns, part.tile)]
        if "mask" in call.operands:
            mask = chip.values[call.operands["mask"]]
            rows = part.rows if mask.rows > 1 else range(1)
            operands.append(chip.fetch(mask.name, rows, part.columns, part.tile))
            options["operands"] = ("mask",)
        for role in weights:
            operand = chip.fetch(call.operands[role], range(1), part.columns, part.tile)
            operands.append(operand.shaped(x.width))
        out = range(result.width)
        target = chip.target(result.name, part.rows, out, part.tile)
        if family == "reduce":
            target = target.shaped(len(part.rows))
        elements = len(part.rows) * x.width
        cycles = costs.vector_cycles(
            chip.machine, cost, elements, bits_of(x, result), len(part.rows)
        )
        kernel = "row_reduce" if family == "reduce" else family
        chip.task(kernel, operands, [target], cycles, part.tile, **options)


def rope(chip: Chip, call: Call, group: Group, only: range | None = None) -> None:
    """Rotation of every head of a row by that row's angles."""
    x, result = chip.values[call.operands["x"]], chip.values[call.result]
    width = int(call.attributes["width"])
    cos = chip.values[call.operands["cos"]]
    table = len(cos.shape) and cos.width
    options: dict[str, Any] = {"interleaved": bool(call.attributes.get("interleaved"))}
    options |= scales(chip, call)
    layout = _heads(chip, group, x, width, only or range(x.width))
    with laid_out(chip, result.name, layout, group):
        for part in _by_heads(chip, layout, width, _limit(chip, [x] * 3)):
            rows = part.rows if cos.rows > 1 else range(1)
            operands = [chip.fetch(x.name, part.rows, part.columns, part.tile)]
            for role in ("cos", "sin"):
                operand = chip.fetch(call.operands[role], rows, range(table), part.tile)
                operands.append(operand.shaped(len(rows), 1, table))
            heads = len(part.columns) // width
            operands[0] = operands[0].shaped(len(part.rows), heads, width)
            target = chip.target(result.name, part.rows, part.columns, part.tile)
            cycles = costs.vector_cycles(
                chip.machine, "rope", len(part.rows) * len(part.columns), bits_of(x, result)
            )
            out = target.shaped(len(part.rows), heads, width)
            chip.task("rope", operands, [out], cycles, part.tile, **options)


def _heads(chip: Chip, group: Group, x: Value, width: int, columns: range) -> list[Rectangle]:
    """Rectangles of whole heads: as x lies on the tiles if heads are whole there, else dealt out."""
    parts = element_layout(chip, group, x.name, columns)
    if any(part.columns.start % width or part.columns.stop % width for part in parts):
        if group.by_columns:
            cut = pieces(columns, chip.machine.tiles, width)
            return [Rectangle(group.rows, part, tile) for tile, part in enumerate(cut)]
        return [Rectangle(rows, columns, tile) for rows, tile in group.blocks]
    return parts


def _by_heads(
    chip: Chip, layout: Sequence[Rectangle], width: int, limit: int
) -> Iterator[Rectangle]:
    """Tasks of a layout: about `limit` elements, whole heads."""
    for part in element_rectangles(chip, layout, 1 << 60, width):
        step = max(1, limit // len(part.rows) // width) * width
        for columns in steps(part.columns, step):
            yield Rectangle(part.rows, columns, part.tile)


def element_call(chip: Chip, call: Call, group: Group, only: range | None = None) -> None:
    """Element-wise calls; operands are whole, one row for all, one column for all, or one number.

    `only` takes the part of a column chain that has just been computed.
    """
    result = chip.values[call.result]
    inputs = [chip.values[name] for name in call.operands.values()]
    options = dict(call.attributes) | scales(chip, call)
    lead = next((v for v in inputs if (v.rows, v.width) == (result.rows, result.width)), result)
    fast = on_dpu(call.family, call.attributes, inputs, result)
    layout = element_layout(chip, group, lead.name, only or range(result.width))
    with laid_out(chip, result.name, layout, group):
        for part in element_rectangles(chip, layout, _limit(chip, [*inputs, result])):
            operands = [_broadcast(chip, value, part) for value in inputs]
            target = chip.target(result.name, part.rows, part.columns, part.tile)
            elements = len(part.rows) * len(part.columns)
            if fast:
                cycles = costs.elementwise_cycles(chip.machine, elements)
                ratios = _ratios(call, inputs, result)
                chip.task("elementwise", operands, [target], cycles, part.tile,
                          function=call.attributes["function"], **ratios)  # fmt: skip
                continue
            cycles = costs.vector_cycles(
                chip.machine, _element_cost(call), elements, bits_of(*inputs, result)
            )
            chip.task(call.family, operands, [target], cycles, part.tile, **options)


def on_dpu(
    family: str, attributes: Mapping[str, Any], inputs: Sequence[Value], result: Value
) -> bool:
    """Two whole operands and one plain operation: the DPU's element-wise mode."""
    return (
        family == "binary"
        and attributes["function"] in _DPU_BINARY
        and all(v.rows == result.rows and v.width == result.width for v in inputs)
        and all(v.dtype in ("i8", "f16") for v in (*inputs, result))
    )


def _ratios(call: Call, inputs: list[Value], result: Value) -> dict[str, Any]:
    """f32 factors of i8 operands: their scale over that of the result."""
    scale = _scale(result) if result.dtype == "i8" else 1.0
    own = [_scale(v) if v.dtype == "i8" else 1.0 for v in inputs]
    if call.attributes["function"] == "multiply":
        own = [own[0] / scale, own[1]]
    else:
        own = [one / scale for one in own]
    found: dict[str, Any] = {"ratios": tuple(own)}
    if call.attributes.get("relu"):
        found["relu"] = True
    return found


def _broadcast(chip: Chip, value: Value, part: Rectangle) -> Operand:
    rows = part.rows if value.rows > 1 else range(1)
    columns = part.columns if value.width > 1 else range(1)
    return chip.fetch(value.name, rows, columns, part.tile)


def _element_cost(call: Call) -> str:
    if call.family == "unary":
        return UNARY_COSTS[call.attributes["function"]]
    if call.family == "binary":
        return BINARY_COSTS[call.attributes["function"]]
    return "add" if call.family == "bound" else call.family
