"""StableHLO operations along dimensions: reductions, windows, sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
)
from tilewright.frontend.aten_builder import integer
from tilewright.frontend.aten_graph import BY_NAME, ScalarType, element_type
from tilewright.frontend.stablehlo_builder import HLOImporter, Value, View, extent, lowers, order_of
from tilewright.frontend.stablehlo_ops_elementwise import BINARY, combined
from tilewright.frontend.stablehlo_ops_movement import padded
from tilewright.frontend.stablehlo_reading import number, numbers

KINDS = {
    "stablehlo.add": "sum",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.multiply": "prod",
    "stablehlo.and": "min",
    "stablehlo.or": "max",
}


def body_operation(region: Region) -> str | None:
    """The name of the one operation on both arguments that a body consists of."""
    block = region.blocks[0] if region.blocks else Block()
    ops = list(block.ops)
    if len(ops) != 2 or not ops[0].results or len(block.args) != 2:
        return None
    if set(ops[0].operands) != set(block.args) or list(ops[1].operands) != [ops[0].results[0]]:
        return None
    return ops[0].name


def is_neutral(name: str, start: float | int | None, kind: ScalarType) -> bool:
    """Whether starting with a number changes nothing."""
    if start is None:
        return False
    if name == "stablehlo.add":
        return start == 0
    if name == "stablehlo.multiply":
        return start == 1
    if name in ("stablehlo.and", "stablehlo.or"):
        return bool(start) == (name == "stablehlo.and")
    lowest = -math.inf if kind.is_float else 0 if kind.name in ("i1",) else None
    if lowest is None:
        lowest = np.iinfo(kind.storage).min
    highest = math.inf if kind.is_float else 1 if kind.name == "i1" else np.iinfo(kind.storage).max
    return start == (lowest if name == "stablehlo.maximum" else highest)


@lowers("reduce")
def reduce(importer: HLOImporter, op: HLOOp) -> Value | Sequence[Value]:
    axes = numbers(op, "dimensions")
    if len(op.operands) == 4:
        return _positions(importer, op, axes)
    if len(op.operands) != 2:
        raise importer.refused("reduces several values at a time", hint="reduce them one by one")
    x, start = importer.operand(0), importer.operand(1)
    name = body_operation(op.regions[0])
    if name not in KINDS:
        raise importer.refused(
            "has a body that is no sum, product, maximum or minimum",
            hint="use jnp.sum, jnp.max and the like",
        )
    kind = importer.kind_of(x)
    found = reduced(importer, KINDS[name], x, axes)
    if not is_neutral(name, importer.constant_of(start), kind):
        spread = importer.repeated(start, [], extent(found))
        found = combined(importer, BINARY[name], found, spread)
    return found


def reduced(importer: HLOImporter, kind: str, x: Value, axes: Sequence[int]) -> Value:
    """A reduction in the order of the tensor behind; truth values go through integers."""
    order = order_of(x)
    if isinstance(x, View) and order is not None:
        inner = reduced(importer, kind, x.tensor, [order.index(axis) for axis in axes])
        kept = sorted(d for d in order if d not in axes)
        after = [kept.index(d) for d in order if d not in axes]
        return importer.reordered(inner, [after.index(d) for d in range(len(after))])
    tensor = importer.whole(x)
    if importer.kind(tensor).name == "i1":
        wide = importer.cast(tensor, BY_NAME["i32"])
        return importer.cast(importer.reduction(kind, wide, axes), BY_NAME["i1"])
    return importer.reduction(kind, tensor, sorted(axes)) if axes else tensor


def probe(importer: HLOImporter, region: Region, values: Sequence[float]) -> list[float]:
    """What a body gives for numbers, found by computing it."""
    arguments: list[Value] = []
    for argument, value in zip(region.blocks[0].args, values, strict=True):
        assert isinstance(argument.type, TensorType)
        storage = BY_NAME[str(argument.type.element_type)].storage
        arguments.append(importer.constant(np.asarray(value).astype(storage)))
    return [
        float(importer.array(v)) if importer.is_known(v) else math.nan
        for v in importer.inlined(region.blocks[0], arguments)
    ]


def _positions(importer: HLOImporter, op: HLOOp, axes: list[int]) -> list[Value]:
    """The largest or smallest element and where it is, reduced together as JAX does."""
    x, places = importer.operand(0), importer.operand(1)
    shape = extent(x)
    region = op.regions[0]
    if len(axes) == 1 and importer.is_known(places) and len(region.blocks[0].args) == 4:
        along = np.arange(shape[axes[0]]).reshape(
            [-1 if d == axes[0] else 1 for d in range(len(shape))]
        )
        counts = np.array_equal(importer.array(places), np.broadcast_to(along, shape))
        ties = probe(importer, region, [1, 0, 1, 1]) == [1, 0] == probe(
            importer, region, [1, 1, 1, 0]
        )  # fmt: skip
        truth = importer.kind_of(x).name == "i1"
        low, high = (0, 1) if truth else (1, 2)
        picks = [probe(importer, region, [a, 0, b, 1]) for a, b in ((low, high), (high, low))]
        kinds = {((high, 1.0), (high, 0.0)): "max", ((low, 0.0), (low, 1.0)): "min"}
        kind = kinds.get((tuple(picks[0]), tuple(picks[1])))  # type: ignore[arg-type]
        if counts and ties and kind is not None and truth:
            wide = importer.whole(importer.convert(x, BY_NAME["i32"]))
            position = importer.call(
                f"arg{kind}", [wide], importer.result_type(1), {"axis": integer(axes[0])}
            )
            extreme = importer.reduction(kind, wide, axes)
            return [importer.convert(extreme, BY_NAME["i1"]), position]
        if counts and ties and kind is not None:
            tensor = importer.whole(x)
            position = importer.call(
                f"arg{kind}", [tensor], importer.result_type(1), {"axis": integer(axes[0])}
            )
            return [importer.reduction(kind, tensor, axes), position]
    raise importer.refused(
        "reduces several values at a time", hint="jnp.argmax and jnp.argmin are known"
    )


# ---------------------------------------------------------------------------------------- windows


RUNNING = {
    "stablehlo.add": "cumsum", "stablehlo.multiply": "cumprod",
    "stablehlo.maximum": "cummax", "stablehlo.minimum": "cummin",
}  # fmt: skip


@lowers("reduce_window")
def reduce_window(importer: HLOImporter, op: HLOOp) -> Value:
    if len(op.operands) != 2:
        raise importer.refused("reduces several values at a time")
    x = importer.input(0)
    shape = shape_of(x)
    rank = len(shape)
    window = numbers(op, "window_dimensions")
    strides = numbers(op, "window_strides", [1] * rank)
    dilations = numbers(op, "window_dilations", [1] * rank)
    if any(n != 1 for n in numbers(op, "base_dilations", [1] * rank)):
        raise importer.refused("spreads its input")
    borders = numbers(op, "padding", [0] * (2 * rank))
    borders = borders * (2 * rank) if len(borders) == 1 else borders
    low, high = borders[::2], borders[1::2]
    name = body_operation(op.regions[0])
    kind = importer.kind(x)
    if name not in RUNNING:
        raise importer.refused(
            "has a body that is no sum, product, maximum or minimum",
            hint="use jnp.cumsum, jax.lax.cummax and the like, or sums and maxima over windows",
        )
    start = importer.constant_of(importer.operand(1))
    if not is_neutral(name, start, kind):
        raise importer.refused(f"starts with {'a value' if start is None else start}")
    if (axis := _running(shape, window, strides, dilations, low, high)) is not None:
        return importer.call(RUNNING[name], [x], x.type, {"axis": integer(axis)})
    if name == "stablehlo.multiply":
        raise importer.refused("multiplies what windows hold", hint="jnp.cumprod is known")
    if name == "stablehlo.minimum":
        turned = importer.unary("elementwise_neg", x)
        found = pooled(importer, "max", turned, window, strides, dilations, low, high)
        return importer.unary("elementwise_neg", found)
    family = "max" if name == "stablehlo.maximum" else "sum"
    return pooled(importer, family, x, window, strides, dilations, low, high)


def _running(shape, window, strides, dilations, low, high) -> int | None:
    """The axis of a window that reaches back to the first element: a running sum."""
    axes = [d for d, n in enumerate(window) if n != 1]
    if len(axes) != 1 or any(n != 1 for n in (*strides, *dilations)) or any(high):
        return None
    axis = axes[0]
    alone = all(not n for d, n in enumerate(low) if d != axis)
    return axis if alone and window[axis] == shape[axis] and low[axis] == shape[axis] - 1 else None


def pooled(
    importer: HLOImporter,
    family: str,
    x: SSAValue,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    low: list[int],
    high: list[int],
) -> SSAValue:
    """A pooling intent over at most two dimensions; others are moved out of the way."""
    if family == "sum" and any((*low, *high)):
        # Counted in the window, so that a division by its size is an average over all of it.
        x = padded(importer, x, 0, low, high)
        low, high = [0] * len(low), [0] * len(high)
    shape = shape_of(x)
    rank = len(shape)
    moving = [d for d in range(rank) if window[d] != 1 or strides[d] != 1 or low[d] or high[d]]
    if not moving:
        return x
    if len(moving) > 2:
        raise importer.refused(
            f"slides over {len(moving)} dimensions", hint="two dimensions are known"
        )
    layout = None
    if rank == 4 and set(moving) <= {2, 3}:
        layout = "nchw"
    elif rank == 4 and set(moving) <= {1, 2}:
        layout = "nhwc"
    if layout is not None:
        spatial = [2, 3] if layout == "nchw" else [1, 2]
        return _pool(importer, family, x, layout, spatial, window, strides, dilations, low, high)
    others = [d for d in range(rank) if d not in moving]
    order = [*others, *moving]
    moved = importer.transpose(x, order)
    plane = [1] * (2 - len(moving)) + [shape[d] for d in moving]
    image = importer.reshape(moved, [1, math.prod(shape[d] for d in others), *plane])
    pick = [*([None] * (2 - len(moving))), *moving]

    def four(values: Sequence[int], otherwise: int) -> list[int]:
        return [otherwise] * 2 + [otherwise if d is None else values[d] for d in pick]

    found = _pool(
        importer, family, image, "nchw", [2, 3], four(window, 1), four(strides, 1),
        four(dilations, 1), four(low, 0), four(high, 0),
    )  # fmt: skip
    sizes = shape_of(found)[2:][2 - len(moving) :]
    back = importer.reshape(found, [*(shape[d] for d in others), *sizes])
    return importer.transpose(back, [order.index(d) for d in range(rank)])


def _pool(
    importer: HLOImporter, family: str, x: SSAValue, layout: str, spatial: Sequence[int],
    window: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    low: Sequence[int], high: Sequence[int],
) -> SSAValue:  # fmt: skip
    shape = list(shape_of(x))
    attributes: dict[str, Attribute] = {
        "kernel": integers([window[d] for d in spatial]),
        "strides": integers([strides[d] for d in spatial]),
        "padding": integers([low[d] for d in spatial] + [high[d] for d in spatial]),
        "dilations": integers([dilations[d] for d in spatial]),
        "layout": StringAttr(layout),
    }
    for d in spatial:
        reach = dilations[d] * (window[d] - 1) + 1
        shape[d] = (shape[d] + low[d] + high[d] - reach) // strides[d] + 1
    element = element_type(importer.kind(x))
    return importer.call(f"pool_{family}", [x], TensorType(element, shape), attributes)


# ---------------------------------------------------------------------------------------- sorting


@lowers("sort")
def sort(importer: HLOImporter, op: HLOOp) -> Value | Sequence[Value]:
    """Keys in order, and positions sorted with them."""
    keys = importer.input(0)
    axis = number(op, "dimension", -1) % max(1, len(shape_of(keys)))
    region = op.regions[0]
    rest = [0.0] * (len(region.blocks[0].args) - 2)
    answers = tuple(probe(importer, region, [a, b, *rest])[0] for a, b in ((1, 2), (2, 1), (1, 1)))
    if answers not in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
        raise importer.refused("compares with a body that is no plain order")
    found = _sorted(importer, keys, axis, descending=answers[0] == 0.0)
    if len(op.operands) == 1:
        return found[0]
    places = importer.operand(1)
    shape = shape_of(keys)
    along = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    if (
        len(op.operands) != 2
        or not importer.is_known(places)
        or not np.array_equal(importer.array(places), np.broadcast_to(along, shape))
    ):
        raise importer.refused("sorts values along with their keys", hint="use jnp.argsort")
    return [found[0], importer.cast(found[1], importer.kind_of(places))]


def _sorted(
    importer: HLOImporter, x: SSAValue, axis: int, descending: bool
) -> tuple[SSAValue, SSAValue]:
    attributes: dict[str, Attribute] = {"axis": integer(axis)}
    if descending:
        attributes["descending"] = UnitAttr()
    positions = TensorType(element_type(BY_NAME["i32"]), shape_of(x))
    return (
        importer.call("sort", [x], x.type, attributes),
        importer.call("argsort", [x], positions, attributes),
    )


@lowers("chlo.top_k")
def top_k(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    x = importer.input(0)
    count, axis = number(op, "k"), len(shape_of(x)) - 1
    found = _sorted(importer, x, axis, descending=True)
    values, places = (importer.cut(v, axis, 0, count) for v in found)
    return [values, importer.cast(places, importer.result_kind(1))]
