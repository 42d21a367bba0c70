"""Time: the slot scheduler, the event simulation and its bounds, calibration, search."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.analytic import estimate
from tilewright.targets.xdna.bandwidth import lower_bound, transfer_rates
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.design import Kernel, Transfer
from tilewright.targets.xdna.device import device_names, load_device
from tilewright.targets.xdna.events import simulate_time
from tilewright.targets.xdna.gemm import gemm_behind, plan_gemm
from tilewright.targets.xdna.kernel_time import inner_loop, kernel_time
from tilewright.targets.xdna.modulo import Dependence, Operation, modulo_schedule
from tilewright.targets.xdna.request import gemm_of
from tilewright.targets.xdna.search import search

NPU2 = load_device("npu2")


def kernel(weights: str = "i8", out: str = "i32", tile=(64, 64, 64), device=NPU2, **more) -> Kernel:
    inputs = "bf16" if weights == "bf16" else "i8"
    m, k, n = tile
    return Kernel("", "multiply", m, k, n, device.mac[inputs].shape, inputs, weights, out, **more)


def tops(shape, tile, policy="wide_k", rate=None, device="npu2", **options) -> float:
    design = plan_gemm(*shape, tile=tile, policy=policy, device=device, **options)
    seconds = simulate_time(design, kernel_rate=rate).seconds
    assert seconds >= lower_bound(design, kernel_rate=rate).seconds * (1 - 1e-9)
    return gemm_behind(design).operations / seconds / 1e12


# -- scheduler --------------------------------------------------------------------------------


def test_modulo_schedule_obeys_slots_latencies_and_distances() -> None:
    operations = (
        Operation("load", ("lda", "ldb"), registers=1),
        Operation("shuffle", ("mv",), registers=1),
        Operation("mac", ("vec",), 3),
        Operation("add", ("vec",)),
    )
    edges = (
        Dependence("load", "shuffle", 7),
        Dependence("shuffle", "mac", 2),
        Dependence("mac", "mac", 4, 1, value=False),
        Dependence("mac", "add", 6),
    )
    made = modulo_schedule(operations, edges, 8)
    assert (made.resource_bound, made.recurrence_bound, made.interval) == (4, 4, 4)
    for edge in edges:
        earliest = made.times[edge.source] + edge.latency - made.interval * edge.distance
        assert made.times[edge.target] >= earliest
    rows = [(made.times["mac"] + i) % 4 for i in range(3)] + [made.times["add"] % 4]
    assert sorted(rows) == [0, 1, 2, 3]


def test_a_longer_recurrence_or_fewer_registers_raise_the_interval() -> None:
    operations = tuple(
        [Operation(f"load{i}", ("lda",), registers=1) for i in range(4)]
        + [Operation(f"mac{i}", ("vec",)) for i in range(4)]
    )
    edges = tuple(Dependence(f"load{i}", f"mac{j}", 2) for i in range(4) for j in range(4))
    free = modulo_schedule(operations, edges, 12)
    assert free.interval == 4
    with pytest.raises(TilewrightError, match="no initiation interval"):
        modulo_schedule(operations, edges, 3)
    slow = (*edges, Dependence("mac0", "mac0", 6, 1, value=False))
    assert modulo_schedule(operations, slow, 12).interval == 6


@pytest.mark.parametrize("weights", ["i8", "ternary", "int4", "bf16"])
@pytest.mark.parametrize("device", ["npu2", "npu1"])
def test_schedules_of_kernels_hold(weights: str, device: str) -> None:
    """Laid out for several iterations: no slot issues twice, no value is read before it is there."""
    array = load_device(device)
    mode = "bf16" if weights == "bf16" else "i8"
    for layout in ("row", "col"):
        operations, edges, constants, _ = inner_loop(
            array.core, array.mac[mode], mode, weights, layout
        )
        made = modulo_schedule(operations, edges, array.core.vector_registers - constants)
        busy = set()
        for i in range(5):
            for operation in operations:
                assert made.slots[operation.name] in operation.slots
                for cycle in range(operation.occupancy):
                    at = (
                        made.slots[operation.name],
                        made.times[operation.name] + i * made.interval + cycle,
                    )
                    assert at not in busy
                    busy.add(at)
        for edge in edges:
            ready = made.times[edge.source] + edge.latency
            assert made.times[edge.target] + edge.distance * made.interval >= ready
        assert made.interval >= max(made.resource_bound, made.recurrence_bound)
        assert made.live + constants <= array.core.vector_registers


def test_kernels_keep_the_interval_of_int8() -> None:
    base = kernel_time(kernel(), NPU2)
    assert base.interval == 4 and base.body.usage["vec"] == 4
    assert kernel_time(kernel(b_layout="col"), NPU2).interval == 4
    for zero_point, moves in (("sub", 8), ("rowsum", 4)):
        ternary = kernel_time(kernel("ternary", zero_point=zero_point), NPU2)
        assert (ternary.interval, ternary.body.interval, ternary.unroll) == (4, 8, 2)
        assert ternary.body.usage["mv"] == moves and ternary.body.usage["vec"] == 8
    assert kernel_time(kernel("int4"), NPU2).interval == 4
    slow = dataclasses.replace(NPU2, core=dataclasses.replace(NPU2.core, accumulate_latency=6))
    assert kernel_time(kernel(device=slow), slow).interval == 6


@pytest.mark.parametrize(
    ("device", "weights", "out", "tile", "published"),
    [
        ("npu2", "i8", "i8", (64, 232, 64), 450.6),
        ("npu2", "i8", "i16", (64, 216, 64), 419.8),
        ("npu2", "i8", "i32", (48, 280, 48), 384.0),
        ("npu2", "bf16", "bf16", (48, 152, 48), 158.1),
        ("npu1", "i8", "i8", (64, 232, 64), 233.0),
        ("npu1", "i8", "i16", (64, 216, 64), 217.6),
        ("npu1", "i8", "i32", (48, 280, 48), 192.0),
        ("npu2", "i8", "i8", (144, 72, 144), 343.0),
        ("npu2", "i8", "i16", (160, 64, 96), 271.4),
        ("npu2", "i8", "i32", (128, 56, 80), 209.9),
    ],
)
def test_kernel_rates_are_near_the_published(device, weights, out, tile, published) -> None:
    array = load_device(device)
    rate = kernel_time(kernel(weights, out, tile, array, b_layout="col"), array).macs_per_cycle
    assert rate == pytest.approx(published, rel=0.08)


# -- events -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "out", "tile", "rate", "shape", "published"),
    [
        ("i8", "i8", (144, 72, 144), 343.0, (4032, 4320, 4608), 37.35),
        ("i8", "i16", (128, 72, 112), 307.2, (4096, 4320, 4480), 30.77),
        ("bf16", "bf16", (112, 48, 96), 137.2, (4032, 4224, 4608), 14.52),
    ],
)
def test_published_rows(dtype, out, tile, rate, shape, published) -> None:
    assert tops(shape, tile, rate=rate, dtype=dtype, out=out) == pytest.approx(published, rel=0.05)


def test_sequential_tasks_lose_a_quarter() -> None:
    base = ((4096, 4320, 4480), (128, 72, 112))
    rolling = tops(*base, rate=307.2, out="i16")
    waiting = tops(*base, rate=307.2, out="i16", synchronisation="sequential")
    assert 1 - waiting / rolling == pytest.approx(0.28, abs=0.05)


@pytest.mark.parametrize(
    ("device", "dtype", "out", "tile", "k_mt", "published", "within"),
    [
        ("npu2", "i8", "i8", (144, 72, 144), 432, 19.1, 19.1 / 3),
        ("npu2", "i8", "i16", (128, 72, 112), 432, 25.2, 25.2 / 3),
        ("npu2", "bf16", "bf16", (112, 48, 96), 384, 8.7, 8.7 / 3),
        ("npu1", "i8", "i8", (112, 112, 112), 336, 4.8, 3),
        ("npu1", "i8", "i8", (104, 112, 112), 336, 4.8, 3),
        ("npu1", "i8", "i16", (96, 112, 96), 336, 4.4, 3),
        ("npu1", "i8", "i16", (80, 104, 128), 312, 4.4, 3),
        ("npu1", "bf16", "bf16", (96, 56, 96), 224, 0.57, 3),
        ("npu1", "bf16", "bf16", (80, 64, 104), 192, 0.57, 3),
    ],
)
def test_column_major_b_gains_what_is_published(
    device, dtype, out, tile, k_mt, published, within
) -> None:
    """Mean over random shapes in whole native sizes, dispatch 0.2 ms, scheduled kernel rates."""
    array, choose = load_device(device), random.Random(77)
    m, _, n = tile
    totals = {"col": 0.0, "row": 0.0}
    for _ in range(200):
        rows, inner, columns = (
            unit * choose.randint(1, 8192 // unit) for unit in (4 * m, k_mt, array.columns * n)
        )
        for layout in totals:
            gemm = gemm_of(rows, inner, columns, tile, "wide_k", array, dtype=dtype, out=out, b_layout=layout, k_mt=k_mt)  # fmt: skip
            totals[layout] += gemm.operations / (estimate(gemm, array).seconds + 0.2e-3)
    gain = 100 * (totals["col"] / totals["row"] - 1)
    assert gain >= 0 and gain == pytest.approx(published, abs=within)


def test_row_major_b_does_not_starve_beside_wide_objects_of_a() -> None:
    """Eight steps per object of A, one per object of B: two buffers of B left DRAM idle."""
    common = {"tile": (96, 56, 96), "policy": "wide_k", "device": "npu1", "dtype": "bf16",
              "b_layout": "row", "k_mt": 448}  # fmt: skip
    deep = plan_gemm(768, 1344, 768, **common)
    shallow = plan_gemm(768, 1344, 768, stream_depth=2, **common)
    assert 1.1 * simulate_time(deep).seconds < simulate_time(shallow).seconds
    gemm = gemm_behind(deep)
    column = gemm_behind(plan_gemm(768, 1344, 768, **{**common, "b_layout": "col"}))
    assert gemm.stream_depth == 8 and gemm.l2_bytes <= column.l2_bytes


def test_single_c_costs_little_when_the_reduction_is_long() -> None:
    design = plan_gemm(1024, 72 * 24, 896, tile=(64, 72, 112), policy="wide_k", out="i8", k_mt=72)
    double = plan_gemm(1024, 72 * 24, 896, tile=(64, 72, 112), policy="wide_k", out="i8", k_mt=72,
                       c_depth=2)  # fmt: skip
    fast = load_device("npu2").with_bandwidth(1e12)
    fast = dataclasses.replace(fast, dram=dataclasses.replace(fast.dram, strided_slope=1e12))
    loss = simulate_time(design, fast).cycles / simulate_time(double, fast).cycles - 1
    assert 0 <= loss < 0.05


@pytest.mark.parametrize("policy", ["stock", "wide_k", "resident_a", "resident_b"])
def test_time_lies_between_its_bounds_and_conserves_bytes(policy: str) -> None:
    design = plan_gemm(384, 192, 256, tile=(16, 32, 16), policy=policy, columns=4)
    result, bound = simulate_time(design), lower_bound(design)
    gemm = gemm_behind(design)
    serial = sum(result.busy.values()) / design.device.clock_hz
    assert bound.seconds <= result.seconds <= serial
    moved = gemm.dram_bytes()
    assert result.dram_bytes == {name.upper(): size for name, size in moved.items()}
    assert sum(result.bytes[f.name] for f in design.fifos if "a_l3" in f.name) == moved["a"]
    for core in design.cores:
        busy = result.busy[f"core {core.tile}"]
        assert busy == pytest.approx(bound.compute * design.device.clock_hz)


def test_more_bandwidth_clock_or_depth_is_not_slower() -> None:
    design = plan_gemm(512, 256, 512, tile=(32, 32, 32), policy="stock")
    times = [simulate_time(design, NPU2.with_bandwidth(g * 1e9)).seconds for g in (5, 10, 20, 58)]
    assert times == sorted(times, reverse=True)
    clocks = [
        simulate_time(design, dataclasses.replace(NPU2, clock_hz=hz)).seconds
        for hz in (0.5e9, 1e9, 1.8e9)
    ]
    assert clocks == sorted(clocks, reverse=True)
    depths = []
    for depth in (1, 2, 3):
        fifos = tuple(dataclasses.replace(f, depth=depth) for f in design.fifos)
        depths.append(simulate_time(dataclasses.replace(design, fifos=fifos)).seconds)
    assert depths == sorted(depths, reverse=True)


def test_rates_follow_from_the_walks() -> None:
    def rates(layout: str) -> dict[str, float]:
        design = plan_gemm(512, 432, 1024, tile=(32, 72, 64), policy="wide_k", b_layout=layout)
        found = transfer_rates(design, NPU2)
        return {s.buffer: found[s] / 1e9 for s in design.runtime if isinstance(s, Transfer)}

    assert rates("row")["B"] == pytest.approx(22 + 0.145 * 64)  # neighbours continue the run
    assert rates("row")["C"] == pytest.approx(58)  # 256 bytes reach the bandwidth
    narrow = plan_gemm(512, 432, 1024, tile=(32, 72, 64), policy="wide_k", k_mt=72)
    found = transfer_rates(narrow, NPU2)
    a = next(s for s in narrow.runtime if isinstance(s, Transfer) and s.buffer == "A")
    assert found[a] / 1e9 == pytest.approx(0.21 * 72)


# -- search -----------------------------------------------------------------------------------


def test_search_finds_a_legal_design_that_is_not_slower_than_its_rivals() -> None:
    shape = (768, 768, 1024)
    found = search(*shape, NPU2, out="i32", candidates=3)
    assert found.time is not None
    assert all(check.ok for check in check_design(found.design))
    simulated = [seconds for _, _, seconds in found.ranked if seconds is not None]
    assert found.time.seconds == min(simulated)
    rival = tops(shape, (96, 64, 96))
    assert gemm_behind(found.design).operations / found.time.seconds / 1e12 >= rival


def test_resident_b_beats_wide_k_on_a_large_product() -> None:
    shape = (4224, 4224, 4608)
    resident = tops(shape, (48, 152, 96), "resident_b", out="i16")
    assert resident > 1.15 * tops(shape, (160, 64, 96), out="i16")


def test_ternary_moves_a_quarter_of_the_weights() -> None:
    wide = plan_gemm(1024, 2560, 2560, tile=(64, 64, 64), policy="wide_k", k_mt=320)
    thin = plan_gemm(
        1024, 2560, 2560, tile=(64, 64, 64), policy="wide_k", k_mt=320, dtype="ternary"
    )
    one, other = gemm_behind(wide), gemm_behind(thin)
    assert one.dram_bytes()["b"] == 4 * other.dram_bytes()["b"]
    assert one.l1_bytes - other.l1_bytes == 2 * 64 * 64 * 3 // 4
    assert estimate(other, NPU2).dram < estimate(one, NPU2).dram


# -- devices ----------------------------------------------------------------------------------


def test_devices_are_data(tmp_path) -> None:
    assert {"npu1", "npu2", "npu1_3col", "npu2_7col"} <= set(device_names())
    assert load_device("npu2_4col").columns == 4
    assert load_device("npu1").mac["i8"].shape == (4, 8, 8)
    file = tmp_path / "mine.toml"
    file.write_text('base = "npu2"\nname = "mine"\ncolumns = 4\n[dram]\nbandwidth = 30e9\n')
    mine = load_device(str(file))
    assert (mine.name, mine.columns, mine.dram.bandwidth) == ("mine", 4, 30e9)
    assert mine.tile["core"] == NPU2.tile["core"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('base = "npu9"', "no device"),
        (f'base = "{"npu" * 200}"', "no device"),
        ('base = "npu2"\nfins = 3', "unknown key fins"),
        ('base = "npu2"\ncolumns = "four"', "columns"),
        ('base = "npu2"\ncolumns = 0', "not positive"),
        ('name = "x"', "is missing"),
        ("=", "not TOML"),
        ('base = "npu2"\n[dram]\nbandwidth = -1.0', "positive"),
    ],
)
def test_bad_device_files_are_named(tmp_path, text: str, sentence: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(TilewrightError, match=sentence):
        load_device(str(file))
