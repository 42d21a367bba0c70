"""StableHLO text: what every operation computes, in custom and generic form. Needs no jax."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dialects.locations import location_of
from tilewright.frontend.imported import Imported
from tilewright.frontend.stablehlo import import_text
from tilewright.frontend.stablehlo_locations import layer_in, plain_locations
from tilewright.reference.executor import run

Array = np.ndarray[Any, np.dtype[Any]]
DATA = Path(__file__).resolve().parent.parent / "data" / "stablehlo"
RANDOM = np.random.default_rng(3)
NAMES = {"float32": "f32", "int32": "i32", "bool": "i1"}


def kind(array: Array) -> str:
    return f"tensor<{'x'.join([*map(str, array.shape), NAMES[str(array.dtype)]])}>"


def module(body: str, inputs: list[Array], results: list[Array], functions: str = "") -> str:
    """A module whose main function has arguments %0, %1, … and returns %r (or %r#0, %r#1, …)."""
    arguments = ", ".join(f"%a{i}: {kind(a)}" for i, a in enumerate(inputs))
    types = ", ".join(map(kind, results))
    values = "%r" if len(results) == 1 else ", ".join(f"%r#{i}" for i in range(len(results)))
    return (
        f"module @test {{\n  func.func public @main({arguments}) -> ({types}) {{\n    {body}\n"
        f"    return {values} : {types}\n  }}\n{functions}\n}}\n"
    )


def imported(body: str, inputs: list[Array], results: list[Array], functions: str = "") -> Imported:
    return import_text(module(body, inputs, results, functions), "test.mlir")


def check(body: str, inputs: list[Array], *results: Array, functions: str = "") -> Imported:
    """Run a body and compare every result; types of operands are written ? where they are long."""
    model = imported(body, inputs, list(results), functions)
    found = run(model.module, inputs, weights=model.weights)
    for have, want in zip(found, results, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    return model


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def families(model: Imported) -> list[str]:
    return [
        op.properties["symbol"].data.removeprefix("npu_uk_")  # type: ignore[attr-defined]
        if "symbol" in op.properties
        else op.name
        for op in model.module.walk()
        if op.name.startswith("npu_kernel.")
    ]


X = floats(4, 6)
T = "tensor<4x6xf32>"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("stablehlo.negate", np.negative), ("stablehlo.abs", np.abs),
        ("stablehlo.exponential", np.exp), ("stablehlo.tanh", np.tanh),
        ("stablehlo.sine", np.sin), ("stablehlo.cosine", np.cos), ("stablehlo.floor", np.floor),
        ("stablehlo.ceil", np.ceil), ("stablehlo.sign", np.sign), ("stablehlo.cbrt", np.cbrt),
        ("stablehlo.round_nearest_even", np.round), ("stablehlo.exponential_minus_one", np.expm1),
        ("stablehlo.tan", np.tan), ("stablehlo.logistic", lambda x: 1 / (1 + np.exp(-x))),
        ("stablehlo.round_nearest_afz", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    ],
)  # fmt: skip
def test_unary(name: str, function: Any) -> None:
    check(f"%r = {name} %a0 : {T}", [X], function(X))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
        ("divide", np.divide), ("maximum", np.maximum), ("minimum", np.minimum),
        ("remainder", np.fmod),
    ],
)  # fmt: skip
def test_binary(name: str, function: Any) -> None:
    y = np.abs(floats(4, 6)) + 0.5
    check(f"%r = stablehlo.{name} %a0, %a1 : {T}", [X, y], function(X, y))


def test_small_numbers_keep_their_digits() -> None:
    """log(1 + x), exp(x) - 1 and erfc where rounding first would leave nothing."""
    import math

    tiny = np.array([1e-6, -3e-5, 2e-4, 0.3, 5.0], np.float32)
    text = "%r = stablehlo.{} %a0 : tensor<5xf32>"
    for name, function in (("log_plus_one", np.log1p), ("exponential_minus_one", np.expm1)):
        model = imported(text.format(name), [tiny], [tiny])
        (found,) = run(model.module, [tiny], weights=model.weights)
        np.testing.assert_allclose(found, function(tiny.astype(np.float64)), rtol=1e-6)
    x = np.linspace(-4, 6, 41).astype(np.float32)
    model = imported("%r = chlo.erfc %a0 : tensor<41xf32> -> tensor<41xf32>", [x], [x])
    (found,) = run(model.module, [x], weights=model.weights)
    np.testing.assert_allclose(found, [math.erfc(v) for v in x.astype(float)], rtol=2e-5)


