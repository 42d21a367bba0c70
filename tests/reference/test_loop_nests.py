"""linalg.generic on whole arrays against a plain loop over every element."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import array, execute, floats, stepwise

from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.reference.executor import run

ROUND = {name: (lambda v, e=e: float(dtypes.stored(np.asarray(v), e))) for name, e in dtypes.FLOATS.items()}  # fmt: skip


def slow_generic(
    sizes: list[int],
    maps: list[Any],
    arrays: list[np.ndarray],
    body: Any,
) -> np.ndarray:
    """Run `body(*elements) -> new output element` for every point, in order."""
    *inputs, output = arrays
    result = np.array(output, dtype=np.float64)
    for point in itertools.product(*[range(n) for n in sizes]):
        elements = [a[m(*point)] for a, m in zip(inputs, maps, strict=False)]
        place = maps[-1](*point)
        result[place] = body(*elements, result[place])
    return result


CASES: dict[str, tuple[str, list[int], list[Any], list[tuple[int, ...]], str, Any]] = {
    # name: (maps and iterators, sizes, index functions, shapes, body, python body)
    "matmul": (
        "[affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]"
        ' | ["parallel", "parallel", "reduction"]',
        [3, 4, 5],
        [lambda m, n, k: (m, k), lambda m, n, k: (k, n), lambda m, n, k: (m, n)],
        [(3, 5), (5, 4), (3, 4)],
        "%p = arith.mulf %a, %b : T\n%r = arith.addf %o, %p : T",
        lambda rnd, a, b, o: rnd(o + rnd(a * b)),
    ),
    "both transposed, batch in the middle": (
        "[affine_map<(m, b, n, k) -> (k, b, m)>, affine_map<(m, b, n, k) -> (n, k, b)>,"
        " affine_map<(m, b, n, k) -> (n, b, m)>]"
        ' | ["parallel", "parallel", "parallel", "reduction"]',
        [2, 3, 4, 5],
        [
            lambda m, b, n, k: (k, b, m),
            lambda m, b, n, k: (n, k, b),
            lambda m, b, n, k: (n, b, m),
        ],
        [(5, 3, 2), (4, 5, 3), (4, 3, 2)],
        "%p = arith.mulf %b, %a : T\n%r = arith.addf %p, %o : T",
        lambda rnd, a, b, o: rnd(o + rnd(a * b)),
    ),
    "convolution with stride and dilation": (
        "[affine_map<(h, y, f) -> (h * 2 + y * 3)>, affine_map<(h, y, f) -> (f, y)>,"
        ' affine_map<(h, y, f) -> (f, h)>] | ["parallel", "reduction", "parallel"]',
        [3, 2, 4],
        [lambda h, y, f: (h * 2 + y * 3,), lambda h, y, f: (f, y), lambda h, y, f: (f, h)],
        [(8,), (4, 2), (4, 3)],
        "%p = arith.mulf %a, %b : T\n%r = arith.addf %p, %o : T",
        lambda rnd, a, b, o: rnd(o + rnd(a * b)),
    ),
    "sum of differences": (
        "[affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>]"
        ' | ["parallel", "reduction"]',
        [3, 4],
        [lambda i, j: (j, i), lambda i, j: (j,), lambda i, j: (i,)],
        [(4, 3), (4,), (3,)],
        "%p = arith.subf %a, %b : T\n%r = arith.addf %p, %o : T",
        lambda rnd, a, b, o: rnd(o + rnd(a - b)),
    ),
    "maximum of products": (
        "[affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (j)>]"
        ' | ["reduction", "parallel"]',
        [3, 4],
        [lambda i, j: (i, j), lambda i, j: (0, j), lambda i, j: (j,)],
        [(3, 4), (1, 4), (4,)],
        "%p = arith.mulf %a, %b : T\n%r = arith.maximumf %p, %o : T",
        lambda rnd, a, b, o: max(o, rnd(a * b)),
    ),
    "division and remainder in a map": (
        "[affine_map<(i) -> (i floordiv 3, i mod 3)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>]"
        ' | ["parallel"]',
        [6],
        [lambda i: (i // 3, i % 3), lambda i: (i,), lambda i: (i,)],
        [(2, 3), (6,), (6,)],
        "%r = arith.addf %a, %b : T",
        lambda rnd, a, b, o: rnd(a + b),
    ),
}


def generic_text(case: str, element: str) -> str:
    maps, _, _, shapes, body, _ = CASES[case]
    maps, iterators = maps.split(" | ")
    types = [f"tensor<{'x'.join(map(str, s))}x{element}>" for s in shapes]
    return f"""
