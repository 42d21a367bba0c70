"""ATen calls that contract: linear layers, matrix products, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.xdsl_api import Attribute, FloatAttr, SSAValue, StringAttr, UnitAttr, f32
from tilewright.frontend.aten_builder import Importer, Lowered, broadcast_shape, integer, lowers
from tilewright.frontend.aten_graph import BY_NAME, Node, TensorInfo


def product(importer: Importer, a: SSAValue, b: SSAValue, transpose_b: bool = False) -> SSAValue:
    """The matrix product by torch's rules: vectors, and batches that broadcast."""
    vector_a, vector_b = len(shape_of(a)) == 1, len(shape_of(b)) == 1
    if vector_a:
        a = importer.reshape(a, [1, *shape_of(a)])
    if vector_b:
        b = importer.reshape(b, [*shape_of(b), 1])
    batch_a, batch_b = shape_of(a)[:-2], shape_of(b)[:-2]
    batch = broadcast_shape(batch_a, batch_b)
    if batch_a and batch_b and batch_a != batch_b:
        a = importer.broadcast_to(a, [*batch, *shape_of(a)[-2:]])
        b = importer.broadcast_to(b, [*batch, *shape_of(b)[-2:]])
    rows, columns = shape_of(a)[-2], shape_of(b)[-2 if transpose_b else -1]
    element = tensor_type(a).element_type
    kind = importer.kind(a)
    type_ = importer.type_of(TensorInfo((*batch, rows, columns), kind))
    assert element == tensor_type(b).element_type
    found: SSAValue = importer.matmul(a, b, type_, transpose_rhs=transpose_b)
    kept = [n for n, dropped in ((rows, vector_a), (columns, vector_b)) if not dropped]
    return importer.reshape(found, [*batch, *kept])


@lowers("linear")
def linear(importer: Importer, node: Node) -> Lowered:
    x, weight = (importer.tensor(node.get(name)) for name in ("input", "weight"))
    vector = len(shape_of(weight)) == 1
    found = product(importer, x, weight, transpose_b=not vector)
    bias = importer.optional(node.get("bias"))
    return found if bias is None else importer.pointwise("elementwise_add", found, bias)


@lowers("matmul", "mm", "bmm", "mv", "dot")
def matmul(importer: Importer, node: Node) -> Lowered:
    a = importer.tensor(node.get("self"))
    other = next(n for n in ("other", "mat2", "vec", "tensor") if n in node.arguments)
    return product(importer, a, importer.tensor(node.get(other)))


@lowers("addmm", "baddbmm")
def addmm(importer: Importer, node: Node) -> Lowered:
    """beta * start + alpha * (a x b)"""
    names = ("mat1", "mat2") if "mat1" in node.arguments else ("batch1", "batch2")
    a, b = (importer.tensor(node.get(name)) for name in names)
    found = product(importer, a, b)
    if node.get("alpha", 1) != 1:
        found = importer.pointwise("elementwise_mul", found, node.get("alpha"))
    beta = node.get("beta", 1)
    if beta == 0:
        return found
    start: SSAValue = importer.tensor(node.get("self"))
    if beta != 1:
        start = importer.pointwise("elementwise_mul", start, beta)
    return importer.pointwise("elementwise_add", start, found)


@lowers("_int_mm")
def int_mm(importer: Importer, node: Node) -> Lowered:
    a, b = importer.tensor(node.get("self")), importer.tensor(node.get("mat2"))
    return importer.matmul(a, b, importer.type_of(importer.result()))


@lowers("_grouped_mm", "transformers.grouped_mm_fallback.default")
def grouped(importer: Importer, node: Node) -> Lowered:
    """Consecutive rows of x by a matrix of their own each; `offs` says where each group ends.

    Where groups end is data, so every row meets every matrix and its own product is kept.
    """
    x = importer.tensor(node.get("self", node.get("input")))
    w = importer.tensor(node.get("mat2", node.get("weight")))
    if len(shape_of(x)) != 2 or len(shape_of(w)) != 3 or node.get("offs") is None:
        raise importer.unsupported("groups other than rows", "only rows in groups are known")
    groups, rows = shape_of(w)[0], shape_of(x)[0]
    i64 = BY_NAME["i64"]
    ends = importer.cast(importer.tensor(node.get("offs")), i64)
    starts = importer.constant(np.zeros(1, np.int64))
    if groups > 1:
        starts = importer.concat([starts, importer.cut(ends, 0, 0, groups - 1)], 0)
    numbers = importer.constant(np.arange(rows, dtype=np.int64)[None, :])
    ends, starts = (importer.reshape(v, [groups, 1]) for v in (ends, starts))
    inside = importer.pointwise(
        "logical_and",
        importer.compare("lt", numbers, ends),
        importer.compare("ge", numbers, starts),
    )
    found: SSAValue | None = None
    for group in range(groups):
        matrix = importer.reshape(importer.cut(w, 0, group, 1), shape_of(w)[1:])
        own = product(importer, x, matrix)
        rule = importer.reshape(importer.cut(inside, 0, group, 1), [rows, 1])
        own = importer.select(rule, own, 0.0, importer.info(own))
        found = own if found is None else importer.pointwise("elementwise_add", found, own)
    assert found is not None
    if node.get("bias") is not None:
        found = importer.pointwise("elementwise_add", found, importer.tensor(node.get("bias")))
    return importer.cast(found, importer.result().dtype)


