"""Products of two activations: on the device, batch by batch, in every order of their dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder


def text(
    a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...], dtype: str, more: str
) -> str:
    def spelt(shape: tuple[int, ...], kind: str) -> str:
        return f"tensor<{'x'.join(map(str, (*shape, kind)))}>"

    result = "bf16" if dtype != "f32" else "f32"
    types = (spelt(a, dtype), spelt(b, dtype), spelt(out, result))
    return (
        f"func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{\n"
        f'  %y = npu_kernel.ukernel_generic "npu_uk_matmul"(%a, %b) {more} : {types[0]}, {types[1]} -> {types[2]}\n'
        f"  return %y : {types[2]}\n}}\n"
    )


CASES = [
    ((50, 70), (70, 33), (50, 33), ""),
    ((3, 50, 70), (3, 70, 33), (3, 50, 33), ""),
    ((3, 40, 70), (70, 33), (3, 40, 33), ""),
    ((4, 50, 70), (4, 33, 70), (4, 50, 33), "{transpose_rhs}"),
    ((2, 70, 50), (2, 70, 33), (2, 50, 33), "{transpose_lhs}"),
    ((1, 64), (64, 40), (1, 40), ""),
]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(("a", "b", "out", "more"), CASES)
def test_on_the_device(tmp_path, target, a, b, out, more) -> None:
    file = tmp_path / "product.mlir"
    file.write_text(text(a, b, out, "f32", more))
    program = tw.compile(str(file), target=target)
    assert not any(hasattr(part, "reasons") for part in program.model.parts)
    assert program.verify().ok
    random = np.random.default_rng(len(out))
    x, y = random.normal(size=a).astype("f4"), random.normal(size=b).astype("f4")
    left = x.swapaxes(-1, -2) if "lhs" in more else x
    right = y.swapaxes(-1, -2) if "rhs" in more else y
    got, wanted = np.asarray(program(x, y), np.float64), left @ right
    assert np.linalg.norm(got - wanted) < 0.06 * np.linalg.norm(wanted)


def test_padding_takes_no_part() -> None:
    """Beyond the edges of exp(a) are ones, which must not meet those of exp(b)."""
    net = ModelBuilder("padding")
    a, b = net.input("a", (45, 37)), net.input("b", (37, 65))
    grown = net.unary("elementwise_exp", a), net.unary("elementwise_exp", b)
    net.output("y", net.matmul(*grown))
    program = tw.compile(net.build())
    assert program.verify().ok
    random = np.random.default_rng(3)
    x, y = random.normal(size=(45, 37)).astype("f4"), random.normal(size=(37, 65)).astype("f4")
    got, wanted = np.asarray(program(x, y), np.float64), np.exp(x) @ np.exp(y)
    assert np.linalg.norm(got - wanted) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_fp8_inputs_are_taken_as_they_are(tmp_path, target) -> None:
    file = tmp_path / "product.mlir"
    file.write_text(text((40, 70), (70, 33), (40, 33), "f8E4M3FN", ""))
    program = tw.compile(str(file), target=target)
    assert not any(hasattr(part, "reasons") for part in program.model.parts)
    assert program.verify().ok
    random = np.random.default_rng(1)
    numbers = [random.integers(-8, 9, shape).astype("f4") for shape in ((40, 70), (70, 33))]
    wanted = numbers[0] @ numbers[1]  # whole numbers: only the result is rounded
    got = np.asarray(program(*numbers), np.float64)
    assert np.abs(got - wanted).max() <= np.abs(wanted).max() / 128


def test_values_between_bounds_stay_on_the_device() -> None:
    from tilewright.dialects.xdsl_api import FloatAttr, f32

    net = ModelBuilder("clamp")
    x = net.input("x", (50, 70))
    limits = {"min": FloatAttr(-0.5, f32), "max": FloatAttr(0.75, f32)}
    net.output("y", net._call("clamp", [x], x.shape, limits) * 2.0)
    program = tw.compile(net.build())
    assert not any(hasattr(part, "reasons") for part in program.model.parts)
    assert program.verify().ok
    values = np.random.default_rng(0).normal(size=(50, 70)).astype("f4")
    got = np.asarray(program(values), np.float64)
    assert np.abs(got - 2 * np.clip(values, -0.5, 0.75)).max() < 0.02
