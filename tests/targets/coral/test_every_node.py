"""Every kind of node as C: one program with all of them; own functions within 4 units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.targets.coral import functions
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
    a, b, i, j, m, x, k = made.inputs
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
    for to in ("f32", "i8", "ui8", "i16", "i32", "i1"):
        for value in (a, i, j, m):
            made.add("cast", [value], shape, to)
        if to not in ("f32", "i1"):
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
    made.add("silu_gate", [a, b], shape, "f32")
    made.add("logical_xor", [m, m], shape, "i1")
    for predicate in (*COMPARISONS, "ord", "uno"):
        made.add("compare", [a, b], shape, "i1", predicate=predicate)
        if predicate not in ("ord", "uno", "one", "ueq"):
            made.add("compare", [i, i], shape, "i1", predicate=predicate)
            made.add("compare", [j, j], shape, "i1", predicate=predicate)
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
