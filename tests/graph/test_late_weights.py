"""The least time of weights that VMEM cannot hold before they are needed: what is said to depend on an
element against what does, and the whole against programs and against the best orders of loads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from image_models import global_average

from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.session import Session
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.late_weights import (
    REGISTERS,
    UNITS,
    Reach,
    through,
    ticks_with_late_weights,
)
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


# --- boxes of pixels --------------------------------------------------------------------------


def _options(image: Image, window: Window, filters: int, groups: int) -> dict:
    rows, columns = window.result(image.height, image.width)
    out = Image(rows, columns, filters)
    return {
        "image": written(image), "out": written(out), "window": written(window),
        "filters": filters, "groups": groups, "bias": False, "scale": False,
        "activation": "none", "factor": 1.0, "unfolded": False,
    }  # fmt: skip


def _seen(
    mask: np.ndarray, image: Image, window: Window, filters: int, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which results see a pixel of a mask [H, W, C], and which filters [KH, KW, C / groups, N] meet one:
    pixel by pixel."""
    rows, columns = window.result(image.height, image.width)
    result = np.zeros((rows, columns, filters), bool)
    of, each = image.channels // groups, filters // groups
    met = np.zeros((window.height, window.width, of, filters), bool)
    for r, c, (i, j) in (
        (r, c, t) for r in range(rows) for c in range(columns) for t in window.taps
    ):
        y = r * window.steps[0] + i * window.spacing[0] - window.sides[0]
        x = c * window.steps[1] + j * window.spacing[1] - window.sides[1]
        if not (0 <= y < image.height and 0 <= x < image.width):
            continue
        for n in range(filters):
            channels = np.flatnonzero(mask[y, x, n // each * of : (n // each + 1) * of])
            result[r, c, n] = result[r, c, n] or len(channels) > 0
            met[i, j, channels, n] = True
    return result, met


def _has(mask: np.ndarray, reach: Reach) -> bool:
    """Whether a mask has a box of these pixels, of all channels or of one."""
    planes: list[np.ndarray] = (
        [np.min(mask, axis=2)] if reach.full else [mask[..., c] for c in range(mask.shape[2])]
    )
    height, width = mask.shape[:2]
    return any(
        plane[r : r + reach.rows, c : c + reach.columns].all()
        for plane in planes
        for r in range(height - reach.rows + 1) for c in range(width - reach.columns + 1)
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_boxes_are_no_larger_than_what_sees_them(data):
    """Wherever a box of pixels is, the results that see it have a box of the size that is said, and
    filters that are said to meet it do, all of them."""
    draw = data.draw
    size, taps = st.integers(1, 7), st.integers(1, 3)
    window = Window(
        draw(taps), draw(taps), (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        draw(st.tuples(*[st.integers(0, 2)] * 4)), (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    )  # fmt: skip
    groups = draw(st.sampled_from([1, 2, 4]))
    image = Image(draw(size), draw(size), 4)
    filters = draw(st.sampled_from([4, 8]))
    try:
        window.result(image.height, image.width)
    except TilewrightError:
        assume(False)
    rows, columns = draw(st.integers(1, image.height)), draw(st.integers(1, image.width))
    reach = Reach(draw(st.booleans()), rows, columns)
    options = _options(image, window, filters, groups)
    result, weights = through("conv2d", options, "x", reach)
    for top in range(image.height - rows + 1):
        for left in range(image.width - columns + 1):
            mask = np.zeros((image.height, image.width, 4), bool)
            channels = slice(None) if reach.full else draw(st.integers(0, 3))
            mask[top : top + rows, left : left + columns, channels] = True
            seen, met = _seen(mask, image, window, filters, groups)
            assert result is None or _has(seen, result)
            assert not weights or met.all()


def test_what_is_said_of_boxes_is_all_there_is():
    """A pixel at a corner reaches four results of a 3 x 3 window, and each of its taps after another."""
    image, window = Image(8, 8, 32), Window(3, 3, padding=1)
    options = _options(image, window, 32, 1)
    corner = through("conv2d", options, "x", Reach(True, 1, 1))
    assert corner == (Reach(True, 2, 2), ())
    assert through("conv2d", options, "x", Reach(True, 2, 2)) == (Reach(True, 3, 3), ("w",))
    single = _options(image, Window(1, 1), 64, 1)
    assert through("conv2d", single, "x", Reach(False, 1, 1)) == (Reach(True, 1, 1), ())
    assert through("conv2d", single, "x", Reach(True, 1, 1)) == (Reach(True, 1, 1), ("w",))
    skipped = _options(image, Window(1, 1, stride=2), 64, 1)
    assert through("conv2d", skipped, "x", Reach(True, 1, 1)) == (None, ())
    assert through("conv2d", skipped, "x", Reach(True, 2, 3))[0] == Reach(True, 1, 1)
    assert through("softmax", {}, "x", Reach(True, 1, 1)) == (None, ())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-1, 5), min_size=1, max_size=8), st.integers(1, 6), st.integers(1, 6))
def test_pixels_that_are_picked(rows, high, wide):
    image = Image(6, 6, 4)
    out = Image(len(rows), 6, 4)
    options = {"image": written(image), "out": written(out), "rows": rows, "columns": None}
    result, _ = through("resample", options, "x", Reach(True, high, wide))
    for top in range(6 - high + 1):
        mask = np.zeros((6, 6, 4), bool)
        mask[top : top + high, :wide] = True
        picked = np.stack([mask[r] if r >= 0 else np.zeros((6, 4), bool) for r in rows])
        assert result is None or _has(picked, result)


# --- programs ---------------------------------------------------------------------------------


def _small_machine(folder: Path, vmem: int):
    path = folder / "small.toml"
    path.write_text(f'base = "atlas-v1"\n[memory]\nvmem_bytes = {vmem}\n')
    return load_profile(str(path))


def _network(filters: int, late: int, batch: int = 1, early: int = 3):
    """Convolutions that keep the vector unit busy, then weights for one pixel."""
    net = ModelBuilder("late", seed=3)
    x = net.input("x", (batch, 32, 24, 24))
    for k in range(early):
        x = net.gelu(net.conv2d(x, filters, 3, f"early{k}", padding=1))
    x = global_average(net, x)
    x = net.relu(net.linear(x, late, "first"))
    net.output("y", net.linear(x, late, "second"))
    return net.build()


@pytest.mark.parametrize("batch", [3, 4])
def test_no_program_beats_a_bound_by_room(tmp_path, batch):
    small = _small_machine(tmp_path, 256 * 1024)
    model = compile_model(_network(64, 640, batch, 5), small)
    bound = bound_of(model.artifact)
    session = Session(model)
    session.run(example_inputs(model, "random", 0))
    assert bound.cause == "VMEM" and bound.total == bound.terms["VMEM"]
    assert bound.terms["VMEM"] > max(bound.terms["DMA"], bound.terms["VPU"])
    assert bound.total <= session.cycles
    # The vector unit is busy until the mean; what does not fit by then comes after it.
    weights = 64 * 640 + 640 * 640  # and those of the second convolution before them, at most
    after = (weights - small.vmem_bytes - REGISTERS - UNITS) // 2
    assert after < bound.terms["VMEM"] <= bound.terms["VPU"] + after


def test_room_for_everything_asks_nothing():
    bound = bound_of(compile_model(_network(64, 640), V1).artifact)
    assert bound.terms["VMEM"] == 0


# --- orders of loads --------------------------------------------------------------------------


def _fastest(works: list[int], weights: list[int], capacity: int, rate: float) -> float:
    """The least time of layers one after the other, of which each needs its weights while its last
    operation is carried out, and lets go of them then: in this order nothing is gained by loading later
    weights first."""
    loaded = computed = 0.0  # when the engine and the units are through with what is done so far
    released = [0.0] * len(works)
    held: list[tuple[float, int]] = []  # (until when, bytes)
    for k, (work, size) in enumerate(zip(works, weights, strict=True)):
        # A layer's bytes come one by one, each as soon as there is room.
        for _ in range(size):
            busy = [end for end, _ in held if end > loaded]
            if len(busy) >= capacity:
                loaded = max(loaded, sorted(busy)[len(busy) - capacity])
            loaded += rate
            held.append((float("inf"), k))
        computed = max(computed + work, loaded)
        released[k] = computed
        held = [(computed if layer == k else end, layer) for end, layer in held]
        held = [(end, layer) for end, layer in held if end > loaded]
    return computed


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=2, max_size=6),
    st.integers(13, 20),
)
def test_no_order_of_loads_is_faster(layers, capacity):
    """A row of layers whose every operation reaches all later weights, on a machine that needs nothing
    else: the best schedule takes as long as is said, or longer."""
    unit = 1024  # bytes that are moved at a time
    image = written(Image(4, 4, 32))
    works = [work for work, _ in layers]
    names = [f"w{k}" for k in range(len(layers))]
    options = _options(Image(4, 4, 32), Window(1, 1), 32, 1)
    steps = [
        SimpleNamespace(
            kernel="conv2d", options=options,
            operands={"x": f"v{k}", "w": names[k], "out": f"v{k + 1}"},
        )
        for k in range(len(layers))
    ]  # fmt: skip
    kinds = {n: SimpleNamespace(kind="weight", count=1) for n in names}
    kinds |= {f"v{k}": SimpleNamespace(kind="activation", count=1) for k in range(len(layers) + 1)}
    machine = SimpleNamespace(vmem_bytes=capacity * unit - REGISTERS - UNITS, dma=V1.dma)
    loads = {n: size * unit for n, (_, size) in zip(names, layers, strict=True)}
    rate = V1.dma.link_ticks / V1.dma.link_bytes * unit
    scale = 100
    said = ticks_with_late_weights(
        machine, kinds, [(step, 0) for step in steps], loads,  # type: ignore[arg-type]
        lambda some: sum(scale * works[k] for k in some),
    )  # fmt: skip
    best = _fastest([scale * w for w in works], [size for _, size in layers], capacity, rate)
    assert image["kind"] == "image" and said <= best
    if sum(size for _, size in layers[2:]) > capacity:
        assert said > 0
