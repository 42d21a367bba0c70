"""From kernels to bytes: compiled programs on the simulator against the reference executor."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from tilewright.cli import app
from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text
from tilewright.reference.executor import run as run_reference
from tilewright.targets.atlas.dialect.npu_isa import BufferOp
from tilewright.targets.atlas.kernels.check import POLICY
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.passes.text_isa import memory_map_json, text_program
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

PROFILES = ("atlas-v0", "atlas-v1")
NATIVE = (
    "tile-npu-kernel-for-atlas{target=TARGET},convert-npu-kernel-to-schedule,canonicalize,cse,"
    "convert-npu-schedule-to-isa{target=TARGET}"
)
DTYPES = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "bf16": ml_dtypes.bfloat16}


def tiles(array: np.ndarray) -> np.ndarray:
    """An array as batches, rows of tiles, tiles: [batch, row, column, 32, 32], zero padded."""
    flat = array.reshape(-1, *array.shape[-2:]) if array.ndim > 1 else array.reshape(1, 1, -1)
    rows, columns = (-n % 32 for n in flat.shape[1:])
    padded = np.pad(flat, ((0, 0), (0, rows), (0, columns)))
    batch, height, width = padded.shape
    return padded.reshape(batch, height // 32, 32, width // 32, 32).swapaxes(2, 3)


def pack(array: np.ndarray) -> bytes:
    """The bytes of an array in the tile-by-tile layout; bf16 tiles as two halves."""
    grid = tiles(array)
    if array.dtype == ml_dtypes.bfloat16:
        grid = np.stack([grid[..., :16], grid[..., 16:]], axis=-3)
    return np.ascontiguousarray(grid).tobytes()


def unpack(data: bytes, shape: tuple[int, ...], dtype) -> np.ndarray:
    """The array that `pack` made the bytes from."""
    grid_shape = tiles(np.zeros(shape, np.uint8)).shape
    values = np.frombuffer(data, dtype)
    if dtype == ml_dtypes.bfloat16:
        halves = values.reshape(*grid_shape[:3], 2, 32, 16)
        grid = np.concatenate([halves[..., 0, :, :], halves[..., 1, :, :]], axis=-1)
    else:
        grid = values.reshape(grid_shape)
    batch, height, width = grid_shape[:3]
    whole = grid.swapaxes(2, 3).reshape(batch, height * 32, width * 32)
    return whole[:, : shape[-2], : shape[-1]].reshape(shape)


def simulate(text: str, buffers: list[dict], inputs: dict[str, np.ndarray], target: str) -> Any:
    """The machine after the program, from poisoned memory and with transfers as late as they may."""
    machine = make_machine(load_profile(target), POLICY)
    machine.load(parse_text_isa(text))
    for buffer in buffers:
        if buffer["role"] == "input":
            data = pack(inputs[buffer["name"]])
            assert len(data) == buffer["size"]
            machine.write("dram", buffer["address"], data)
        elif buffer["role"] == "constant":
            machine.write("dram", buffer["address"], bytes.fromhex(buffer["data"]))
    assert machine.run().fault is None
    return machine


def small(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small integers: sums stay exact in every accumulator."""
    return rng.integers(-2, 3, shape).astype(np.float32).astype(DTYPES[dtype])


