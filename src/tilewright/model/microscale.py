"""Weights of products in an MX format: blocks of 32 along what is summed up, each with its scale.

before: %y = npu_kernel.matmul %x, %w          weights as they are in the model
after:  the same, with the numbers that mxfp8, mxfp6, mxfp4 or mxint8 has for them

A machine that multiplies no such blocks gets what they stand for and quantises that as it does all
weights. With scales of columns that are powers of two, as on Atlas, fp8 (E4M3) has every number of mxfp4
and mxfp6-e3m2, and of mxfp6 and mxfp8 all but those of blocks with much smaller scales than the
largest of their column, so that nothing or little is rounded twice.

Weights that are read otherwise too, as tables that are looked up, and those of layers that are kept
precise stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import Deferred, as_weight
from tilewright.model.capture import Graph, Node, capture, dtype_of, shape_of
from tilewright.model.digest import model_hash
from tilewright.model.quantise_products import transposes
from tilewright.model.simplify import simplify
from tilewright.model.weights import weight_of
from tilewright.reference.microscaling import AT_ONCE, format_of, rounded

FLOATS = ("f32", "bf16", "f16", "f64")


@dataclass
class Microscaled:
    """The model with other weights, and how far they are from what they were."""

    model: Imported
    form: str
    keep: tuple[str, ...] = ()
    digest: str = ""  # of the model as it was
    cosines: dict[str, float] = field(default_factory=dict)  # of each weight with its own

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.form,
            "keep": list(self.keep),
            "bits": format_of(self.form).bits_each,
            "tensors": len(self.cosines),
            "cosine": min(self.cosines.values(), default=1.0),
        }


def microscaled(model: Imported, form: str, keep: Collection[str] = ()) -> Microscaled:
    """A model with weights in an MX format.

    keep: layers whose weights stay as they are.
    """
    format_of(form)
    simple = simplify(model)
    graph = capture(simple)
    weights = dict(simple.weights)
    result = Microscaled(simple, form, tuple(keep), model_hash(simple))
    for name, axis in _axes(graph, keep).items():
        array = weights[name]
        if isinstance(array, Deferred):
            weights[name] = as_weight(array.mapped(partial(rounded, name=form, axis=axis)))
        else:
            weights[name] = rounded(array, form, axis)
        result.cosines[name] = _cosine(np.asarray(array), np.asarray(weights[name]))
    if not result.cosines:
        raise TilewrightError(
            "TW1718",
            f"no weights of {model.source} can be in {form}",
            hint="weights of matrix products and convolutions can that nothing else reads",
        )
    result.model = replace(simple, weights=weights)
    return result


def _axes(graph: Graph, keep: Collection[str]) -> dict[str, int]:
    """Weights that nothing reads but products, and the dimension that is summed up."""
    axes: dict[str, int] = {}
    others: set[str] = set()
    for node in graph.nodes:
        kept = any(node.layer == one or node.layer.startswith(f"{one}.") for one in keep)
        for value in dict.fromkeys(node.operands):
            name = weight_of(value)
            if name is None:
                continue
            axis = None if kept else _summed(node, value)
            if axis is None or dtype_of(value) not in FLOATS or axes.get(name, axis) != axis:
                others.add(name)
            else:
                axes[name] = axis
    others |= {name for _, value in graph.outputs if (name := weight_of(value)) is not None}
    return {name: axis for name, axis in axes.items() if name not in others}


def _summed(node: Node, value: Any) -> int | None:
    """The dimension of a product's weights along which it sums; None: they are none."""
    if node.operands.count(value) != 1:
        return None
    if node.family == "conv2d" and node.operands.index(value) == 1:
        return 2 if node.call.string("layout") == "nhwc_hwcf" else 1
    if node.family != "matmul" or len(shape_of(value)) < 2:
        return None
    rank, (left, right) = len(shape_of(value)), transposes(node)
    if value is node.inputs["rhs"]:
        return rank - 1 if right else rank - 2
    if value is node.inputs["lhs"]:
        return rank - 2 if left else rank - 1
    return None


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    first, second = one.reshape(-1), other.reshape(-1)
    dots = np.zeros(3)
    for at in range(0, len(first), AT_ONCE):
        x, y = (numbers[at : at + AT_ONCE].astype(np.float64) for numbers in (first, second))
        dots += (x @ y, x @ x, y @ y)
    size = float(np.sqrt(dots[1] * dots[2]))
    return float(dots[0]) / size if size else 1.0
