"""Calls that torch breaks up for live models, and saved programs keep: distances, norms, diagonals.

Each is a formula of a few intents, as torch itself computes it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.aten_builder import Importer, Lowered, Value, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, Ref, TensorInfo
from tilewright.frontend.aten_ops_indexing import flattened, looked_up
from tilewright.frontend.aten_ops_products import product
from tilewright.frontend.aten_ops_rows import norm_of, reduced, variance

MEAN, SUM = 1, 2  # what a loss does with its numbers; 0: nothing


def pair(importer: Importer, node: Node, *names: str) -> list[SSAValue]:
    """Operands in the type of the result."""
    kind = importer.result().dtype
    return [importer.cast(importer.tensor(node.get(name)), kind) for name in names]


# --------------------------------------------------------------------------- norms and distances


@lowers("linalg_matrix_norm", "linalg_matrix_norm.str_ord", "linalg_norm", "norm.Scalar")
def whole_norm(importer: Importer, node: Node) -> Lowered:
    """The root of all squares: of a matrix's last two dimensions, or of all of a tensor."""
    order, dims = node.get("ord", node.get("p")), node.get("dim")
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    rank = len(shape_of(x))
    if "matrix" in node.target:
        dims = dims or [-2, -1]
        order = "fro" if order is None else order
    axes = [wrapped(d, rank) for d in (range(rank) if dims is None else dims)]
    whole = order in (None, "fro") or (order == 2 and "linalg" not in node.target)
    if not whole and (isinstance(order, str) or (len(axes) > 1 and "linalg" in node.target)):
        raise importer.unsupported(f"has the order {order} of a matrix", "the order fro is known")
    keep = bool(node.get("keepdim", False))
    return norm_of(importer, x, 2.0 if whole or order is None else float(order), axes, keep)


@lowers("pairwise_distance", "dist")
def distance(importer: Importer, node: Node) -> Lowered:
    """The norm of a difference, of rows after eps was added, or of everything."""
    rows = "pairwise" in node.target
    a, b = pair(importer, node, *(("x1", "x2") if rows else ("self", "other")))
    apart = importer.pointwise("elementwise_sub", a, b)
    if rows:
        apart = importer.pointwise("elementwise_add", apart, node.get("eps", 1e-6))
    rank = len(shape_of(apart))
    axes = [rank - 1] if rows else list(range(rank))
    return norm_of(importer, apart, float(node.get("p", 2)), axes, bool(node.get("keepdim", False)))


@lowers("_weight_norm")
def weight_norm(importer: Importer, node: Node) -> Lowered:
    """v * (g / |v|), each slice along a dimension with a length of its own; -1: all together."""
    v, g = pair(importer, node, "v", "g")
    rank, dim = len(shape_of(v)), node.get("dim", 0)
    axes = [d for d in range(rank) if dim == -1 or d != wrapped(dim, rank)]
    square = importer.unary("elementwise_square", v)
    length = importer.unary(
        "elementwise_sqrt", importer.reduction("sum", square, axes, keepdims=True)
    )
    return importer.pointwise(
        "elementwise_mul", v, importer.pointwise("elementwise_div", g, length)
    )


@lowers("linalg_vecdot")
def vecdot(importer: Importer, node: Node) -> Lowered:
    terms = importer.pointwise("elementwise_mul", *pair(importer, node, "x", "y"))
    return importer.reduction("sum", terms, [wrapped(node.get("dim", -1), len(shape_of(terms)))])


@lowers("linalg_multi_dot", "chain_matmul")
def multi_dot(importer: Importer, node: Node) -> Lowered:
    """From left to right; the order changes rounding alone."""
    first, *others = importer.tensors(node.get("tensors", node.get("matrices")))
    for other in others:
        first = product(importer, first, other)
    return first


# --------------------------------------------------------------------------- elements


@lowers("xlogy.Tensor", "xlogy.Scalar_Other", "special_xlogy")
def xlogy(importer: Importer, node: Node) -> Lowered:
    """x log y, and 0 where x is 0."""
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    other = node.get("other")
    if not isinstance(other, Ref):
        found = importer.pointwise(
            "elementwise_mul", x, math.log(other) if other > 0 else -math.inf
        )
    else:
        y = importer.cast(importer.tensor(other), info.dtype)
        found = importer.pointwise("elementwise_mul", x, importer.unary("elementwise_log", y))
    return importer.select(importer.compare("eq", x, 0), 0.0, found, info)


