"""What calls of complex values are in real ones: parts, arithmetic, products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.aten_complex import Pair, Splitter, handles, is_complex
from tilewright.frontend.aten_graph import Node, Ref, TensorInfo

# --------------------------------------------------------------------------- parts


@handles("view_as_real.default", "view_as_real_copy.default")
def view_as_real(splitter: Splitter, node: Node) -> Ref:
    value = node.get("self")
    pair, info = splitter.pair(value), splitter.result()
    imaginary = splitter.zeros(value.name) if pair.imaginary is None else pair.imaginary
    return splitter.call("aten.stack.default", info, tensors=[pair.real, imaginary], dim=-1)


@handles("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(splitter: Splitter, node: Node) -> Pair:
    found = [
        splitter.call("aten.select.int", splitter.result(), self=node.get("self"), dim=-1, index=i)
        for i in range(2)
    ]
    return Pair(*found)


@handles("complex.default")
def complex_of(splitter: Splitter, node: Node) -> Pair:
    shape = splitter.result().shape
    parts = [node.get("real"), node.get("imag")]
    for place, part in enumerate(parts):
        if splitter.info(part).shape != shape:
            parts[place] = splitter.call(
                "aten.expand.default", splitter.result(), self=part, size=list(shape)
            )
    return Pair(*parts)


@handles("polar.default")
def polar(splitter: Splitter, node: Node) -> Pair:
    length, angle = node.get("abs"), node.get("angle")
    around = splitter.info(angle)
    found = []
    for name in ("cos", "sin"):
        turned = splitter.call(f"aten.{name}.default", around, self=angle)
        found.append(splitter.binary("mul", length, turned, splitter.result()))
    return Pair(*found)


@handles("real.default")
def real(splitter: Splitter, node: Node) -> Ref:
    return splitter.pair(node.get("self")).real


@handles("imag.default")
def imaginary(splitter: Splitter, node: Node) -> Ref:
    value = node.get("self")
    found = splitter.pair(value).imaginary
    return splitter.zeros(value.name) if found is None else found


@handles(
    "conj.default", "_conj.default", "conj_physical.default", "_conj_physical.default",
    "_conj_copy.default",
)  # fmt: skip
def conjugate(splitter: Splitter, node: Node) -> Pair:
    pair = splitter.pair(node.get("self"))
    return Pair(pair.real, splitter.negated(pair.imaginary))


@handles("resolve_conj.default", "resolve_neg.default")
def the_same(splitter: Splitter, node: Node) -> Pair:
    return splitter.pair(node.get("self"))


@handles("_to_copy.default", "to.dtype", "_to_copy.dtype")
def converted(splitter: Splitter, node: Node) -> Any:
    """To complex numbers, to wider ones, or to real ones, which drops the imaginary part."""
    pair, info = splitter.pair(node.get("self")), splitter.result()

    def cast(value: Ref | None) -> Ref | None:
        if value is None or splitter.info(value).dtype == info.dtype:
            return value
        return splitter.call("aten._to_copy.default", info, self=value, dtype=info.dtype)

    if not is_complex(splitter.graph.values[node.results[0]].dtype):
        return cast(pair.real)
    return Pair(cast(pair.real), cast(pair.imaginary))


@handles("abs.default")
def size_of(splitter: Splitter, node: Node) -> Ref:
    """The hypotenuse, with the larger part taken out, so that no square overflows."""
    pair, info = splitter.pair(node.get("self")), splitter.result()
    if pair.imaginary is None:
        return splitter.call("aten.abs.default", info, self=pair.real)
    a, b = (
        splitter.call("aten.abs.default", info, self=part) for part in (pair.real, pair.imaginary)
    )
    large = splitter.call("aten.maximum.default", info, self=a, other=b)
    floor = float(np.finfo(info.dtype.storage).tiny)
    safe = splitter.call("aten.clamp.default", info, self=large, min=floor)
    ratios = [splitter.call("aten.div.Tensor", info, self=part, other=safe) for part in (a, b)]
    total = squares(splitter, ratios[0], ratios[1], info)
    root = splitter.call("aten.sqrt.default", info, self=total)
    return splitter.binary("mul", large, root, info)


def squares(splitter: Splitter, a: Any, b: Any, info: TensorInfo) -> Any:
    """The sum of two squares."""
    first, second = (splitter.binary("mul", part, part, info) for part in (a, b))
    return splitter.binary("add", first, second, info)


@handles("angle.default")
def angle(splitter: Splitter, node: Node) -> Ref:
    value = node.get("self")
    pair = splitter.pair(value)
    other = splitter.zeros(value.name) if pair.imaginary is None else pair.imaginary
    return splitter.call("aten.atan2.default", splitter.result(), self=other, other=pair.real)


# --------------------------------------------------------------------------- arithmetic


@handles("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def sum_of(splitter: Splitter, node: Node) -> Pair:
    sign, info = (1 if ".add" in node.target else -1), splitter.result()
    a, b = splitter.pair(node.get("self")), splitter.pair(node.get("other"))
    if node.get("alpha", 1) != 1:
        b = times(splitter, b, splitter.pair(node.get("alpha")), info)
    parts = [
        splitter.added(((1, a.real), (sign, b.real)), info),
        splitter.added(((1, a.imaginary), (sign, b.imaginary)), info),
    ]
    return Pair(*(spread(splitter, part, info) for part in parts))


@handles("rsub.Tensor", "rsub.Scalar")
def difference_from(splitter: Splitter, node: Node) -> Pair:
    info = splitter.result()
    a, b = splitter.pair(node.get("self")), splitter.pair(node.get("other"))
    a = (
        times(splitter, a, splitter.pair(node.get("alpha", 1)), info)
        if node.get("alpha", 1) != 1
        else a
    )
    parts = [
        splitter.added(((1, b.real), (-1, a.real)), info),
        splitter.added(((1, b.imaginary), (-1, a.imaginary)), info),
    ]
    return Pair(*(spread(splitter, part, info) for part in parts))


def spread(splitter: Splitter, part: Any, info: TensorInfo) -> Any:
    """A part that came from one operand alone, in the shape of the result."""
    if part is None or (isinstance(part, Ref) and splitter.info(part).shape == info.shape):
        return part
    size = list(info.shape)
    if not isinstance(part, Ref):
        return splitter.call(
            "aten.full.default", info, size=size, fill_value=float(part), dtype=info.dtype
        )
    return splitter.call("aten.expand.default", info, self=part, size=size)


def times(splitter: Splitter, a: Pair, b: Pair, info: TensorInfo, target: str = "mul") -> Pair:
    """The product, element by element or of matrices; parts that are zero are left out."""

    def product(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if target == "mul":
            return splitter.binary("mul", left, right, info)
        names = ("self", "other") if target == "aten.matmul.default" else ("self", "mat2")
        return splitter.call(target, info, **dict(zip(names, (left, right), strict=True)))

    real = ((1, product(a.real, b.real)), (-1, product(a.imaginary, b.imaginary)))
    other = ((1, product(a.real, b.imaginary)), (1, product(a.imaginary, b.real)))
    return Pair(splitter.added(real, info), splitter.added(other, info))


@handles("mul.Tensor", "mul.Scalar")
def product(splitter: Splitter, node: Node) -> Pair:
    a, b = splitter.pair(node.get("self")), splitter.pair(node.get("other"))
    return times(splitter, a, b, splitter.result())


@handles("mm.default", "bmm.default", "matmul.default")
def matrices(splitter: Splitter, node: Node) -> Pair:
    a, b = (splitter.pair(node.get("self")), splitter.pair(node.get("mat2", node.get("other"))))
    return times(splitter, a, b, splitter.result(), node.target)


@handles("div.Tensor", "div.Scalar", "reciprocal.default")
def quotient(splitter: Splitter, node: Node) -> Pair:
    """By a real number part by part; by a complex one: times its conjugate, by its square."""
    info = splitter.result()
    a, b = splitter.pair(node.get("self")), splitter.pair(node.get("other"))
    if "reciprocal" in node.target:
        a, b = Pair(1.0), a
    below = b.real
    if b.imaginary is not None:
        a = times(splitter, a, Pair(b.real, splitter.negated(b.imaginary)), info)
        below = squares(splitter, b.real, b.imaginary, info)

    def divided(part: Any) -> Any:
        if part is None:
            return None
        if not isinstance(part, Ref):
            part = spread(splitter, part, info)
        kind = "Tensor" if isinstance(below, Ref) else "Scalar"
        return splitter.call(f"aten.div.{kind}", info, self=part, other=below)

    return Pair(divided(a.real), divided(a.imaginary))


@handles("exp.default")
def exponential(splitter: Splitter, node: Node) -> Pair:
    pair, info = splitter.pair(node.get("self")), splitter.result()
    size = splitter.call("aten.exp.default", info, self=pair.real)
    if pair.imaginary is None:
        return Pair(size)
    turned = [
        splitter.call(f"aten.{name}.default", info, self=pair.imaginary) for name in ("cos", "sin")
    ]
    return Pair(*(splitter.binary("mul", size, part, info) for part in turned))


@handles("pow.Tensor_Scalar", "square.default")
def power(splitter: Splitter, node: Node) -> Pair:
    """Whole powers from 1 to 8, as products."""
    pair, info, count = splitter.pair(node.get("self")), splitter.result(), node.get("exponent", 2)
    if count not in range(1, 9):
        raise node.error(
            "TW6101",
            f"{node.target} of complex numbers is mapped for whole powers from 1 to 8",
            "write it with torch.abs and torch.angle of the number",
        )
    found = pair
    for _ in range(int(count) - 1):
        found = times(splitter, found, pair, info)
    return found


@handles("full.default", "full_like.default", "zeros.default", "ones.default", "zeros_like.default", "ones_like.default")  # fmt: skip
def filled(splitter: Splitter, node: Node) -> Pair:
    value = complex(node.get("fill_value", 1 if "ones" in node.target else 0))
    info = splitter.result()
    real, other = (spread(splitter, part, info) for part in (value.real, value.imag or None))
    return Pair(real, other)


@handles("constant_pad_nd.default")
def bordered(splitter: Splitter, node: Node) -> Pair:
    pair, info = splitter.pair(node.get("self")), splitter.result()
    value = complex(node.get("value", 0))

    def one(part: Ref | None, number: float) -> Ref | None:
        if part is None:
            return None
        return splitter.call(
            "aten.constant_pad_nd.default", info, self=part, pad=node.get("pad"), value=number
        )

    imaginary = pair.imaginary
    if imaginary is None and value.imag:
        imaginary = splitter.zeros(node.get("self").name)
    return Pair(one(pair.real, value.real), one(imaginary, value.imag))