@lowers("einsum")
def einsum(importer: Importer, node: Node) -> Lowered:
    """Operands joined two at a time: shared letters that nobody needs later are summed."""
    terms, _, wanted = node.get("equation").replace(" ", "").partition("->")
    values = importer.tensors(node.get("tensors"))
    names = _without_dots(terms.split(","), [len(shape_of(v)) for v in values])
    if "->" not in node.get("equation"):
        every = "".join(names)
        wanted = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    wanted = _without_dots([wanted], [len(importer.result().shape)])[0]
    for index, name in enumerate(names):
        if len(set(name)) != len(name):
            raise importer.unsupported("takes diagonals", "take torch.diagonal first")
        values[index], names[index] = _summed(importer, values[index], name, {*wanted, *"".join(names[:index] + names[index + 1 :])})  # fmt: skip
    while len(values) > 1:
        kept = {*wanted, *"".join(names[2:])}
        joined, name = _pairwise(importer, values[:2], names[:2], kept)
        values, names = [joined, *values[2:]], [name, *names[2:]]
    value, name = _summed(importer, values[0], names[0], set(wanted))
    return importer.transpose(value, [name.index(c) for c in wanted])


def _without_dots(terms: Sequence[str], ranks: Sequence[int]) -> list[str]:
    """Letters for the dimensions an ellipsis stands for: digits, counted from the last one."""
    found = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        found.append(term.replace("...", "".join(str(i) for i in reversed(range(count)))))
    return found


def _summed(importer: Importer, x: SSAValue, name: str, kept: set[str]) -> tuple[SSAValue, str]:
    axes = [index for index, letter in enumerate(name) if letter not in kept]
    if not axes:
        return x, name
    return importer.reduction("sum", x, axes), "".join(c for c in name if c in kept)


def _pairwise(
    importer: Importer, values: Sequence[SSAValue], names: Sequence[str], kept: set[str]
) -> tuple[SSAValue, str]:
    """Two operands as [batch, rows, summed] x [batch, summed, columns]."""
    (a, b), (left, right) = values, names
    sizes = dict(zip(left, shape_of(a), strict=True))
    for letter, size in zip(right, shape_of(b), strict=True):
        sizes[letter] = max(size, sizes.get(letter, 1))
    batch = "".join(c for c in left if c in right and c in kept)
    summed = "".join(c for c in left if c in right and c not in kept)
    rows = "".join(c for c in left if c not in right)
    columns = "".join(c for c in right if c not in left)
    shapes = []
    for value, name, order in (
        (a, left, batch + rows + summed),
        (b, right, batch + summed + columns),
    ):
        value = importer.transpose(value, [name.index(c) for c in order])
        shapes.append(importer.broadcast_to(value, [sizes[c] for c in order]))

    def count(letters: str) -> int:
        return math.prod(sizes[c] for c in letters)

    lead = [count(batch)] if batch else []
    first = importer.reshape(shapes[0], [*lead, count(rows), count(summed)])
    second = importer.reshape(shapes[1], [*lead, count(summed), count(columns)])
    name = batch + rows + columns
    found = product(importer, first, second)
    return importer.reshape(found, [sizes[c] for c in name]), name


# --------------------------------------------------------------------------- attention


@lowers("scaled_dot_product_attention")
def attention(importer: Importer, node: Node) -> Lowered:
    """One attention intent: grouped heads, mask and scale as the call gives them."""
    q, k, v = (importer.tensor(node.get(name)) for name in ("query", "key", "value"))
    if node.get("dropout_p", 0.0):
        raise node.error("TW6107", f"{node.target} drops out scores", "call model.eval() first")
    attributes: dict[str, Attribute] = {}
    queries, keys = shape_of(q)[-2], shape_of(k)[-2]
    group = 1
    if node.get("enable_gqa", False):
        group = shape_of(q)[-3] // shape_of(k)[-3]
        attributes |= {"kv_group": integer(group)} if group > 1 else {}
    batch = shape_of(q)[:-2]
    if group > 1:
        heads = shape_of(k)[-3]
        lead = broadcast_shape(batch[:-1], shape_of(k)[:-3], shape_of(v)[:-3])
        q = importer.broadcast_to(q, [*lead, batch[-1], *shape_of(q)[-2:]])
        k, v = (importer.broadcast_to(x, [*lead, heads, *shape_of(x)[-2:]]) for x in (k, v))
    else:
        lead = broadcast_shape(batch, shape_of(k)[:-2], shape_of(v)[:-2])
        q, k, v = (importer.broadcast_to(x, [*lead, *shape_of(x)[-2:]]) for x in (q, k, v))
    mask = importer.optional(node.get("attn_mask"))
    if node.get("is_causal", False):
        if queries == keys:
            attributes["causal"] = UnitAttr()
        else:  # torch lines the triangle up with the first key, the family with the last
            mask = importer.constant(np.tri(queries, keys, dtype=np.bool_))
    mask = None if mask is None else _useful_mask(importer, mask, queries, keys)
    operands = [q, k, v]
    if mask is not None:
        boolean = importer.kind(mask).name == "i1"
        attributes["mask_kind"] = StringAttr("bool" if boolean else "additive")
        operands.append(mask)
    if node.get("scale") is not None:
        attributes["scale"] = FloatAttr(float(node.get("scale")), f32)
    element = tensor_type(q).element_type
    type_ = importer.type_of(importer.result())
    return importer.call(
        "gemma_attention", operands, type_, attributes, (element, type_.element_type)
    )


def _useful_mask(importer: Importer, mask: SSAValue, queries: int, keys: int) -> SSAValue | None:
    """The mask with its last two dimensions whole; None when it is known to keep everything."""
    boolean = importer.kind(mask).name == "i1"
    number = importer.number(mask)
    if number is not None and number == (1 if boolean else 0):
        return None
    return importer.broadcast_to(mask, [*shape_of(mask)[:-2], queries, keys])
