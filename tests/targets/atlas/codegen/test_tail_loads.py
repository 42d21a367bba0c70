"""First tiles of a kernel that the one before loads: the bytes that arrive, and what it does with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel, Placement, lowered, trace
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.codegen.routine import LAYER_WORD
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.tile.layouts import Layout

PROFILES = [load_profile("atlas-v0"), load_profile("atlas-v1")]
AREA, FREE, SOURCE, OWN, STEP = 131072, 4096, 704 << 10, 896 << 10, 12288
SIZES = (8192, 1024, 32768, 2048, 96)


@tw.kernel
def doubled(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M, 32):
        for n in tw.grid(x.N, 32):
            out[m, n] = x[m, n] * 2.0


@tw.kernel
def product(a: tw.fp8["M", "K"], w: tw.fp8["K", "N"].panels(), out: tw.bf16["M", "N"]):
    for n in tw.grid(out.N, 32):
        for m in tw.grid(out.M, 64):
            acc = tw.zeros()
            for k in tw.steps(a.K, 32, unroll=True):
                acc += a[m, k] @ w[k, n]
            out[m, n] = acc


def placed(
    kernel,
    profile: Profile,
    sizes: dict[str, tuple[int, int]],
    begun: tuple[Transfer, ...] = (),
    following: tuple[Transfer, ...] = (),
) -> tuple[LoweredKernel, dict[str, Layout], dict[str, int]]:
    """A kernel with its tensors one behind the other in DRAM: their layouts and places."""
    layouts = kernel.layouts(sizes)
    tensors, places, end = {}, {}, 0
    for name, layout in layouts.items():
        tensors[name], places[name] = Placed(layout, end), end
        end += -(-layout.bytes // 4096) * 4096
    area = Area(AREA, profile.vmem_bytes)
    placement = Placement(tensors, OWN, area, tables=True, begun=begun, following=following)
    return lowered(kernel, profile, placement, trace(kernel, profile, layouts)), layouts, places


def ready(profile: Profile, made: LoweredKernel, dma: str, memory: dict[int, bytes]):
    """A machine with the program and what it finds in DRAM."""
    placed = made.finish()
    machine = make_machine(profile, Policy(initial="poison", dma=dma))
    machine.load(placed.program)
    for address, raw in [*memory.items(), *placed.data]:
        machine.write("dram", address, raw)
    return machine


def numbers(shape: tuple[int, int], seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
@pytest.mark.parametrize("shape", [(32, 32), (96, 320), (352, 288)])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("dma", ["exact", "late"])
def test_all_bytes_arrive_and_the_kernel_is_right(profile, shape, count, rounds, dma):
    """Behind straight code and loops; more transfers than there are registers for come as well."""
    following, at, source = [], FREE, SOURCE
    for k, size in enumerate(SIZES[:count]):
        following.append(Transfer(at, source, size, rounds and k % 2 == 0))
        at, source = at + size + 1024, source + size + 160
    made, layouts, places = placed(
        doubled, profile, {"x": shape, "out": shape}, following=tuple(following)
    )
    x = np.random.default_rng(count).standard_normal(shape).astype(np.float32)
    content = np.random.default_rng(7).integers(0, 256, 1 << 17, np.uint8).tobytes()
    memory = {0: layouts["x"].pack(x), SOURCE: content}
    machine = ready(profile, made, dma, memory)
    machine.write("vmem", LAYER_WORD, STEP.to_bytes(4, "little"))
    assert machine.run().fault is None
    for one in following:
        begin = one.dram - SOURCE + STEP * one.rounds
        assert machine.read("vmem", one.vmem, one.bytes) == content[begin : begin + one.bytes]
    layout = layouts["out"]
    found = layout.unpack(machine.read("dram", places["out"], layout.bytes))
    assert np.array_equal(found.view(np.uint16), doubled.eager(x).view(np.uint16))


def test_transfers_come_under_the_last_iterations():
    """They take less than they would behind the kernel, which takes as long as before without them."""
    profile = PROFILES[1]
    sizes = {"a": (256, 512), "w": (512, 96), "out": (256, 96)}
    ticks = {}
    for size in (0, 8192):
        following = (Transfer(FREE, SOURCE, size),) if size else ()
        made, _, _ = placed(product, profile, sizes, following=following)
        machine = ready(profile, made, "exact", {0: bytes(OWN)})
        result = machine.run()
        assert result.fault is None
        ticks[size] = result.cycles
    assert made.use.ending
    assert ticks[8192] < ticks[0] + 0.8 * profile.dma.ticks(8192)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
@pytest.mark.parametrize(
    "shape", [(64, 96, 160), (300, 96, 96), (64, 65, 250), (200, 160, 288), (1, 32, 32)]
)
@pytest.mark.parametrize("every", [1, 2])
def test_what_is_there_is_not_loaded(profile, shape, every):
    """Weights that only VMEM has, where the kernel would have loaded them first."""
    m, k, n = shape
    sizes = {"a": (m, k), "w": (k, n), "out": (m, n)}
    before, layouts, places = placed(product, profile, sizes)
    start, held = places["w"], layouts["w"].bytes
    mine = [t for t in before.use.leading if start <= t.dram and t.dram + t.bytes <= start + held]
    begun = tuple(mine[::every])
    assert begun
    made, _, _ = placed(product, profile, sizes, begun=begun)
    a, w = numbers((m, k), 1), numbers((k, n), 2)
    weights = layouts["w"].pack(w)
    spoilt = bytearray(weights)
    for one in begun:
        spoilt[one.dram - start : one.dram - start + one.bytes] = b"\x7f" * one.bytes
    memory = {0: layouts["a"].pack(a), start: bytes(spoilt)}
    machine = ready(profile, made, "late", memory)
    for one in begun:
        at = one.dram - start
        machine.write("vmem", one.vmem, weights[at : at + one.bytes])
    assert machine.run().fault is None
    layout = layouts["out"]
    found = layout.unpack(machine.read("dram", places["out"], layout.bytes))
    assert np.array_equal(found.view(np.uint16), product.eager(a, w).view(np.uint16))
    assert made.use.leading == before.use.leading


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
@pytest.mark.parametrize("columns", [4, 5])
def test_what_is_left_behind_is_what_follows_the_weights(profile, columns):
    """With an even and an odd number of blocks: the half of the buffer that fills up last."""
    sizes = {"a": (1024, 160), "w": (160, 32 * columns), "out": (1024, 32 * columns)}
    with tuned(body_instructions=300):
        made, layouts, places = placed(product, profile, sizes)
    assert made.use.beyond and not made.use.ending
    content = np.random.default_rng(3).integers(0, 120, OWN, np.uint8).tobytes()
    machine = ready(profile, made, "late", {0: content})
    assert machine.run().fault is None
    end = places["w"] + layouts["w"].bytes
    for one in made.use.beyond:
        held = machine.read("vmem", one.vmem, one.bytes)
        assert held == machine.read("dram", one.dram, one.bytes)
        assert one.dram == end
