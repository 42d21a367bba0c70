"""Lowerings against whole-tensor definitions: shapes that are multiples of nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from vpu_networks import check, random_value

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.attention_paths import PATHS, Heads, choose_path, heads_of
from tilewright.targets.vpu.lowering.attention_trials import is_close
from tilewright.targets.vpu.lowering.lower import LoweringOptions, lower
from tilewright.targets.vpu.lowering.network import Network
from tilewright.targets.vpu.machine import preset
from tilewright.targets.vpu.scheduling.schedule import portfolio

pytestmark = pytest.mark.usefixtures("little_search")
TINY = preset("tiny")
SIX = replace(preset("vpu40"), cmx_bytes=96 * 1024)  # all tiles, and little room


def _weight(network: Network, rng, name: str, shape, dtype: str) -> str:
    data = random_value(rng, shape, dtype)
    scale = rng.uniform(0.001, 0.01, shape[0]) if dtype == "i8" else None
    return network.constant(name, data, scale)


@pytest.mark.parametrize("machine", [TINY, SIX], ids=["tiny", "six"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns", "dtype", "output"),
    [(37, 50, 70, "i8", "f16"), (203, 33, 18, "f16", "f16"), (1, 300, 101, "i8", "i8"),
     (130, 3000, 40, "i8", "f16"), (7, 1500, 20, "f16", "i8")],
)  # fmt: skip
def test_linear(machine, rows: int, inner: int, columns: int, dtype: str, output: str) -> None:
    rng = np.random.default_rng(rows)
    network = Network()
    x = network.input("x", (rows, inner), dtype, 0.05 if dtype == "i8" else None)
    w = _weight(network, rng, "w", (columns, inner), dtype)
    b = network.constant("b", rng.standard_normal(columns).astype(np.float32))
    operands = {"x": x, "weight": w, "bias": b}
    if output == "f16":
        operands["residual"] = network.input("r", (rows, columns), "f16")
    y = network.value("y", (rows, columns), output, 0.1 if output == "i8" else None)
    network.outputs = [network.call("linear", y, operands, relu=rows % 2 == 1)]
    check(network, machine, rows)


@pytest.mark.parametrize("machine", [TINY, SIX], ids=["tiny", "six"])
@pytest.mark.parametrize(
    ("image", "filters", "more"),
    [
        ((1, 13, 11, 20), (24, 3, 3, 20), {"padding": (1, 1, 1, 1)}),
        ((2, 9, 14, 16), (40, 5, 3, 16), {"strides": (2, 1), "padding": (2, 0, 1, 2)}),
        ((1, 12, 12, 8), (12, 3, 3, 4), {"groups": 2, "dilations": (2, 2), "padding": (2, 2, 2, 2)}),
        ((1, 10, 17, 35), (35, 3, 3, 1), {"groups": 35, "strides": (2, 2), "padding": (1, 1, 0, 1)}),
        ((3, 1, 1, 50), (30, 1, 1, 50), {}),
    ],
    ids=["same", "strided", "grouped", "depthwise", "point"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["i8", "f16"])
def test_convolution(machine, image, filters, more: dict, dtype: str) -> None:
    rng = np.random.default_rng(image[1])
    network = Network()
    x = network.input("x", image, dtype, 0.05 if dtype == "i8" else None)
    w = _weight(network, rng, "w", filters, dtype)
    b = network.constant("b", rng.standard_normal(filters[0]).astype(np.float32))
    top, left, bottom, right = more.get("padding", (0, 0, 0, 0))
    (down, across), (apart, aside) = more.get("strides", (1, 1)), more.get("dilations", (1, 1))
    height = (image[1] + top + bottom - apart * (filters[1] - 1) - 1) // down + 1
    width = (image[2] + left + right - aside * (filters[2] - 1) - 1) // across + 1
    shape = (image[0], height, width, filters[0])
    y = network.value("y", shape, dtype, 0.2 if dtype == "i8" else None)
    network.outputs = [
        network.call("convolution", y, {"x": x, "weight": w, "bias": b}, relu=True, **more)
    ]
    check(network, machine, image[2])


@pytest.mark.parametrize("function", ["max", "avg"])
@pytest.mark.parametrize("dtype", ["i8", "f16"])
@pytest.mark.parametrize("output", ["i8", "f16", "f32"])
@pytest.mark.parametrize("kernel", [(3, 3), (7, 9)])
def test_pooling(function: str, dtype: str, output: str, kernel) -> None:
    network = Network()
    x = network.input("x", (1, 7, 9, 50), dtype, 0.05 if dtype == "i8" else None)
    padding = (1, 1, 1, 1) if kernel == (3, 3) else (0, 0, 0, 0)
    height = (7 + sum(padding[::2]) - kernel[0]) // 2 + 1
    width = (9 + sum(padding[1::2]) - kernel[1]) // 2 + 1
    y = network.value("y", (1, height, width, 50), output, 0.07 if output == "i8" else None)
    network.outputs = [
        network.call("pool", y, {"x": x}, function=function, kernel=kernel, strides=(2, 2),
                     padding=padding)
    ]  # fmt: skip
    check(network, SIX)


@pytest.mark.parametrize("machine", [TINY, SIX], ids=["tiny", "six"])
def test_rows_and_elements(machine) -> None:
    """Norms, softmax, reductions and element-wise chains with every kind of broadcast."""
    rng = np.random.default_rng(5)
    network = Network()
    shape = (3, 43, 70)
    x = network.input("x", shape, "f16")
    g = network.constant("g", rng.standard_normal(70).astype(np.float16))
    b = network.constant("b", rng.standard_normal(70).astype(np.float16))
    made = network.value
    n = network.call(
        "layer_norm", made("n", shape, "f16"), {"x": x, "weight": g, "bias": b}, epsilon=1e-5
    )
    r = network.call("rms_norm", made("r", shape, "i8", 0.03), {"x": n, "weight": g}, epsilon=1e-6)
    s = network.call("softmax", made("s", shape, "f16"), {"x": n})
    u = network.call("unary", made("u", shape, "f16"), {"x": n}, function="gelu_erf")
    a = network.call("binary", made("a", shape, "f16"), {"a": u, "b": s}, function="add")
    m = network.call("reduce", made("m", (3, 43, 1), "f16"), {"x": a}, function="mean")
    d = network.call("binary", made("d", shape, "f32"), {"a": a, "b": m}, function="divide")
    v = network.call("binary", made("v", shape, "f16"), {"a": d, "b": b}, function="multiply")
    q = network.call("binary", made("q", shape, "i8", 0.1), {"a": r, "b": v}, function="subtract")
    c = network.call("cast", made("c", shape, "f16"), {"x": q})
    network.outputs = [c, m]
    check(network, machine)


@pytest.mark.parametrize("path", ["decomposed", "flash", "incremental"])
@pytest.mark.parametrize(
    ("queries", "keys", "heads", "groups", "more"),
    [(50, 50, 4, 2, {"causal": True}), (1, 90, 3, 1, {}), (33, 70, 2, 2, {"valid_keys": 61}),
     (100, 100, 2, 1, {"causal": True, "mask": True})],
)  # fmt: skip
def test_attention(path: str, queries, keys, heads, groups, more: dict) -> None:
    network = Network()
    q = network.input("q", (queries, heads * 16), "f16")
    k = network.input("k", (keys, groups * 16), "f16")
    v = network.input("v", (groups * 24, keys), "f16")
    operands = {"q": q, "k": k, "v": v}
    if more.pop("mask", False):
        rng = np.random.default_rng(3)
        mask = np.where(rng.random((queries, keys)) < 0.3, -np.inf, 0).astype(np.float16)
        mask[5] = -np.inf  # a row that sees nothing
        operands["mask"] = network.constant("mask", mask)
    y = network.value("y", (queries, heads * 24), "f16")
    options: dict[str, Any] = {**more, **({"block": 32} if path != "decomposed" else {})}
    network.outputs = [
        network.call("attention", y, operands, heads=heads, groups=groups, **options)
    ]
    check(network, replace(SIX, tiles=2), options=LoweringOptions(attention=path))


def test_movement() -> None:
    """Reshapes, slices, concatenations, transposes and batched products between computations."""
    network = Network()
    made = network.value
    x = network.input("x", (2, 30, 48), "f16")
    u = network.call("unary", made("u", (2, 30, 48), "f16"), {"x": x}, function="tanh")
    r = network.call("reshape", made("r", (2, 30, 3, 16), "f16"), {"x": u})
    t = network.call(
        "transpose", made("t", (2, 3, 30, 16), "f16"), {"x": r}, permutation=(0, 2, 1, 3)
    )
    p = network.call("matmul", made("p", (2, 3, 30, 30), "f16"), {"x": t, "y": t}, factor=0.25)
    v = network.call(
        "transpose", made("v", (2, 3, 16, 30), "f16"), {"x": t}, permutation=(0, 1, 3, 2)
    )
    o = network.call("matmul", made("o", (2, 3, 30, 16), "f16"), {"x": p, "y": v})
    b = network.call(
        "transpose", made("b", (2, 30, 3, 16), "f16"), {"x": o}, permutation=(0, 2, 1, 3)
    )
    f = network.call("reshape", made("f", (2, 30, 48), "f16"), {"x": b})
    s = network.call(
        "slice", made("s", (2, 30, 20), "f16"), {"x": f}, offsets=(0, 0, 8), sizes=(2, 30, 20)
    )
    s2 = network.call("slice", made("s2", (2, 7, 48), "f16"), {"x": u}, offsets=(0, 3, 0),
                      sizes=(2, 7, 48), steps=(1, 2, 1))  # fmt: skip
    e = network.call("unary", made("e", (2, 30, 20), "f16"), {"x": s}, function="sigmoid")
    c = network.call("concat", made("c", (2, 30, 68), "f16"), {"a": e, "b": f}, axis=2)
    w = network.call("concat", made("w", (2, 37, 48), "f16"), {"a": s2, "b": u}, axis=1)
    network.outputs = [c, w, p]
    check(network, TINY)
    check(network, SIX, 1)


@pytest.mark.parametrize(("first", "width"), [(64, 16), (64, 48), (24, 8), (32, 96), (40, 60)])
def test_rows_that_lie_apart_take_another_shape(first: int, width: int) -> None:
    """Heads of a joint product of queries, keys and values: a slice of columns, then a reshape."""
    network = Network()
    x = network.input("x", (1, 30, 192), "f16")
    part = network.value("part", (1, 30, first), "f16")
    network.call("slice", part, {"x": x}, offsets=(0, 0, 64), sizes=(1, 30, first))
    rows = network.call("reshape", network.value("rows", (30, first), "f16"), {"x": part})
    shape = (30 * first // width, width)
    heads = network.call("reshape", network.value("heads", shape, "f16"), {"x": part})
    twice = network.value("twice", shape, "f16")
    network.call("binary", twice, {"a": heads, "b": heads}, function="add")
    turned = network.value("turned", shape[::-1], "f16")
    network.call("transpose", turned, {"x": heads}, permutation=(1, 0))
    network.outputs = [rows, twice, turned]
    check(network, SIX)


@pytest.mark.parametrize(
    ("lines", "width", "channels"), [(10, 14, 8), (5, 40, 35), (2, 70, 40), (13, 9, 16)]
)
def test_elements_of_an_image_stay_where_its_lines_are(
    lines: int, width: int, channels: int
) -> None:
    """Blocks of lines are not blocks of 16 rows: element by element they stay as they are."""
    rng = np.random.default_rng(lines)
    network = Network()
    shape = (1, lines, width, channels)
    x = network.input("x", shape, "f16")
    w = _weight(network, rng, "w", (channels, 3, 3, channels), "f16")
    d = _weight(network, rng, "d", (channels, 3, 3, 1), "f16")
    made = network.value
    options: dict[str, Any] = {"padding": (1, 1, 1, 1)}
    a = network.call("convolution", made("a", shape, "f16"), {"x": x, "weight": w}, **options)
    b = network.call("convolution", made("b", shape, "f16"), {"x": a, "weight": d},
                     groups=channels, **options)  # fmt: skip
    half = network.constant("half", np.full((1, 1, 1, 1), 0.5, np.float16))
    c = network.call("binary", made("c", shape, "f16"), {"a": b, "b": half}, function="multiply")
    e = network.call("unary", made("e", shape, "f16"), {"x": a}, function="silu")
    f = network.call("binary", made("f", shape, "f16"), {"a": c, "b": e}, function="add")
    s = network.call("softmax", made("s", shape, "f16"), {"x": f})
    network.outputs = [c, f, s]
    check(network, SIX)


@pytest.mark.parametrize("fused", [True, False])
def test_fusion_changes_no_bit(fused: bool) -> None:
    from vpu_decoder import Llama, llama

    shape = Llama(layers=2, sequence=100, hidden=128, heads=4, groups=2, width=32, intermediate=176)
    check(llama(shape), preset("vpu40"), options=LoweringOptions(fused=fused))


def test_what_does_not_fit_says_what_is_missing() -> None:
    network = Network()
    x = network.input("x", (40, 4000), "f16")
    y = network.value("y", (40, 4000), "f16")
    network.outputs = [network.call("softmax", y, {"x": x})]
    with pytest.raises(TilewrightError, match=r"needs .* bytes of CMX"):
        lower(network, replace(TINY, cmx_bytes=8192))


def test_a_moved_tensor_part_is_found() -> None:
    """Every range of every task, moved by 64 bytes: the verifier sees it."""
    network = Network()
    x = network.input("x", (20, 64), "f16")
    w = network.constant("w", np.ones((24, 64), np.float16))
    y = network.value("y", (20, 24), "f16")
    network.outputs = [network.call("linear", y, {"x": x, "weight": w})]
    graph = lower(network, replace(TINY, cmx_bytes=16384)).chip.graph()
    tasks = portfolio(graph).tasks
    for name, item in tasks.tasks.items():
        for side in ("reads", "writes"):
            ranges = list(getattr(item, side))
            for place, found in enumerate(ranges):
                moved = [*ranges]
                moved[place] = replace(found, address=found.address + 64)
                damaged = replace(item, **{side: tuple(moved)})
                assert verify(replace(tasks, tasks={**tasks.tasks, name: damaged}), graph)


def test_weights_of_a_large_product_stream_beside_the_work() -> None:
    network = Network()
    x = network.input("x", (512, 2048), "i8", 0.05)
    w = network.constant("w", np.ones((2048, 2048), np.int8), 0.01)
    y = network.value("y", (512, 2048), "f16")
    network.outputs = [network.call("linear", y, {"x": x, "weight": w})]
    made = portfolio(lower(network, preset("vpu40")).chip.graph(), budget=0)
    assert made.bounds.strong / made.makespan >= 0.8
    assert not [step for step in made.draft.steps if step.kind != "task"]


def test_packed_weights_are_shared() -> None:
    """The same weights with the same scales are packed once."""
    network = Network()
    x = network.input("x", (20, 32), "f16")
    w = network.constant("w", np.ones((16, 32), np.float16))
    names = [network.value(f"y{n}", (20, 16), "f16") for n in range(2)]
    network.outputs = [network.call("linear", name, {"x": x, "weight": w}) for name in names]
    packed = [name for name in lower(network, TINY).chip.constants if name.startswith("packed")]
    assert len(packed) == 1


def test_paths_of_attention_are_chosen_by_cost() -> None:
    shape = Heads(1, 64, 2, 4, 64, 64, False, 64, 0.125)
    machine = preset("vpu40")
    costs = {path: choose_path(machine, shape, 1, path).cycles for path in PATHS}
    assert choose_path(machine, shape, 1).cycles == min(costs.values())
    long = replace(shape, queries=512, keys=200_000, valid=200_000)
    assert choose_path(machine, long, 86).name == "flash"  # scores of all keys do not fit
    with pytest.raises(TilewrightError, match="no attention path 'fast'"):
        choose_path(machine, shape, 1, "fast")


@pytest.mark.parametrize("queries", [1, 40])
def test_close_calls_between_paths_are_tried(queries: int) -> None:
    """Keys of one head fill CMX: the path that is taken is the one that is scheduled faster."""
    network = Network()
    q = network.input("q", (queries, 48), "f16")
    k, v = network.input("k", (1100, 48), "f16"), network.input("v", (48, 1100), "f16")
    y = network.value("y", (queries, 48), "f16")
    network.outputs = [network.call("attention", y, {"q": q, "k": k, "v": v}, heads=3, groups=3)]
    assert is_close(SIX, heads_of(network.values, network.calls[0]))
    made = {}
    for path in (None, "decomposed", "flash"):
        lowered = lower(network, SIX, LoweringOptions(attention=path))
        made[path] = portfolio(lowered.chip.graph(), budget=0).makespan
    assert made[None] == min(made.values())
