"""ATen calls that are other calls in short: second names, and formulas of a few intents.

A live model has many of these broken up by torch; a saved one is read without torch.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.aten_builder import Importer, Lowered, Value, lowers, wrapped
from tilewright.frontend.aten_graph import Node
from tilewright.frontend.aten_ops_products import product
from tilewright.frontend.aten_ops_recurrent import STEPS, Weights
from tilewright.frontend.aten_ops_rows import batch_norm, grouped, reduced

# Calls that torch has under two names; what follows the name stays.
_SAME = {
    "absolute": "abs", "clip": "clamp", "divide": "div", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "_neg_view": "neg", "subtract": "sub", "special_erf": "erf", "special_exp2": "exp2", "special_expit": "sigmoid",
    "special_expm1": "expm1", "special_log1p": "log1p", "special_log_softmax": "log_softmax",
    "special_logit": "logit", "special_logsumexp": "logsumexp", "ger": "outer",
    "vdot": "dot", "thnn_conv2d": "conv2d", "slow_conv3d": "conv3d",
}  # fmt: skip
_WHOLE = {
    "aten.special_log_softmax.default": "aten.log_softmax.int",
    "aten.true_divide.Scalar": "aten.div.Scalar",
}


def first_name(target: str) -> str:
    """The name under which a call is lowered."""
    if target in _WHOLE:
        return _WHOLE[target]
    library, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    return f"{library}.{_SAME[name]}.{overload}" if name in _SAME else target


def with_first_name(node: Node) -> Node:
    """The call under the one name that the table has."""
    name = first_name(node.target)
    return node if name == node.target else replace(node, target=name)


# --------------------------------------------------------------------------- products


@lowers("outer")
def outer(importer: Importer, node: Node) -> Lowered:
    a, b = (importer.tensor(node.get(n)) for n in ("self", "vec2"))
    column = importer.reshape(a, [*shape_of(a), 1])
    return importer.pointwise("elementwise_mul", column, b, kind=importer.result().dtype)


@lowers("inner")
def inner(importer: Importer, node: Node) -> Lowered:
    a, b = (importer.tensor(node.get(n)) for n in ("self", "other"))
    width = shape_of(a)[-1]
    rows = [importer.reshape(v, [math.prod(shape_of(v)) // width, width]) for v in (a, b)]
    return importer.reshape(product(importer, *rows, transpose_b=True), importer.result().shape)


@lowers("tensordot")
def tensordot(importer: Importer, node: Node) -> Lowered:
    a, b = (importer.tensor(node.get(n)) for n in ("self", "other"))
    summed = [
        [wrapped(d, len(shape_of(v))) for d in node.get(n)]
        for v, n in ((a, "dims_self"), (b, "dims_other"))
    ]
    rest = [[d for d in range(len(shape_of(v))) if d not in s] for v, s in zip((a, b), summed, strict=True)]  # fmt: skip
    count = math.prod(shape_of(a)[d] for d in summed[0])
    left = importer.transpose(a, [*rest[0], *summed[0]])
    right = importer.transpose(b, [*summed[1], *rest[1]])
    left = importer.reshape(left, [math.prod(shape_of(a)) // max(count, 1), count])
    right = importer.reshape(right, [count, math.prod(shape_of(b)) // max(count, 1)])
    return importer.reshape(product(importer, left, right), importer.result().shape)


@lowers("bilinear")
def bilinear(importer: Importer, node: Node) -> Lowered:
    """x1 W x2 for each matrix of the weight [outputs, n1, n2]."""
    x1, x2, w = (importer.tensor(node.get(n)) for n in ("input1", "input2", "weight"))
    outputs, first, second = shape_of(w)
    lead = shape_of(x1)[:-1]
    flat = importer.reshape(importer.transpose(w, [1, 0, 2]), [first, outputs * second])
    half = importer.reshape(product(importer, x1, flat), [*lead, outputs, second])
    other = importer.reshape(x2, [*lead, 1, second])
    terms = importer.pointwise("elementwise_mul", half, other)
    found: SSAValue = importer.reduction("sum", terms, [len(lead) + 1])
    bias = importer.optional(node.get("bias"))
    return found if bias is None else importer.pointwise("elementwise_add", found, bias)


@lowers("addmv", "addr")
def addmv(importer: Importer, node: Node) -> Lowered:
    """beta * start + alpha * (a x b), of a matrix and a vector or of two vectors."""
    if "addmv" in node.target:
        found = product(
            importer, importer.tensor(node.get("mat")), importer.tensor(node.get("vec"))
        )
    else:
        a, b = (importer.tensor(node.get(n)) for n in ("vec1", "vec2"))
        found = importer.pointwise("elementwise_mul", importer.reshape(a, [*shape_of(a), 1]), b)
    if node.get("alpha", 1) != 1:
        found = importer.pointwise("elementwise_mul", found, node.get("alpha"))
    if node.get("beta", 1) == 0:
        return found
    start: SSAValue = importer.tensor(node.get("self"))
    if node.get("beta", 1) != 1:
        start = importer.pointwise("elementwise_mul", start, node.get("beta"))
    return importer.pointwise("elementwise_add", start, found)


@lowers("cdist", "_cdist_forward")
def cdist(importer: Importer, node: Node) -> Lowered:
    """Distances of all rows from all rows."""
    if node.get("p", 2.0) not in (1, 2):
        raise importer.unsupported(f"has the exponent {node.get('p')}", "use p=1 or p=2")
    a, b = (importer.tensor(node.get(n)) for n in ("x1", "x2"))
    a = importer.reshape(a, [*shape_of(a)[:-1], 1, shape_of(a)[-1]])
    b = importer.reshape(b, [*shape_of(b)[:-2], 1, *shape_of(b)[-2:]])
    apart = importer.pointwise("elementwise_sub", a, b)
    square = node.get("p", 2.0) == 2
    apart = importer.unary("elementwise_square" if square else "elementwise_abs", apart)
    total: SSAValue = importer.reduction("sum", apart, [len(shape_of(apart)) - 1])
    return importer.unary("elementwise_sqrt", total) if square else total


@lowers("cosine_similarity")
def cosine_similarity(importer: Importer, node: Node) -> Lowered:
    """Each length is at least eps."""
    kind, shape = importer.result().dtype, importer.result().shape
    a, b = (importer.cast(importer.tensor(node.get(n)), kind) for n in ("x1", "x2"))
    dot = importer.pointwise("elementwise_mul", a, b)
    axis = wrapped(node.get("dim", 1), len(shape_of(dot)))
    found: SSAValue = importer.reduction("sum", dot, [axis])
    for x in (a, b):
        rank = len(shape_of(dot))
        x = importer.reshape(x, [1] * (rank - len(shape_of(x))) + list(shape_of(x)))
        size = importer.reduction("sum", importer.unary("elementwise_square", x), [axis])
        size = importer.unary("elementwise_sqrt", size)
        size = importer.pointwise("elementwise_max", size, node.get("eps", 1e-8))
        found = importer.pointwise("elementwise_div", found, size)
    return importer.broadcast_to(found, shape)


# --------------------------------------------------------------------------- norms


@lowers("instance_norm")
def instance_norm(importer: Importer, node: Node) -> Lowered:
    """A norm over each channel of each image; with kept statistics it is a batch norm."""
    if not node.get("use_input_stats", True):
        return batch_norm(importer, replace(node, arguments=node.arguments | {"training": False}))
    return _channel_norm(importer, node, importer.tensor(node.get("input")))


@lowers("_native_batch_norm_legit.no_stats")
def norm_of_the_batch(importer: Importer, node: Node) -> Lowered:
    """A norm over each channel of all images: of one image, with the others behind each other.

    Layers without running statistics do that in eval mode as well.
    """
    x = importer.tensor(node.get("input"))
    batch, channels, *rest = shape_of(x)
    places = [1, 0, *range(2, 2 + len(rest))]
    turned = x if batch == 1 else importer.transpose(x, places)
    rows = importer.reshape(turned, [1, channels, batch * math.prod(rest)])
    (found, *none) = _channel_norm(importer, node, rows)
    assert isinstance(found, SSAValue)
    if batch == 1:
        return [importer.reshape(found, shape_of(x)), *none]
    found = importer.reshape(found, [channels, batch, *rest])
    return [importer.transpose(found, places), *none]


def _channel_norm(importer: Importer, node: Node, x: SSAValue) -> list[Value | None]:
    """The norm of one channel at a time, with the statistics beside it that only training reads."""
    for index in range(1, len(node.results)):
        if importer.is_needed(index):
            raise importer.unsupported("is asked for its statistics", "use its first result only")
    found = grouped(
        importer, x, shape_of(x)[1], importer.optional(node.get("weight")),
        importer.optional(node.get("bias")), node.get("eps", 1e-5),
    )  # fmt: skip
    return [found, *[None] * (len(node.results) - 1)]


@lowers("nanmean", "nansum")
def nanmean(importer: Importer, node: Node) -> Lowered:
    from tilewright.frontend.aten_ops_rows import axes_of

    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    axes, keep = axes_of(node, len(shape_of(x))), bool(node.get("keepdim", False))
    real = importer.compare("eq", x, x)
    total = reduced(importer, "sum", importer.select(real, x, 0.0, importer.info(x)), axes, keep)
    if "nansum" in node.target:
        return total
    count = reduced(importer, "sum", importer.cast(real, info.dtype), axes, keep)
    return importer.pointwise("elementwise_div", total, count)


# --------------------------------------------------------------------------- movement


@lowers("hstack", "vstack", "dstack", "column_stack", "row_stack")
def stacks(importer: Importer, node: Node) -> Lowered:
    """Parts with as many dimensions as the call needs, joined along one of them."""
    parts = importer.tensors(node.get("tensors"))
    name = node.target.split(".")[1]
    rank = len(shape_of(parts[0]))
    info = importer.result()
    if name == "hstack":
        parts = [p if rank else importer.reshape(p, [1]) for p in parts]
        axis = 1 if rank > 1 else 0
    elif name == "column_stack":
        parts = [p if rank > 1 else importer.reshape(p, [math.prod(shape_of(p)), 1]) for p in parts]
        axis = 1
    elif name == "dstack":
        forms = {0: lambda s: [1, 1, 1], 1: lambda s: [1, *s, 1], 2: lambda s: [*s, 1]}
        parts = [importer.reshape(p, forms[rank](shape_of(p))) if rank < 3 else p for p in parts]
        axis = 2
    else:
        parts = [p if rank > 1 else importer.reshape(p, [1, math.prod(shape_of(p))]) for p in parts]
        axis = 0
    parts = [importer.cast(part, info.dtype) for part in parts]
    return parts[0] if len(parts) == 1 else importer.concat(parts, axis)


@lowers("fliplr", "flipud")
def flips(importer: Importer, node: Node) -> Lowered:
    from tilewright.frontend.aten_ops_indexing import flip

    axis = 1 if "fliplr" in node.target else 0
    return flip(importer, replace(node, arguments=node.arguments | {"dims": [axis]}))


@lowers("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    batch, channels, *rest = shape_of(x)
    groups = node.get("groups")
    parts = importer.reshape(x, [batch, groups, channels // groups, *rest])
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    return importer.reshape(importer.transpose(parts, order), shape_of(x))


@lowers("broadcast_tensors")
def broadcast_tensors(importer: Importer, node: Node) -> Lowered:
    found: list[Value | None] = []
    for index, tensor in enumerate(importer.tensors(node.get("tensors"))):
        found.append(importer.broadcast_to(tensor, importer.result(index).shape))
    return found


# --------------------------------------------------------------------------- cells


@lowers("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def cell(importer: Importer, node: Node) -> Lowered:
    """One step of a recurrent layer."""
    given = node.get("hx")
    state = tuple(importer.tensors(given if isinstance(given, list) else [given]))
    names = ["w_ih", "w_hh", *(["b_ih", "b_hh"] if node.get("b_ih") is not None else [])]
    weights = Weights([importer.tensor(node.get(n)) for n in names], len(names) == 4)
    projected = weights.of_input(importer, importer.tensor(node.get("input")))
    step = STEPS[node.target.split(".")[1].removesuffix("_cell")]
    return list(step(importer, projected, state, weights))
