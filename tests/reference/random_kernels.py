"""Random `npu_kernel` modules: one kernel with random shapes, layouts and attributes, and a consumer.

They reach what linalg does not say directly: causal masks, grouped heads, kept initial values, scalars
in place of operands, every window attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from random_recipes import random_shape

from random_modules import FLOATS, Choices, Module, Value, affine, shuffled


class KernelWriter:
    """Arguments and lines of a function of kernel calls."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.arguments: list[Value] = []
        self.lines: list[str] = []
        self.steps = 0

    def argument(self, shape, element: str) -> Value:
        value = Value(f"%a{len(self.arguments)}", tuple(shape), element)
        self.arguments.append(value)
        return value

    def call(self, family: str, operands: list[Value], shape, element: str, **attributes) -> Value:
        result = Value(f"%k{len(self.lines)}", tuple(shape), element)
        names = ", ".join(v.name for v in operands)
        types = ", ".join(v.type for v in operands)
        words = []
        for name, text in attributes.items():
            if text is True:
                words.append(name)
            elif text not in (None, False):
                words.append(f"{name} = {text}")
        dictionary = f" {{{', '.join(words)}}}" if words else ""
        self.lines.append(
            f'{result.name} = npu_kernel.ukernel_generic "npu_uk_{family}"({names}){dictionary} : '
            f"({types}) -> {result.type}"
        )
        return result


def integers(values) -> str:
    listed = ", ".join(map(str, values))
    return f"array<i64: {listed}>" if listed else "array<i64>"


def elementwise(w: KernelWriter) -> Value:
    shape, t = random_shape(w.choices), w.choices.pick(FLOATS)
    x = w.argument(shape, t)
    family = w.choices.pick(
        (
            "elementwise_add",
            "elementwise_sub",
            "elementwise_mul",
            "elementwise_max",
            "silu",
            "gelu_tanh",
            "elementwise_tanh",
            "silu_gate",
            "compare",
            "select",
            "clamp",
            "cast",
        )
    )
    rank = len(shape)
    identity = affine(rank, range(rank))
    if family in ("silu", "gelu_tanh", "elementwise_tanh"):
        return w.call(family, [x], shape, t)
    if family == "clamp":
        return w.call(family, [x], shape, t, min=f"-0.5 : {t}", max=f"1.0 : {t}")
    if family == "cast":
        target = w.choices.pick(("f32", "bf16", "f8E4M3FN", "i32"))
        return w.call(family, [x], shape, target)
    if w.choices.integer(0, 3) == 0 and family not in ("silu_gate", "select"):
        side = w.choices.pick(("scalar_lhs", "scalar_rhs"))
        target = "i1" if family == "compare" else t
        extra = {"predicate": '"lt"'} if family == "compare" else {}
        return w.call(family, [x], shape, target, **{side: f"0.25 : {t}"}, **extra)
    dims = shuffled(w.choices, [d for d in range(rank) if w.choices.integer(0, 2)])
    y = w.argument([shape[d] for d in dims], t)
    maps = [identity, affine(rank, dims)]
    if family == "select":
        condition = w.argument(shape, "i1")
        maps = [identity, *maps]
        return w.call(family, [condition, x, y], shape, t, operand_maps=f"[{', '.join(maps)}]")
    target = "i1" if family == "compare" else t
    extra = {"predicate": w.choices.pick(('"lt"', '"ne"', '"uge"'))} if family == "compare" else {}
    return w.call(family, [x, y], shape, target, operand_maps=f"[{', '.join(maps)}]", **extra)


