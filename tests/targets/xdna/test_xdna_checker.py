"""The checker: resource counts, limits, tasks and tokens, deadlocks, and mutants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from design_mutations import caught, mutants

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.checker import Check, check_design, require
from tilewright.targets.xdna.design import (
    Acquire,
    Await,
    Design,
    Fifo,
    Loop,
    ObjectType,
    Release,
    Tile,
    Transfer,
)
from tilewright.targets.xdna.device import load_device
from tilewright.targets.xdna.events import Deadlock, simulate_time
from tilewright.targets.xdna.gemm import gemm_behind, plan_gemm
from tilewright.targets.xdna.lowering import lower
from tilewright.targets.xdna.report import values_agree
from tilewright.targets.xdna.request import gemm_of
from tilewright.targets.xdna.routing import edge_streams
from tilewright.targets.xdna.values import dram_counts

NPU2 = load_device("npu2")


def failed(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.ok}


def small(policy: str = "stock", **options) -> Design:
    options = {"columns": 2, **options}
    return plan_gemm(512, 96, 96, tile=(16, 32, 16), policy=policy, **options)


def test_resources_of_the_whole_array() -> None:
    design = plan_gemm(1024, 1024, 1024, tile=(64, 64, 64), policy="stock")
    lowering = lower(design)
    names = [fifo.name for fifo in design.fifos]
    assert sum("l3l2" in n or "l2l3" in n for n in names) == 20
    assert sum("l2l1" in n for n in names) == 12 and sum("l1l2" in n for n in names) == 32

    def counts(tile: Tile) -> tuple[int, int, int, int]:
        ends = lowering.at(tile)
        into = sum(e.direction == "S2MM" for e in ends)
        locks = 2 * sum(p.tile == tile for p in lowering.locks)
        return into, len(ends) - into, sum(len(e.descriptors) for e in ends), locks

    assert counts(Tile(0, 1)) == (6, 3, 24, 12)
    assert counts(Tile(1, 1))[:2] == (5, 2) and counts(Tile(1, 1))[3] == 10
    assert counts(Tile(0, 2)) == (2, 1, 6, 6)
    assert counts(Tile(0, 0))[:2] == (1, 2) and counts(Tile(1, 0))[:2] == (1, 1)
    single = plan_gemm(1024, 1024, 1024, tile=(64, 64, 64), policy="stock", c_depth=1)
    assert sum(len(e.descriptors) for e in lower(single).at(Tile(0, 2))) == 5
    assert len(edge_streams(design)[Tile(0, 2), "south"]) == 4
    gemm = gemm_behind(design)
    assert gemm.l1_bytes - gemm.stack_bytes == 48 * 1024
    c_buffers = [b for b in lowering.buffers if b.fifo == "c_l2l3_0" and b.tile == Tile(0, 1)]
    assert [b.bytes for b in c_buffers] == [65536, 65536]


@pytest.mark.parametrize(
    ("columns", "even", "odd", "leaving"),
    [(1, 18, 18, 6), (2, 12, 16, 4), (4, 16, 8, 3), (8, 16, 8, 3)],
)
def test_descriptors_by_parity(columns: int, even: int, odd: int, leaving: int) -> None:
    design = plan_gemm(1024, 512, 1024, tile=(64, 64, 64), policy="stock", columns=columns)
    ends = lower(design).at(Tile(0, 1))
    by_parity = [sum(len(e.descriptors) for e in ends if e.channel % 2 == p) for p in (0, 1)]
    assert by_parity == [even, odd]
    assert sum(e.direction == "MM2S" for e in ends) == leaving


@pytest.mark.parametrize(
    ("dtype", "out", "tile", "shape", "k_mt", "l1", "l2"),
    [
        ("i8", "i8", (144, 72, 144), (4032, 4320, 4608), 432, 60.75, 2106),
        ("i8", "i8", (160, 64, 144), (4480, 4224, 4608), 384, 60.5, 2064),
        ("i8", "i16", (128, 72, 112), (4096, 4320, 4480), 432, 61.75, 2084),
        ("i8", "i16", (160, 64, 96), (4480, 4224, 4608), 384, 62.0, 2016),
        ("i8", "i32", (96, 64, 96), (4224, 4224, 4608), 384, 60.0, 2016),
        ("i8", "i32", (128, 56, 80), (4096, 4032, 4480), 336, 62.75, 2036),
        ("bf16", "bf16", (112, 48, 96), (4032, 4224, 4608), 384, 60.0, 2496),
        ("bf16", "bf16", (160, 40, 80), (4480, 4160, 4480), 320, 62.5, 2400),
    ],
)
def test_published_memory_totals(dtype, out, tile, shape, k_mt, l1, l2) -> None:
    M, K, N = shape
    gemm = gemm_of(M, K, N, tile, "wide_k", NPU2, dtype=dtype, out=out)
    assert gemm.k_mt == k_mt and gemm.padded == shape
    assert (gemm.l1_bytes - 1024) / 1024 == l1 and gemm.l2_bytes / 1024 == l2


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        ({"tile": (20, 64, 64)}, "multiples of 16, 8, 16", "16x64x64"),
        ({"tile": (256, 256, 256)}, "a core has 65536", "nearest legal tile"),
        ({"columns": 3}, "3 columns", "nearest legal"),
        ({"dtype": "ternary", "out": "i16"}, "i32 output only", "i32"),
        ({"dtype": "ternary", "tile": (16, 24, 16)}, "multiples of 16, 16, 16", "nearest"),
        ({"dtype": "bf16", "out": "i32"}, "both are integer or both float", "bf16"),
        ({"policy": "wide_k", "k_mt": 100}, "no multiple of k", "nearest legal"),
        ({"policy": "resident_b", "M": 64}, "at least twice", "wide_k"),
        ({"policy": "resident_a", "columns": 2}, "one row panel", "4 or 8"),
        ({"K": 131073}, "overflow the int32", "131071"),
        ({"out": "i16", "shift": 20}, "overflow", "nearest legal shift"),
        ({"M": 0}, "M is 0", None),
        ({"policy": "stock", "synchronisation": "never"}, "does not synchronise", "previous_half"),
        ({"c_depth": 3}, "buffered 3 times", None),
        ({"policy": "fast"}, "no policy 'fast'", "wide_k"),
    ],
)
def test_refusals_name_the_constraint_and_a_legal_choice(options, sentence, hint) -> None:
    asked = {"M": 256, "K": 256, "N": 256, "tile": (64, 64, 64), "policy": "stock", **options}
    M, K, N = (asked.pop(name) for name in "MKN")
    with pytest.raises(TilewrightError) as error:
        plan_gemm(M, K, N, **asked)
    assert sentence in error.value.message
    if hint:
        assert hint in (error.value.hint or "")


def test_long_walks_are_split() -> None:
    """Column-major B of K = 8192 is one descriptor per row block, 8256 is not."""
    for inner, together in ((8192, True), (8256, False)):
        design = plan_gemm(256, inner, 1024, tile=(64, 64, 64), policy="stock", b_layout="col")
        fills = [s for s in design.transfers("b_l3l2_0")]
        assert (fills[0].sizes[0] == 2) is together
        assert failed(check_design(design, deadlock=False)) == {}
    tall = plan_gemm(
        512, 64, 4608, tile=(64, 64, 64), policy="stock"
    )  # C of two row blocks > 4 MiB
    assert all(s.sizes[0] == 1 for s in tall.transfers("c_l2l3_0"))
    assert failed(check_design(tall)) == {}


def test_a_design_too_large_for_the_memory_tiles_is_named() -> None:
    design = plan_gemm(1024, 4608, 1536, tile=(64, 64, 96), policy="resident_b")
    found = failed(check_design(design, deadlock=False))
    assert "bytes" in found["l2_bytes_per_tile"] and "has no place" in found["buffer_placement"]
    with pytest.raises(TilewrightError, match="l2_bytes_per_tile"):
        require(check_design(design, deadlock=False))


def test_a_buffer_of_a_full_memory_tile_lies_in_its_neighbour() -> None:
    design = plan_gemm(800, 4224, 1024, tile=(96, 96, 64), policy="resident_a", k_mt=384)
    lowering = lower(design)
    moved = [b for b in lowering.buffers if b.holder != b.tile]
    assert moved and all(abs(b.holder.column - b.tile.column) == 1 for b in moved if b.holder)
    assert failed(check_design(design, deadlock=False)) == {}


def test_misaligned_buffers_are_refused() -> None:
    design = small()
    lowering = lower(design)
    at = next(i for i, b in enumerate(lowering.buffers) if b.tile.row >= 2)
    buffers = list(lowering.buffers)
    buffers[at] = replace(buffers[at], address=buffers[at].address + 32)
    found = failed(check_design(design, replace(lowering, buffers=tuple(buffers)), deadlock=False))
    assert "not aligned to 64" in found["buffer_placement"]


def column_by_column(design: Design) -> Design:
    """All tasks of a column before those of the next."""

    def column(step: Transfer) -> int:
        fifo = design.fifo(step.fifo)
        return min(t.column for t in (fifo.producer, *fifo.consumers) if t.row == 0)

    others = [s for s in design.runtime if not isinstance(s, Transfer | Await)]
    moves = sorted((s for s in design.runtime if isinstance(s, Transfer)), key=column)
    waits = [s for s in design.runtime if isinstance(s, Await)]
    return replace(design, runtime=(*others, *moves, *waits))


def test_column_by_column_issue_is_flagged_and_hangs() -> None:
    design = column_by_column(small(columns=4))
    assert "may hold" in failed(check_design(design, deadlock=False))["task_queue"]
    with pytest.raises(Deadlock, match="queue that holds 5"):
        simulate_time(design)
    with pytest.raises(Deadlock, match="the design hangs"):
        simulate_time(design, controller_blocks=True)


def test_depth_one_is_slower_and_finishes() -> None:
    design = replace(small(), gemm=None)
    shallow = replace(design, fifos=tuple(replace(f, depth=1) for f in design.fifos))
    assert failed(check_design(shallow)) == {}
    assert simulate_time(shallow).cycles > simulate_time(design).cycles


def drop(body, what):
    return tuple(
        replace(s, body=drop(s.body, what)) if isinstance(s, Loop) else s
        for s in body
        if not what(s)
    )


def test_a_missing_release_is_found() -> None:
    design = small()
    for gone in (Release, Acquire):
        core = design.cores[0]
        body = drop(core.body, lambda s, gone=gone: isinstance(s, gone) and s.fifo.startswith("b_"))
        cores = (replace(core, body=body), *design.cores[1:])
        assert failed(check_design(replace(design, cores=cores)))


def test_a_circle_of_waiting_cores_is_a_deadlock() -> None:
    """Each of two cores waits for the other's object before it makes its own."""
    kind = ObjectType((16,), "i32")
    one, other = Tile(0, 2), Tile(0, 3)
    fifos = (Fifo("x", one, (other,), 1, kind), Fifo("y", other, (one,), 1, kind))
    base = small()
    core = base.cores[0]
    bodies = {
        one: (Acquire("y"), Acquire("x"), Release("x"), Release("y")),
        other: (Acquire("x"), Acquire("y"), Release("y"), Release("x")),
    }
    cores = tuple(replace(core, tile=t, body=b, parameters=0) for t, b in bodies.items())
    design = Design("npu2", fifos, (), (), cores, (), (), device=NPU2)
    found = failed(check_design(design))
    assert "hangs" in found["deadlock"] and "waits for data of @" in found["deadlock"]


