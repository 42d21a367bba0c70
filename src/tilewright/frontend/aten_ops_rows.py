"""ATen calls over whole rows: reductions, softmax, norms, running sums, positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import float_attribute, shape_of
from tilewright.dialects.xdsl_api import ArrayAttr, Attribute, SSAValue, StringAttr, UnitAttr
from tilewright.frontend.aten_builder import Importer, Lowered, integer, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, ScalarType

# --------------------------------------------------------------------------- reductions


def axes_of(node: Node, rank: int) -> list[int]:
    """The dimensions a reduction runs over; none given means all."""
    dims = node.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    return sorted({wrapped(d, rank) for d in dims}) if dims else list(range(rank))


def reduced(
    importer: Importer, kind: str, x: SSAValue, axes: Sequence[int], keep: bool
) -> SSAValue:
    """A reduction; over no dimensions at all it changes nothing."""
    if not shape_of(x):
        return x
    return importer.reduction(kind, x, axes, keepdims=keep)


@lowers("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int")
def arithmetic(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    kind = node.target.split(".")[1]
    axes = axes_of(node, len(shape_of(x)))
    return reduced(importer, kind, x, axes, bool(node.get("keepdim", False)))


@lowers("amax", "amin", "max", "min")
def extreme(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    kind = node.target.split(".")[1].removeprefix("a")
    axes = axes_of(node, len(shape_of(x)))
    return reduced(importer, kind, x, axes, bool(node.get("keepdim", False)))


@lowers("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def truth(importer: Importer, node: Node) -> Lowered:
    """any and all are the maximum and minimum of 0 and 1."""
    x = importer.cast(importer.tensor(node.get("self")), BY_NAME["i1"])
    kind = "max" if node.target.startswith("aten.any") else "min"
    x = importer.cast(x, BY_NAME["i32"])
    axes = axes_of(node, len(shape_of(x)))
    found = reduced(importer, kind, x, axes, bool(node.get("keepdim", False)))
    return importer.cast(found, BY_NAME["i1"])


@lowers("max.dim", "min.dim")
def extreme_along(importer: Importer, node: Node) -> Lowered:
    """The extreme and where it is; the position is found on the host, and only if it is read."""
    x = importer.tensor(node.get("self"))
    kind = node.target.split(".")[1]
    axis = wrapped(node.get("dim"), len(shape_of(x)))
    keep = bool(node.get("keepdim", False))
    values = reduced(importer, kind, x, [axis], keep) if importer.is_needed(0) else None
    places = None
    if importer.is_needed(1):
        places = _position(importer, f"arg{kind}", x, axis, keep, 1)
    return [values, places]


@lowers("argmax", "argmin")
def position(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    family = node.target.split(".")[1]
    if node.get("dim") is None:
        flat = importer.reshape(x, [math.prod(shape_of(x))])
        found = _position(importer, family, flat, 0, False, 0, [])
        return importer.reshape(found, importer.result().shape)
    axis = wrapped(node.get("dim"), len(shape_of(x)))
    return _position(importer, family, x, axis, bool(node.get("keepdim", False)), 0)


def _position(
    importer: Importer,
    family: str,
    x: SSAValue,
    axis: int,
    keep: bool,
    index: int,
    shape: Sequence[int] | None = None,
) -> SSAValue:
    attributes: dict[str, Attribute] = {"axis": integer(axis)}
    if keep:
        attributes["keepdims"] = UnitAttr()
    info = importer.result(index)
    if shape is not None:
        info = type(info)(tuple(shape), info.dtype)
    return importer.call(family, [x], importer.type_of(info), attributes)


def position_attributes(axis: int) -> dict[str, Attribute]:
    """The attributes of a family that works along one axis."""
    return {"axis": integer(axis)}


@lowers("cumsum")
def cumsum(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    if not info.shape:
        return x
    axis = wrapped(node.get("dim"), len(info.shape))
    return importer.call("cumsum", [x], x.type, {"axis": integer(axis)})


@lowers("var.correction", "var.dim", "std.correction", "std.dim", "var_mean.correction")
def variance(importer: Importer, node: Node) -> Lowered:
    """sum((x - mean)^2) / (n - correction), its root for std."""
    x = importer.tensor(node.get("self"))
    axes = axes_of(node, len(shape_of(x)))
    count = math.prod(shape_of(x)[a] for a in axes)
    correction = node.get("correction", 1 if node.get("unbiased", True) else 0)
    mean = importer.reduction("mean", x, axes, keepdims=True)
    square = importer.unary("elementwise_square", importer.pointwise("elementwise_sub", x, mean))
    total = importer.reduction("sum", square, axes, keepdims=True)
    spread = importer.pointwise(
        "elementwise_div", total, float(count - (1 if correction is None else correction))
    )
    if ".std" in node.target:
        spread = importer.unary("elementwise_sqrt", spread)
    shape = importer.result().shape
    spread = importer.reshape(spread, shape)
    return [spread, importer.reshape(mean, shape)] if "var_mean" in node.target else spread


@lowers("linalg_vector_norm")
def vector_norm(importer: Importer, node: Node) -> Lowered:
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    axes, keep = axes_of(node, len(shape_of(x))), bool(node.get("keepdim", False))
    return norm_of(importer, x, float(node.get("ord", 2)), axes, keep)


def norm_of(
    importer: Importer, x: SSAValue, order: float, axes: Sequence[int], keep: bool
) -> SSAValue:
    """The Euclidean length, or another: sums of powers, how many are not zero, extremes."""
    if order == 2:
        total = reduced(importer, "sum", importer.unary("elementwise_square", x), axes, keep)
        return importer.unary("elementwise_sqrt", total)
    if order == 0:
        counted = importer.cast(importer.compare("ne", x, 0), importer.kind(x))
        return reduced(importer, "sum", counted, axes, keep)
    sizes = importer.unary("elementwise_abs", x)
    if math.isinf(order):
        return reduced(importer, "max" if order > 0 else "min", sizes, axes, keep)
    if order == 1:
        return reduced(importer, "sum", sizes, axes, keep)
    total = reduced(
        importer, "sum", importer.pointwise("elementwise_pow", sizes, order), axes, keep
    )
    return importer.pointwise("elementwise_pow", total, 1 / order)


# --------------------------------------------------------------------------- softmax


@lowers("softmax.int", "_softmax", "_safe_softmax", "special_softmax")
def softmax(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    if not info.shape:
        return importer.filled(1, info)
    axis = wrapped(node.get("dim"), len(info.shape))
    found = importer.call("softmax", [x], x.type, {"axis": integer(axis)})
    if "_safe" not in node.target:
        return found
    # A row of minus infinities is 0 here, not NaN.
    top = importer.reduction("max", x, [axis], keepdims=True)
    return importer.select(importer.compare("eq", top, -math.inf), 0.0, found, info)


@lowers("log_softmax.int", "_log_softmax")
def log_softmax(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    axis = wrapped(node.get("dim"), len(info.shape))
    shifted = importer.pointwise(
        "elementwise_sub", x, importer.reduction("max", x, [axis], keepdims=True)
    )
    total = importer.reduction(
        "sum", importer.unary("elementwise_exp", shifted), [axis], keepdims=True
    )
    return importer.pointwise("elementwise_sub", shifted, importer.unary("elementwise_log", total))


# --------------------------------------------------------------------------- norms


def normalised(
    importer: Importer,
    family: str,
    x: SSAValue,
    shape: Sequence[int],
    weight: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
) -> SSAValue:
    """A norm over the last dimensions `shape`, which are one dimension for the family."""
    full = shape_of(x)
    width = math.prod(shape)
    x = importer.reshape(x, [*full[: len(full) - len(shape)], width])
    operands, roles = [x], ["x"]
    for role, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            operands.append(importer.reshape(vector, [width]))
            roles.append(role)
    attributes: dict[str, Attribute] = {"epsilon": float_attribute(epsilon), "axis": integer(-1)}
    if bias is not None and weight is None:
        attributes["roles"] = ArrayAttr([StringAttr(role) for role in roles])
    return importer.reshape(importer.call(family, operands, x.type, attributes), full)


@lowers("layer_norm", "native_layer_norm")
def layer_norm(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("input"))
    found = normalised(
        importer,
        "layer_norm",
        x,
        node.get("normalized_shape"),
        importer.optional(node.get("weight")),
        importer.optional(node.get("bias")),
        node.get("eps", 1e-5),
    )
    return _first_of(importer, node, found)


def _first_of(importer: Importer, node: Node, found: SSAValue) -> Lowered:
    """The result, with the statistics beside it that only training reads."""
    for index in range(1, len(node.results)):
        if importer.is_needed(index) and math.prod(importer.result(index).shape):
            raise importer.unsupported("is asked for its statistics", "use its first result only")
    return [found, *[None] * (len(node.results) - 1)]


def machine_epsilon(kind: ScalarType) -> float:
    """What torch adds when no epsilon is given: that of the type it computes in."""
    return float(np.finfo(np.float64 if kind.name == "f64" else np.float32).eps)


@lowers("rms_norm")
def rms_norm(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("input"))
    epsilon = node.get("eps")
    if epsilon is None:
        epsilon = machine_epsilon(importer.kind(x))
    weight = importer.optional(node.get("weight"))
    return normalised(importer, "rms_norm", x, node.get("normalized_shape"), weight, None, epsilon)


@lowers("group_norm")
def group_norm(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("input"))
    weight, bias = (importer.optional(node.get(n)) for n in ("weight", "bias"))
    return grouped(importer, x, node.get("num_groups"), weight, bias, node.get("eps", 1e-5))


def grouped(
    importer: Importer,
    x: SSAValue,
    groups: int,
    weight: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
) -> SSAValue:
    """A norm over each group of channels, then scale and shift per channel."""
    shape = shape_of(x)
    rows = importer.reshape(x, [shape[0], groups, math.prod(shape[1:]) // groups])
    normal = normalised(importer, "layer_norm", rows, shape_of(rows)[2:], None, None, epsilon)
    found = importer.reshape(normal, shape)
    for vector, family in ((weight, "elementwise_mul"), (bias, "elementwise_add")):
        if vector is not None:
            found = importer.pointwise(family, found, per_channel(importer, vector, len(shape)))
    return found


def per_channel(importer: Importer, vector: SSAValue, rank: int) -> SSAValue:
    """A vector shaped to broadcast along dimension 1."""
    return importer.reshape(vector, [*shape_of(vector), *[1] * (rank - 2)])


@lowers("batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit")
def batch_norm(importer: Importer, node: Node) -> Lowered:
    """x * scale + shift, both computed from the running statistics."""
    if node.get("training", False):
        raise node.error("TW6107", f"{node.target} is in training mode", "call model.eval() first")
    x = importer.tensor(node.get("input"))
    kind = importer.kind(x)
    mean, spread = (importer.tensor(node.get(n)) for n in ("running_mean", "running_var"))
    scale = importer.unary(
        "elementwise_rsqrt",
        importer.pointwise("elementwise_add", spread, node.get("eps", 1e-5)),
    )
    weight, bias = (importer.optional(node.get(n)) for n in ("weight", "bias"))
    if weight is not None:
        scale = importer.pointwise("elementwise_mul", scale, weight)
    offset = importer.pointwise("elementwise_mul", mean, scale)
    if bias is None:
        shift = importer.unary("elementwise_neg", offset)
    else:
        shift = importer.pointwise("elementwise_sub", bias, offset, kind=importer.kind(offset))
    rank = len(shape_of(x))
    scale, shift = (per_channel(importer, importer.cast(v, kind), rank) for v in (scale, shift))
    found = importer.pointwise(
        "elementwise_add", importer.pointwise("elementwise_mul", x, scale), shift
    )
    return _first_of(importer, node, found)
