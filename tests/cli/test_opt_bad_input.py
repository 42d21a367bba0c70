"""Every kind of bad input: one error with its place, operation, reason and hint, and no output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.cli import main


def unary(type_: str, body: str) -> str:
    """A function on one tensor; `body` defines %0 on the second line."""
    return f"func.func @f(%a: {type_}) -> {type_} {{\n  {body}\n  return %0 : {type_}\n}}\n"


def exponential(type_: str) -> str:
    return unary(type_, f"%0 = linalg.exp ins(%a : {type_}) outs(%a : {type_}) -> {type_}")


def generic(maps: str, iterators: str, input_type: str = "tensor<4x4xf32>") -> str:
    """A copy on loops; the operation stands on the second line."""
    return (
        f"func.func @f(%a: tensor<4x4xf32>, %b: {input_type}) -> tensor<4x4xf32> {{\n"
        f"  %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} "
        f"ins(%b : {input_type}) outs(%a : tensor<4x4xf32>) {{\n"
        "  ^bb0(%x: f32, %y: f32):\n    linalg.yield %x : f32\n  } -> tensor<4x4xf32>\n"
        "  return %0 : tensor<4x4xf32>\n}\n"
    )


MAP = "affine_map<(d0, d1) -> (d0, d1)>"
TWO = '"parallel", "parallel"'
COMPLEX = "tensor<4xcomplex<f32>>"
MATMUL = (
    "func.func @f(%a: tensor<{a}xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {{\n"
    "  %0 = linalg.matmul ins(%a, %b : tensor<{a}xf32>, tensor<4x4xf32>) "
    "outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>\n  return %0 : tensor<4x4xf32>\n}}\n"
)

# Name: (text, code, line, operation, words of the reason).
CASES = {
    "dynamic size": (exponential("tensor<?x4xf32>"), "TW1220", 2, "linalg.exp", "dynamic shape"),
    "dynamic rank": (exponential("tensor<*xf32>"), "TW1210", 2, "linalg.exp", "no meaning"),
    "dynamic, unused": (
        "func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}\n",
        "TW1220", 1, "func.func", "argument 0 has the dynamic shape",
    ),
    "unknown op, custom form": (
        unary("tensor<4xf32>", "%0 = foo.bar %a : tensor<4xf32>"),
        "TW1210", 2, "foo.bar", "there is no operation",
    ),
    "unknown op, generic form": (
        unary("tensor<4xf32>", '%0 = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>'),
        "TW1221", 2, "foo.bar", "does not know",
    ),
    "unknown op without tensors": (
        'func.func @f(%a: i32) -> i32 {\n  "foo.beep"() : () -> ()\n  return %a : i32\n}\n',
        "TW1221", 2, "foo.beep", "does not know",
    ),
    "f64": (exponential("tensor<4xf64>"), "TW1222", 2, "linalg.exp", "no kernel works on f64"),
    "complex": (
        unary(COMPLEX, f"%0 = linalg.add ins(%a, %a : {COMPLEX}, {COMPLEX}) outs(%a : {COMPLEX}) -> {COMPLEX}"),
        "TW1210", 2, "linalg.add", "no meaning on complex<f32>",
    ),
    "encoding": (
        exponential('tensor<4xf32, "sparse">'), "TW1222", 2, "linalg.exp", 'the encoding "sparse"',
    ),
    "map of another rank": (
        generic(f"affine_map<(d0) -> (d0)>, {MAP}", TWO), "TW1211", 2, "linalg.generic", "2 dim(s)",
    ),
    "too few maps": (generic(MAP, TWO), "TW1211", 2, "linalg.generic", "number of indexing_map"),
    "sizes that differ": (
        generic(f"{MAP}, {MAP}", TWO, "tensor<5x4xf32>"), "TW1211", 2, "linalg.generic", "to be 5",
    ),
    "arithmetic in a map": (
        generic(f"affine_map<(d0, d1) -> (d0 floordiv 2, d1)>, {MAP}", TWO, "tensor<2x4xf32>"),
        "TW1223", 2, "linalg.generic", "read through",
    ),
    "rank of a matmul": (MATMUL.format(a="4x4x4"), "TW1211", 2, "linalg.matmul", "rank 3"),
    "contraction that does not fit": (MATMUL.format(a="4x5"), "TW1211", 2, "linalg.matmul", "5"),
    "axis": (
        unary("tensor<4xf32>", "%0 = linalg.softmax dimension(1) ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>"),
        "TW1211", 2, "linalg.softmax", "dimension 1 is not one of",
    ),
    "cut off": ("func.func @f(%a: f32) -> f32 {\n  return %a", "TW1210", 2, "return", "expected ':'"),
    "no operation": ("// nothing\n", "TW1210", 2, "", "no operation"),
    "undefined value": ("func.func @f() -> f32 {\n  return %z : f32\n}\n", "TW1210", 2, "%z", "not defined"),
    "defined twice": (
        "func.func @f(%a: f32) -> f32 {\n  %a = arith.constant 1.0 : f32\n  return %a : f32\n}\n",
        "TW1210", 2, "%a", "SSA value %a is already defined",
    ),
    "no end": ("func.func @f(%a: f32) -> f32 {\n}\n", "TW1211", 1, "func.func", "does not end"),
    "name given twice": (
        "func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}\n",
        "TW1211", 4, "func.func", "@f is defined twice",
    ),
    "another result": ("func.func @f(%a: f32) -> f64 {\n  return %a : f32\n}\n", "TW1211", 2, "func.return", "f64"),
    "nested too deeply": (
        "func.func @f(%c: i1) {\n" + "scf.if %c {\n" * 1500 + "}\n" * 1500 + "  return\n}\n",
        "TW1210", None, "scf.if", "nested too deeply",
    ),
    "bytecode": ("ML\udcefR\x06", "TW1210", 1, "", "bytecode"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, code, line, operation, reason = CASES[name]
    source, target = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_bytes(text.encode("utf-8", "surrogateescape"))
    target.write_text("kept")
    with pytest.raises(SystemExit) as stop:
        main(["opt", str(source), "--pipeline", "atlas", "-o", str(target)])
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out, target.read_text()) == (2, "", "kept")
    first, hint, *rest = printed.err.splitlines()
    found = re.fullmatch(rf"{code} {re.escape(str(source))}:(\d+)(?::\d+)?  (.*)", first)
    assert found and not rest and re.match(r" +hint: \w", hint), printed.err
    assert line is None or int(found[1]) == line
    assert operation in found[2] and reason in found[2], found[2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.mlir", "out.mlir"]
