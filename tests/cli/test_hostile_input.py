"""Input that is legal to write and impossible to serve: one error each, no traceback, no blow-up."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run
from tilewright.runtime.tensor_files import read_tensor

HUGE = "tensor<1000000x1000000xf32>"
SPLATS = f"""func.func @f() -> {HUGE} {{
  %a = arith.constant dense<1.0> : {HUGE}
  %b = arith.constant dense<2.0> : {HUGE}
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) : {HUGE}, {HUGE} -> {HUGE}
  return %0 : {HUGE}
}}
"""


def code_of(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("text", ["d0" + " + d0" * 2000, "d0" + " mod 7" * 2000])
def test_affine_maps_of_many_terms(text: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "map.mlir"
    path.write_text(f'"test.op"() {{m = affine_map<(d0) -> ({text})>}} : () -> ()\n')
    assert code_of(["opt", str(path)]) == 2
    assert "at most 100 operations" in capsys.readouterr().err
    path.write_text(f'"test.op"() {{m = affine_map<(d0) -> (d0{" + d0" * 90})>}} : () -> ()\n')
    assert code_of(["opt", str(path), "--print-generic"]) == 0


@pytest.mark.parametrize("passes", ["canonicalize,cse", "fold-constants", "simplify-kernels"])
def test_a_number_for_a_million_million_elements(passes: str, tmp_path: Path, capsys) -> None:
    """It stays one number: nothing is written out, and nothing computed from it."""
    path = tmp_path / "splats.mlir"
    path.write_text(SPLATS)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 30), hard))
    try:
        assert code_of(["opt", str(path), "-p", passes]) == 0
        assert "dense<1.000000e+00>" in capsys.readouterr().out
        with pytest.raises(TilewrightError, match="more memory than there is") as caught:
            run(parse_text(SPLATS), [])
        assert caught.value.code == "TW1507"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_repeated_numbers_mean_the_same_written_out_or_not() -> None:
    for size in (4096, 4097):
        for number, kind in (("1.5", "f32"), ("-3", "i32"), ("true", "i1"), ('"0xC03F"', "bf16")):
            type_ = f"tensor<{size}x{kind}>"
            text = f"func.func @f() -> {type_} {{\n  %a = arith.constant dense<{number}> : {type_}\n  return %a : {type_}\n}}\n"
            module = parse_text(text)
            verify_module(module)
            again = parse_text(str(module))
            results = [run(m, [])[0] for m in (module, again)]
            wanted = {"1.5": 1.5, "-3": -3, "true": 1}.get(number, 1.5)
            for result in results:
                assert result.shape == (size,) and (result.astype(np.float32) == wanted).all()


@pytest.mark.parametrize("width", ["4294967296", "16777216", "9" * 40])
def test_integers_of_too_many_bits(width: str) -> None:
    for text in (f"array<i{width}: 3>", f"3 : i{width}", f"dense<3> : tensor<2xi{width}>"):
        with pytest.raises(TilewrightError, match="integers have at most 16777215 bits"):
            parse_text(f'"test.op"() {{m = {text}}} : () -> ()')
    with pytest.raises(TilewrightError, match="malformed"):
        parse_text('"test.op"() {m = array<i65: 3>} : () -> ()')


def test_an_onnx_input_larger_than_any_machine(tmp_path: Path, capsys) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    for size, code in ((2**31, "TW0016"), (2**26, "TW0046")):
        shape = [size, 16]
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        )
        path = tmp_path / "big.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        assert code_of(["compile", str(path), "-o", str(tmp_path / "big.twb")]) == 2
        assert capsys.readouterr().err.startswith(code)


@pytest.mark.parametrize(
    "shape", [[2**32, 2**32, 0], [2**63, 0], [0, *[1] * 70], [2**62, 4, 0], [10**30, 0]]
)
def test_safetensors_of_impossible_shapes(shape: list[int], tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(TilewrightError) as caught:
        read_tensor(f"{path}#a")
    assert caught.value.code == "TW0029"


def executed(text: str, *inputs: np.ndarray) -> np.ndarray:
    module = parse_text(text)
    verify_module(module)
    return run(module, list(inputs))[0]


def test_empty_axes_in_the_reference_executor() -> None:
    """The largest of nothing is what a maximum begins with; shares of nothing are none."""
    for kind, family, wanted in (
        ("f32", "max", -np.inf), ("f32", "min", np.inf), ("i32", "max", -(2**31)), ("i8", "min", 127),
    ):  # fmt: skip
        text = f"""func.func @f(%x: tensor<3x0x{kind}>) -> tensor<3x{kind}> {{
  %0 = npu_kernel.ukernel_generic "npu_uk_reduction_{family}"(%x) {{axes = array<i64: 1>}} : tensor<3x0x{kind}> -> tensor<3x{kind}>
  return %0 : tensor<3x{kind}>
}}"""
        storage = {"f32": np.float32, "i32": np.int32, "i8": np.int8}[kind]
        assert (executed(text, np.zeros((3, 0), storage)) == wanted).all()
    softmax = """func.func @f(%x: tensor<3x0xf32>) -> tensor<3x0xf32> {
  %0 = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 1 : i64} : tensor<3x0xf32> -> tensor<3x0xf32>
  return %0 : tensor<3x0xf32>
}"""
    assert executed(softmax, np.zeros((3, 0), np.float32)).shape == (3, 0)
    linalg = """func.func @f(%x: tensor<3x0xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %0 = linalg.reduce ins(%x : tensor<3x0xf32>) outs(%s : tensor<3xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %m = arith.maximumf %a, %b : f32
      linalg.yield %m : f32
    }
  return %0 : tensor<3xf32>
}"""
    start = np.array([1.0, -2.0, 3.0], np.float32)
    assert (executed(linalg, np.zeros((3, 0), np.float32), start) == start).all()


COMMANDS = [["isa"], ["isa", "--json"], ["--help"], ["opt", "--list-passes"], ["kernels", "list"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_standard_output_on_a_full_disk(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 74
    assert done.stderr == "TW0011  cannot write the output: No space left on device\n"


def test_standard_output_that_is_closed() -> None:
    def close() -> None:
        os.close(1)

    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "isa"],
        preexec_fn=close, stderr=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    reader = subprocess.Popen(
        [sys.executable, "-m", "tilewright", "isa", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.close()  # as `| head` does
    assert "Traceback" not in reader.stderr.read()
    assert reader.wait(120) in (0, 1, 141)
    reader.stderr.close()
