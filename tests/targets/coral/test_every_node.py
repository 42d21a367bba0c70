"""Every kind of node as C: one program with all of them; own functions within 4 units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.targets.coral import functions, wide_functions
from tilewright.targets.coral.compile import CoralOptions, compile_model
from tilewright.targets.coral.evaluate import COMPARISONS, NODES
from tilewright.targets.coral.program import BINARY, UNARY, Node, Program, Value, identity
from tilewright.targets.coral.toolchain import toolchain_missing


@pytest.mark.parametrize(
    ("ours", "exact", "low", "high"),
    [
        (functions.exp, math.exp, -87.0, 88.0),
        (functions.log, math.log, 1e-30, 1e30),
        (functions.tanh, math.tanh, -9.5, 9.5),
        (functions.erf, math.erf, -5.0, 5.0),
        (functions.exp2, math.exp2, -125.0, 127.0),
        (functions.log2, math.log2, 1e-30, 1e30),
        (wide_functions.sin, math.sin, -500.0, 500.0),
        (wide_functions.cos, math.cos, 1e-3, 1e18),
    ],
)
def test_functions_are_close(ours, exact, low, high):
    rng = np.random.default_rng(0)
    x = rng.uniform(low, high, 40_000)
    if low > 0:
        x = np.exp(rng.uniform(np.log(low), np.log(high), 40_000))
    x = np.concatenate([x, x / 50 if low < 0 else 1 + x / high]).astype(np.float32)
    wanted = np.array([exact(float(v)) for v in x])
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(ours(x) - wanted) / unit) <= 4


def test_functions_at_the_ends():
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 100, -110], dtype=np.float32)
    assert functions.exp(special)[[0, 1, 3, 6, 7]].tolist() == [np.inf, 0, 1, np.inf, 0]
    assert functions.log(special)[[0, 3]].tolist() == [np.inf, -np.inf]
    assert np.isnan(functions.log(special)[[1, 2, 7]]).all()
    assert functions.tanh(special)[[0, 1, 3]].tolist() == [1, -1, 0]
    assert np.signbit(functions.tanh(special)[4]) and np.isnan(functions.exp(special)[2])
    assert functions.exp(np.full(1, -100.0))[0] > 0  # a subnormal


def test_power_is_close_and_has_the_special_cases():
    rng = np.random.default_rng(1)
    x = np.concatenate([np.abs(rng.standard_normal(8000)) * 9, rng.uniform(0.9, 1.1, 8000)])
    y = np.concatenate([rng.standard_normal(8000) * 6, rng.standard_normal(8000) * 300])
    x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64))
        unit = np.spacing(np.maximum(wanted, 1e-37).astype(np.float32)).astype(np.float64)
        got = wide_functions.power(x, y)
    assert np.max(np.abs(got - wanted)[np.isfinite(got)] / unit[np.isfinite(got)]) <= 2
    bases = [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-40, -7]
    powers = [*bases, 3, -3, 16777215, 16777216, 1e30, -1e30, -5, 1.5]
    a, b = np.meshgrid(np.array(bases, np.float32), np.array(powers, np.float32))
    with np.errstate(all="ignore"):
        wanted = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    got = wide_functions.power(a, b)
    assert np.allclose(got, wanted, rtol=3e-7, atol=0, equal_nan=True)
    assert np.array_equal(np.signbit(got[got == got]), np.signbit(wanted[wanted == wanted]))


class Builder:
    """A program whose every node is an output."""

    def __init__(self) -> None:
        self.inputs = [
            Value("a", (2, 3, 4), "f32"),
            Value("b", (2, 3, 4), "f32"),
            Value("i", (2, 3, 4), "i32"),
            Value("j", (2, 3, 4), "i8"),
            Value("m", (2, 3, 4), "i1"),
            Value("x", (2, 6, 5, 4), "f32"),
            Value("k", (3,), "i32"),
            Value("l", (2, 3, 4), "i64"),
        ]
        self.nodes: list[Node] = []

    def add(self, kind, inputs, shape, dtype, accesses=None, **attributes) -> None:
        output = Value(f"o{len(self.nodes)}", shape, dtype)
        if accesses is None:
            accesses = [identity(len(v.shape)) for v in inputs]
        self.nodes.append(Node(kind, list(inputs), output, attributes, accesses))

    def program(self) -> Program:
        outputs = [n.output for n in self.nodes]
        names = [v.name for v in self.inputs]
        return Program(self.inputs, outputs, self.nodes, names, [v.name for v in outputs])


def everything() -> Program:
    made = Builder()
    a, b, i, j, m, x, k, n = made.inputs
    shape = a.shape
    integers = {"neg", "abs", "relu", "square", "cube", "clamp", "copy"}
    for kind in sorted(UNARY - {"cast", "requant", "logical_not"}):
        more = {"min": -0.5, "max": 0.75} if kind == "clamp" else {}
        more |= {"inner_scale": 0.79788} if kind == "gelu_tanh" else {}
        more |= {"inner_scale": None} if kind == "gelu_erf" else {}
        made.add(kind, [a], shape, "f32", **more)
        if kind in integers:
            more = {"min": -5, "max": None} if kind == "clamp" else {}
            made.add(kind, [i], shape, "i32", **more)
            made.add(kind, [j], shape, "i8", **more)
            made.add(kind, [n], shape, "i64", **more)
    far = Value("far", (8,), "f32", np.array([1e10, -1e10, 3e9, 1e30, -1e30, -0.5, 2e9, 9.1e18]))
    far.data = np.asarray(far.data, dtype=np.float32)
    made.add("cast", [far], (8,), "i64")
    for to in ("f32", "i8", "ui8", "i16", "i32", "i64", "i1"):
        for value in (a, i, j, m, n):
            made.add("cast", [value], shape, to)
        if to not in ("f32", "i64", "i1"):
            made.add("requant", [a], shape, to)
    made.add("logical_not", [m], shape, "i1")
    made.add("logical_not", [i], shape, "i32")
    row = Value("row", (4,), "f32", np.array([1.5, -0.0, np.inf, 3], dtype=np.float32))
    for kind in sorted(BINARY - {"compare", "silu_gate"}):
        if not kind.startswith("logical"):
            made.add(kind, [a, b], shape, "f32")
            made.add(kind, [a, row], shape, "f32", [identity(3), (2,)])
        made.add(kind, [i, i], shape, "i32")
        made.add(kind, [j, j], shape, "i8")
        if kind != "pow":
            made.add(kind, [n, n], shape, "i64")
    third = Value("third", (), "i64", np.array(-3))
    made.add("div", [n, third], shape, "i64", [identity(3), ()])
    made.add("silu_gate", [a, b], shape, "f32")
    made.add("logical_xor", [m, m], shape, "i1")
    for predicate in (*COMPARISONS, "ord", "uno"):
        made.add("compare", [a, b], shape, "i1", predicate=predicate)
        if predicate not in ("ord", "uno", "one", "ueq"):
            made.add("compare", [i, i], shape, "i1", predicate=predicate)
            made.add("compare", [j, j], shape, "i1", predicate=predicate)
            made.add("compare", [n, third], shape, "i1", [identity(3), ()], predicate=predicate)
    made.add("select", [m, a, b], shape, "f32")
    for how in ("sum", "mean", "max", "min", "prod"):
        made.add("reduce", [a], (3,), "f32", [], reduce=how, axes=(0, 2))
        made.add("reduce", [a], (), "f32", [], reduce=how, axes=(0, 1, 2))
        if how != "mean":
            made.add("reduce", [i], (2, 4), "i32", [], reduce=how, axes=(1,))
    window = {"strides": (2, 1), "padding": (1, 0, 1, 2), "dilations": (1, 1), "kernel": (3, 2)}
    for how in ("max", "sum", "avg"):
        for pads in (False, True):
            made.add(
                "pool", [x], (2, 3, 6, 4), "f32", [], reduce=how, count_include_pad=pads, **window
            )
    made.add("softmax", [x], x.shape, "f32", [])
    hidden = Value("hidden", (2, 3), "f32", np.full((2, 3), -np.inf, dtype=np.float32))
    assert hidden.data is not None
    hidden.data[1, 2] = 0
    made.add("softmax", [hidden], (2, 3), "f32", [], masked=True)
    for axis in (0, 1, 2):
        kept = tuple(size for d, size in enumerate(shape) if d != axis)
        for value, to in ((a, "i32"), (i, "i64"), (j, "i32")):
            made.add("argmax", [value], kept, to, [], axis=axis)
            made.add("argmin", [value], kept, to, [], axis=axis)
    for value in (a, i, j, n):
        made.add("cumsum", [value], shape, value.dtype, [])
        for down in (False, True):
            made.add("sort", [value], shape, value.dtype, [], descending=down)
            made.add("argsort", [value], shape, "i32", [], descending=down)
    places = Value("places", (3,), "i64", np.array([1, -4, 1]))
    for how in ("replace", "sum", "prod", "max", "min"):
        rows = Value("rows", (3, 3, 4), "f32", np.linspace(-2, 2, 36).reshape(3, 3, 4))
        rows.data = np.asarray(rows.data, dtype=np.float32)
        made.add("scatter", [a, places, rows], shape, "f32", [], reduce=how)
        whole = Value("whole", (3, 3, 4), "i32", np.arange(36, dtype=np.int32).reshape(3, 3, 4))
        made.add("scatter", [i, k, whole], shape, "i32", [], reduce=how)
    weight = Value("w", (4,), "f32", np.arange(4, dtype=np.float32))
    made.add(
        "layer_norm",
        [x, weight, weight],
        x.shape,
        "f32",
        [],
        epsilon=1e-5,
        roles=("weight", "bias"),
    )
    made.add("rms_norm", [x, weight], x.shape, "f32", [], epsilon=1e-6, roles=("weight",))
    made.add("transpose", [x], (4, 6, 2, 5), "f32", [], permutation=(3, 1, 0, 2))
    made.add("slice", [x], (1, 3, 2, 4), "f32", [], offsets=(1, 0, 1, 0), strides=(1, 2, 3, 1))
    made.add("pad", [a], (2, 5, 5), "f32", [], low=(0, 1, 0), value=-1.5)
    made.add("insert", [x, a], x.shape, "f32", [], offsets=(0, 1, 2, 0), strides=(1, 1, 1, 1))
    made.nodes.pop()  # its part has another rank; the next one fits
    part = Value("part", (1, 2, 2, 4), "f32", np.ones((1, 2, 2, 4), dtype=np.float32))
    made.add("insert", [x, part], x.shape, "f32", [], offsets=(1, 1, 0, 0), strides=(1, 3, 2, 1))
    made.add("concat", [a, b, a], (2, 9, 4), "f32", [], axis=1)
    made.add("gather", [x, k], (2, 3, 5, 4), "f32", [], axis=1)
    made.add("gather", [x, places], (2, 6, 3, 4), "f32", [], axis=2)
    other = Value(
        "other", (2, 4, 3), "f32", np.linspace(-1, 1, 24).astype(np.float32).reshape(2, 4, 3)
    )
    made.add("batch_matmul", [a, other], (2, 3, 3), "f32", [])
    return made.program()


@pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
@pytest.mark.parametrize("fuse", [True, False])
def test_every_node_is_exact(fuse):
    program = everything()
    kinds = {n.kind for n in program.nodes}
    quantised = {n for n in NODES if n.startswith("q_")}
    assert kinds | quantised | {"conv", "reshape"} == set(NODES)  # those have tests of their own
    made = compile_model(program, "coral-highmem", CoralOptions(fuse=fuse, unroll=False))
    verdict = made.verify(2)
    assert verdict.ok, verdict.text
