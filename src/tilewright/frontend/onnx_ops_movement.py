"""ONNX operators that move values: shapes, slices, joins, lookups."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import integers
from tilewright.dialects.xdsl_api import (
    Attribute,
    FloatAttr,
    IntegerAttr,
    SSAValue,
    TensorType,
)
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, front, lowers, unsupported
from tilewright.frontend.onnx_ops_rows import axis_attribute
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    Constant,
    Value,
    element,
    is_float,
    number_of,
    shape,
)

# ------------------------------------------------------------------------ constants and shapes


@lowers("Constant")
def constant(low: Lowering, node: Node) -> Value:
    given = node.attributes
    node.seen.update(given)
    if isinstance(given.get("value"), Constant):
        value = given["value"]
        return Constant(value.array, node.output_names[0], value.number)
    for name, number in (
        ("value_float", 1),
        ("value_floats", 1),
        ("value_int", 7),
        ("value_ints", 7),
    ):
        if name in given:
            array = np.asarray(given[name], dtype=ELEMENTS[number][2])
            return Constant(array, node.output_names[0], number)
    unsupported("a constant of text or of sparse values has no tensor here")


@lowers("Shape")
def shape_of_value(low: Lowering, node: Node) -> Value:
    sizes = shape(node.required(0))
    rank = len(sizes)
    start, end = node.get("start", 0), node.get("end", rank)
    start, end = (min(max(v + rank if v < 0 else v, 0), rank) for v in (start, end))
    return low.integers(sizes[start:end], node.output_names[0])


@lowers("Size")
def size(low: Lowering, node: Node) -> Value:
    return low.integers(math.prod(shape(node.required(0))), node.output_names[0])


@lowers("ConstantOfShape")
def constant_of_shape(low: Lowering, node: Node) -> Value:
    value = node.get("value")
    sizes = low.known_list(node.required(0), "the shape")
    number = value.number if isinstance(value, Constant) else 1
    fill = value.array.reshape(-1)[0] if isinstance(value, Constant) else np.float32(0)
    if math.prod(sizes) <= 1 << 16:
        return low.constant(np.full(sizes, fill), number, node.output_names[0])
    from tilewright.dialects.intents import literal

    return low.fill(literal(fill.item(), ELEMENTS[number][1]).value, sizes)


@lowers("EyeLike")
def eye_like(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    number = node.get("dtype") or number_of(x)
    return low.constant(np.eye(*shape(x), k=node.get("k", 0)), number, node.output_names[0])


@lowers("NonZero")
def non_zero(low: Lowering, node: Node) -> Value:
    found = np.nonzero(low.known(node.required(0), "where it is not zero"))
    return low.integers(np.stack(found) if found else np.zeros((0, 1)), node.output_names[0])


@lowers("Reshape")
def reshape(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    wanted = low.known_list(node.required(1), "the shape")
    sizes = shape(x)
    if not node.get("allowzero", 0):
        if any(n == 0 and i >= len(sizes) for i, n in enumerate(wanted)):
            raise Problem("TW6009", f"shape {wanted} copies a dimension the input does not have")
        wanted = [sizes[i] if n == 0 else n for i, n in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = math.prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = math.prod(sizes) // rest if rest else 0
    if math.prod(wanted) != math.prod(sizes) or min(wanted, default=0) < 0:
        raise Problem("TW6009", f"shape {list(sizes)} cannot become {wanted}")
    return reshaped(low, x, wanted)


def reshaped(low: Lowering, x: Value, sizes: Sequence[int]) -> Value:
    """The value with another shape; constants stay constants."""
    if isinstance(x, Constant):
        return Constant(x.array.reshape(sizes), x.name, x.number, x.weight)
    return low.reshape(x, sizes)


@lowers("Flatten")
def flatten(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    sizes = shape(x)
    axis = node.get("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return reshaped(low, x, [math.prod(sizes[:axis]), math.prod(sizes[axis:])])


@lowers("Squeeze")
def squeeze(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    sizes = shape(x)
    axes = low.axes(node, 1, len(sizes))
    if axes is None:
        axes = [d for d, n in enumerate(sizes) if n == 1]
    if any(sizes[d] != 1 for d in axes):
        raise Problem("TW6009", f"axes {axes} of shape {list(sizes)} are not all of size 1")
    return reshaped(low, x, [n for d, n in enumerate(sizes) if d not in axes])


@lowers("Unsqueeze")
def unsqueeze(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    value = node.input(1)
    given = node.get("axes", []) if value is None else low.known_list(value, "axes")
    rank = len(shape(x)) + len(given)
    axes = {front(axis, rank) for axis in given}
    rest = iter(shape(x))
    return reshaped(low, x, [1 if d in axes else next(rest) for d in range(rank)])


@lowers("Transpose")
def transpose(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    rank = len(shape(x))
    return low.transpose(x, node.get("perm") or list(range(rank))[::-1])


@lowers("Expand")
def expand(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    wanted = low.known_list(node.required(1), "the shape")
    try:
        sizes = np.broadcast_shapes(shape(x), tuple(wanted))
    except ValueError:
        raise Problem("TW6009", f"shape {list(shape(x))} cannot expand to {wanted}") from None
    return low.expand(x, sizes)


@lowers("Tile")
def tile(low: Lowering, node: Node) -> Value:
    """Each dimension gets a repeating one of size 1 before it, which is expanded."""
    x = low.tensor(node.required(0))
    repeats = low.known_list(node.required(1), "repeats")
    sizes = shape(x)
    apart = [n for size in sizes for n in (1, size)]
    wide = [n for count, size in zip(repeats, sizes, strict=True) for n in (count, size)]
    result = low.expand(low.reshape(x, apart), wide)
    return low.reshape(result, [n * r for n, r in zip(sizes, repeats, strict=True)])


@lowers("DepthToSpace", "SpaceToDepth")
def blocks(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    batch, channels, height, width = shape(x)
    block = node.get("blocksize")
    if node.operator == "SpaceToDepth":
        parts = low.reshape(x, [batch, channels, height // block, block, width // block, block])
        depth_first = node.get("mode", "DCR") == "DCR"
        moved = low.transpose(parts, [0, 3, 5, 1, 2, 4] if depth_first else [0, 1, 3, 5, 2, 4])
        return low.reshape(moved, [batch, channels * block**2, height // block, width // block])
    depth = channels // block**2
    if node.get("mode", "DCR") == "DCR":
        parts = low.reshape(x, [batch, block, block, depth, height, width])
        moved = low.transpose(parts, [0, 3, 4, 1, 5, 2])
    else:
        parts = low.reshape(x, [batch, depth, block, block, height, width])
        moved = low.transpose(parts, [0, 1, 4, 2, 5, 3])
    return low.reshape(moved, [batch, depth, height * block, width * block])


# ------------------------------------------------------------------------------ parts and joins


@lowers("Concat")
def concat(low: Lowering, node: Node) -> Value:
    parts = [low.tensor(value) for value in node.inputs if value is not None]
    axis = front(node.get("axis", 0), len(shape(parts[0])))
    parts = [p for p in parts if shape(p)[axis]] or parts[:1]
    return parts[0] if len(parts) == 1 else low.concat(parts, axis)


@lowers("Split")
def split(low: Lowering, node: Node) -> list[Value]:
    x = low.tensor(node.required(0))
    sizes = list(shape(x))
    axis = front(node.get("axis", 0), len(sizes))
    value = node.input(1)
    given = node.get("split") if value is None else low.known_list(value, "the sizes")
    if given is None:
        count = node.get("num_outputs") or len(node.output_names)
        each = -(-sizes[axis] // count)
        given = [max(0, min(each, sizes[axis] - each * i)) for i in range(count)]
    if sum(given) != sizes[axis]:
        raise Problem("TW6009", f"parts of {given} do not make up {sizes[axis]} elements")
    results: list[Value] = []
    start = 0
    for part in given:
        offsets = [start if d == axis else 0 for d in range(len(sizes))]
        results.append(
            window(low, x, offsets, [part if d == axis else n for d, n in enumerate(sizes)])
        )
        start += part
    return results


def window(
    low: Lowering, x: SSAValue, offsets: Sequence[int], sizes: Sequence[int],
    strides: Sequence[int] | None = None,
) -> SSAValue:  # fmt: skip
    """A part of x; all of it is x itself."""
    if tuple(sizes) == shape(x) and not any(offsets):
        return x
    return low.slice(x, offsets, sizes, strides or [1] * len(sizes))


@lowers("Slice")
def slice_(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    rank = len(shape(x))
    starts = low.known_list(node.required(1), "starts")
    ends = low.known_list(node.required(2), "ends")
    axes_value, steps_value = node.input(3), node.input(4)
    axes = list(range(len(starts))) if axes_value is None else low.known_list(axes_value, "axes")
    steps = [1] * len(starts) if steps_value is None else low.known_list(steps_value, "steps")
    offsets, sizes, strides = [0] * rank, list(shape(x)), [1] * rank
    backwards: dict[int, range] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = front(axis, rank)
        chosen = range(*slice(start, end, step).indices(shape(x)[axis]))
        if step < 0:
            backwards[axis] = chosen
        else:
            offsets[axis], sizes[axis], strides[axis] = chosen.start, len(chosen), step
            if not len(chosen):
                offsets[axis] = 0
    result = window(low, x, offsets, sizes, strides)
    for axis, chosen in backwards.items():
        result = take(low, result, low.integers(list(chosen), "backwards"), axis)
    return result


@lowers("Pad")
def pad(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    rank = len(shape(x))
    amounts = low.known_list(node.required(1), "the amounts")
    axes_value = node.input(3)
    axes = list(range(rank)) if axes_value is None else low.known_list(axes_value, "axes")
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        before[front(axis, rank)] = amounts[index]
        after[front(axis, rank)] = amounts[index + len(axes)]
    mode = node.get("mode", "constant")
    if mode != "constant":
        return _pad_with_itself(low, x, before, after, mode)
    value = node.input(2)
    number = 0 if value is None else low.known(value, "the border value").reshape(-1)[0].item()
    offsets = [max(0, -b) for b in before]
    sizes = [n - o - max(0, -a) for n, o, a in zip(shape(x), offsets, after, strict=True)]
    inner = window(low, x, offsets, sizes)
    return border(low, inner, [max(0, b) for b in before], [max(0, a) for a in after], number)


def border(
    low: Lowering, x: SSAValue, before: Sequence[int], after: Sequence[int], number: float | int
) -> SSAValue:
    """x with a border of one number."""
    if not any(before) and not any(after):
        return x
    kind = element(x)
    sizes = [n + b + a for n, b, a in zip(shape(x), before, after, strict=True)]
    attributes: dict[str, Attribute] = {"low": integers(before), "high": integers(after)}
    if number:
        make = FloatAttr if is_float(kind) else IntegerAttr
        attributes["value"] = make(number, kind)  # type: ignore[arg-type]
    return low.call("pad", [x], TensorType(kind, sizes), attributes)


def _pad_with_itself(
    low: Lowering, x: SSAValue, before: Sequence[int], after: Sequence[int], mode: str
) -> SSAValue:
    """Borders that repeat, mirror or wrap the values: lookups at positions known now."""
    names = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    if mode not in names:
        unsupported(f"padding of the kind {mode!r}")
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        if not b and not a:
            continue
        numbers = np.arange(shape(x)[axis])[max(0, -b) : shape(x)[axis] - max(0, -a)]
        numbers = np.pad(numbers, (max(0, b), max(0, a)), mode=names[mode])  # type: ignore[call-overload]
        x = take(low, x, low.integers(numbers, "border"), axis)
    return x


@lowers("Trilu")
def triangle(low: Lowering, node: Node) -> Value:
    x, k = node.required(0), node.input(1)
    shift = 0 if k is None else low.known_list(k, "k")[0]
    rows, columns = shape(x)[-2:]
    keep = np.triu if node.get("upper", 1) else np.tril
    mask = Constant(keep(np.ones((rows, columns), np.bool_), shift), "triangle", 9)
    return low.apply("select", mask, x, low.constant(0, x), to=element(x))


def take(low: Lowering, x: SSAValue, indices: Value, axis: int, table: bool = False) -> SSAValue:
    """x at indices along an axis: a slice where they are known and in a row, else a lookup."""
    sizes, count = list(shape(x)), shape(x)[axis]
    result = [*sizes[:axis], *shape(indices), *sizes[axis + 1 :]]
    if isinstance(indices, Constant):
        numbers = indices.array.reshape(-1).astype(np.int64)
        if numbers.size and (numbers.min() < -count or numbers.max() >= count):
            raise Problem("TW6009", f"an index leaves axis {axis}, which has {count} elements")
        numbers = np.where(numbers < 0, numbers + count, numbers)
        steps = np.diff(numbers)
        if numbers.size and (steps.size == 0 or ((steps == steps[0]).all() and steps[0] > 0)):
            offsets, strides = [0] * len(sizes), [1] * len(sizes)
            offsets[axis], sizes[axis] = int(numbers[0]), numbers.size
            strides[axis] = int(steps[0]) if steps.size else 1
            return low.reshape(window(low, x, offsets, sizes, strides), result)
        indices = low.integers(numbers.reshape(shape(indices)), indices.name)
    elif count:
        indices = from_front(low, indices, count)
    family = "embedding" if table and axis == 0 and len(sizes) == 2 else "gather"
    operands = [x, low.tensor(indices)]
    return low.call(family, operands, TensorType(element(x), result), axis_attribute(axis))


def from_front(low: Lowering, indices: Value, count: int) -> SSAValue:
    """Indices with those that count from the end made positive."""
    below = low.compare("lt", indices, 0)
    moved = low.apply("elementwise_add", indices, count)
    return low.apply("select", below, moved, indices, to=element(indices))
