"""Designs executed in values: equal to the reference bit for bit, every element as often as said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.design import Call, Loop, Transfer, stream_order
from tilewright.targets.xdna.events import simulate_time
from tilewright.targets.xdna.gemm import gemm_behind, plan_gemm, run_gemm
from tilewright.targets.xdna.host import host_buffers
from tilewright.targets.xdna.mlir_emit import emit_mlir
from tilewright.targets.xdna.mlir_parse import parse_design
from tilewright.targets.xdna.numerics import bf16_bits, bf16_values, bfp16, narrow, shift_round
from tilewright.targets.xdna.patterns import Pattern
from tilewright.targets.xdna.problem import ROUNDINGS
from tilewright.targets.xdna.report import random_operands, values_agree
from tilewright.targets.xdna.values import dram_counts, simulate_values


def exact(design, seed: int = 0) -> bool:
    return values_agree(design, seed)


@st.composite
def planned(draw):
    """A random small design of any policy, type, layout and width."""
    device = draw(st.sampled_from(["npu2", "npu2", "npu1"]))
    policy = draw(st.sampled_from(["stock", "wide_k", "resident_a", "resident_b"]))
    dtype = draw(st.sampled_from(["i8", "i8", "i8", "ternary", "int4", "bf16"]))
    outs = {"i8": ["i32", "i16", "i8"], "int4": ["i32", "i8"], "bf16": ["bf16", "f32"]}
    tile = tuple(16 * draw(st.integers(1, 3)) for _ in range(3))
    options = {
        "dtype": dtype,
        "out": draw(st.sampled_from(outs.get(dtype, ["i32"]))),
        "columns": draw(st.sampled_from([1, 2, 4, 8] if device == "npu2" else [1, 2, 4])),
        "b_layout": draw(st.sampled_from(["row", "col"])),
        "c_layout": draw(st.sampled_from(["row", "col"])),
        "c_depth": draw(st.sampled_from([1, 2])),
    }
    if policy != "stock":
        options["k_mt"] = tile[1] * draw(st.integers(1, 3))
    if options["out"] in ("i16", "i8"):
        options["shift"] = draw(st.sampled_from([0, 2, 5]))
        options["rounding"] = draw(st.sampled_from(ROUNDINGS))
        options["saturate"] = draw(st.booleans())
    if dtype == "ternary":
        options["zero_point"] = draw(st.sampled_from(["sub", "rowsum"]))
    shape = [draw(st.integers(1, 260)) for _ in range(3)]
    try:
        return plan_gemm(*shape, tile=tile, policy=policy, device=device, **options)
    except TilewrightError as error:
        assert "at least twice" in error.message or "one row panel" in error.message
        return None


@given(planned(), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_random_designs_are_exact_and_legal(design, seed: int) -> None:
    if design is None:
        return
    assert exact(design, seed)
    gemm, counts = gemm_behind(design), dram_counts(design)
    assert (counts["A"] == (1 if gemm.policy == "resident_a" else gemm.column_tiles)).all()
    assert (counts["B"] == (1 if gemm.policy == "resident_b" else gemm.row_tiles)).all()
    assert (counts["C"] == 1).all()
    assert [c for c in check_design(design) if not c.ok] == []


def test_large_npu2_design_is_exact() -> None:
    design = plan_gemm(512, 640, 1024, tile=(64, 64, 64), policy="stock")
    assert exact(design)


def test_i32_is_the_plain_product() -> None:
    design = plan_gemm(100, 70, 90, tile=(16, 16, 16), policy="wide_k", k_mt=32)
    a, b = random_operands(design, 3)
    assert (run_gemm(design, a, b) == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_narrow_results_are_the_recurrence_not_the_narrowed_product() -> None:
    design = plan_gemm(32, 256, 32, tile=(16, 32, 16), policy="stock", out="i8", columns=1)
    a = np.full((32, 256), 100, np.int8)
    b = np.ones((256, 32), np.int8)
    b[128:] = -1  # rises to saturation, then falls: the product is 0, the recurrence is not
    product = run_gemm(design, a, b)
    assert (a.astype(int) @ b.astype(int) == 0).all()
    assert (product == -128).all()


def told_too_early(body):
    """The same program with every multiply told that it is the last."""
    return tuple(
        replace(s, body=told_too_early(s.body))
        if isinstance(s, Loop)
        else Loop(1, (s,))
        if isinstance(s, Call) and s.last_step
        else s
        for s in body
    )


def test_ternary_shifts_right_hand_sums_at_the_last_step_only() -> None:
    design = plan_gemm(64, 96, 128, tile=(16, 32, 16), policy="wide_k", dtype="ternary", columns=2)
    a, b = random_operands(design, 1)
    assert (run_gemm(design, a, b) == a.astype(int) @ b.astype(int)).all()
    early = replace(
        design, cores=tuple(replace(c, body=told_too_early(c.body)) for c in design.cores)
    )
    try:
        assert not np.array_equal(run_gemm(early, a, b), a.astype(int) @ b.astype(int))
    except TilewrightError as error:
        assert "multiple of 4" in error.message


def test_packed_weights_with_a_code_of_three_are_refused() -> None:
    design = plan_gemm(64, 64, 64, tile=(16, 32, 16), policy="wide_k", dtype="ternary", columns=1)
    buffers = host_buffers(gemm_behind(design), *random_operands(design, 0))
    buffers["B"] = buffers["B"].copy()
    buffers["B"][5] = 0x03
    with pytest.raises(TilewrightError, match="code 3"):
        simulate_values(design, buffers)


def test_operands_outside_their_type_are_refused() -> None:
    design = plan_gemm(16, 16, 16, tile=(16, 16, 16), policy="wide_k", dtype="ternary", columns=1)
    a, b = np.zeros((16, 16), np.int8), np.full((16, 16), 2, np.int8)
    with pytest.raises(TilewrightError, match="ternary weights"):
        run_gemm(design, a, b)
    with pytest.raises(TilewrightError, match="do not make"):
        run_gemm(design, a[:, :8], b)


def without_clearing(body):
    return tuple(
        replace(s, body=without_clearing(s.body)) if isinstance(s, Loop) else s
        for s in body
        if not (isinstance(s, Call) and s.kernel.startswith("zero"))
    )


def test_adding_to_memory_that_nobody_cleared_is_refused() -> None:
    design = plan_gemm(64, 32, 16, tile=(16, 32, 16), policy="wide_k", columns=1)
    cores = tuple(replace(c, body=without_clearing(c.body)) for c in design.cores)
    a, b = random_operands(design, 0)
    with pytest.raises(TilewrightError, match="never cleared"):
        run_gemm(replace(design, cores=cores), a, b)


def test_the_four_stages_of_wide_k_give_the_kernel_layout() -> None:
    """Memory tile in, memory tile out, core in: (m/r, k/s, r, s) for every step of k."""
    for m, k, wide in ((96, 64, 384), (128, 72, 432), (16, 8, 24), (48, 40, 80), (160, 64, 64)):
        r = s = 8
        stream = np.arange(m * wide)  # DRAM order of one object: rows of `wide`
        stored = np.empty_like(stream)
        Pattern((m, wide // k, k), (k, m * k, 1)).view(stored)[...] = stream.reshape(m, -1, k)
        sent = stored[Pattern((wide // k, k // s, m, s), (m * k, s, k, 1)).walk()]
        for step in range(wide // k):
            core = np.empty(m * k, sent.dtype)
            order = Pattern((k // s, m // r, r * s), (r * s, k // s * r * s, 1))
            order.view(core)[...] = sent[step * m * k :][: m * k].reshape(order.sizes)
            tile = np.arange(m * wide).reshape(m, wide)[:, step * k : (step + 1) * k]
            expected = tile.reshape(m // r, r, k // s, s).transpose(0, 2, 1, 3).reshape(-1)
            assert (core == expected).all()


def test_every_reorder_of_a_design_has_an_inverse() -> None:
    for policy in ("stock", "wide_k", "resident_b"):
        design = plan_gemm(256, 128, 256, tile=(16, 32, 16), policy=policy, columns=2)
        for fifo in design.fifos:
            for dimensions in (fifo.to_stream, *fifo.from_stream):
                if dimensions:
                    order = stream_order(dimensions, fifo.object.count)
                    walk = order.walk()
                    assert (walk[order.inverse().walk()] == np.arange(walk.size)).all()


def test_golden_walks() -> None:
    """1024 cubed, 32 cubed tiles, four columns, row-major B."""
    design = plan_gemm(1024, 1024, 1024, tile=(32, 32, 32), policy="stock", columns=4)
    moves = [s for s in design.runtime if isinstance(s, Transfer)]
    a = next(s for s in moves if s.buffer == "A")
    b = next(s for s in moves if s.buffer == "B")
    c = next(s for s in moves if s.buffer == "C")
    assert (a.sizes, a.strides) == ((8, 32, 32, 32), (0, 32, 1024, 1))
    assert (b.sizes, b.strides) == ((8, 32, 32, 32), (128, 32768, 1024, 1))
    assert (c.sizes, c.strides, c.descriptor) == ((2, 8, 128, 32), (131072, 128, 1024, 1), 0)
    assert {s.descriptor for s in moves} == {0, 1, 2, 3, 4, 8, 9, 10, 11, 12}


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_roundings(rounding: str) -> None:
    values = np.arange(-40, 41)
    exact_values = values / 8
    floor, ceil = np.floor(exact_values), np.ceil(exact_values)
    tie = exact_values - floor == 0.5
    near = np.where(exact_values - floor < 0.5, floor, ceil)
    ties = {
        "floor": floor, "ceil": ceil,
        "half_up": np.where(tie, ceil, near), "half_down": np.where(tie, floor, near),
        "half_away": np.where(tie, np.where(values > 0, ceil, floor), near),
        "half_to_zero": np.where(tie, np.where(values > 0, floor, ceil), near),
        "half_even": np.rint(exact_values),
        "half_odd": np.where(tie, np.where(floor % 2 == 1, floor, ceil), near),
    }  # fmt: skip
    assert (shift_round(values, 3, rounding) == ties[rounding]).all()


def test_narrowing_saturates_or_wraps() -> None:
    values = np.array([300, -300, 127, 128])
    assert list(narrow(values, "i8", 0, "half_even", True)) == [127, -128, 127, 127]
    assert list(narrow(values, "i8", 0, "half_even", False)) == [44, -44, 127, -128]


def test_bf16_rounds_like_the_library() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    assert (bf16_bits(values) == values.astype(ml_dtypes.bfloat16).view(np.uint16)).all()
    assert np.isnan(bf16_values(bf16_bits(np.array([np.nan], np.float32)))).all()


def test_block_floating_point_shares_the_largest_exponent() -> None:
    values = np.array([[64.0, 1.0, 0.5, 0.25, -64.0, 3.0, 100.0, 127.0]], np.float32)
    assert (bfp16(values, 1) == [[64, 1, 0, 0, -64, 3, 100, 127]]).all()
    small = np.array([[1.0, 1 / 128, 1 / 64, 0, 0, 0, 0, 0]], np.float32)
    assert (bfp16(small, 1) == [[1.0, 0.0, 1 / 64, 0, 0, 0, 0, 0]]).all()
    design = plan_gemm(32, 48, 32, tile=(16, 16, 16), policy="wide_k", dtype="bf16", columns=1,
                       numbers="bfp16")  # fmt: skip
    assert exact(design)


def test_f32_sums_are_rounded_once() -> None:
    design = plan_gemm(64, 96, 32, tile=(16, 16, 16), policy="wide_k", dtype="bf16", columns=2,
                       wide_sum=True, k_mt=32)  # fmt: skip
    assert exact(design)
    assert all(check.ok for check in check_design(design))


def test_pretiled_weights() -> None:
    design = plan_gemm(100, 90, 70, tile=(16, 32, 16), policy="resident_b", columns=1, k_mt=32,
                       pretiled=True)  # fmt: skip
    assert exact(design)
    assert all(check.ok for check in check_design(design))


@pytest.mark.parametrize("policy, dtype", [("resident_a", "i8"), ("resident_b", "ternary")])
@pytest.mark.parametrize("depth", [3, 4])
def test_deeper_streams_are_legal_exact_and_not_slower(policy: str, dtype: str, depth: int) -> None:
    options: dict[str, Any] = {"tile": (16, 32, 16), "policy": policy, "columns": 4}
    options |= {"k_mt": 32, "dtype": dtype}
    shallow = plan_gemm(400, 200, 300, **options)
    deep = plan_gemm(400, 200, 300, stream_depth=depth, **options)
    assert values_agree(deep) and all(check.ok for check in check_design(deep))
    assert simulate_time(deep).seconds <= simulate_time(shallow).seconds * 1.001
    with pytest.raises(TilewrightError, match="TW8030") as caught:
        plan_gemm(400, 200, 300, **{**options, "policy": "wide_k"}, stream_depth=depth)
    assert "nearest legal: 2" in (caught.value.hint or "")


@pytest.mark.parametrize("columns", [1, 2, 4, 8])
def test_buffers_of_row_major_b_are_legal_exact_and_read_back(columns: int) -> None:
    options: dict[str, Any] = {"tile": (16, 16, 16), "policy": "wide_k", "b_layout": "row"}
    options |= {"columns": columns, "k_mt": 96}
    design = plan_gemm(130, 290, 70, **options)
    assert gemm_behind(design).stream_depth == 8  # of 12 steps that column-major B would hold
    assert values_agree(design) and all(check.ok for check in check_design(design))
    assert parse_design(emit_mlir(design)) == design
    with pytest.raises(TilewrightError, match="TW8030") as caught:
        plan_gemm(130, 290, 70, **options, stream_depth=9)
    assert "nearest legal: 8" in (caught.value.hint or "")
