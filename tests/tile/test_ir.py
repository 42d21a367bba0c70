"""Traces are npu_schedule modules: verified, printable, parsed back, and run by the executor."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tile_kernels as k

from tilewright.dialects.context import make_context
from tilewright.dialects.locations import location_of
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import Parser
from tilewright.reference.executor import run
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.tile.layouts import NUMPY

RANDOM = np.random.default_rng(5)


def integers(*shape: int) -> np.ndarray:
    """Numbers small enough that every sum is exact in any order."""
    largest = 1 if max(shape) > 100 else 3
    return RANDOM.integers(-largest, largest + 1, shape).astype(np.float64)


def executed(compiled: CompiledKernel, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of the reference executor on the traced module."""
    assert compiled.module is not None
    given = dict(zip(compiled.inputs, arrays, strict=True))
    operands = []
    for name, layout in compiled.layouts.items():
        padded = np.zeros(layout.padded, NUMPY[layout.dtype])
        if name in given:
            padded[tuple(slice(n) for n in given[name].shape)] = given[name]
        operands.append(padded)
    operands += [c.astype(ml_dtypes.bfloat16) for c in compiled.constants.values()]
    results = run(compiled.module, operands, compiled.kernel.name)
    return [
        result[tuple(slice(n) for n in compiled.layouts[name].shape)]
        for name, result in zip(compiled.outputs, results, strict=True)
    ]


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (k.matmul_transposed, [(70, 64), (40, 64)]),
        (k.batched, [(3, 32, 40), (3, 40, 50)]),
        (k.large_sum, [(64, 700), (700, 64)]),
        (k.columns, [(45, 70)]),
        (k.masked, [(40, 50), (40, 50), (40, 1)]),
        (k.grouped, [(4, 32, 32), (2, 64, 32), (4, 64)]),
        (k.quantised, [(33, 40)]),
        (k.with_options, [(160, 64), (64, 96)]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_executor_agrees_bit_for_bit(kernel, shapes) -> None:
    """On numbers whose sums are exact the executor and the eager run have the same bits."""
    arrays = [integers(*shape) for shape in shapes]
    if kernel is k.masked:
        arrays[1] = (arrays[1] > 0).astype(np.float64)
    compiled = kernel.compile(*arrays)
    expected = kernel.eager(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(executed(compiled, *arrays), expected, strict=True):
        assert np.array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize(
    ("kernel", "shapes", "bound"),
    [
        (k.flash_attention, [(1, 50, 32), (1, 97, 32), (1, 97, 32)], 0.04),
        (k.causal_attention, [(1, 64, 32), (1, 320, 32), (1, 320, 32)], 0.06),
        (k.linear_gelu, [(50, 33), (33, 97), (97,)], 0.2),
        (k.softmax, [(33, 70)], 0.01),
        (k.elementwise, [(32, 40), (32, 40)], 0.2),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_executor_agrees_closely(kernel, shapes, bound) -> None:
    """Where the executor keeps sums exact and the machine rounds, they differ a little."""
    arrays = [RANDOM.normal(size=shape) * 0.5 for shape in shapes]
    (got,) = executed(kernel.compile(*arrays), *arrays)
    want = kernel.eager(*arrays)
    assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() <= bound


def test_text_reads_back() -> None:
    compiled = k.flash_attention.compile(H=2, M=64, N=2400, D=64)
    again = Parser(make_context(), compiled.ir).parse_module()
    again.verify()
    assert str(again) == compiled.ir
    for word in (
        "func.func @flash_attention",
        "scf.for %i",
        "iter_args(%carried",
        'npu_schedule.ukernel_launch "npu_uk_elementwise_exp"',
        "tensor.extract_slice",
        "tensor.insert_slice",
    ):
        assert word in compiled.ir


def test_operations_know_the_authors_line() -> None:
    """Every launch points at the line of the kernel that asked for it."""
    compiled = k.softmax.compile(M=32, N=32)
    assert compiled.module is not None
    source = Path(k.__file__).read_text().splitlines()
    lines = {}
    for op in compiled.module.walk():
        if isinstance(op, UKernelLaunchOp):
            place = location_of(op)
            assert place is not None and place.file == k.__file__
            lines[op.symbol.data] = source[place.line - 1].strip()
    assert lines["npu_uk_reduction_max"] == "p = tw.exp(row - tw.row_max(row))"
    assert lines["npu_uk_elementwise_div"] == "out[m, :] = p / tw.row_sum(p)"
    wanted = {int(n) for n in compiled.program.lines if n}
    assert {source[n - 1].strip() for n in wanted} >= set(lines.values())


def test_chains_use_one_slot_per_accumulator() -> None:
    compiled = k.linear_gelu.compile(M=64, K=96, N=32)
    assert 'npu_uk_matmul_acc_first"(%' in compiled.ir
    assert "slot = 1" in compiled.ir and "slot = 2" not in compiled.ir


def test_same_input_same_text() -> None:
    first, second = (k.causal_attention.compile(H=1, M=64, N=320, D=32) for _ in range(2))
    assert first.ir == second.ir and first.asm == second.asm


def test_assembly_and_timeline(tmp_path: Path) -> None:
    compiled = k.softmax.compile(M=32, N=64)
    assert "vexp.bf16" in compiled.asm
    picture = compiled.timeline(tmp_path / "softmax.svg")
    assert picture.read_text().startswith("<svg") and "VPU" in picture.read_text()
    assert compiled.timeline(tmp_path / "softmax.json").stat().st_size > 1000
    assert compiled.cycles > 1000