def test_comparisons_and_choices() -> None:
    y = floats(4, 6)
    compared = f"stablehlo.compare  LT, %a0, %a1,  FLOAT : ({T}, {T}) -> tensor<4x6xi1>"
    check(f"%r = {compared}", [X, y], y > X)
    chosen = f"%c = {compared}\n    %r = stablehlo.select %c, %a0, %a1 : tensor<4x6xi1>, {T}"
    check(chosen, [X, y], np.where(y > X, X, y))
    bounds = (
        "%l = stablehlo.constant dense<-5.000000e-01> : tensor<f32>\n"
        "    %h = stablehlo.constant dense<2.500000e-01> : tensor<f32>\n"
        f"    %r = stablehlo.clamp %l, %a0, %h : (tensor<f32>, {T}, tensor<f32>) -> {T}"
    )
    assert families(check(bounds, [X], np.clip(X, -0.5, 0.25))) == ["clamp"]
    both = f"%p = {compared}\n    %n = stablehlo.not %p : tensor<4x6xi1>\n    %r = stablehlo.and %p, %n : tensor<4x6xi1>"
    check(both, [X, y], np.zeros((4, 6), np.bool_))


def test_movement() -> None:
    check(f"%r = stablehlo.transpose %a0, dims = [1, 0] : ({T}) -> tensor<6x4xf32>", [X], X.T)
    check(f"%r = stablehlo.reshape %a0 : ({T}) -> tensor<3x8xf32>", [X], X.reshape(3, 8))
    check(f"%r = stablehlo.slice %a0 [1:4, 0:6:2] : ({T}) -> tensor<3x3xf32>", [X], X[1:4, 0:6:2])
    check(f"%r = stablehlo.reverse %a0, dims = [0, 1] : {T}", [X], X[::-1, ::-1].copy())
    check(
        f"%r = stablehlo.concatenate %a0, %a0, dim = 1 : ({T}, {T}) -> tensor<4x12xf32>",
        [X],
        np.concatenate([X, X], 1),
    )
    check(
        f"%r = stablehlo.broadcast_in_dim %a0, dims = [2, 0] : ({T}) -> tensor<6x2x4xf32>",
        [X],
        np.broadcast_to(X.T[:, None], (6, 2, 4)).copy(),
    )
    check("%r = stablehlo.iota dim = 1 : tensor<2x3xi32>", [], np.array([[0, 1, 2]] * 2, np.int32))


def test_padding_spreads_and_cuts() -> None:
    """Interior padding puts elements apart, negative padding cuts."""
    text = (
        "%v = stablehlo.constant dense<9.000000e+00> : tensor<f32>\n"
        "    %r = stablehlo.pad %a0, %v, low = [1, -2], high = [-1, 1], interior = [1, 0]"
        f" : ({T}, tensor<f32>) -> tensor<7x5xf32>"
    )
    spread = np.full((7, 6), 9, np.float32)
    spread[::2] = X
    want = np.pad(spread[:-1, 2:], ((1, 0), (0, 1)), constant_values=9)
    check(text, [X], want)


@pytest.mark.parametrize(
    ("name", "start", "function"),
    [
        ("add", "0.000000e+00", np.sum), ("maximum", "0xFF800000", np.max),
        ("minimum", "0x7F800000", np.min), ("multiply", "1.000000e+00", np.prod),
        ("add", "2.500000e+00", lambda x, axis: np.sum(x, axis) + np.float32(2.5)),
    ],
)  # fmt: skip
def test_reductions(name: str, start: str, function: Any) -> None:
    first = f"%c = stablehlo.constant dense<{start}> : tensor<f32>\n    "
    short = f"%r = stablehlo.reduce(%a0 init: %c) applies stablehlo.{name} across dimensions = [1]"
    types = f" : ({T}, tensor<f32>) -> tensor<4xf32>"
    check(first + short + types, [X], function(X, axis=1))
    body = (
        f"%r = stablehlo.reduce(%a0 init: %c) across dimensions = [1]{types}\n"
        "     reducer(%x: tensor<f32>, %y: tensor<f32>)  {\n"
        f"      %s = stablehlo.{name} %x, %y : tensor<f32>\n"
        "      stablehlo.return %s : tensor<f32>\n    }"
    )
    check(first + body, [X], function(X, axis=1))