@lowers("isclose")
def isclose(importer: Importer, node: Node) -> Lowered:
    """Whether a and b are equal, or no further apart than atol + rtol |b|."""
    a, b = (importer.tensor(node.get(name)) for name in ("self", "other"))
    apart = importer.unary("elementwise_abs", importer.pointwise("elementwise_sub", a, b))
    limit = importer.pointwise(
        "elementwise_mul", importer.unary("elementwise_abs", b), node.get("rtol", 1e-5)
    )
    limit = importer.pointwise("elementwise_add", limit, node.get("atol", 1e-8))
    near = importer.compare("le", apart, limit)
    finite = importer.compare("lt", limit, math.inf)
    near = importer.pointwise("logical_and", near, finite)
    return importer.pointwise("logical_or", near, importer.compare("eq", a, b))


@lowers("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    dims = node.get("dim")
    axes = range(len(shape_of(x))) if dims is None else [dims] if isinstance(dims, int) else dims
    hits = importer.cast(importer.cast(x, BY_NAME["i1"]), BY_NAME["i64"])
    return reduced(importer, "sum", hits, [wrapped(d, len(shape_of(x))) for d in axes], False)


@lowers("aminmax")
def aminmax(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    dim, rank = node.get("dim"), len(shape_of(x))
    axes = list(range(rank)) if dim is None else [wrapped(dim, rank)]
    keep = bool(node.get("keepdim", False))
    found: list[Value | None] = [reduced(importer, kind, x, axes, keep) for kind in ("min", "max")]
    return found


# --------------------------------------------------------------------------- losses


@lowers("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def loss(importer: Importer, node: Node) -> Lowered:
    """A function of differences: squares, sizes, or squares near zero and sizes beyond."""
    a, b = pair(importer, node, "self", "target")
    apart = importer.pointwise("elementwise_sub", a, b)
    found = importer.unary("elementwise_abs", apart)
    if "mse" in node.target:
        found = importer.unary("elementwise_square", apart)
    elif "l1_loss" not in node.target or "smooth" in node.target:
        huber = "huber" in node.target
        bend = float(node.get("delta" if huber else "beta", 1.0))
        near = importer.pointwise(
            "elementwise_mul", importer.unary("elementwise_square", apart), 0.5
        )
        far = importer.pointwise("elementwise_sub", found, 0.5 * bend)
        if huber:
            far = importer.pointwise("elementwise_mul", far, bend)
        else:
            near = importer.pointwise("elementwise_div", near, bend)
        found = importer.select(
            importer.compare("lt", found, bend), near, far, importer.info(found)
        )
    kind = node.get("reduction", MEAN)
    if kind == 0:
        return found
    axes = list(range(len(shape_of(found))))
    return reduced(importer, "mean" if kind == MEAN else "sum", found, axes, False)


# --------------------------------------------------------------------------- diagonals and tables


@lowers("diag_embed", "diag")
def diag_embed(importer: Importer, node: Node) -> Lowered:
    """A vector as the diagonal of a matrix of zeros; `diag` of a matrix is its diagonal."""
    from tilewright.frontend.aten_ops_borders import diagonal

    x = importer.tensor(node.get("self"))
    info, offset = importer.result(), node.get("offset", node.get("diagonal", 0))
    if ".diag." in node.target and len(shape_of(x)) == 2:
        return diagonal(
            importer, replace(node, arguments={"self": node.get("self"), "offset": offset})
        )
    rank = len(info.shape)
    first, second = (wrapped(node.get(f"dim{n}", n - 3), rank) for n in (1, 2))
    if (first, second) != (rank - 2, rank - 1):
        raise importer.unsupported("puts the diagonal elsewhere", "turn the result by transpose")
    size, width = info.shape[-1], shape_of(x)[-1]
    column = np.arange(size)[None, :] - max(offset, 0)
    here = (np.arange(size)[:, None] + min(offset, 0) == column) & (column >= 0) & (column < width)
    wide = looked_up(
        importer, "gather", x, importer.constant(np.clip(column[0], 0, width - 1).astype(np.int64)),
        len(shape_of(x)) - 1,
    )  # fmt: skip
    wide = importer.reshape(wide, [*shape_of(x)[:-1], 1, size])
    return importer.select(importer.constant(here), wide, 0, info)


@lowers("trace")
def trace(importer: Importer, node: Node) -> Lowered:
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    rows, columns = shape_of(x)
    places = np.arange(min(rows, columns), dtype=np.int64) * (columns + 1)
    on = looked_up(importer, "gather", flattened(importer, x), importer.constant(places), 0)
    return importer.reduction("sum", on, [0])


@lowers("logspace")
def logspace(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    exponents = np.linspace(node.get("start"), node.get("end"), info.shape[0])
    return importer.constant((node.get("base", 10.0) ** exponents).astype(info.dtype.storage))


@lowers("embedding_bag", "embedding_bag.padding_idx")
def embedding_bag(importer: Importer, node: Node) -> Lowered:
    """Rows of a table, added up, averaged or their maximum, bag by bag."""
    if any(importer.is_needed(index) for index in range(1, len(node.results))):
        raise importer.unsupported("is asked for more than its rows", "use its first result only")
    table, indices = importer.tensor(node.get("weight")), importer.tensor(node.get("indices"))
    offsets = importer.cast(importer.tensor(node.get("offsets")), BY_NAME["i64"])
    count, kind = shape_of(indices)[0], ("sum", "mean", "max")[node.get("mode", 0)]
    rows = looked_up(importer, "embedding", table, indices, 0)
    weights = importer.optional(node.get("per_sample_weights"))
    if weights is not None:
        rows = importer.pointwise("elementwise_mul", rows, importer.reshape(weights, [count, 1]))
    padding = node.get("padding_idx")
    starts = importer.contents(offsets)
    if starts is not None and node.get("include_last_offset", False):
        starts = starts[:-1]
    size = 0 if starts is None or not len(starts) else count // len(starts)
    even = size > 0 and np.array_equal(starts, np.arange(0, count, size))  # type: ignore[arg-type]
    if even and (padding is None or padding < 0):
        rows = importer.reshape(rows, [count // size, size, shape_of(table)[1]])
        found = importer.reduction(kind, rows, [1])
    else:
        found = _bags(importer, node, rows, indices, offsets, kind)
    return [found, *[None] * (len(node.results) - 1)]


def _bags(
    importer: Importer, node: Node, rows: SSAValue, indices: SSAValue, offsets: SSAValue, kind: str
) -> SSAValue:
    """Which row is in which bag is a matrix of zeros and ones."""
    info, count, padding = importer.info(rows), shape_of(indices)[0], node.get("padding_idx")
    bags = shape_of(offsets)[0] - bool(node.get("include_last_offset", False))
    starts = importer.cut(offsets, 0, 0, bags)
    last = importer.constant(np.array([count], np.int64))
    ends = importer.cut(offsets, 0, 1, shape_of(offsets)[0] - 1)
    ends = ends if shape_of(ends)[0] == bags else importer.concat([ends, last], 0)
    places = importer.constant(np.arange(count, dtype=np.int64))
    member = importer.pointwise(
        "logical_and",
        importer.compare("ge", places, importer.reshape(starts, [bags, 1])),
        importer.compare("lt", places, importer.reshape(ends, [bags, 1])),
    )
    if padding is not None and padding >= 0:
        real = importer.compare("ne", indices, padding)
        member = importer.pointwise("logical_and", member, real)
    share = importer.cast(member, info.dtype)
    size: SSAValue = importer.reduction("sum", share, [1], keepdims=True)
    if kind == "max":
        wide = TensorInfo((bags, *info.shape), info.dtype)
        here = importer.reshape(member, [bags, count, 1])
        apart = importer.reshape(rows, [1, *info.shape])
        largest = importer.reduction("max", importer.select(here, apart, -math.inf, wide), [1])
        return importer.select(
            importer.compare("gt", size, 0), largest, 0.0, importer.info(largest)
        )
    if kind == "mean":
        share = importer.pointwise(
            "elementwise_div", share, importer.pointwise("elementwise_max", size, 1)
        )
    return product(importer, share, rows)


@lowers("std_mean.dim", "std_mean.correction", "std_mean")
def std_mean(importer: Importer, node: Node) -> Lowered:
    made = variance(importer, replace(node, target=node.target.replace("std_mean", "var_mean")))
    assert isinstance(made, list) and isinstance(made[0], SSAValue)
    return [importer.unary("elementwise_sqrt", made[0]), made[1]]


@lowers("swapdims")
def swapdims(importer: Importer, node: Node) -> Lowered:
    from tilewright.frontend.aten_ops_movement import transpose

    return transpose(importer, node)


WINDOWS = {"hann": (0.5, 0.5, 0.0), "hamming": (0.54, 0.46, 0.0), "blackman": (0.42, 0.5, 0.08)}


@lowers(*(f"{name}_window{form}" for name in WINDOWS for form in ("", ".periodic")))
def window(importer: Importer, node: Node) -> Lowered:
    """Sums of cosines over a stretch; a periodic one leaves out its last number."""
    info = importer.result()
    first, second, third = WINDOWS[node.target.split(".")[1].removesuffix("_window")]
    size = info.shape[0]
    turns = 2 * np.pi * np.arange(size) / max(size - (not node.get("periodic", True)), 1)
    values = first - second * np.cos(turns) + third * np.cos(2 * turns)
    values = np.ones(1) if size == 1 else values
    return importer.constant(values.astype(info.dtype.storage))
