"""Recipes of `random_modules` that contract, slide, attend, move or quantise, and the module itself."""

from __future__ import annotations

import math
from collections.abc import Callable

from random_chains import activation, norm, reduction, rope, softmax
from random_elementwise import (
    binary,
    cast,
    integers,
    named_binary,
    positions,
    scalar_operand,
    select,
    unary,
)
from random_lookalikes import lookalike
from random_movement import (
    broadcast,
    concat,
    embedding,
    insert,
    pad,
    reshape,
    slice_,
    transpose,
)

from random_modules import (
    FLOATS,
    MAX_ELEMENTS,
    MAX_WORK,
    Choices,
    Module,
    Value,
    Writer,
    affine,
    factor,
    identity,
    is_float,
    shuffled,
    tensor_type,
)

# Elements of a contraction: operands and result.
MIXES = {
    "f32": (("f32", "f32"),),
    "bf16": (("bf16", "bf16"), ("bf16", "f32")),
    "f16": (("f16", "f16"), ("f16", "f32")),
}


def _result_size(x: Value, depth: int) -> float:
    return x.size * 4 * math.sqrt(depth) * 2


def _initial(writer: Writer, shape: tuple[int, ...], element: str) -> str:
    if writer.choices.integer(0, 3) == 0:
        writer.ingredients.append("initial value")
        return writer.argument(shape, element).name
    return writer.filled(shape, element, 0.0)


def matmul(writer: Writer, x: Value) -> Value | None:
    """Named matrix products: plain, batched, transposed, with a vector."""
    t, out = writer.choices.pick(MIXES[x.element])
    kinds = {2: ("matmul", "transpose_b", "transpose_a", "mapped", "matvec"), 3: ("batch", "batch_transpose_b"), 1: ("vecmat", "dot")}  # fmt: skip
    if x.rank not in kinds:
        return None
    kind = writer.choices.pick(kinds[x.rank])
    n = writer.choices.integer(1, 70)
    *batch, depth = x.shape
    if kind == "transpose_a":
        depth, batch = x.shape[0], [x.shape[1]]
    if factor(x) * n > MAX_WORK:
        return None
    name, other, result = {
        "matmul": ("matmul", (depth, n), (x.shape[0], n)),
        "transpose_b": ("matmul_transpose_b", (n, depth), (x.shape[0], n)),
        "transpose_a": ("matmul_transpose_a", (depth, n), (*batch, n)),
        "mapped": ("matmul", (n, depth), (x.shape[0], n)),
        "matvec": ("matvec", (depth,), x.shape[:1]),
        "batch": ("batch_matmul", (x.shape[0], depth, n), (*x.shape[:2], n)),
        "batch_transpose_b": ("batch_matmul_transpose_b", (x.shape[0], n, depth), (*x.shape[:2], n)),
        "vecmat": ("vecmat", (depth, n), (n,)),
        "dot": ("dot", (depth,), ()),
    }[kind]  # fmt: skip
    if kind in ("batch", "batch_transpose_b"):
        result = (x.shape[0], x.shape[1], n)
    if len(other) > 1 and writer.choices.integer(0, 2) == 0:
        y = _transposed_weight(writer, other, t)
    else:
        y = writer.argument(other, t)
    start = _initial(writer, tuple(result), out)
    value = Value(writer.fresh(), tuple(result), out, _result_size(x, depth))
    maps = ""
    if kind == "mapped":
        maps = f"indexing_maps = [{affine(3, [0, 2])}, {affine(3, [1, 2])}, {affine(3, [0, 1])}] "
    writer.ingredients.append(kind)
    return writer.line(
        f"linalg.{name} {maps}ins({x.name}, {y.name} : {x.type}, {y.type}) "
        f"outs({start} : {value.type}) -> {value.type}",
        value,
    )


