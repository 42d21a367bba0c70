"""Reductions, values that are repeated, slices, joins and reshapes: on the device, for shapes that are no whole tiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright.dialects.intents import Lane
from tilewright.dialects.xdsl_api import (
    Attribute,
    DenseArrayBase,
    FloatAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    i1,
    i64,
)
from tilewright.frontend.builder import ModelBuilder, Value

TARGETS = ("atlas-v1", "atlas-v0")


def reduced(net: ModelBuilder, x: Value, kind: str, axes: tuple[int, ...], keep: bool) -> Value:
    shape = tuple(
        1 if d in axes else size for d, size in enumerate(x.shape) if keep or d not in axes
    )
    attributes: dict[str, Attribute] = {"axes": DenseArrayBase.from_list(i64, list(axes))}
    if keep:
        attributes["keepdims"] = UnitAttr()
    return net._call(f"reduction_{kind}", [x], shape, attributes)


def combined(net: ModelBuilder, family: str, x: Value, y: Value) -> Value:
    """An operation on two values, dimensions of one repeated as numpy does."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    loops = tuple(range(len(shape)))
    lanes = [
        Lane(v.value, tuple(d if v.shape[d] == shape[d] else None for d in loops)) for v in (x, y)
    ]
    made = net._intents.elementwise(family, lanes, f32, dict(enumerate(shape)))
    return Value(net, made.tensor)


def check(net: ModelBuilder, wanted: Callable[..., np.ndarray], target: str, limit=0.02) -> None:
    """On the device, exact as verify sees it, and near to what it should be."""
    built = net.build()
    shapes = [spec.shape for spec in built.inputs]
    program = tw.compile(built, target=target)
    reasons = [r for part in program.model.parts for r in getattr(part, "reasons", ())]
    assert not reasons
    assert program.verify().ok
    bound = program.model.artifact.bound()
    assert bound is not None
    random = np.random.default_rng(5)
    arrays = [random.normal(size=shape).astype("f4") for shape in shapes]
    got, right = np.asarray(program(*arrays), np.float64), wanted(*arrays)
    assert program.cycles >= bound.cycles > 0
    assert got.shape == right.shape
    assert np.linalg.norm(got - right) <= limit * np.linalg.norm(right)


