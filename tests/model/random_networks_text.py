"""Random networks with weights, as kernel intents: products with and without bias, convolutions,
norms, activations, residuals, views, joins, towers of identical layers, several outputs."""

from __future__ import annotations

import random
from collections.abc import Callable

from waist_models import imported

from tilewright.frontend.imported import Imported

Shape = tuple[int, ...]
UNARY = ("elementwise_relu", "silu", "gelu_tanh", "elementwise_tanh", "elementwise_sigmoid")


def tensor(shape: Shape) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, 'f32')))}>"


def maps(*reads: str) -> str:
    dims = max(reads, key=len)
    return f"operand_maps = [{', '.join(f'affine_map<({dims}) -> ({read})>' for read in reads)}]"


class Writer:
    """A function that grows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.values: list[tuple[str, Shape]] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def weight(self, name: str, shape: Shape) -> str:
        value = self.name()
        self.lines.append(f'  %{value} = arith.constant dense_resource<"{name}"> : {tensor(shape)}')
        return value

    def call(self, family: str, operands: list[tuple[str, Shape]], shape: Shape, *options: str):
        value = self.name()
        names = ", ".join(f"%{name}" for name, _ in operands)
        types = ", ".join(tensor(s) for _, s in operands)
        attributes = f" {{{', '.join(options)}}}" if options else ""
        self.lines.append(
            f'  %{value} = npu_kernel.ukernel_generic "npu_uk_{family}"({names}){attributes} : '
            f"{types} -> {tensor(shape)}"
        )
        return value, shape

    def matmul(self, x: tuple[str, Shape], w: str, shape: Shape, result: Shape, mark: str):
        value = self.name()
        self.lines.append(
            f"  %{value} = npu_kernel.matmul %{x[0]}, %{w}{mark} : {tensor(x[1])}, "
            f"{tensor(shape)} -> {tensor(result)}"
        )
        return value, result


def linear(writer: Writer, x: tuple[str, Shape], layer: str = "") -> tuple[str, Shape]:
    """A product with weights, sometimes transposed, sometimes with a bias or an activation."""
    chance, layer = writer.random, layer or f"linear{writer.count}"
    wide, width = x[1][-1], chance.choice([5, 8, 16, 33])
    if ".tower" in layer:
        width = wide
    turned = chance.random() < 0.5
    shape = (width, wide) if turned else (wide, width)
    w = writer.weight(f"{layer}.weight", shape)
    result = (*x[1][:-1], width)
    made = writer.matmul(x, w, shape, result, " {transpose_rhs}" if turned else "")
    if chance.random() < 0.6:
        b = writer.weight(f"{layer}.bias", (width,))
        dims = ", ".join(f"d{n}" for n in range(len(result)))
        operands = [made, (b, (width,))]
        made = writer.call("elementwise_add", operands, result, maps(dims, f"d{len(result) - 1}"))
    if chance.random() < 0.5:
        made = writer.call(chance.choice(UNARY), [made], result)
    return made


def convolution(writer: Writer, x: tuple[str, Shape], layer: str = "") -> tuple[str, Shape] | None:
    if len(x[1]) != 4:
        return None
    chance = writer.random
    n, channels, height, width = x[1]
    depthwise = chance.random() < 0.4
    filters = channels if depthwise else chance.choice([4, 6])
    w_shape = (filters, 1 if depthwise else channels, 3, 3)
    w = writer.weight(f"conv{writer.count}.weight", w_shape)
    groups = f"groups = {channels if depthwise else 1} : i64"
    operands = [x, (w, w_shape)]
    if chance.random() < 0.5:
        operands.append((writer.weight(f"conv{writer.count}.bias", (filters,)), (filters,)))
    made = writer.call(
        "conv2d", operands, (n, filters, height, width), groups, "padding = array<i64: 1, 1, 1, 1>"
    )
    if chance.random() < 0.5:
        made = writer.call("clamp", [made], made[1], "min = 0.0 : f32", "max = 6.0 : f32")
    return made


def unary(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    return writer.call(writer.random.choice(UNARY), [x], x[1])


def norm(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    g = writer.weight(f"norm{writer.count}.weight", x[1][-1:])
    return writer.call("rms_norm", [x, (g, x[1][-1:])], x[1], "epsilon = 1.0e-5 : f32")


def softmax(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    return writer.call("softmax", [x], x[1])


def residual(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape] | None:
    other = [value for value in writer.values if value[1] == x[1]]
    family = writer.random.choice(["elementwise_add", "elementwise_add", "elementwise_mul"])
    return writer.call(family, [x, writer.random.choice(other)], x[1]) if other else None


def reshape(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    size = 1
    for n in x[1][:-1]:
        size *= n
    return writer.call("reshape", [x], (size, x[1][-1]))


def transpose(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    order = list(range(len(x[1])))
    writer.random.shuffle(order)
    text = f"permutation = array<i64: {', '.join(map(str, order))}>"
    return writer.call("transpose", [x], tuple(x[1][d] for d in order), text)


def part(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape] | None:
    if x[1][-1] < 4:
        return None
    size = (*x[1][:-1], x[1][-1] - 2)
    offsets = ", ".join(["0"] * (len(size) - 1) + ["1"])
    sizes = ", ".join(map(str, size))
    options = (f"offsets = array<i64: {offsets}>", f"sizes = array<i64: {sizes}>")
    return writer.call("slice", [x], size, *options)


def join(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    fitting = [v for v in writer.values if v[1][:-1] == x[1][:-1]]
    other = writer.random.choice(fitting or [x])
    shape = (*x[1][:-1], x[1][-1] + other[1][-1])
    return writer.call("concat", [x, other], shape, f"axis = {len(shape) - 1} : i64")


def pool(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape] | None:
    if len(x[1]) != 4 or min(x[1][2:]) < 4:
        return None
    shape = (*x[1][:2], x[1][2] // 2, x[1][3] // 2)
    options = ("kernel = array<i64: 2, 2>", "strides = array<i64: 2, 2>")
    return writer.call(writer.random.choice(["pool_max", "pool_avg"]), [x], shape, *options)


def mean(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    axis = len(x[1]) - 1
    options = (f"axes = array<i64: {axis}>", "keepdims")
    return writer.call("reduction_mean", [x], (*x[1][:-1], 1), *options)


def tower(writer: Writer, x: tuple[str, Shape]) -> tuple[str, Shape]:
    """Identical layers: the same choices again and again, with weights of their own."""
    state, start = writer.random.getstate(), f"tower{writer.count}"
    for number in range(writer.random.choice([2, 3, 5])):
        after = writer.random.getstate()
        writer.random.setstate(state)
        x = linear(writer, x, f"{start}.tower.{number}")
        if len(x[1]) > 1:
            writer.values.append(x)
        if number:
            writer.random.setstate(after)
    return x


LAYERS: tuple[Callable, ...] = (
    *(linear, linear, linear, convolution, convolution, unary, norm, softmax, residual, residual),
    *(reshape, transpose, part, join, pool, mean, tower),
)


def random_network(seed: int) -> Imported:
    """A network of 4 to 12 layers."""
    writer = Writer(seed)
    chance = writer.random
    shape = chance.choice([(7, 12), (3, 5, 8), (2, 3, 8, 8), (1, 17)])
    writer.values.append(("x", shape))
    for _ in range(chance.randint(4, 12)):
        x = chance.choice(writer.values[-2:])
        made = chance.choice(LAYERS)(writer, x)
        if made is not None and max(made[1]) < 100:
            writer.values.append(made)
    results = [writer.values[-1]]
    results += [v for v in writer.values[1:-1] if chance.random() < 0.15]
    names, types = (
        ", ".join(column)
        for column in zip(*((f"%{n}", tensor(s)) for n, s in results), strict=True)
    )
    body = "\n".join(writer.lines)
    text = f"func.func @main(%x: {tensor(shape)}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"
    return imported(text, seed)
