"""Data masks: results on the valid part are those of the small model, whatever the padding holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from vpu_networks import check

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.lowering.lower import LoweringOptions
from tilewright.targets.vpu.lowering.network import Network
from tilewright.targets.vpu.lowering.padding import with_masks
from tilewright.targets.vpu.machine import preset
from tilewright.targets.vpu.reference.executor import run_network

Built = Callable[[int], Network]  # by the extent that may be padded


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def images(lines: int) -> Network:
    """A sum makes padding dirty before each operation with a wide kernel; max pooling too."""
    net = Network()
    x = net.input("x", (1, lines, 6, 16), "f16")
    bias = net.constant("shift", numbers(1, 16))
    x = net.call("binary", net.value("a", (1, lines, 6, 16), "f16"), {"a": x, "b": bias},
                 function="add")  # fmt: skip
    weight = net.constant("w", numbers(2, 16, 3, 3, 16))
    x = net.call("convolution", net.value("c", (1, lines, 6, 16), "f16"),
                 {"x": x, "weight": weight}, padding=(1, 1, 1, 1))  # fmt: skip
    half = (lines + 2 - 3) // 2 + 1
    x = net.call("pool", net.value("p", (1, half, 3, 16), "f16"), {"x": x}, function="max",
                 kernel=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))  # fmt: skip
    weight = net.constant("v", numbers(3, 16, 3, 1, 16))
    x = net.call("convolution", net.value("y", (1, half, 3, 16), "f16"), {"x": x, "weight": weight},
                 padding=(1, 0, 1, 0))  # fmt: skip
    net.outputs = [x]
    return net


def inner_axis(width: int) -> Network:
    """Softmax leaves zeros, so the product behind it needs no mask; the sum and maximum do."""
    net = Network()
    x = net.input("x", (20, width), "f16")
    s = net.call("softmax", net.value("s", (20, width), "f16"), {"x": x})
    weight = net.constant("w", numbers(4, 32, 64)[:, :width])
    y = net.call("linear", net.value("y", (20, 32), "f16"), {"x": s, "weight": weight})
    total = net.call("reduce", net.value("t", (20, 1), "f16"), {"x": x}, function="sum")
    top = net.call("reduce", net.value("m", (20, 1), "f16"), {"x": x}, function="max")
    net.outputs = [y, total, top]
    return net


def decoder(rows: int) -> Network:
    """Padded rows are padded keys of attention: they must not be seen."""
    net = Network()
    x = net.input("x", (rows, 32), "f16")
    weight = [net.constant(f"w{n}", numbers(n, 32, 32)) for n in range(3)]
    q = net.call("linear", net.value("q", (rows, 32), "f16"), {"x": x, "weight": weight[0]})
    k = net.call("linear", net.value("k", (rows, 32), "f16"), {"x": x, "weight": weight[1]})
    v = net.value("v", (32, rows), "f16")
    net.call("linear", v, {"x": x, "weight": weight[2]}, transposed=True)
    y = net.call("attention", net.value("y", (rows, 32), "f16"), {"q": q, "k": k, "v": v}, heads=2,
                 groups=2)  # fmt: skip
    net.outputs = [y]
    return net


CASES: dict[str, tuple[Built, int, int]] = {  # network, padded extent, valid extent
    "images": (images, 13, 8),
    "inner axis": (inner_axis, 48, 37),
    "decoder": (decoder, 40, 23),
}


def padded(small: np.ndarray, shape: tuple[int, ...], filler: str) -> np.ndarray:
    rng = np.random.default_rng(9)
    whole = {
        "zeros": np.zeros(shape),
        "numbers": rng.standard_normal(shape) * 50,
        "nan": np.full(shape, np.nan),
        "infinite": np.full(shape, np.inf),
    }[filler].astype(np.float16)
    whole[tuple(slice(n) for n in small.shape)] = small
    return whole


@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_padding(name: str) -> None:
    build, extent, inside = CASES[name]
    small, large = build(inside), build(extent)
    values = numbers(8, *small.values["x"].shape)
    wanted = run_network(small, {"x": values})
    masked = with_masks(large, {"x": small.values["x"].shape})
    for filler in ("zeros", "numbers", "nan", "infinite"):
        whole = padded(values, large.values["x"].shape, filler)
        found = run_network(masked.network, {"x": whole})
        for output in large.outputs:
            extents = small.values[output].shape
            assert masked.valid.get(output, extents) == extents
            part = found[output][tuple(slice(n) for n in extents)]
            assert part.tobytes() == wanted[output].tobytes(), (output, filler)
    with np.errstate(all="ignore"):
        plain = run_network(large, {"x": padded(values, large.values["x"].shape, "numbers")})
    assert any(
        plain[o][tuple(slice(n) for n in small.values[o].shape)].tobytes() != wanted[o].tobytes()
        for o in large.outputs
    ), "the case needs no mask"


@pytest.mark.parametrize("name", CASES)
def test_on_the_machine(name: str) -> None:
    """The list with masks computes what the reference does, with anything in the padding."""
    build, extent, inside = CASES[name]
    large, small = build(extent), build(inside).values["x"].shape
    options = LoweringOptions(valid={"x": small})
    inputs = {"x": padded(numbers(8, *small), large.values["x"].shape, "numbers")}
    check(large, preset("tiny"), options=options, inputs=inputs)


def test_masks_only_where_they_are_needed() -> None:
    net = with_masks(inner_axis(48), {"x": (20, 37)}).network
    kinds = [call.family for call in net.calls]
    assert kinds == ["select", "softmax", "linear", "select", "reduce", "reduce"]
    rows = with_masks(inner_axis(48), {"x": (13, 48)}).network  # rows do not mix
    assert all(call.family != "select" for call in rows.calls)


@pytest.mark.parametrize("family", ["rms_norm", "mean", "average"])
def test_what_cannot_be_masked_is_refused(family: str) -> None:
    net = Network()
    x = net.input("x", (1, 8, 8, 16), "f16")
    if family == "average":
        made = net.value("y", (1, 4, 4, 16), "f16")
        y = net.call("pool", made, {"x": x}, function="average", kernel=(2, 2), strides=(2, 2))
        valid = (1, 5, 8, 16)
    elif family == "mean":
        y = net.call("reduce", net.value("y", (1, 8, 8, 1), "f16"), {"x": x}, function="mean")
        valid = (1, 8, 8, 9)
    else:
        gain = net.constant("g", numbers(1, 16))
        made = net.value("y", (1, 8, 8, 16), "f16")
        y = net.call("rms_norm", made, {"x": x, "weight": gain}, epsilon=1e-5)
        valid = (1, 8, 8, 9)
    net.outputs = [y]
    with pytest.raises(TilewrightError, match="TW7089"):
        with_masks(net, {"x": valid})


@pytest.mark.parametrize("valid", [(1, 9, 6, 16), (1, 0, 6, 16), (8, 6, 16)])
def test_bad_extents(valid: tuple[int, ...]) -> None:
    with pytest.raises(TilewrightError, match="valid part cannot be"):
        with_masks(images(8), {"x": valid})
