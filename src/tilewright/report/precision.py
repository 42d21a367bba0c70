"""Counting precisions: which ops of a module compute in which element types.

Ops are counted by signature: `linalg.matmul bf16*bf16->f32`, `linalg.softmax f32`,
`iree_linalg_ext.attention region f32`, `arith.truncf f32->bf16`. A generic is counted as what it is:
a contraction as `contraction`, a reduction as `reduction`, a cast alone by its arith op, anything else as
`elementwise`. Casts in initialisers of globals run once and are counted apart.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.linalg_ext import AttentionOp, ContractionOp, SoftmaxOp, StructuredOp
from tilewright.dialects.npu_kernel import MatmulOp
from tilewright.dialects.xdsl_api import ModuleOp, Operation, TensorType
from tilewright.transforms.linalg_to_kernel.contractions import find_product

CASTS = ("arith.truncf", "arith.extf", "arith.fptosi", "arith.sitofp", "arith.uitofp")
MOVES = ("linalg.fill", "linalg.copy", "linalg.transpose", "linalg.broadcast")


def count_precisions(module: ModuleOp) -> dict[str, int]:
    """Signature -> how often it occurs, in order of signature."""
    counts: Counter[str] = Counter()
    _count(module, counts, "")
    return dict(sorted(counts.items()))


def _count(op: Operation, counts: Counter[str], suffix: str) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                place = " (initializer)" if inner.name == "util.initializer" else suffix
                for signature in signatures(inner):
                    counts[signature + place] += 1
                if not isinstance(inner, StructuredOp | AttentionOp):
                    _count(inner, counts, place)


def signatures(op: Operation) -> list[str]:
    """How an op counts; empty for ops that compute nothing."""
    if isinstance(op, AttentionOp):
        score = op.body.block.args[0].type
        q, k, v = (_element(x.type) for x in (op.query, op.key, op.value))
        return [
            f"{op.name} {q}*{k}*{v}->{_element(op.output.type)}",
            f"{op.name} region {score}",
        ]
    if isinstance(op, SoftmaxOp):
        return [f"{op.name} {_element(op.input.type)}"]
    if isinstance(op, MatmulOp):
        return [f"{op.name} {_product(op)}"]
    if isinstance(op, StructuredOp):
        return _structured(op)
    symbol = op.properties.get("symbol")
    if op.name.endswith((".ukernel_generic", ".ukernel_launch")) and symbol is not None:
        family = family_of(symbol.data)  # type: ignore[attr-defined]
        name = family.name if family else symbol.data  # type: ignore[attr-defined]
        inputs = "*".join(_element(v.type) for v in op.operands)
        return [f"{name} {inputs}->{_element(op.results[0].type)}"]
    if op.name in CASTS and op.results and isinstance(op.results[0].type, TensorType):
        return [f"{op.name} {_element(op.operands[0].type)}->{_element(op.results[0].type)}"]
    return []


def _structured(op: StructuredOp) -> list[str]:
    if isinstance(op, ContractionOp):
        return [f"{op.name} {_product(op)}"]
    if op.name in MOVES:
        return []
    body = [inner for inner in op.body.block.ops if inner.name != "linalg.yield"]
    result = _element(op.outputs[0].type)
    found = [f"{i.name} {_cast(i)}" for i in body if i.name in CASTS and _is_variable(op, i)]
    if find_product(op) is not None and "reduction" in op.iterators:
        return [f"contraction {_product(op)}"]
    if "reduction" in op.iterators:
        return [f"reduction {result}", *found]
    if not body:
        return []
    if len(found) == len(body):
        return found
    return [f"elementwise {result}", *found]


def _is_variable(op: StructuredOp, inner: Operation) -> bool:
    """Whether a cast in a body is applied to elements, not to a constant."""
    source = inner.operands[0]
    owner = source.owner
    return owner is op.body.block or (
        isinstance(owner, Operation) and owner.parent is op.body.block
    )


def _cast(op: Operation) -> str:
    return f"{op.operands[0].type}->{op.results[0].type}"


def _product(op: Operation) -> str:
    left, right = (_element(v.type) for v in op.operands[:2])
    return f"{left}*{right}->{_element(op.results[0].type)}"


def _element(type_) -> str:
    return (
        str(cast(TensorType, type_).element_type) if isinstance(type_, TensorType) else str(type_)
    )


def f32_compute_ops(counts: dict[str, int]) -> int:
    """Ops that compute in f32: their result, or the score of attention, is f32; casts do not count."""
    total = 0
    for signature, count in counts.items():
        plain = signature.removesuffix(" (initializer)")
        if plain != signature or plain.startswith(CASTS) or plain.split(" ")[0] == "cast":
            continue
        result = plain.split("->")[-1].split(" ")[-1]
        total += count if result == "f32" else 0
    return total
