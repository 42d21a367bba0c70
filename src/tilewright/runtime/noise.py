"""How far from float32 a right program may be: the limit `verify` judges by.

Products take fp8, which rounds by 2.6 % on average (half of the last of three bits). A model in
float32 whose weights of products are off by as much as both operands of a product are shows what
that does to its outputs: a deep model, or one that cancels, is further off than a single layer. A
right program stays within MARGIN times that distance, and REST for what bf16 rounds. What is further
off has lost more than rounding can explain, whether every bit is as the references say or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.runtime.verification import Accuracy, accuracy

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported

ROUNDING = 0.026 * math.sqrt(2)  # of a product's terms: both operands are rounded
MARGIN = 8.0  # times what the noise does to 1 - cosine
REST = 0.001
FEW = 32  # numbers in an output, of which a single draw of the noise says little
UNKNOWN = 0.95  # the limit where the original is a function: its weights cannot be changed


@dataclass(frozen=True)
class Limit:
    """The smallest cosine and the largest relative error of an output that rounding explains."""

    cosine: float
    relative: float = math.inf


def limits(
    original: Imported, inputs: list[np.ndarray], exact: list[np.ndarray], seed: int = 0
) -> list[Limit]:
    """The limits of every output."""
    draws = 3 if any(array.size < 8 * FEW for array in exact) else 1
    noisy = [_run(original, inputs, seed + k) for k in range(draws)]
    return [
        _limit([accuracy(run[place], array) for run in noisy], array.size)
        for place, array in enumerate(exact)
    ]


def _limit(seen: list[Accuracy], size: int) -> Limit:
    cosine = min((one.cosine for one in seen), key=lambda c: c if math.isfinite(c) else -math.inf)
    relative = max(one.relative for one in seen)
    if not (math.isfinite(cosine) and math.isfinite(relative)):
        return Limit(-1.0)
    margin = MARGIN * (1 + FEW / max(1, size))
    largest = math.sqrt(2 * REST) + math.sqrt(margin) * relative
    return Limit(1 - REST - margin * (1 - cosine), largest if size >= FEW else math.inf)


def _run(original: Imported, inputs: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """The outputs with the weights of products off."""
    from tilewright.graph.angles import angles_of
    from tilewright.graph.capture import capture
    from tilewright.reference.executor import Executor
    from tilewright.transforms.simplify import simplify

    simple = simplify(original)
    graph, random = capture(simple), np.random.default_rng(seed)
    angles, weights = angles_of(graph), dict(simple.weights)
    for node in graph.nodes:
        if node.family in ("matmul", "conv2d") and node not in angles:
            for role in ("lhs", "rhs", "w"):
                name = _weight(node.inputs.get(role))
                if name in weights and weights[name] is simple.weights[name]:
                    exact = np.asarray(weights[name])
                    off = 1 + ROUNDING * random.standard_normal(exact.shape, np.float32)
                    weights[name] = (exact.astype(np.float32) * off).astype(exact.dtype)
    return Executor(simple.module, weights).run(inputs)


def _weight(value: object) -> str | None:
    """The name of the weight a value is, if it is one."""
    from tilewright.dialects.xdsl_api import DenseResourceAttr, SSAValue, arith

    owner = value.owner if isinstance(value, SSAValue) else None
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseResourceAttr):
        return owner.value.resource_handle.data
    return None