NUMPY = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
CASES = [
    ((3, 45, 70), (2,), True, "mean"),
    ((3, 45, 70), (2,), False, "max"),
    ((50, 33), (1,), False, "sum"),
    ((3, 45, 70), (1,), False, "mean"),
    ((3, 45, 70), (1,), True, "min"),
    ((4, 45, 40), (0,), False, "sum"),
    ((2, 3, 20, 33), (1,), False, "max"),
    ((2, 3, 20, 33), (2, 3), False, "mean"),
    ((2, 3, 20, 33), (3, 1), True, "max"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shape", "axes", "keep", "kind"), CASES)
def test_reductions(target, shape, axes, keep, kind) -> None:
    net = ModelBuilder("reduction")
    x = net.unary("elementwise_tanh", net.input("x", shape))
    net.output("y", reduced(net, x, kind, axes, keep))
    check(net, lambda a: NUMPY[kind](np.tanh(a), axis=axes, keepdims=keep), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_less_its_mean(target, axis) -> None:
    """Numbers that were computed, repeated along columns, rows and the batch."""
    net = ModelBuilder("centred")
    x = net.unary("elementwise_exp", net.input("x", (3, 45, 70)))
    mean = reduced(net, x, "mean", (axis,), True)
    net.output(
        "y", combined(net, "elementwise_div", combined(net, "elementwise_sub", x, mean), mean)
    )

    def wanted(a: np.ndarray) -> np.ndarray:
        grown = np.exp(a.astype("f8"))
        return grown / grown.mean(axis, keepdims=True) - 1

    check(net, wanted, target)


SPREAD = [
    ((2, 3, 20, 33), (2, 1, 20, 33)),
    ((2, 3, 20, 33), (1, 3, 20, 33)),
    ((2, 3, 20, 33), (2, 1, 20, 1)),
    ((3, 20, 33), (3, 1, 33)),
    ((2, 3, 20, 33), (1, 1, 20, 33)),
    ((2, 3, 20, 33), (1, 1, 1, 33)),
    ((2, 3, 20, 33), (1, 1, 1, 1)),
    ((40, 1), (1, 50)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("first", "second"), SPREAD)
def test_repeated(target, first, second) -> None:
    net = ModelBuilder("repeated")
    a, b = net.input("a", first), net.input("b", second)
    a, b = net.unary("elementwise_exp", a), net.unary("elementwise_tanh", b)
    net.output("y", combined(net, "elementwise_sub", a, b))
    check(net, lambda a, b: np.exp(a) - np.tanh(b), target)


SLICES = [
    ((3, 80, 70), (1, 32, 32), (2, 40, 20), (1, 1, 1)),
    ((5, 40, 33), (1, 0, 0), (2, 40, 33), (2, 1, 1)),
    ((2, 4, 20, 33), (0, 1, 0, 0), (2, 2, 20, 10), (1, 1, 1, 1)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shape", "offsets", "sizes", "steps"), SLICES)
def test_slices(target, shape, offsets, sizes, steps) -> None:
    net = ModelBuilder("slice")
    x = net.unary("elementwise_exp", net.input("x", shape))
    names = {"offsets": offsets, "sizes": sizes, "strides": steps}
    attributes = {n: DenseArrayBase.from_list(i64, list(v)) for n, v in names.items()}
    part = net._call("slice", [x], sizes, attributes)
    net.output("y", net.softmax(part))  # what lies beyond the new edges takes no part

    def wanted(a: np.ndarray) -> np.ndarray:
        places = zip(offsets, sizes, steps, strict=True)
        grown = np.exp(a)[tuple(slice(o, o + n * s, s) for o, n, s in places)]
        powers = np.exp(grown - grown.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    check(net, wanted, target, 0.03)


JOINS = [
    ((2, 40, 64), (2, 40, 33), 2),
    ((2, 32, 40), (2, 13, 40), 1),
    ((2, 3, 20, 33), (2, 2, 20, 33), 1),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("first", "second", "axis"), JOINS)
def test_joins(target, first, second, axis) -> None:
    net = ModelBuilder("concat")
    a = net.unary("elementwise_exp", net.input("a", first))
    b = net.unary("elementwise_tanh", net.input("b", second))
    net.output("y", net.concat([a, b], axis) * 2.0)
    check(net, lambda a, b: 2 * np.concatenate([np.exp(a), np.tanh(b)], axis), target)


def normed(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    apart = x - x.mean(-1, keepdims=True)
    apart = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-6)
    return apart * weights["norm.weight"] + weights["norm.bias"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("also_read", [False, True])
def test_parts_of_a_norm_side_by_side(target, also_read) -> None:
    """They go to the product as fp8, in one pass, unless somebody else reads the norm."""
    net = ModelBuilder("shuffle")
    x = net.layer_norm(net.input("x", (1, 128, 70)), "norm")
    parts = [net.slice(x, (0, start, 0), (1, 40, 64)) for start in (64, 0, 32)]
    y = net.linear(net.concat(parts, 2), 33, "out")
    net.output("y", net.softmax(y))
    if also_read:
        net.output("z", net.softmax(x))
    program = tw.compile(net.build(), target=target)
    kernels = [step.kernel for step in program.model.artifact.steps if step.kernel != "copy"]
    quick = ["norm", "move", "linear", "softmax"]
    assert kernels == quick or also_read
    assert program.verify().ok
    given = np.random.default_rng(5).normal(size=(1, 128, 70)).astype("f4")
    results = program(given)
    rows = normed(given, net.weights)
    joined = np.concatenate([rows[:, start : start + 40, :64] for start in (64, 0, 32)], 2)
    right = joined @ net.weights["out.weight"].T + net.weights["out.bias"]
    got = np.log(np.asarray(results[0] if also_read else results, np.float64))
    off = (got - got.mean(-1, keepdims=True)) - (right - right.mean(-1, keepdims=True))
    assert np.linalg.norm(off) < 0.06 * np.linalg.norm(right)


@pytest.mark.parametrize("shape", [(1, 70, 40), (70, 40)])
def test_a_table_is_added_as_the_product_leaves(shape) -> None:
    """Learned positions: a matrix of numbers that is added to every row's own."""
    net = ModelBuilder("positions")
    x = net.input("x", (1, 70, 50))
    table = np.random.default_rng(3).normal(size=shape).astype("f4")
    y = net.linear(x, 40, "embed")
    lanes = [Lane(y.value, (0, 1, 2))]
    lanes.append(Lane(net.weight("table", table).value, (0, 1, 2)[3 - len(shape) :]))
    made = net._intents.elementwise("elementwise_add", lanes, f32, dict(enumerate((1, 70, 40))))
    net.output("y", Value(net, made.tensor))
    program = tw.compile(net.build())
    assert [step.kernel for step in program.model.artifact.steps] == ["quantise", "linear"]
    assert program.verify().ok
    given = np.random.default_rng(5).normal(size=(1, 70, 50)).astype("f4")
    right = given @ net.weights["embed.weight"].T + net.weights["embed.bias"] + table
    got = np.asarray(program(given), np.float64)
    assert np.linalg.norm(got - right) < 0.04 * np.linalg.norm(right)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("before", "after"), [((6, 32, 33), (2, 96, 33)), ((2, 64, 33), (2, 2, 32, 33))]
)
def test_reshapes(target, before, after) -> None:
    net = ModelBuilder("reshape")
    x = net.unary("elementwise_exp", net.input("x", before))
    net.output("y", net.unary("elementwise_sqrt", net.reshape(x, after)))
    check(net, lambda a: np.exp(a / 2).reshape(after), target)


def test_what_moves_values_between_tiles_says_so() -> None:
    net = ModelBuilder("unaligned")
    a = net.unary("elementwise_exp", net.input("a", (45, 33)))
    net.output("y", net.concat([a, net.unary("elementwise_tanh", a)], 0))
    program = tw.compile(net.build())
    reasons = [r for part in program.model.parts for r in getattr(part, "reasons", ())]
    assert any("from 45 on, where no tile begins" in reason for reason in reasons)
    assert program.verify().ok


SLOPES = np.linspace(-0.51, 1.0, 33, dtype=np.float32)


@pytest.mark.parametrize(
    "predicate, slope",
    [
        ("lt", 0.1),
        ("ge", 2.5),
        ("gt", -0.5),
        ("le", SLOPES),
        ("gt", SLOPES + 1.52),
        ("gt", SLOPES[:1]),
    ],
)
def test_leaky_relu(predicate, slope) -> None:
    """One slope or one of each channel; written from either side of zero; nothing on the host."""
    net = ModelBuilder("leaky")
    x = net.unary("elementwise_tanh", net.input("x", (45, 33)))
    zero = {"predicate": StringAttr(predicate), "scalar_rhs": FloatAttr(0.0, f32)}
    kind = TensorType(i1, list(x.shape))
    compared = Value(net, net._intents.call("compare", [x.value], kind, zero, ()))
    if isinstance(slope, float):
        scaled = x * slope
    else:
        scaled = combined(net, "elementwise_mul", x, net.weight("slope", slope[None]))
    chosen = [scaled, x] if predicate in ("lt", "le") else [x, scaled]
    net.output("y", net._call("select", [compared, *chosen], x.shape) + 1.0)
    check(net, lambda a: np.where(a < 0, slope, 1.0) * np.tanh(a) + 1, "atlas-v1")


@pytest.mark.parametrize("target", TARGETS)
def test_many_repeated_values(target) -> None:
    """More than one kernel has addresses for."""
    shapes = [(2, 3, 20, 33), (2, 1, 20, 1), (2, 1, 1, 33), (2, 1, 20, 33), (2, 1, 1, 1)]
    shapes += [(1, 1, 20, 33), (1, 1, 20, 1), (1, 1, 1, 33)]
    net = ModelBuilder("many")
    total, *others = [net.input(f"x{k}", shape) for k, shape in enumerate(shapes)]
    for other in others:
        total = combined(net, "elementwise_add", total, other)
    net.output("y", total)
    check(net, lambda first, *rest: first + sum(rest), target)