func.func @main(%a: {types[0]}, %b: {types[1]}, %c: {types[2]}) -> {types[2]} {{
  %r = linalg.generic {{indexing_maps = {maps}, iterator_types = {iterators}}}
      ins(%a, %b : {types[0]}, {types[1]}) outs(%c : {types[2]}) {{
  ^bb0(%a0: {element}, %b0: {element}, %o: {element}):
    {body.replace("%a", "%a0").replace("%b", "%b0").replace(" T", f" {element}")}
    linalg.yield %r : {element}
  }} -> {types[2]}
  return %r : {types[2]}
}}"""


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8E4M3FN"])
def test_stepwise_equals_plain_loops(case: str, element: str) -> None:
    _, sizes, index, shapes, _, body = CASES[case]
    random = np.random.default_rng(5)
    inputs = [array(random.standard_normal(s), element) for s in shapes]
    wanted = slow_generic(
        sizes, index, [floats(i) for i in inputs], lambda *v: body(ROUND[element], *v)
    )
    (found,) = execute(generic_text(case, element), *inputs, semantics=stepwise())
    np.testing.assert_array_equal(floats(found), wanted)


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_wide_sums_round_once(case: str, element: str) -> None:
    """The same loops with exact products and sums, rounded at the end."""
    _, sizes, index, shapes, _, body = CASES[case]
    random = np.random.default_rng(6)
    inputs = [array(random.standard_normal(s), element) for s in shapes]
    contraction = "mulf" in CASES[case][4] and "addf" in CASES[case][4]
    exact = (lambda v: v) if contraction else ROUND[element]
    terms: dict[tuple[int, ...], list[float]] = {}
    arrays = [floats(i) for i in inputs]
    summed = "addf %p" in CASES[case][4] or "addf %o" in CASES[case][4]
    if not summed:
        wanted = slow_generic(sizes, index, arrays, lambda *v: body(ROUND[element], *v))
    else:
        for point in itertools.product(*[range(n) for n in sizes]):
            a, b = (x[m(*point)] for x, m in zip(arrays[:2], index[:2], strict=True))
            place = index[-1](*point)
            terms.setdefault(place, [float(arrays[2][place])]).append(
                exact(a * b if contraction else a - b)
            )
        wanted = np.zeros(shapes[-1])
        for place, values in terms.items():
            wanted[place] = ROUND[element](math.fsum(values))
    (found,) = execute(generic_text(case, element), *inputs)
    np.testing.assert_array_equal(floats(found), wanted)


def test_argmax_runs_its_loops_in_order() -> None:
    text = """
func.func @main(%x: tensor<2x4xf32>, %m: tensor<2xf32>, %i: tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi64>) {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x4xf32>) outs(%m, %i : tensor<2xf32>, tensor<2xi64>) {
  ^bb0(%v: f32, %best: f32, %at: i64):
    %d = linalg.index 1 : index
    %n = arith.index_cast %d : index to i64
    %c = arith.cmpf ogt, %v, %best : f32
    %b = arith.select %c, %v, %best : f32
    %a = arith.select %c, %n, %at : i64
    linalg.yield %b, %a : f32, i64
  } -> (tensor<2xf32>, tensor<2xi64>)
  return %r#0, %r#1 : tensor<2xf32>, tensor<2xi64>
}"""
    x = np.array([[1, 5, 5, 2], [-3, -4, -1, -1]], np.float32)
    best, at = execute(text, x, np.full(2, -np.inf, np.float32), np.zeros(2, np.int64))
    assert best.tolist() == [5, -1] and at.tolist() == [1, 2]


def test_gather_through_tensor_extract_and_its_assertion() -> None:
    text = """
func.func @main(%table: tensor<5x3xbf16>, %ids: tensor<4xi64>) -> tensor<4x3xbf16> {
  %e = tensor.empty() : tensor<4x3xbf16>
  %zero = arith.constant 0 : i64
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<4xi64>) outs(%e : tensor<4x3xbf16>) {
  ^bb0(%id: i64, %o: bf16):
    %ok = arith.cmpi sge, %id, %zero : i64
    cf.assert %ok, "index must not be negative"
    %row = arith.index_cast %id : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<5x3xbf16>
    linalg.yield %v : bf16
  } -> tensor<4x3xbf16>
  return %r : tensor<4x3xbf16>
}"""
    table = array(np.arange(15).reshape(5, 3), "bf16")
    (result,) = execute(text, table, np.array([4, 0, 0, 2]))
    np.testing.assert_array_equal(floats(result), floats(table)[[4, 0, 0, 2]])
    with pytest.raises(TilewrightError, match="must not be negative") as caught:
        execute(text, table, np.array([4, -1, 0, 2]))
    assert caught.value.code == "TW1505"
    with pytest.raises(TilewrightError, match="outside of axis 0"):
        execute(text, table, np.array([4, 1, 5, 2]))


def test_integer_contraction_is_exact_and_wraps() -> None:
    text = """
