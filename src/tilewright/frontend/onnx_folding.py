"""Nodes on constants, computed at import by ONNX's own definition of their operators."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np

from tilewright.frontend.onnx_nodes import Node
from tilewright.frontend.onnx_values import (
    INLINE_ELEMENTS,
    Array,
    Constant,
    Value,
    number_of_array,
    stored,
)

FOLD_ELEMENTS = 1 << 16  # nodes on constants up to this size are computed at import

# Operators whose result is not a function of their inputs.
RANDOM = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"]
)  # fmt: skip
# Operators that have nothing to compute, or whose place in the model says something.
NEVER = RANDOM | {
    "Constant", "Shape", "Size", "If", "Loop", "Scan", "Identity", "QuantizeLinear", "DequantizeLinear",
}  # fmt: skip
INDICES = (6, 7, 9)  # int32, int64, bool: element types of indices, shapes and masks


def can_fold(node: Node) -> bool:
    """Whether a node is computed now: on numbers, indices and shapes, but not on weights.

    What a model computes from its weights stays in the module, so that quantised and transposed
    weights are seen as what they are.
    """
    if node.operator in NEVER:
        return False
    return all(_is_literal(value) for value in node.operands if value is not None)


def _is_literal(value: Value) -> bool:
    if not isinstance(value, Constant) or value.array.size > FOLD_ELEMENTS:
        return False
    return not value.weight or value.array.size <= INLINE_ELEMENTS or value.number in INDICES


def fold_node(node: Node) -> list[Value] | None:
    """The node's values computed now, by ONNX's own definition; None when that fails."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"i{i}" if v is not None else "" for i, v in enumerate(node.operands)]
    copy = helper.make_node(node.operator, names, [f"o{i}" for i in range(len(node.output_names))])
    copy.attribute.extend(node.proto.attribute)
    if any(a.ref_attr_name or a.type in (a.GRAPH, a.GRAPHS) for a in copy.attribute):
        return None
    graph = helper.make_graph([copy], "fold", [], [])
    for name, value in zip(names, node.operands, strict=True):
        if isinstance(value, Constant):
            info = helper.make_tensor_value_info(name, value.number, value.array.shape)
            graph.input.append(info)
    graph.output.extend(helper.make_empty_tensor_value_info(o) for o in copy.output)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.version)])
    feeds = {
        name: _reader_form(value)
        for name, value in zip(names, node.operands, strict=True)
        if isinstance(value, Constant)
    }
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # any failure of the evaluator only means that this node is not folded
        return None
    results: list[Value] = []
    for name, array in zip(node.output_names, arrays, strict=True):
        if not isinstance(array, np.ndarray | np.generic):
            return None  # a sequence or nothing
        array = np.asarray(array)
        number = number_of_array(array)
        if number is None or array.size > FOLD_ELEMENTS:
            return None
        results.append(Constant(stored(array), name, number))
    return results


def _reader_form(value: Constant) -> Array:
    """A constant's array as ONNX's reference evaluator takes it: 4-bit integers in their type."""
    if value.number == 21:
        return value.array.astype(ml_dtypes.uint4)
    if value.number == 22:
        return value.array.astype(ml_dtypes.int4)
    return np.asarray(value.array)
