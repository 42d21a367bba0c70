"""Copies of weights that one kernel makes for another: places, and the bytes that arrive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import Placement, lowered, trace
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.codegen.nest import Affine, For, Read, Statement, Value, Variable
from tilewright.targets.atlas.codegen.prefetch import Prefetch, traffic, with_prefetched
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

TILE = 1024
PANEL = 5 * TILE
PROFILES = [load_profile("atlas-v0"), load_profile("atlas-v1")]


def read(constant: int, *terms: tuple[Variable, int]) -> Read:
    return Read(Value("fp8"), Affine(constant, terms), TILE)


def first_two(rows: int = 7) -> Prefetch:
    """The first two tiles of panels of five."""
    return Prefetch(dram=10 * PANEL, vmem=4096, bytes=2 * TILE, rows=rows, stride=PANEL)


def test_a_tile_of_a_panel_lies_in_its_row():
    n = Variable(7)
    place = first_two().place(read(10 * PANEL + TILE, (n, PANEL)))
    assert place == Affine(4096 + TILE, ((n, 2 * TILE),))


@pytest.mark.parametrize(
    "wanted",
    [
        read(10 * PANEL + 2 * TILE, (Variable(7), PANEL)),  # the third tile
        read(10 * PANEL, (Variable(8), PANEL)),  # a panel too many
        read(10 * PANEL, (Variable(3), TILE)),  # the third tile in the last iteration
        read(9 * PANEL),  # the panel before
        read(10 * PANEL + TILE + 32),  # across the end of a row
    ],
)
def test_what_is_not_there_in_every_iteration_is_read_in_dram(wanted):
    assert first_two().place(wanted) is None
    assert with_prefetched([wanted], [first_two()]) == [wanted]


def test_traffic_becomes_less_by_what_is_there():
    n = Variable(7)
    body: list[Statement] = [read(10 * PANEL + k * TILE, (n, PANEL)) for k in range(5)]
    loop = For(n, body)
    assert traffic([loop]) == 7 * PANEL
    assert traffic(with_prefetched([loop], [first_two()])) == 7 * 3 * TILE


def test_traffic_counts_what_a_piece_reads_several_times_once():
    n, m = Variable(7), Variable(3)
    window = [read(at, (m, TILE)) for at in (0, 32, 0, 64)]  # 64 bytes more than a tile
    weights = [read(8 * PANEL, (n, PANEL)), read(8 * PANEL, (n, PANEL))]  # once for each n
    inner = For(m, [*window, *weights])
    assert traffic([For(n, [inner])]) == 7 * 3 * (TILE + 64) + 7 * TILE
    part = replace(read(0, (n, PANEL)), pieces=((0, 96), (512, 96)))
    assert traffic([For(n, [part, part])]) == 7 * 192


@tw.kernel
def doubled(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M, 32):
        for n in tw.grid(x.N, 32):
            out[m, n] = x[m, n] * 2.0


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
@pytest.mark.parametrize("shape", [(32, 32), (32, 45), (96, 320), (352, 288)])
@pytest.mark.parametrize("rows", [1, 3, 11, 40])
def test_all_rows_arrive_and_the_kernel_is_right(profile, shape, rows):
    """Beside straight code, loops of fewer iterations than rows and of more."""
    layouts = doubled.layouts({"x": shape, "out": shape})
    size, stride, held = 96, 224, layouts["x"].bytes
    x_at, out_at, base, end = 0, held, 2 * held, 2 * held + (1 << 14)
    tensors = {"x": Placed(layouts["x"], x_at), "out": Placed(layouts["out"], out_at)}
    brings = (Prefetch(base, 65536, size, rows, stride),)
    area = Area(131072, profile.vmem_bytes)
    placement = Placement(tensors, end, area, tables=True, brings=brings)
    tracer = trace(doubled, profile, layouts)
    placed = lowered(doubled, profile, placement, tracer).finish()
    machine = make_machine(profile, Policy(initial="poison"))
    random = np.random.default_rng(rows)
    x = random.standard_normal(shape).astype(np.float32)
    source = random.integers(0, 256, rows * stride, np.uint8)
    machine.load(placed.program)
    for address, raw in [(x_at, layouts["x"].pack(x)), (base, source.tobytes()), *placed.data]:
        machine.write("dram", address, raw)
    assert machine.run().fault is None
    wanted = b"".join(source[k * stride : k * stride + size].tobytes() for k in range(rows))
    assert machine.read("vmem", 65536, rows * size) == wanted
    found = layouts["out"].unpack(machine.read("dram", out_at, held))
    assert np.array_equal(found.view(np.uint16), doubled.eager(x).view(np.uint16))