func.func @main(%a: tensor<2x300xi8>, %b: tensor<300x2xi8>, %c: tensor<2x2xTYPE>) -> tensor<2x2xTYPE> {
  %r = linalg.matmul ins(%a, %b : tensor<2x300xi8>, tensor<300x2xi8>) outs(%c : tensor<2x2xTYPE>)
      -> tensor<2x2xTYPE>
  return %r : tensor<2x2xTYPE>
}"""
    random = np.random.default_rng(0)
    a = random.integers(-128, 128, (2, 300)).astype(np.int8)
    b = random.integers(-128, 128, (300, 2)).astype(np.int8)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    (wide,) = execute(text.replace("TYPE", "i32"), a, b, np.full((2, 2), 7, np.int32))
    assert wide.tolist() == (exact + 7).tolist()
    (narrow,) = execute(text.replace("TYPE", "i16"), a, b, np.zeros((2, 2), np.int16))
    assert narrow.tolist() == exact.astype(np.int16).tolist()


def test_large_nests_are_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.reference import contraction, linalg_generic

    random = np.random.default_rng(2)
    for case in CASES:
        shapes = CASES[case][3]
        inputs = [array(random.standard_normal(s), "f32") for s in shapes]
        text = generic_text(case, "f32")
        whole = execute(text, *inputs)[0]
        monkeypatch.setattr(linalg_generic, "PIECE", 3)
        monkeypatch.setattr(contraction, "COPY_LIMIT", 4)
        np.testing.assert_array_equal(execute(text, *inputs)[0], whole)
        monkeypatch.undo()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_random_projections_and_reductions(sizes: list[int], data: st.DataObject) -> None:
    """Random subsets and orders of loops for operands and result, against numpy's einsum."""
    loops = list(range(len(sizes)))
    kept = data.draw(st.lists(st.sampled_from(loops), unique=True, max_size=len(loops)))
    left = data.draw(st.permutations(loops))
    rest = [d for d in loops if data.draw(st.booleans())]
    right = data.draw(st.permutations(rest)) if rest else []
    names = ", ".join(f"d{d}" for d in loops)

    def affine(dims: Any) -> str:
        return f"affine_map<({names}) -> ({', '.join(f'd{d}' for d in dims)})>"

    def tensor(dims: Any) -> str:
        return "tensor<" + "".join(f"{sizes[d]}x" for d in dims) + "f32>"

    kinds = ", ".join('"parallel"' if d in kept else '"reduction"' for d in loops)
    text = f"""
func.func @main(%a: {tensor(left)}, %b: {tensor(right)}, %c: {tensor(kept)}) -> {tensor(kept)} {{
  %r = linalg.generic {{indexing_maps = [{affine(left)}, {affine(right)}, {affine(kept)}],
      iterator_types = [{kinds}]}} ins(%a, %b : {tensor(left)}, {tensor(right)}) outs(%c : {tensor(kept)}) {{
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %o, %p : f32
    linalg.yield {"%s" if len(kept) < len(loops) else "%p"} : f32
  }} -> {tensor(kept)}
  return %r : {tensor(kept)}
}}"""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = [
        random.integers(-8, 9, [sizes[d] for d in dims]).astype(np.float32)
        for dims in (left, right, kept)
    ]
    a, b, c = (x.astype(np.float64) for x in arrays)
    wanted = np.einsum(a, left, b, right, list(kept))  # pyright: ignore
    if len(kept) < len(loops):
        wanted = wanted + c
    found = run(parse_text(text), arrays)[0]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(m, n, k) -> (m, n)>]", "(m, n, k) -> (m, k)>]"), "not a projection"),
        (("tensor<3x5xf32>", "tensor<3x6xf32>"), "steps"),
    ],
)
def test_contradictory_maps_are_errors(change: tuple[str, str], message: str) -> None:
    text = generic_text("matmul", "f32").replace(*change)
    shapes = [(3, 5), (5, 4), (3, 4)]
    if "3x6" in change[1]:
        shapes[0] = (3, 6)
    inputs = [np.zeros(s, np.float32) for s in shapes]
    with pytest.raises(TilewrightError, match=message) as caught:
        run(parse_text(text, "bad.mlir"), inputs)
    assert caught.value.code == "TW1502"
    assert caught.value.location is not None and caught.value.location.line == 3
