"""Linear models of the domain ai.onnx.ml, as other libraries than those of networks export them."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, lowers, unsupported
from tilewright.frontend.onnx_ops_movement import take
from tilewright.frontend.onnx_ops_products import product
from tilewright.frontend.onnx_values import Value, element, shape

FLOAT = 1  # ONNX's number of float32


def rows(low: Lowering, value: Value) -> SSAValue:
    """The input as float32 rows; a vector is one row."""
    x = low.tensor(low.cast(value, builtin.f32))
    return x if len(shape(x)) == 2 else low.reshape(x, [1, shape(x)[-1]])


def scores(low: Lowering, node: Node, count: int | None) -> SSAValue:
    """x times coefficients plus intercepts, one column for each target."""
    x = rows(low, node.required(0))
    given = np.asarray(node.get("coefficients"), np.float32)
    width = shape(x)[1]
    if given.size % width:
        raise Problem("TW6009", f"{given.size} coefficients do not fit {width} features")
    table = given.reshape(-1, width)
    if count is not None and len(table) != count:
        unsupported(f"{len(table)} rows of coefficients for {count} classes")
    weights = low.tensor(low.constant(np.ascontiguousarray(table.T), FLOAT, f"{node.name}.weights"))
    found: SSAValue = product(low, x, weights, element(x))
    intercepts = node.get("intercepts")
    if intercepts:
        bias = low.constant(np.asarray(intercepts, np.float32), FLOAT, f"{node.name}.bias")
        found = low.apply("elementwise_add", found, bias)
    return found


def transformed(low: Lowering, node: Node, x: SSAValue) -> SSAValue:
    kind = node.get("post_transform", "NONE")
    if kind == "LOGISTIC":
        return low.apply("elementwise_sigmoid", x)
    if kind == "SOFTMAX":
        from tilewright.frontend.onnx_ops_rows import axis_attribute

        return low.call("softmax", [x], x.type, axis_attribute(1))
    if kind != "NONE":
        unsupported(f"the transformation {kind}")
    return x


@lowers("ai.onnx.ml.LinearRegressor")
def regressor(low: Lowering, node: Node) -> Value:
    found = scores(low, node, None)
    if shape(found)[1] != node.get("targets", 1):
        raise Problem("TW6009", f"{shape(found)[1]} rows of coefficients, not one for each target")
    return transformed(low, node, found)


@lowers("ai.onnx.ml.LinearClassifier")
def classifier(low: Lowering, node: Node) -> list[Value]:
    """The label of the largest score, and the scores."""
    labels = node.get("classlabels_ints")
    if node.get("classlabels_strings"):
        unsupported("labels that are texts", "export the model with numbers as labels")
    if not labels:
        raise Problem("TW6009", "the labels of the classes are missing")
    node.get("multi_class")  # how it was trained
    found = scores(low, node, len(labels))
    from tilewright.frontend.onnx_ops_rows import axis_attribute

    type_ = builtin.TensorType(builtin.i64, [shape(found)[0]])
    best = low.call("argmax", [found], type_, axis_attribute(1))
    table = low.tensor(low.integers(np.asarray(labels, np.int64), "labels"))
    return [take(low, table, best, 0), transformed(low, node, found)]


@lowers("ai.onnx.ml.Scaler")
def scaler(low: Lowering, node: Node) -> Value:
    """(x - offset) * scale, with one number or one for each feature."""
    x: SSAValue = rows(low, node.required(0))
    for name, family in (("offset", "elementwise_sub"), ("scale", "elementwise_mul")):
        given = node.get(name)
        if given:
            value = low.constant(np.asarray(given, np.float32), FLOAT, f"{node.name}.{name}")
            x = low.apply(family, x, value)
    return x


@lowers("ai.onnx.ml.Normalizer")
def normalizer(low: Lowering, node: Node) -> Value:
    """Rows divided by their largest element, the sum of sizes, or their length; zero rows stay."""
    x = rows(low, node.required(0))
    kind = node.get("norm", "MAX")
    if kind == "MAX":
        size: SSAValue = low.reduction("max", x, [1], True)
    elif kind == "L1":
        size = low.reduction("sum", low.apply("elementwise_abs", x), [1], True)
    elif kind == "L2":
        total = low.reduction("sum", low.apply("elementwise_square", x), [1], True)
        size = low.apply("elementwise_sqrt", total)
    else:
        raise Problem("TW6009", f"there is no norm {kind}")
    empty = low.compare("eq", size, 0.0)
    one = low.constant(np.float32(1), FLOAT, "one")
    size = low.apply("select", empty, one, size, to=builtin.f32)
    return low.apply("elementwise_div", x, size)


@lowers("ai.onnx.ml.Binarizer")
def binarizer(low: Lowering, node: Node) -> Value:
    """1 where a number is larger than the threshold, else 0, in the input's type."""
    x = node.required(0)
    return low.cast(low.compare("gt", x, float(node.get("threshold", 0.0))), element(x))