WINDOW = """%c = stablehlo.constant dense<{start}> : tensor<f32>
    %r = "stablehlo.reduce_window"(%a0, %c) <{{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<{padding}> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}}> ({{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.{name} %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<1x7x7x2xf32>, tensor<f32>) -> tensor<1x{size}x{size}x2xf32>"""


@pytest.mark.parametrize("padded", [False, True])
def test_windows(padded: bool) -> None:
    image = floats(1, 7, 7, 2)
    padding = "[[0, 0], [1, 1], [1, 1], [0, 0]]" if padded else "0"
    size = 4 if padded else 3
    for name, start, edge, function in (
        ("maximum", "0xFF800000", -np.inf, np.max),
        ("minimum", "0x7F800000", np.inf, np.min),
        ("add", "0.000000e+00", 0.0, np.sum),
    ):
        wide = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=edge)
        source = wide if padded else image
        windows = np.lib.stride_tricks.sliding_window_view(source, (3, 3), (1, 2))[:, ::2, ::2]
        text = WINDOW.format(start=start, padding=padding, name=name, size=size)
        check(text, [image], function(windows, axis=(4, 5)).astype(np.float32))


def test_general_dot_products() -> None:
    a, b = floats(2, 3, 4, 5), floats(5, 2, 6, 3)
    text = (
        "%r = stablehlo.dot_general %a0, %a1, batching_dims = [1] x [3], contracting_dims = "
        "[3, 0] x [0, 1], precision = [DEFAULT, DEFAULT] : "
        f"({kind(a)}, {kind(b)}) -> tensor<3x4x6xf32>"
    )
    check(text, [a, b], np.einsum("abcd,dafb->bcf", a, b))
    row, matrix = floats(5), floats(5, 3)
    for left, right, labels in ((row, matrix, "a,ab->b"), (row, row, "a,a->")):
        want = np.asarray(np.einsum(labels, left, right))
        text = (
            "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [0] : "
            f"({kind(left)}, {kind(right)}) -> {kind(want)}"
        )
        check(text, [left, right], want)


def test_a_weight_transposed_is_read_as_it_is() -> None:
    x, w = floats(2, 3, 8), floats(5, 8)
    text = (
        "%t = stablehlo.transpose %a1, dims = [1, 0] : (tensor<5x8xf32>) -> tensor<8x5xf32>\n"
        "    %r = stablehlo.dot_general %a0, %t, contracting_dims = [2] x [0] : "
        "(tensor<2x3x8xf32>, tensor<8x5xf32>) -> tensor<2x3x5xf32>"
    )
    assert families(check(text, [x, w], x @ w.T)) == ["npu_kernel.matmul"]


CONVOLUTION = (
    "%r = stablehlo.convolution(%a0, %a1) dim_numbers = {orders}, window = {{stride = [1, 2], pad = "
    "[[1, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]}} "
    "{{batch_group_count = 1 : i64, feature_group_count = 2 : i64}} : ({x}, {w}) -> {y}"
)


