"""tensor, scf, func and the machinery: values, memory reuse, errors."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from running import array, execute, floats

from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.reference.executor import Executor, run

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def function(body: str, results: str, arguments: str = "%x: tensor<3x4xf32>") -> str:
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


def test_slices() -> None:
    text = function(
        """
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %a = tensor.extract_slice %x[0, 1] [2, 2] [2, 2] : tensor<3x4xf32> to tensor<2x2xf32>
  %b = tensor.extract_slice %x[%one, 0] [1, %two] [1, 1] : tensor<3x4xf32> to tensor<?xf32>
  %c = tensor.insert_slice %a into %x[1, 0] [2, 2] [1, 3] : tensor<2x2xf32> into tensor<3x4xf32>
  return %a, %b, %c : tensor<2x2xf32>, tensor<?xf32>, tensor<3x4xf32>""",
        "tensor<2x2xf32>, tensor<?xf32>, tensor<3x4xf32>",
    ).replace("tensor<?xf32>", "tensor<1x?xf32>")
    before = X.copy()
    a, b, c = execute(text, X)
    assert a.tolist() == [[1, 3], [9, 11]]
    assert b.tolist() == [[4, 5]]
    wanted = before.copy()
    wanted[1:3, 0:4:3] = [[1, 3], [9, 11]]
    assert c.tolist() == wanted.tolist()
    assert X.tolist() == before.tolist(), "an input was changed"


def test_reshaping_padding_joining() -> None:
    text = function(
        """
  %pad = arith.constant -1.0 : f32
  %a = tensor.collapse_shape %x [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
  %b = tensor.expand_shape %x [[0], [1, 2]] output_shape [3, 2, 2] : tensor<3x4xf32> into tensor<3x2x2xf32>
  %c = tensor.concat dim(1) %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %d = tensor.pad %x low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %pad : f32
  } : tensor<3x4xf32> to tensor<4x6xf32>
  %s = tensor.splat %pad : tensor<2xf32>
  %i = arith.constant 2 : index
  %j = arith.constant 1 : index
  %e = tensor.extract %x[%i, %j] : tensor<3x4xf32>
  %f = tensor.insert %e into %s[%j] : tensor<2xf32>
  %g = tensor.from_elements %e, %pad : tensor<2xf32>
  return %a, %b, %c, %d, %f, %g : tensor<12xf32>, tensor<3x2x2xf32>, tensor<3x8xf32>, tensor<4x6xf32>, tensor<2xf32>, tensor<2xf32>""",
        "tensor<12xf32>, tensor<3x2x2xf32>, tensor<3x8xf32>, tensor<4x6xf32>, tensor<2xf32>, tensor<2xf32>",
    )
    a, b, c, d, f, g = execute(text, X)
    assert a.tolist() == X.ravel().tolist()
    assert b.tolist() == X.reshape(3, 2, 2).tolist()
    assert c.tolist() == np.concatenate([X, X], 1).tolist()
    assert d.tolist() == np.pad(X, ((1, 0), (0, 2)), constant_values=-1).tolist()
    assert f.tolist() == [-1, 9] and g.tolist() == [9, -1]


def test_padding_and_generating_from_indices() -> None:
    text = """
func.func @main(%x: tensor<2xi64>) -> (tensor<4xi64>, tensor<2x3xi64>) {
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    %v = arith.index_cast %i : index to i64
    tensor.yield %v : i64
  } : tensor<2xi64> to tensor<4xi64>
  %g = "tensor.generate"() ({
  ^bb0(%i: index, %j: index):
    %s = arith.muli %i, %j : index
    %v = arith.index_cast %s : index to i64
    "tensor.yield"(%v) : (i64) -> ()
  }) : () -> tensor<2x3xi64>
  return %p, %g : tensor<4xi64>, tensor<2x3xi64>
}"""
    p, g = execute(text, np.array([10, 20]))
    assert p.tolist() == [0, 10, 20, 3]
    assert g.tolist() == [[0, 0, 0], [0, 1, 2]]


def test_unwritten_memory_is_not_a_number() -> None:
    text = "func.func @main() -> tensor<2xbf16> {\n%e = tensor.empty() : tensor<2xbf16>\nreturn %e : tensor<2xbf16>\n}"
    assert np.isnan(floats(execute(text)[0])).all()


LOOP = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c32 = arith.constant 32 : index
  %e = tensor.empty() : tensor<64x64xf32>
  %r = scf.for %i = %c0 to %c64 step %c32 iter_args(%a = %e) -> (tensor<64x64xf32>) {
    %s = scf.for %j = %c0 to %c64 step %c32 iter_args(%b = %a) -> (tensor<64x64xf32>) {
      %t = tensor.extract_slice %x[%i, %j] [32, 32] [1, 1] : tensor<64x64xf32> to tensor<32x32xf32>
      %u = arith.addf %t, %t : tensor<32x32xf32>
      %v = tensor.insert_slice %u into %b[%j, %i] [32, 32] [1, 1] : tensor<32x32xf32> into tensor<64x64xf32>
      scf.yield %v : tensor<64x64xf32>
    }
    scf.yield %s : tensor<64x64xf32>
  }
  return %r : tensor<64x64xf32>
}"""