@pytest.mark.parametrize("policy", ["stock", "wide_k", "resident_a", "resident_b"])
def test_every_dropped_await_is_found(policy: str) -> None:
    design = small(policy, columns=4)
    awaits = [i for i, s in enumerate(design.runtime) if isinstance(s, Await)]
    for at in awaits[:: max(1, len(awaits) // 6)]:
        steps = design.runtime[:at] + design.runtime[at + 1 :]
        assert failed(check_design(replace(design, runtime=steps), deadlock=False))


def test_mutants_are_caught() -> None:
    for number, policy in enumerate(("stock", "wide_k", "resident_b")):
        design = plan_gemm(192, 128, 64, tile=(16, 32, 16), policy=policy, columns=2)
        survivors = [m.what for m in mutants(design, 25, seed=number) if caught(m) is None]
        assert survivors == []


STAGGERED = {"tile": (16, 32, 16), "policy": "resident_b", "columns": 4, "stagger": True}


def test_staggered_panels_change_column_by_column() -> None:
    design = plan_gemm(576, 100, 250, **STAGGERED)
    gemm = gemm_behind(design)
    assert len(set(gemm.phases())) > 1 and gemm.column_tiles > 1
    assert failed(check_design(design)) == {}
    assert values_agree(design, 3)
    for column in range(4):
        segments = gemm.segments(column)
        covered = sorted(
            (panel, index % len(gemm.row_groups()))
            for first, end, panel in segments
            for index in range(first, end)
        )
        panels, groups = range(gemm.column_tiles), range(len(gemm.row_groups()))
        assert covered == [(p, g) for p in panels for g in groups]
    counts = dram_counts(design)
    again = sum(1 for phase in gemm.phases() if phase)
    _, K, N = gemm.padded
    assert (counts["A"] == gemm.column_tiles).all() and (counts["C"] == 1).all()
    assert counts["B"].sum() == K * N + again * K * gemm.n == gemm.dram_bytes()["b"]


def test_mutants_of_staggered_panels_are_caught() -> None:
    design = plan_gemm(320, 64, 128, **STAGGERED)
    survivors = [m.what for m in mutants(design, 25, seed=9) if caught(m) is None]
    assert survivors == []


def test_staggering_is_for_resident_b() -> None:
    with pytest.raises(TilewrightError, match="its own"):
        plan_gemm(320, 64, 128, tile=(16, 32, 16), policy="wide_k", stagger=True)


def test_synchronisations_of_the_stock_policy() -> None:
    times = {}
    for kind in ("previous_half", "own_half", "sequential", "rolling"):
        design = plan_gemm(768, 128, 128, tile=(16, 32, 16), policy="stock", columns=4,
                           synchronisation=kind)  # fmt: skip
        assert failed(check_design(design)) == {}
        times[kind] = simulate_time(design).seconds
    assert times["previous_half"] < times["own_half"] < times["sequential"]