def sparse(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Mostly zeros, so that products of products stay exact too."""
    return small(rng, shape, dtype) * (rng.random(shape) < 0.15).astype(DTYPES[dtype])


def compile_and_compare(
    text: str,
    arguments: dict[str, tuple[tuple[int, ...], str]],
    passes: str = NATIVE,
    make: Callable[..., np.ndarray] = small,
) -> list[dict]:
    """Compile, simulate, compare the output with the reference on every profile; the memory map."""
    rng = np.random.default_rng(7)
    inputs = {name: make(rng, shape, dtype) for name, (shape, dtype) in arguments.items()}
    (want,) = run_reference(parse_text(text), list(inputs.values()))
    buffers: list[dict] = []
    for target in PROFILES:
        module = parse_text(text)
        run_passes(module, parse_pipeline(passes.replace("TARGET", target)), make_context())
        assert str(parse_text(str(module))) == str(module)
        (buffers,) = json.loads(memory_map_json(module)).values()
        machine = simulate(text_program(module), buffers, inputs, target)
        (output,) = [b for b in buffers if b["role"] == "output"]
        raw = machine.read("dram", output["address"], output["size"])
        have = unpack(raw, want.shape, want.dtype)
        np.testing.assert_array_equal(have.astype(np.float32), want.astype(np.float32))
    return buffers


@pytest.mark.parametrize(
    ("m", "k", "n"), [(32, 32, 32), (64, 96, 32), (96, 64, 64), (40, 50, 70), (1, 352, 33)]
)
def test_matmul(m: int, k: int, n: int) -> None:
    """Whole and ragged sizes, short chains and looped ones."""
    text = f"""func.func @main(%a: tensor<{m}x{k}xf8E4M3FN>, %b: tensor<{k}x{n}xf8E4M3FN>) -> tensor<{m}x{n}xbf16> {{
      %0 = npu_kernel.matmul %a, %b : tensor<{m}x{k}xf8E4M3FN>, tensor<{k}x{n}xf8E4M3FN> -> tensor<{m}x{n}xbf16>
      return %0 : tensor<{m}x{n}xbf16>
    }}"""
    compile_and_compare(text, {"a": ((m, k), "f8E4M3FN"), "b": ((k, n), "f8E4M3FN")})


def test_kernels_hand_their_tiles_on() -> None:
    """matmul, then requant, matmul, add, max: five tensors, none overlapping."""
    text = """func.func @main(%a: tensor<64x64xf8E4M3FN>, %b: tensor<64x64xf8E4M3FN>, %c: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
      %0 = npu_kernel.matmul %a, %b : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xbf16>
      %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%0, %c) : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
      %2 = npu_kernel.ukernel_generic "npu_uk_elementwise_max"(%1, %c) : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
      %3 = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%2) : tensor<64x64xbf16> -> tensor<64x64xbf16>
      return %3 : tensor<64x64xbf16>
    }"""
    fp8, bf16 = ((64, 64), "f8E4M3FN"), ((64, 64), "bf16")
    buffers = compile_and_compare(text, {"a": fp8, "b": fp8, "c": bf16})
    ranges = sorted((b["address"], b["address"] + b["size"]) for b in buffers)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))


def test_batches() -> None:
    """Each batch has tiles of its own."""
    text = """func.func @main(%a: tensor<3x32x64xf8E4M3FN>, %b: tensor<64x32xf8E4M3FN>) -> tensor<3x32x32xbf16> {
      %0 = npu_kernel.matmul %a, %b : tensor<3x32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<3x32x32xbf16>
      return %0 : tensor<3x32x32xbf16>
    }"""
    compile_and_compare(text, {"a": ((3, 32, 64), "f8E4M3FN"), "b": ((64, 32), "f8E4M3FN")})


def test_merged_leading_dimensions_share_the_tiles() -> None:
    text = """func.func @main(%a: tensor<2x64x32xbf16>, %b: tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16> {
      %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%a, %b) : tensor<2x64x32xbf16>, tensor<2x64x32xbf16> -> tensor<2x64x32xbf16>
      return %0 : tensor<2x64x32xbf16>
    }"""
    shape = ((2, 64, 32), "bf16")
    compile_and_compare(text, {"a": shape, "b": shape})


def test_batches_of_partly_filled_tiles() -> None:
    """Each batch keeps tiles of its own, also when its rows do not fill them."""
    text = """func.func @main(%a: tensor<2x40x50xbf16>, %b: tensor<2x40x50xbf16>) -> tensor<2x40x50xbf16> {
      %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%a, %b) : tensor<2x40x50xbf16>, tensor<2x40x50xbf16> -> tensor<2x40x50xbf16>
      %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_max"(%0, %b) : tensor<2x40x50xbf16>, tensor<2x40x50xbf16> -> tensor<2x40x50xbf16>
      return %1 : tensor<2x40x50xbf16>
    }"""
    shape = ((2, 40, 50), "bf16")
    compile_and_compare(text, {"a": shape, "b": shape})


def test_a_tensor_lives_as_long_as_its_last_other_shape() -> None:
    """Reshaped twice and read late: nothing may take its place in between."""
    tile = "tensor<32x32xbf16>"
    text = f"""func.func @main(%a: {tile}, %b: {tile}) -> {tile} {{
      %0 = npu_schedule.ukernel_launch "npu_uk_elementwise_add"(%a, %b) : {tile}, {tile} -> {tile}
      %1 = npu_schedule.ukernel_launch "npu_uk_reshape"(%0) : {tile} -> tensor<1x32x32xbf16>
      %2 = npu_schedule.ukernel_launch "npu_uk_reshape"(%1) : tensor<1x32x32xbf16> -> {tile}
      %3 = npu_schedule.ukernel_launch "npu_uk_elementwise_sub"(%a, %b) : {tile}, {tile} -> {tile}
      %4 = npu_schedule.ukernel_launch "npu_uk_elementwise_mul"(%3, %3) : {tile}, {tile} -> {tile}
      %5 = npu_schedule.ukernel_launch "npu_uk_elementwise_add"(%4, %2) : {tile}, {tile} -> {tile}
      return %5 : {tile}
    }}"""
    passes = "convert-npu-schedule-to-isa{target=TARGET}"
    shape = ((32, 32), "bf16")
    compile_and_compare(text, {"a": shape, "b": shape}, passes)


def test_slices_of_slices_and_of_batches() -> None:
    """A tile of a column block of one batch is found where it lies."""
    text = """func.func @main(%a: tensor<2x64x96xbf16>) -> tensor<32x32xbf16> {
      %0 = tensor.extract_slice %a[1, 0, 32] [1, 64, 64] [1, 1, 1] : tensor<2x64x96xbf16> to tensor<64x64xbf16>
      %1 = tensor.extract_slice %0[32, 32] [32, 32] [1, 1] : tensor<64x64xbf16> to tensor<32x32xbf16>
      %2 = npu_schedule.ukernel_launch "npu_uk_elementwise_relu"(%1) : tensor<32x32xbf16> -> tensor<32x32xbf16>
      return %2 : tensor<32x32xbf16>
    }"""
    compile_and_compare(text, {"a": ((2, 64, 96), "bf16")})


def test_the_command_line_makes_the_same_program(tmp_path) -> None:
    """opt, then translate, gives what the passes give."""
    source = tmp_path / "sum.mlir"
    source.write_text(
        """func.func @sum(%a: tensor<64x32xbf16>, %b: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
      %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) : tensor<64x32xbf16>, tensor<64x32xbf16> -> tensor<64x32xbf16>
      return %0 : tensor<64x32xbf16>
    }"""
    )
    passes = NATIVE.replace("TARGET", "atlas-v0")
    isa, program = tmp_path / "sum.isa.mlir", tmp_path / "sum.txt"
    runner = CliRunner()
    assert runner.invoke(app, ["opt", str(source), "-p", passes, "-o", str(isa)]).exit_code == 0
    translate = ["translate", "--mlir-to-npu-text-isa", str(isa), "-o", str(program)]
    assert runner.invoke(app, translate).exit_code == 0
    module = parse_text(source.read_text())
    run_passes(module, parse_pipeline(passes), make_context())
    assert program.read_text() == text_program(module)
    assert sum(isinstance(op, BufferOp) for op in module.walk()) == 3


LINALG = """
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @layer(%x: tensor<40x96xf8E4M3FN>, %w: tensor<96x64xf8E4M3FN>, %r: tensor<40x64xbf16>) -> tensor<40x64xbf16> {
  %z = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<40x64xbf16>
  %f = linalg.fill ins(%z : bf16) outs(%e : tensor<40x64xbf16>) -> tensor<40x64xbf16>
  %0 = linalg.matmul ins(%x, %w : tensor<40x96xf8E4M3FN>, tensor<96x64xf8E4M3FN>) outs(%f : tensor<40x64xbf16>) -> tensor<40x64xbf16>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %r : tensor<40x64xbf16>, tensor<40x64xbf16>) outs(%e : tensor<40x64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %s = arith.addf %a, %b : bf16
    linalg.yield %s : bf16
  } -> tensor<40x64xbf16>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%1, %r : tensor<40x64xbf16>, tensor<40x64xbf16>) outs(%e : tensor<40x64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %s = arith.maximumf %a, %b : bf16
    linalg.yield %s : bf16
  } -> tensor<40x64xbf16>
  return %2 : tensor<40x64xbf16>
}
"""


@pytest.mark.parametrize(
    ("machine", "target"), [("native", "atlas-v1"), ("native", "atlas-v0"), ("python", "atlas-v0")]
)
def test_from_linalg_to_the_simulator_by_commands(
    machine: str, target: str, tmp_path: Path
) -> None:
    """opt, translate and sim as a person runs them; sim compares with the reference executor."""
    if machine == "native":
        pytest.importorskip("tilewright._native")
    rng = np.random.default_rng(3)
    inputs = {
        "x": small(rng, (40, 96), "f8E4M3FN"),
        "w": small(rng, (96, 64), "f8E4M3FN"),
        "r": small(rng, (40, 64), "bf16"),
    }
    (want,) = run_reference(parse_text(LINALG), list(inputs.values()))
    source, isa, program = (tmp_path / name for name in ("l.mlir", "i.mlir", "p.txt"))
    source.write_text(LINALG)
    call = CliRunner().invoke
    lowered = call(app, ["opt", str(source), "--pipeline", f"{target}-native", "-o", str(isa)])
    translated = call(app, ["translate", "--mlir-to-npu-text-isa", str(isa), "-o", str(program)])
    assert (lowered.exit_code, translated.exit_code) == (0, 0)
    (buffers,) = json.loads(call(app, ["translate", "--memory-map", str(isa)]).stdout).values()
    outputs: list[Path] = []
    arguments = ["sim", "--profile", target, "--machine", machine, str(program), "--no-stats"]
    for buffer in buffers:
        file = tmp_path / f"{buffer['name']}.raw"
        if buffer["role"] == "input":
            file.write_bytes(pack(inputs[buffer["name"]]))
            arguments += ["--mem", f"{file}@{buffer['address']}"]
        elif buffer["role"] == "constant":
            file.write_bytes(bytes.fromhex(buffer["data"]))
            arguments += ["--mem", f"{file}@{buffer['address']}"]
        elif buffer["role"] == "output":
            address, rows = buffer["address"], pack(want)
            assert len(rows) == buffer["size"]
            arguments += ["--dump", f"{address}:{buffer['size']}={file}"]
            outputs.append(file)
    simulated = call(app, arguments, standalone_mode=False)
    assert simulated.return_value == 0, simulated.output
    (output,) = outputs
    have = unpack(output.read_bytes(), want.shape, want.dtype)
    np.testing.assert_array_equal(have.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize(
    ("m", "k", "n", "o"), [(40, 50, 70, 33), (1, 33, 31, 65), (64, 32, 40, 32)]
)
def test_partly_filled_tiles_go_on_from_kernel_to_kernel(m: int, k: int, n: int, o: int) -> None:
    """The zeros beyond a result's last rows and columns are there when the next product reads it."""
    first, second = f"tensor<{m}x{n}xbf16>", f"tensor<{m}x{o}xbf16>"
    text = f"""func.func @main(%a: tensor<{m}x{k}xf8E4M3FN>, %b: tensor<{k}x{n}xf8E4M3FN>, %c: tensor<{n}x{o}xf8E4M3FN>, %d: {second}) -> {second} {{
      %0 = npu_kernel.matmul %a, %b : tensor<{m}x{k}xf8E4M3FN>, tensor<{k}x{n}xf8E4M3FN> -> {first}
      %1 = npu_kernel.ukernel_generic "npu_uk_requant"(%0) : {first} -> tensor<{m}x{n}xf8E4M3FN>
      %2 = npu_kernel.matmul %1, %c : tensor<{m}x{n}xf8E4M3FN>, tensor<{n}x{o}xf8E4M3FN> -> {second}
      %3 = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%2, %d) : {second}, {second} -> {second}
      return %3 : {second}
    }}"""
    fp8 = "f8E4M3FN"
    arguments = {"a": ((m, k), fp8), "b": ((k, n), fp8), "c": ((n, o), fp8), "d": ((m, o), "bf16")}
    compile_and_compare(text, arguments, make=sparse)