@pytest.mark.parametrize(
    "layout",
    ["[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
     "[0, b, f, 1]x[i, 1, o, 0]->[f, 1, b, 0]"],
)  # fmt: skip
def test_convolutions_of_every_layout(layout: str) -> None:
    image, weight = floats(2, 4, 5, 6), floats(6, 2, 3, 2)
    wide = np.pad(image, [(0, 0), (0, 0), (1, 1), (0, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 2), (2, 3))[:, :, :, ::2]
    groups = windows.reshape(2, 2, 2, *windows.shape[2:])
    want = np.einsum("ngcyxij,gocij->ngoyx", groups, weight.reshape(2, 3, 2, 3, 2))
    want = want.reshape(2, 6, 5, 3).astype(np.float32)
    orders = [
        part.split(", ") for part in re.findall(r"\[([^\]]*)\]", layout)
    ]  # from bf01, oi01 and bf01
    given = [
        array.transpose([names.index(d) for d in order])
        for array, names, order in zip(
            (image, weight, want), ("bf01", "oi01", "bf01"), orders, strict=True
        )
    ]
    x, w, y = (np.ascontiguousarray(array) for array in given)
    check(CONVOLUTION.format(orders=layout, x=kind(x), w=kind(w), y=kind(y)), [x, w], y)


def test_lookups() -> None:
    table, places = floats(5, 3), np.array([4, 0, 7, 2], np.int32)
    text = (
        "%i = stablehlo.reshape %a1 : (tensor<4xi32>) -> tensor<4x1xi32>\n"
        '    %r = "stablehlo.gather"(%a0, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = '
        "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : "
        "(tensor<5x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>"
    )
    check(text, [table, places], table[[4, 0, 4, 2]])  # places are kept inside
    start = np.array(9, np.int32)
    text = (
        "%z = stablehlo.constant dense<1> : tensor<i32>\n"
        "    %r = stablehlo.dynamic_slice %a0, %a1, %z, sizes = [2, 2] : "
        "(tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>"
    )
    check(text, [table, start], table[3:5, 1:3])
    new = floats(2, 3)
    text = (
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "    %r = stablehlo.dynamic_update_slice %a0, %a1, %a2, %z : "
        "(tensor<5x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>"
    )
    want = table.copy()
    want[1:3] = new
    check(text, [table, new, np.array(1, np.int32)], want)


def test_sorting() -> None:
    text = """%i = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %r:2 = "stablehlo.sort"(%a0, %i) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>, %m: tensor<i32>, %n: tensor<i32>):
      %p = stablehlo.compare  GT, %x, %y,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)"""
    order = np.argsort(-X, axis=1, kind="stable").astype(np.int32)
    check(text, [X], np.take_along_axis(X, order, 1), order)
    text = "%r:2 = chlo.top_k(%a0, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)"
    check(text, [X], np.take_along_axis(X, order, 1)[:, :2], order[:, :2])


LOOP = """%z = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %z, %s = %a0) : tensor<i32>, tensor<4x6xf32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %p = stablehlo.compare  LT, %i, %n,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = func.call @double(%s) : (tensor<4x6xf32>) -> tensor<4x6xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<4x6xf32>
    }
    %r = stablehlo.abs %w#1 : tensor<4x6xf32>"""
DOUBLE = """  func.func private @double(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %y = stablehlo.add %x, %x : tensor<4x6xf32>
    return %y : tensor<4x6xf32>
  }"""
CASE = """%r = "stablehlo.case"(%a0) ({
      stablehlo.return %a1 : tensor<4x6xf32>
    }, {
      %n = stablehlo.negate %a1 : tensor<4x6xf32>
      stablehlo.return %n : tensor<4x6xf32>
    }, {
      %e = stablehlo.exponential %a1 : tensor<4x6xf32>
      stablehlo.return %e : tensor<4x6xf32>
    }) : (tensor<i32>) -> tensor<4x6xf32>"""


def test_control_flow() -> None:
    """Loops of known length are unrolled; branches compute their sides and choose."""
    model = check(LOOP, [X], np.abs(32 * X), functions=DOUBLE)
    assert families(model) == ["elementwise_add"] * 5 + ["elementwise_abs"]
    for place, want in ((0, X), (1, -X), (2, np.exp(X))):
        check(CASE, [np.array(place, np.int32), X], want)
    text = CASE.replace('"stablehlo.case"(%a0)', '"stablehlo.if"(%a0)').replace("i32", "i1")
    text = re.sub(r"\}, \{\s*%e[^}]*", "", text)
    for place, want in ((True, X), (False, -X)):
        check(text, [np.array(place), X], want)


def test_annotations_compute_nothing() -> None:
    text = (
        f'%s = stablehlo.custom_call @Sharding(%a0) {{mhlo.sharding = "{{replicated}}"}} : ({T}) -> {T}\n'
        f"    %b = stablehlo.optimization_barrier %s : {T}\n"
        f"    %r = stablehlo.negate %b : {T}"
    )
    assert families(check(text, [X], -X)) == ["elementwise_neg"]


def test_generic_form_is_the_same() -> None:
    custom = imported(
        f"%r = stablehlo.compare LE, %a0, %a1 : ({T}, {T}) -> tensor<4x6xi1>", [X, X], [X < X]
    )
    generic = import_text(
        """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>, sym_name = "main"}> ({
  ^bb0(%a0: tensor<4x6xf32>, %a1: tensor<4x6xf32>):
    %0 = "stablehlo.compare"(%a0, %a1) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    "func.return"(%0) : (tensor<4x6xi1>) -> ()
  }) : () -> ()
}) : () -> ()""",
        "generic.mlir",
    )
    assert str(custom.module) == str(generic.module)


def test_what_depends_on_nothing_is_computed() -> None:
    text = (
        "%i = stablehlo.iota dim = 0 : tensor<4x6xi32>\n"
        "    %j = stablehlo.iota dim = 1 : tensor<4x6xi32>\n"
        "    %c = stablehlo.compare GE, %i, %j : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>\n"
        f"    %f = stablehlo.convert %c : (tensor<4x6xi1>) -> {T}\n"
        f"    %r = stablehlo.multiply %a0, %f : {T}"
    )
    model = check(text, [X], X * np.tri(4, 6, dtype=np.float32))
    assert families(model) == ["elementwise_mul"]
    np.testing.assert_array_equal(model.weights["literal.0"], np.tri(4, 6, dtype=np.float32))


def test_saved_text_reads_back() -> None:
    """What the importer makes prints and parses, infinities included."""
    from tilewright.cli.import_model import module_text
    from tilewright.frontend.mlir_model import import_mlir

    text = (
        "%c = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        f"    %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {T}\n"
        f"    %p = stablehlo.compare GT, %a0, %a1 : ({T}, {T}) -> tensor<4x6xi1>\n"
        f"    %r = stablehlo.select %p, %a0, %b : tensor<4x6xi1>, {T}"
    )
    y = floats(4, 6)
    model = imported(text, [X, y], [X])
    again = import_mlir(module_text(model), "again.mlir", model.weights)
    (found,) = run(again.module, [X, y], weights=again.weights)
    np.testing.assert_array_equal(found, np.where(y < X, X, -np.inf))


# ---------------------------------------------------------------------------------- names and places


LOCATED = """#loc1 = loc("params['layers'][0]['w']")
module @jit_f {
  func.func public @main(%arg0: tensor<3xf32> loc("params['layers'][0]['w']"), %arg1: tensor<3xf32> loc(unknown)) -> (tensor<3xf32> {jax.result_info = "result['out']"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<3xf32> loc(#loc4)
    %1 = call @f(%0) : (tensor<3xf32>) -> tensor<3xf32> loc(#loc6)
    return %1 : tensor<3xf32> loc(#loc)
  } loc(#loc)
  func.func private @f(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.exponential %arg0 : tensor<3xf32> loc(#loc7)
    return %0 : tensor<3xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("model.py":12:8 to :20)
#loc3 = loc("f"(#loc2))
#loc4 = loc("jit(f)/encoder/layer_0/add"(callsite(#loc3 at #loc2)))
#loc5 = loc(fused["model.py":30:4, "other.py":1:1])
#loc6 = loc("jit(f)/encoder/jit(g)"(#loc5))
#loc7 = loc("exp")
"""


def test_names_layers_and_lines() -> None:
    model = import_text(LOCATED, "located.mlir")
    assert [spec.name for spec in model.inputs] == ["params.layers.0.w", "arg1"]
    assert [spec.name for spec in model.outputs] == ["out"]
    ops = [op for op in model.module.walk() if op.name == "npu_kernel.ukernel_generic"]
    assert [op.attributes["tw.layer"].data for op in ops] == ["encoder.layer_0", "encoder"]  # type: ignore[attr-defined]
    assert [str(location_of(op)) for op in ops] == ["model.py:12:8", "model.py:30:4"]
    weights = {"layers.0.w": np.ones(3, np.float32)}
    model = import_text(LOCATED, "located.mlir", weights)
    assert [spec.name for spec in model.inputs] == ["arg1"]
    assert list(model.weights) == ["layers.0.w"]


def test_locations_in_one_level() -> None:
    lines = plain_locations(LOCATED, "located.mlir").split("\n")
    assert len(lines) == len(LOCATED.split("\n")) and "#loc" not in "".join(lines)
    assert lines[3].endswith('loc("jit(f)/encoder/layer_0/add"("model.py":12:8))')
    assert lines[8].endswith('loc("exp"("located.mlir":9:5))')
    assert plain_locations('%0 = "a.b"() {s = "loc(#loc1)"} : () -> ()', "f") == (
        '%0 = "a.b"() {s = "loc(#loc1)"} : () -> ()'
    )
    assert layer_in("jit(f)/Encoder/while/body/Dense_0/dot_general") == "Encoder.Dense_0"


# ----------------------------------------------------------------------------- orders of dimensions


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["transpose", "repeat", "unit", "squeeze", "add", "abs", "sum", "max", "larger", "flat"]
        ),
        st.integers(0, 11),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_views_compute_what_they_show(steps: list[tuple[str, int]]) -> None:
    """Any chain of transposes, repetitions, reductions and arithmetic, against numpy."""
    x = (np.arange(48) % 7 - 3).astype(np.float32).reshape(2, 3, 2, 4)
    values, lines = [x], ["%0 = stablehlo.negate %a0 : tensor<2x3x2x4xf32>"]
    values.append(-x)
    lines.append("%z = stablehlo.constant dense<0.000000e+00> : tensor<f32>")
    lines.append("%m = stablehlo.constant dense<0xFF800000> : tensor<f32>")
    for number, (step, choice) in enumerate(steps, 1):
        old, before = values[-1], f"%{number - 1}"
        new, text = _step(step, choice, old, before, values)
        if new.size > 4000:
            break
        values.append(new)
        lines.append(f"%{number} = {text}")
    result = values[-1]
    last = len(values) - 2
    body = "\n    ".join([*lines, f"%r = stablehlo.abs %{last} : {kind(result)}"])
    check(body, [x], np.abs(result))