def test_tile_loops_reuse_the_result_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.reference import ops_tensor

    copies = []
    original = ops_tensor._reusable

    def counting(slots, slot, dies):
        before = id(slots[slot])
        result = original(slots, slot, dies)
        copies.append(id(result) != before)
        return result

    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    wanted = np.block([[x[:32, :32], x[32:, :32]], [x[:32, 32:], x[32:, 32:]]]) * 2
    assert execute(LOOP, x)[0].tolist() == wanted.tolist()
    monkeypatch.setattr(ops_tensor, "_reusable", counting)
    execute(LOOP, x)
    # The extra frame of this test's wrapper holds no reference, so nothing is copied.
    assert copies == [False] * 4


def test_a_tensor_with_another_use_is_not_overwritten() -> None:
    text = function(
        """
  %t = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<1x4xf32>
  %y = arith.addf %x, %x : tensor<3x4xf32>
  %a = tensor.insert_slice %t into %y[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
  %b = tensor.insert_slice %t into %y[2, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
  return %a, %b, %y : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>""",
        "tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>",
    )
    a, b, y = execute(text, X)
    assert y.tolist() == (2 * X).tolist()
    assert a.tolist() == np.vstack([X[:1], 2 * X[1:]]).tolist()
    assert b.tolist() == np.vstack([2 * X[:2], X[:1]]).tolist()


def test_values_are_freed_after_their_last_use() -> None:
    text = function(
        """
  %a = arith.addf %x, %x : tensor<3x4xf32>
  %b = arith.mulf %a, %a : tensor<3x4xf32>
  %c = arith.subf %b, %x : tensor<3x4xf32>
  %d = arith.divf %c, %x : tensor<3x4xf32>
  return %d : tensor<3x4xf32>""",
        "tensor<3x4xf32>",
    )
    executor = Executor(parse_text(text))
    executor.run([X])
    (_, _, program) = executor.compiled["main"]
    alive: list[int] = []
    references: list[weakref.ref[np.ndarray]] = []
    wrapped = []
    for step, dead in program.steps:

        def traced(slots, step=step):
            alive.append(sum(r() is not None for r in references))
            step(slots)
            references.extend(weakref.ref(v) for v in slots if v is not None and v is not X)

        wrapped.append((traced, dead))
    program.steps = wrapped
    executor.run([X])
    # One or two intermediate arrays at any time, never the whole history.
    assert max(alive) <= 2 * 2 and alive[-1] <= alive[1] + 2


def test_conditions_loops_and_calls() -> None:
    text = """
func.func private @double(%v: i64) -> i64 {
  %r = arith.addi %v, %v : i64
  return %r : i64
}
func.func @main(%n: i64) -> (i64, i64, i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c100 = arith.constant 100 : i64
  %big = arith.cmpi sgt, %n, %c100 : i64
  %branch = scf.if %big -> (i64) {
    scf.yield %c1 : i64
  } else {
    %d = func.call @double(%n) : (i64) -> i64
    scf.yield %d : i64
  }
  %last:2 = scf.while (%v = %n, %steps = %c0) : (i64, i64) -> (i64, i64) {
    %go = arith.cmpi slt, %v, %c100 : i64
    scf.condition(%go) %v, %steps : i64, i64
  } do {
  ^bb0(%v: i64, %steps: i64):
    %w = func.call @double(%v) : (i64) -> i64
    %s = arith.addi %steps, %c1 : i64
    scf.yield %w, %s : i64, i64
  }
  return %branch, %last#0, %last#1 : i64, i64, i64
}"""
    assert [int(v) for v in execute(text, np.int64(3))] == [6, 192, 6]
    assert [int(v) for v in execute(text, np.int64(200))] == [1, 200, 0]