def _transposed_weight(writer: Writer, shape: tuple[int, ...], element: str) -> Value:
    """An operand that arrives the other way round and is transposed first, as weights do."""
    rank = len(shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    source = writer.argument([shape[d] for d in order], element)
    output = writer.empty(shape, element)
    result = Value(writer.fresh(), tuple(shape), element)
    writer.ingredients.append("transposed weight")
    return writer.line(
        f"linalg.transpose ins({source.name} : {source.type}) outs({output} : {result.type}) "
        f"permutation = {order}",
        result,
    )


def contraction(writer: Writer, x: Value) -> Value | None:
    """A generic contraction with its loops in any order, also with several batch or summed loops."""
    if not x.rank:
        return None
    choices = writer.choices
    t, out = choices.pick(MIXES[x.element])
    roles = [choices.pick(("batch", "row", "sum", "sum")) for _ in x.shape]
    if "sum" not in roles:
        roles[-1] = "sum"
    columns = [choices.integer(1, 40) for _ in range(choices.integer(0, 2))]
    if factor(x) * math.prod(columns) > MAX_WORK:
        return None
    sizes = [*x.shape, *columns]
    loops = len(sizes)
    shared = [d for d, role in enumerate(roles) if role != "row"]
    other = shuffled(choices, [*shared, *range(x.rank, loops)])
    kept = shuffled(
        choices, [d for d, role in enumerate(roles) if role != "sum"] + list(range(x.rank, loops))
    )
    y = writer.argument([sizes[d] for d in other], t)
    shape = tuple(sizes[d] for d in kept)
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    start = _initial(writer, shape, out)
    depth = math.prod(n for n, role in zip(x.shape, roles, strict=True) if role == "sum")
    result = Value(writer.fresh(), shape, out, _result_size(x, depth))

    def body(names: list[str]) -> list[str]:
        lines = []
        factors = list(names[:2])
        if t != out:
            for i in (0, 1):
                lines.append(f"%w{writer.count}_{i} = arith.extf {names[i]} : {t} to {out}")
                factors[i] = f"%w{writer.count}_{i}"
        product, total = f"%p{writer.count}", f"%s{writer.count}"
        return [
            *lines,
            f"{product} = arith.mulf {factors[0]}, {factors[1]} : {out}",
            f"{total} = arith.addf {names[2]}, {product} : {out}",
            f"linalg.yield {total} : {out}",
        ]

    summed = [d for d, role in enumerate(roles) if role == "sum"]
    return writer.generic(
        [(x, list(identity(x))), (y, list(other))], start, result, kept, loops, body, summed
    )


def fp8_matmul(writer: Writer, x: Value) -> Value | None:
    """Quantise to fp8, multiply by fp8 weights into bf16 or f32."""
    if x.rank != 2:
        return None
    n = writer.choices.integer(1, 70)
    if factor(x) * n > MAX_WORK:
        return None
    t = x.element
    quantised = _quantised(writer, x)
    weight = writer.argument((x.shape[1], n), "f8E4M3FN")
    out = writer.choices.pick(("bf16", "f32"))
    start = writer.filled((x.shape[0], n), out, 0.0)
    result = Value(writer.fresh(), (x.shape[0], n), out, 448 * 4 * math.sqrt(x.shape[1]))
    del t
    return writer.line(
        f"linalg.matmul ins({quantised.name}, {weight.name} : {quantised.type}, {weight.type}) "
        f"outs({start} : {result.type}) -> {result.type}",
        result,
    )


def int8_matmul(writer: Writer, x: Value) -> Value | None:
    """Quantise to i8 with rounding and clamping, multiply into i32, scale back."""
    if x.rank != 2:
        return None
    n = writer.choices.integer(1, 40)
    if factor(x) * n > MAX_WORK:
        return None
    t, here = x.element, list(identity(x))
    scale, low, high = (writer.constant(c, t) for c in (0.0625, -128.0, 127.0))
    operations = [
        f"arith.divf $0, {scale} : {t}",
        f"math.roundeven @0 : {t}",
        f"arith.maximumf @1, {low} : {t}",
        f"arith.minimumf @2, {high} : {t}",
        f"arith.fptosi @3 : {t} to i8",
    ]
    quantised = writer.elementwise([(x, here)], x.shape, "i8", operations)
    weight = writer.argument((x.shape[1], n), "i8")
    start = writer.filled((x.shape[0], n), "i32", 0)
    product = Value(writer.fresh(), (x.shape[0], n), "i32")
    writer.line(
        f"linalg.matmul ins({quantised.name}, {weight.name} : {quantised.type}, {weight.type}) "
        f"outs({start} : {product.type}) -> {product.type}",
        product,
    )
    operations = [
        "arith.sitofp $0 : i32 to f32",
        f"arith.mulf @0, {writer.constant(1e-3, 'f32')} : f32",
    ]
    size = 12.8 * math.sqrt(x.shape[1])
    return writer.elementwise([(product, here)], product.shape, "f32", operations, size)


def _quantised(writer: Writer, x: Value) -> Value:
    t, here = x.element, list(identity(x))
    operations = []
    source = "$0"
    if writer.choices.integer(0, 1):
        operations.append(f"arith.divf $0, {writer.constant(2.0, t)} : {t}")
        source = "@0"
    if writer.choices.integer(0, 1):
        low, high = writer.constant(-448.0, t), writer.constant(448.0, t)
        operations.append(f"arith.maximumf {source}, {low} : {t}")
        operations.append(f"arith.minimumf @{len(operations) - 1}, {high} : {t}")
        source = f"@{len(operations) - 1}"
    operations.append(f"arith.truncf {source} : {t} to f8E4M3FN")
    return writer.elementwise([(x, here)], x.shape, "f8E4M3FN", operations, min(x.size, 448.0))


def requantise(writer: Writer, x: Value) -> Value:
    """To fp8 and back with a scale."""
    t, here = x.element, list(identity(x))
    quantised = _quantised(writer, x)
    scale = writer.constant(2.0, t)
    operations = [f"arith.extf $0 : f8E4M3FN to {t}", f"arith.mulf @0, {scale} : {t}"]
    return writer.elementwise([(quantised, here)], x.shape, t, operations, min(x.size, 448.0) * 2)


def attention(writer: Writer, x: Value) -> Value | None:
    """Attention over fresh keys and values: masks of both kinds, either layout of the values."""
    if x.rank < 2 or x.size > 64 or factor(x) > 8000:
        return None
    choices = writer.choices
    *batch, m, d = x.shape
    t = x.element
    n, dv = choices.integer(1, 100), choices.integer(1, 40)
    b = len(batch)
    if math.prod(batch) * m * n > 200_000 or math.prod(batch) * (n * (d + dv)) > MAX_ELEMENTS:
        return None
    loops = b + 4  # batch.., m, dv, d, n
    at_m, at_dv, at_d, at_n = range(b, b + 4)
    every = list(range(b))
    turned_v, turned_k = choices.integer(0, 1), choices.integer(0, 1)
    k = writer.argument((*batch, d, n) if turned_k else (*batch, n, d), t)
    v = writer.argument((*batch, dv, n) if turned_v else (*batch, n, dv), t)
    mask_kind = choices.pick(("none", "bool", "additive"))
    writer.ingredients.append(f"attention {mask_kind} mask")
    scale = writer.constant(choices.pick((0.125, 1.0, 0.3)), "f32")
    maps = [
        affine(loops, [*every, at_m, at_d]),
        affine(loops, [*every, at_d, at_n] if turned_k else [*every, at_n, at_d]),
        affine(loops, [*every, at_dv, at_n] if turned_v else [*every, at_n, at_dv]),
        affine(loops, []),
    ]
    names, types = [x.name, k.name, v.name, scale], [x.type, k.type, v.type, "f32"]
    if mask_kind != "none":
        whole = choices.integer(0, 1)
        dims = [*every, at_m, at_n] if whole else [at_m, at_n]
        shape = (*batch, m, n) if whole else (m, n)
        mask = writer.argument(shape, "i1" if mask_kind == "bool" else t)
        maps.append(affine(loops, dims))
        names.append(mask.name)
        types.append(mask.type)
    shape = (*batch, m, dv)
    output = writer.empty(shape, t)
    # Nothing uses the result but the return: it may move by a step, which must not be amplified.
    result = Value(writer.fresh(), shape, t, math.inf)
    maps.append(affine(loops, [*every, at_m, at_dv]))
    score = f"%score{writer.count}"
    writer.steps = max(writer.steps, 1)
    writer.final.append(result)
    return writer.line(
        f"iree_linalg_ext.attention <indexing_maps = [{', '.join(maps)}]> "
        f"ins({', '.join(names)} : {', '.join(types)}) outs({output} : {result.type}) {{\n"
        f"^bb0({score}: f32):\n  iree_linalg_ext.yield {score} : f32\n}} -> {result.type}",
        result,
    )


# --------------------------------------------------------------------------- windows


def convolution(writer: Writer, x: Value) -> Value | None:
    if x.rank != 4:
        return None
    choices = writer.choices
    t = x.element
    last = choices.integer(0, 1)
    n, height, width, channels = (
        x.shape if last else (x.shape[0], x.shape[2], x.shape[3], x.shape[1])
    )
    stride, dilation = choices.integer(1, 2), choices.integer(1, 2)
    kernel = [choices.integer(1, 3), choices.integer(1, 3)]
    spans = [(size - 1) * dilation + 1 for size in kernel]
    if height < spans[0] or width < spans[1]:
        return None
    out = [(height - spans[0]) // stride + 1, (width - spans[1]) // stride + 1]
    filters = choices.integer(1, 20)
    if math.prod(out) * n * filters * math.prod(kernel) * channels > MAX_WORK:
        return None
    name = "conv_2d_nhwc_hwcf" if last else "conv_2d_nchw_fchw"
    weight = writer.argument(
        (*kernel, channels, filters) if last else (filters, channels, *kernel), t
    )
    shape = (n, *out, filters) if last else (n, filters, *out)
    start = _initial(writer, shape, t)
    result = Value(writer.fresh(), shape, t, _result_size(x, channels * math.prod(kernel)))
    return writer.line(
        f"linalg.{name} {{strides = dense<{stride}> : tensor<2xi64>, "
        f"dilations = dense<{dilation}> : tensor<2xi64>}} ins({x.name}, {weight.name} : {x.type}, "
        f"{weight.type}) outs({start} : {result.type}) -> {result.type}",
        result,
    )


def pooling(writer: Writer, x: Value) -> Value | None:
    if x.rank != 4:
        return None
    choices = writer.choices
    t, last = x.element, choices.integer(0, 1)
    spatial = x.shape[1:3] if last else x.shape[2:]
    kernel = [choices.integer(1, min(3, n)) for n in spatial]
    stride = choices.integer(1, 2)
    out = [(n - k) // stride + 1 for n, k in zip(spatial, kernel, strict=True)]
    kind = choices.pick(("max", "sum"))
    shape = (x.shape[0], *out, x.shape[3]) if last else (*x.shape[:2], *out)
    start = writer.filled(shape, t, -math.inf if kind == "max" else 0.0)
    window = writer.empty(kernel, t)
    size = x.size * (9 if kind == "sum" else 1)
    result = Value(writer.fresh(), shape, t, size)
    return writer.line(
        f"linalg.pooling_{'nhwc' if last else 'nchw'}_{kind} {{strides = dense<{stride}> : tensor<2xi64>, "
        f"dilations = dense<1> : tensor<2xi64>}} ins({x.name}, {window} : {x.type}, "
        f"{tensor_type(kernel, t)}) outs({start} : {result.type}) -> {result.type}",
        result,
    )


RECIPES: dict[str, Callable[[Writer, Value], Value | None]] = {
    "binary": binary,
    "named binary": named_binary,
    "scalar": scalar_operand,
    "unary": unary,
    "select": select,
    "cast": cast,
    "integers": integers,
    "positions": positions,
    "activation": activation,
    "reduction": reduction,
    "softmax": softmax,
    "norm": norm,
    "rope": rope,
    "matmul": matmul,
    "contraction": contraction,
    "fp8 matmul": fp8_matmul,
    "requantise": requantise,
    "attention": attention,
    "convolution": convolution,
    "pooling": pooling,
    "transpose": transpose,
    "reshape": reshape,
    "slice": slice_,
    "insert": insert,
    "pad": pad,
    "concat": concat,
    "broadcast": broadcast,
    "embedding": embedding,
    "lookalike": lookalike,
    "int8 matmul": int8_matmul,
}


def random_shape(choices: Choices, longest: int = 200) -> tuple[int, ...]:
    """Rank 1 to 4; sizes up to `longest`, often around tile boundaries."""
    rank = choices.integer(1, 4)
    # Mostly small: what matters is how sizes meet tiles, not how many tiles there are.
    budget = choices.pick((500, 1000, 2000, 2000, 4000, MAX_ELEMENTS // 2))
    shape = []
    for left in range(rank, 0, -1):
        limit = max(1, min(longest, int(budget ** (1 / left)) * (2 if left > 1 else 1), budget))
        usual = [n for n in (1, 2, 16, 31, 32, 33, 64, 65) if n <= limit]
        size = choices.pick(usual) if choices.integer(0, 2) == 0 else choices.integer(1, limit)
        shape.append(size)
        budget = max(1, budget // size)
    return tuple(shape)


def random_module(choices: Choices, length: int = 5, recipes: list[str] | None = None) -> Module:
    """A function of about `length` recipes; returns what it made last and one more live value."""
    writer = Writer(choices)
    element = choices.pick(FLOATS)
    writer.values.append(writer.argument(random_shape(choices), element))
    names = recipes or list(RECIPES)
    for _ in range(choices.integer(1, length)):
        usable = [v for v in writer.values if is_float(v) and v.size < _limit(v.element)]
        if not usable:
            break
        # Mostly go on with the newest value.
        x = usable[-1] if choices.integer(0, 3) else choices.pick(usable)
        name = choices.pick(names)
        mark = (len(writer.lines), len(writer.arguments), len(writer.ingredients))
        result = RECIPES[name](writer, x)
        if result is None:
            del writer.lines[mark[0] :], writer.arguments[mark[1] :], writer.ingredients[mark[2] :]
            continue
        writer.keep(name, result)
    results = [writer.values[-1], *(v for v in writer.final if v is not writer.values[-1])]
    others = [v for v in writer.values[1:] if v not in results]
    if others and choices.integer(0, 1):
        results.append(choices.pick(others))
    arguments = ", ".join(f"{a.name}: {a.type}" for a in writer.arguments)
    types = ", ".join(r.type for r in results)
    lines = [
        f"func.func @main({arguments}) -> ({types}) {{",
        *[f"  {line}" for line in writer.lines],
        f"  return {', '.join(r.name for r in results)} : {types}",
        "}",
    ]
    steps = [writer.steps if r in writer.final else 0 for r in results]
    return Module("\n".join(lines), writer.arguments, writer.ingredients, steps)


def _limit(element: str) -> float:
    return 3e3 if element == "f16" else 1e6