def _step(step: str, choice: int, x: Array, name: str, values: list[Array]) -> tuple[Array, str]:
    rank = x.ndim
    if step == "transpose" and rank:
        order = np.roll(np.arange(rank), choice)
        if choice % 2:
            order = order[::-1]
        new = np.ascontiguousarray(x.transpose(order))
        dims = ", ".join(map(str, order))
        return new, f"stablehlo.transpose {name}, dims = [{dims}] : ({kind(x)}) -> {kind(new)}"
    if step == "repeat" and rank < 6:
        place = choice % (rank + 1)
        new = np.repeat(np.expand_dims(x, place), 2, place)
        dims = ", ".join(str(d + (d >= place)) for d in range(rank))
        return (
            new,
            f"stablehlo.broadcast_in_dim {name}, dims = [{dims}] : ({kind(x)}) -> {kind(new)}",
        )
    if step == "unit" and rank < 6:
        new = np.expand_dims(x, choice % (rank + 1))
        return new, f"stablehlo.reshape {name} : ({kind(x)}) -> {kind(new)}"
    if step == "squeeze":
        new = np.squeeze(x)
        return new, f"stablehlo.reshape {name} : ({kind(x)}) -> {kind(new)}"
    if step == "flat":
        new = np.ascontiguousarray(x).reshape(-1)
        return new, f"stablehlo.reshape {name} : ({kind(x)}) -> {kind(new)}"
    if step in ("sum", "max") and rank:
        axis = choice % rank
        new = x.sum(axis) if step == "sum" else x.max(axis)
        applied, start = ("add", "%z") if step == "sum" else ("maximum", "%m")
        return np.asarray(new), (
            f"stablehlo.reduce({name} init: {start}) applies stablehlo.{applied} across dimensions = "
            f"[{axis}] : ({kind(x)}, tensor<f32>) -> {kind(np.asarray(new))}"
        )
    partners = [i for i, v in enumerate(values[1:]) if v.shape == x.shape]
    other = partners[choice % len(partners)]
    if step == "add":
        return x + values[other + 1], f"stablehlo.add {name}, %{other} : {kind(x)}"
    if step == "larger":
        return np.maximum(x, values[other + 1]), (f"stablehlo.maximum {name}, %{other} : {kind(x)}")
    return np.abs(x), f"stablehlo.abs {name} : {kind(x)}"
