"""ONNX operators that contract: matrix products, Einsum, Attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import float_attribute, text
from tilewright.dialects.xdsl_api import Attribute, IntegerAttr, SSAValue, TensorType, UnitAttr
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, lowers, unsupported
from tilewright.frontend.onnx_values import Constant, Value, element, is_bool, shape


@lowers("MatMul")
def matmul(low: Lowering, node: Node) -> Value:
    left, right = low.tensor(node.required(0)), low.tensor(node.required(1))
    return product(low, left, right, element(left))


def product(low: Lowering, left: SSAValue, right: SSAValue, to: Attribute) -> SSAValue:
    """numpy's matmul: vectors get a dimension of size 1, batches are expanded where they differ."""
    a, b = list(shape(left)), list(shape(right))
    if not a or not b:
        raise Problem("TW6009", "a matrix product of scalars is not defined")
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else []
    if len(a) == 1:
        a = [1, *a]
        left = low.reshape(left, a)
    if len(b) == 1:
        b = [*b, 1]
        right = low.reshape(right, b)
    if a[-1] != b[-2]:
        raise Problem("TW6009", f"shapes {a} and {b} do not multiply")
    batch = np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
    if math.prod(b[:-2]) == 1:
        # One matrix for the whole batch stays one matrix.
        right = low.reshape(right, b[-2:])
        inner = (*a[:-2], a[-2], b[-1])
        result = low.matmul(left, right, TensorType(to, inner))
    else:
        left = low.expand(left, [*batch, *a[-2:]])
        right = low.expand(right, [*batch, *b[-2:]])
        result = low.matmul(left, right, TensorType(to, [*batch, a[-2], b[-1]]))
    return low.reshape(result, [*batch, *rows, *columns])


@lowers("Gemm")
def gemm(low: Lowering, node: Node) -> Value:
    left, right = low.tensor(node.required(0)), low.tensor(node.required(1))
    flips = bool(node.get("transA", 0)), bool(node.get("transB", 0))
    m = shape(left)[1 if flips[0] else 0]
    n = shape(right)[0 if flips[1] else 1]
    result: SSAValue = low.matmul(
        left, right, TensorType(element(left), [m, n]), None, flips[0], flips[1]
    )
    if node.get("alpha", 1.0) != 1.0:
        result = low.apply("elementwise_mul", result, node.get("alpha"))
    bias, beta = node.input(2), node.get("beta", 1.0)
    if bias is None or not beta:
        return result
    if beta != 1.0:
        bias = low.apply("elementwise_mul", bias, beta)
    return low.apply("elementwise_add", result, bias)


# ------------------------------------------------------------------------------------ Einsum


@lowers("Einsum")
def einsum(low: Lowering, node: Node) -> Value:
    """Operands taken in order, two at a time; what nobody later reads is summed away."""
    equation = node.get("equation", "").replace(" ", "")
    values = [low.tensor(v) for v in node.inputs if v is not None]
    terms, result = _equation(equation, [len(shape(v)) for v in values])
    current, letters = _diagonal_free(low, values[0], terms[0])
    for index in range(1, len(values)):
        value, own = _diagonal_free(low, values[index], terms[index])
        later = set(result).union(*terms[index + 1 :])
        current, letters = _pair(low, current, letters, value, own, later)
    gone = [d for d, letter in enumerate(letters) if letter not in result]
    if gone:
        current = low.reduction("sum", current, gone)
        letters = [letter for letter in letters if letter in result]
    return low.transpose(current, [letters.index(letter) for letter in result])


def _equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Problem("TW6009", f"equation {equation!r} does not fit {len(ranks)} operands")
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    if any(w < 0 or (w and "..." not in t) for t, w in zip(terms, widths, strict=True)):
        raise Problem("TW6009", f"equation {equation!r} does not fit operands of ranks {ranks}")
    extra = max((w for t, w in zip(terms, widths, strict=True) if "..." in t), default=0)
    dots = [f".{i}" for i in range(extra)]

    def spell(term: str, width: int) -> list[str]:
        head, _, tail = term.partition("...")
        return [*head, *(dots[extra - width :] if "..." in term else []), *tail]

    spelled = [spell(t, w) for t, w in zip(terms, widths, strict=True)]
    if arrow:
        return spelled, spell(right, extra)
    every = [letter for term in spelled for letter in term]
    once = sorted({x for x in every if every.count(x) == 1 and not x.startswith(".")})
    return spelled, [*dots, *once]