def rows(w: KernelWriter) -> Value:
    shape, t = random_shape(w.choices), w.choices.pick(FLOATS)
    x = w.argument(shape, t)
    axis = w.choices.integer(0, len(shape) - 1)
    family = w.choices.pick(("softmax", "rms_norm", "layer_norm", "reduction", "rope"))
    if family == "softmax":
        return w.call(family, [x], shape, t, axis=f"{axis} : i64")
    if family in ("rms_norm", "layer_norm"):
        count = w.choices.integer(0, 1 if family == "rms_norm" else 2)
        others = [w.argument([shape[axis]], t) for _ in range(count)]
        return w.call(family, [x, *others], shape, t, epsilon="1.0e-05 : f32", axis=f"{axis} : i64")
    if family == "rope":
        even = (*shape[:-1], shape[-1] + shape[-1] % 2)
        x = w.argument(even, t)
        # Tables as wide as a pair, repeated along some of the leading dimensions.
        leading = [n if w.choices.integer(0, 1) else 1 for n in even[:-1]]
        table = [*leading[w.choices.integer(0, len(leading)) :], even[-1] // 2]
        tables = [w.argument(table, t) for _ in range(2)]
        style = w.choices.pick(('"split_half"', '"interleaved"'))
        return w.call("rope", [x, *tables], even, t, style=style, axis="-1 : i64")
    kind = w.choices.pick(("sum", "max", "min", "mean", "prod"))
    axes = sorted({w.choices.integer(0, len(shape) - 1) for _ in range(2)})
    keep = bool(w.choices.integer(0, 1))
    if keep:
        result = [1 if d in axes else n for d, n in enumerate(shape)]
    else:
        result = [n for d, n in enumerate(shape) if d not in axes]
    operands = [x]
    if kind not in ("mean", "prod") and w.choices.integer(0, 2) == 0:
        operands.append(w.argument(result, t))
    return w.call(f"reduction_{kind}", operands, result, t, axes=integers(axes), keepdims=keep)


def matmul(w: KernelWriter) -> Value:
    pick = w.choices.integer
    batch = [pick(1, 3) for _ in range(pick(0, 2))]
    m, k, n = (pick(1, 100) for _ in range(3))
    t, out = w.choices.pick(
        (("f8E4M3FN", "bf16"), ("bf16", "bf16"), ("bf16", "f32"), ("f32", "f32"), ("i8", "i32"))
    )
    left, right = pick(0, 1), pick(0, 1)
    shared = batch if pick(0, 2) else []
    a = w.argument([*batch, *((k, m) if left else (m, k))], t)
    b = w.argument([*shared, *((n, k) if right else (k, n))], t)
    result = Value(f"%k{len(w.lines)}", (*batch, m, n), out)
    start = ""
    if pick(0, 2) == 0:
        acc = w.argument(result.shape, out)
        start = f" acc({acc.name} : {acc.type})"
    marks = [name for name, on in (("transpose_lhs", left), ("transpose_rhs", right)) if on]
    text = f" {{{', '.join(marks)}}}" if marks else ""
    w.lines.append(
        f"{result.name} = npu_kernel.matmul {a.name}, {b.name}{start}{text} : "
        f"{a.type}, {b.type} -> {result.type}"
    )
    return result


def attention(w: KernelWriter) -> Value:
    pick = w.choices.integer
    batch = [pick(1, 2) for _ in range(pick(0, 2))]
    group = pick(1, 3) if batch else 1
    queries = [*batch[:-1], batch[-1] * group] if batch else []
    m, n, d, dv = pick(1, 80), pick(1, 100), pick(1, 40), pick(1, 40)
    t = w.choices.pick(FLOATS)
    turned_k, turned_v = pick(0, 1), pick(0, 1)
    q = w.argument([*queries, m, d], t)
    k = w.argument([*batch, *((d, n) if turned_k else (n, d))], t)
    v = w.argument([*batch, *((dv, n) if turned_v else (n, dv))], t)
    kind = w.choices.pick((None, "bool", "additive"))
    operands = [q, k, v]
    if kind:
        shape = [*queries, m, n] if pick(0, 1) else [m, n]
        operands.append(w.argument(shape, "i1" if kind == "bool" else t))
    w.steps = 1
    return w.call(
        "gemma_attention",
        operands,
        [*queries, m, dv],
        t,
        scale=w.choices.pick((None, "0.25 : f32")),
        transpose_k=bool(turned_k),
        transpose_v=bool(turned_v),
        mask_kind=f'"{kind}"' if kind else None,
        causal=bool(pick(0, 2) == 0),
        kv_group=f"{group} : i64" if group > 1 else None,
    )


def window(w: KernelWriter) -> Value:
    pick = w.choices.integer
    t = w.choices.pick(FLOATS)
    images, height, width = pick(1, 2), pick(3, 20), pick(3, 20)
    strides = [pick(1, 2), pick(1, 2)]
    dilations = [pick(1, 2), pick(1, 2)]
    kernel = [pick(1, 3), pick(1, 3)]
    padding = [pick(0, kernel[i % 2] - 1) for i in range(4)]
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    out = []
    for i, size in enumerate((height, width)):
        total = size + padding[i] + padding[i + 2]
        if total < spans[i]:
            dilations[i], spans[i] = 1, kernel[i]
        out.append((total - spans[i]) // strides[i] + 1)
    last = pick(0, 1)
    common = {
        "strides": integers(strides),
        "padding": integers(padding),
        "dilations": integers(dilations),
    }

    def image(channels: int, sizes) -> tuple[int, ...]:
        return (images, *sizes, channels) if last else (images, channels, *sizes)

    if pick(0, 1):
        family = w.choices.pick(("pool_max", "pool_avg", "pool_sum"))
        channels = pick(1, 40)
        x = w.argument(image(channels, (height, width)), t)
        layout = '"nhwc"' if last else '"nchw"'
        include = family == "pool_avg" and bool(pick(0, 1))
        return w.call(
            family, [x], image(channels, out), t, kernel=integers(kernel), layout=layout,
            count_include_pad=include, **common,
        )  # fmt: skip
    groups = pick(1, 2)
    depth, filters = pick(1, 10), pick(1, 10)
    x = w.argument(image(depth * groups, (height, width)), t)
    if last:
        weight = w.argument((*kernel, depth, filters * groups), t)
    else:
        weight = w.argument((filters * groups, depth, *kernel), t)
    operands = [x, weight]
    if pick(0, 1):
        operands.append(w.argument((filters * groups,), t))
    layout = '"nhwc_hwcf"' if last else '"nchw_fchw"'
    strategy = w.choices.pick(('"direct"', '"im2col"'))
    return w.call(
        "conv2d", operands, image(filters * groups, out), t, groups=f"{groups} : i64",
        layout=layout, strategy=strategy, **common,
    )  # fmt: skip


def movement(w: KernelWriter) -> Value:
    pick = w.choices.integer
    shape, t = random_shape(w.choices), w.choices.pick((*FLOATS, "i8"))
    x = w.argument(shape, t)
    family = w.choices.pick(("transpose", "slice", "insert_slice", "concat", "pad", "iota", "fill"))
    rank = len(shape)
    if family == "transpose":
        order = shuffled(w.choices, list(range(rank)))
        return w.call(family, [x], [shape[d] for d in order], t, permutation=integers(order))
    if family == "slice":
        offsets = [pick(0, n - 1) for n in shape]
        sizes = [pick(1, n - o) for n, o in zip(shape, offsets, strict=True)]
        return w.call(family, [x], sizes, t, offsets=integers(offsets), sizes=integers(sizes))
    if family == "insert_slice":
        offsets = [pick(0, 3) for _ in shape]
        into = w.argument([n + o + pick(0, 3) for n, o in zip(shape, offsets, strict=True)], t)
        return w.call(
            family, [x, into], into.shape, t, offsets=integers(offsets), sizes=integers(shape)
        )
    axis = pick(0, rank - 1)
    if family == "concat":
        other = [pick(1, 40) if d == axis else n for d, n in enumerate(shape)]
        y = w.argument(other, t)
        total = [n + (other[d] if d == axis else 0) for d, n in enumerate(shape)]
        return w.call(family, [x, y], total, t, axis=f"{axis} : i64")
    if family == "pad":
        low, high = [pick(0, 3) for _ in shape], [pick(0, 3) for _ in shape]
        total = [n + a + b for n, a, b in zip(shape, low, high, strict=True)]
        value = f"1 : {t}" if t == "i8" else f"1.5 : {t}"
        return w.call(family, [x], total, t, low=integers(low), high=integers(high), value=value)
    if family == "iota":
        return w.call(family, [], shape, "i32", axis=f"{axis} : i64")
    value = f"3 : {t}" if t == "i8" else f"-2.5 : {t}"
    return w.call("fill", [], shape, t, value=value)


def quantisation(w: KernelWriter) -> Value:
    shape, t = random_shape(w.choices), w.choices.pick(FLOATS)
    if w.choices.integer(0, 1):
        x = w.argument(shape, t)
        target = w.choices.pick(("f8E4M3FN", "i8"))
        return w.call("requant", [x], shape, target, scale="0.125 : f32")
    block = w.choices.pick((None, 2, 32))
    if block is None:
        x = w.argument(shape, "f8E4M3FN")
        return w.call("dequant", [x], shape, t, scale="0.5 : f32")
    shape = (*shape[:-1], block * w.choices.integer(1, 3))
    if math.prod(shape) > 60_000:
        shape = shape[-1:]
    x = w.argument(shape, "f8E4M3FN")
    scale = w.argument((*shape[:-1], shape[-1] // block), t)
    return w.call("dequant", [x, scale], shape, t, block=f"{block} : i64")


KERNELS: dict[str, Callable[[KernelWriter], Value]] = {
    "elementwise": elementwise,
    "rows": rows,
    "matmul": matmul,
    "attention": attention,
    "window": window,
    "movement": movement,
    "quantisation": quantisation,
}


def random_kernel(choices: Choices, kinds: list[str] | None = None) -> Module:
    """A function of one random kernel call."""
    writer = KernelWriter(choices)
    kind = choices.pick(kinds or list(KERNELS))
    result = KERNELS[kind](writer)
    arguments = ", ".join(f"{a.name}: {a.type}" for a in writer.arguments)
    lines = [
        f"func.func @main({arguments}) -> {result.type} {{",
        *[f"  {line}" for line in writer.lines],
        f"  return {result.name} : {result.type}",
        "}",
    ]
    return Module("\n".join(lines), writer.arguments, [kind], [writer.steps])