def test_a_loop_without_iterations_returns_its_start() -> None:
    text = function(
        """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %c0 step %c1 iter_args(%a = %x, %b = %x) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
    scf.yield %b, %a : tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %r#0, %r#1 : tensor<3x4xf32>, tensor<3x4xf32>""",
        "tensor<3x4xf32>, tensor<3x4xf32>",
    )
    a, b = execute(text, X)
    assert a.tolist() == b.tolist() == X.tolist()


def test_weights_by_name(tmp_path) -> None:
    from safetensors.numpy import save_file

    text = function(
        """
  %w = arith.constant dense_resource<proj.weight> : tensor<3x4xf32>
  %r = arith.mulf %x, %w : tensor<3x4xf32>
  return %r : tensor<3x4xf32>""",
        "tensor<3x4xf32>",
    )
    weight = np.full((3, 4), 3, np.float32)
    assert execute(text, X, weights={"proj.weight": weight})[0].tolist() == (3 * X).tolist()
    save_file({"proj.weight": weight}, tmp_path / "w.safetensors")
    found = execute(text, X, weights=str(tmp_path / "w.safetensors"))[0]
    assert found.tolist() == (3 * X).tolist()
    with pytest.raises(TilewrightError, match=r"proj\.weight, which was not given") as caught:
        execute(text, X)
    assert caught.value.code == "TW1503" and str(caught.value.location) == "test.mlir:3:8"
    with pytest.raises(TilewrightError, match=r"has shape \[2, 2\]"):
        execute(text, X, weights={"proj.weight": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ('%r = "foo.bar"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>', "TW1501", "foo.bar"),
        (
            "%c = arith.constant 3 : index\n%s = tensor.extract_slice %x[%c, 0] [1, 4] [1, 1] : "
            "tensor<3x4xf32> to tensor<1x4xf32>\n%r = arith.addf %x, %x : tensor<3x4xf32>",
            "TW1505",
            "from 3 to 3 on axis 0, which has 3",
        ),
    ],
)
def test_what_cannot_run_is_an_error_with_its_place(body: str, code: str, message: str) -> None:
    text = function(body + "\nreturn %r : tensor<3x4xf32>", "tensor<3x4xf32>")
    with pytest.raises(TilewrightError, match=message) as caught:
        run(parse_text(text, "user.mlir"), [X])
    assert caught.value.code == code
    assert caught.value.location is not None and caught.value.location.file == "user.mlir"


def test_inputs_are_checked() -> None:
    module = parse_text(function("return %x : tensor<3x4xf32>", "tensor<3x4xf32>"))
    for inputs, message in (
        ([], "0 inputs were given"),
        ([X.T], "shape 4x3, the function takes 3x4"),
        ([X.astype(np.float64)], "numpy type float64"),
    ):
        with pytest.raises(TilewrightError, match=message) as caught:
            run(module, inputs)
        assert caught.value.code == "TW1504"
    two = parse_text("func.func @a() {\nreturn\n}\nfunc.func @b() {\nreturn\n}")
    with pytest.raises(TilewrightError, match="no function main"):
        run(two, [])


def test_constants_of_every_type() -> None:
    text = """
func.func @main() -> (tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<3xi1>, tensor<2xi4>, bf16, i1, tensor<2x2xf32>) {
  %a = arith.constant dense<[1.5, -2.0]> : tensor<2xbf16>
  %b = arith.constant dense<[0.1, 448.0]> : tensor<2xf8E4M3FN>
  %c = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %d = arith.constant dense<[3, -4]> : tensor<2xi4>
  %e = arith.constant 0.1 : bf16
  %f = arith.constant true
  %g = arith.constant dense<7.0> : tensor<2x2xf32>
  return %a, %b, %c, %d, %e, %f, %g : tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<3xi1>, tensor<2xi4>, bf16, i1, tensor<2x2xf32>
}"""
    a, b, c, d, e, f, g = execute(text)
    assert floats(a).tolist() == [1.5, -2]
    assert floats(b).tolist() == [0.1015625, 448]
    assert c.tolist() == [True, False, True] and d.tolist() == [3, -4]
    assert e == array(0.1, "bf16") and bool(f) is True
    assert g.tolist() == [[7, 7], [7, 7]]