def _diagonal_free(low: Lowering, x: SSAValue, letters: list[str]) -> tuple[SSAValue, list[str]]:
    """Repeated letters masked to their diagonal and summed down to one."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            n, rank = shape(x)[first], len(letters)
            sizes = [n if d in (first, second) else 1 for d in range(rank)]
            mask = Constant(np.eye(n, dtype=np.bool_).reshape(sizes), "diagonal", 9)
            x = low.apply("select", mask, x, low.constant(0, x), to=element(x))
            x = low.reduction("sum", x, [second])
            letters = letters[:second] + letters[second + 1 :]
    return x, letters


def _pair(
    low: Lowering, a: SSAValue, left: list[str], b: SSAValue, right: list[str], later: set[str]
) -> tuple[SSAValue, list[str]]:
    """One product of two operands as a batched matmul."""
    sizes: dict[str, int] = {}
    for value, letters in ((a, left), (b, right)):
        for letter, n in zip(letters, shape(value), strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    both = [x for x in left if x in right]
    batch = [x for x in both if x in later]
    inner = [x for x in both if x not in later]
    rows = [x for x in left if x not in right]
    columns = [x for x in right if x not in left]

    def arranged(value: SSAValue, letters: list[str], groups: list[list[str]]) -> SSAValue:
        value = low.expand(value, [sizes[x] for x in letters])
        order = [letters.index(x) for group in groups for x in group]
        value = low.transpose(value, order)
        return low.reshape(value, [math.prod(sizes[x] for x in group) for group in groups])

    lhs = arranged(a, left, [batch, rows, inner])
    rhs = arranged(b, right, [batch, inner, columns])
    type_ = TensorType(element(a), [shape(lhs)[0], shape(lhs)[1], shape(rhs)[2]])
    letters = [*batch, *rows, *columns]
    return low.reshape(low.matmul(lhs, rhs, type_), [sizes[x] for x in letters]), letters


# --------------------------------------------------------------------------------- Attention


@lowers("Attention")
def attention(low: Lowering, node: Node) -> list[Value]:
    """Attention kept whole: heads in front, keys and values after what was kept from before."""
    if node.get("softcap", 0.0) or node.input(6) is not None or node.has_output(3):
        unsupported("a soft cap, key lengths or the scores as a result")
    q, k, v = (low.tensor(node.required(i)) for i in range(3))
    flat = len(shape(q)) == 3
    if flat:
        q_heads, kv_heads = node.get("q_num_heads", 0), node.get("kv_num_heads", 0)
        if not q_heads or not kv_heads:
            raise Problem("TW6009", "rank-3 inputs need q_num_heads and kv_num_heads")
        q, k, v = _heads(low, q, q_heads), _heads(low, k, kv_heads), _heads(low, v, kv_heads)
    past_k, past_v = node.input(4), node.input(5)
    if past_k is not None and past_v is not None:
        k = low.concat([low.tensor(past_k), k], 2)
        v = low.concat([low.tensor(past_v), v], 2)
    batch, heads, length, _ = shape(q)
    keys = shape(k)[2]
    group = heads // shape(k)[1]
    attributes: dict[str, Attribute] = {}
    if node.get("scale") is not None:
        attributes["scale"] = float_attribute(node.get("scale"))
    if group != 1:
        attributes["kv_group"] = IntegerAttr(group, builtin.i64)
    operands = [q, k, v]
    mask = node.input(3)
    if mask is not None:
        mask = _full_mask(low, mask, length, keys)
    if node.get("is_causal", 0):
        before = 0 if past_k is None else shape(past_k)[2]
        if keys - length == before:
            attributes["causal"] = UnitAttr()
        else:
            seen = np.tri(length, keys, before, dtype=np.bool_)
            mask = _joined(low, mask, Constant(seen, "causal_mask", 9))
    if mask is not None:
        boolean = is_bool(element(mask))
        attributes["mask_kind"] = text("bool" if boolean else "additive")
        operands.append(low.tensor(mask))
    type_ = TensorType(element(q), [batch, heads, length, shape(v)[3]])
    result: SSAValue = low.call("gemma_attention", operands, type_, attributes)
    if flat:
        result = low.transpose(result, [0, 2, 1, 3])
        result = low.reshape(result, [batch, length, heads * shape(v)[3]])
    return [result, k, v]


def _heads(low: Lowering, x: SSAValue, heads: int) -> SSAValue:
    """[batch, length, heads * width] -> [batch, heads, length, width]."""
    batch, length, hidden = shape(x)
    return low.transpose(low.reshape(x, [batch, length, heads, hidden // heads]), [0, 2, 1, 3])


def _full_mask(low: Lowering, mask: Value, length: int, keys: int) -> Value:
    """A mask whose last two dimensions are queries and keys; keys beyond its end are hidden."""
    sizes = shape(mask)
    if sizes[-1] not in (1, keys):
        value = low.tensor(mask)
        missing = keys - sizes[-1]
        if missing < 0:
            raise Problem("TW6009", f"the mask has {sizes[-1]} keys, there are {keys}")
        hidden = np.zeros([*sizes[:-1], missing])
        if not is_bool(element(mask)):
            hidden = np.full(hidden.shape, -np.inf)
        mask = low.concat(
            [value, low.tensor(low.constant(hidden, mask, "hidden_keys"))], len(sizes) - 1
        )
        sizes = shape(mask)
    if len(sizes) < 2:
        sizes = (1, *sizes)
        mask = low.reshape(low.tensor(mask), sizes)
    wanted = [*sizes[:-2], length, keys]
    return mask if list(sizes) == wanted else low.expand(mask, wanted)


def _joined(low: Lowering, mask: Value | None, seen: Constant) -> Value:
    if mask is None:
        return seen
    if is_bool(element(mask)):
        return low.apply("logical_and", mask, seen)
    hidden = low.constant(-np.inf, mask, "minus_infinity")
    return low.apply("select", seen, mask, hidden, to=element(mask))
