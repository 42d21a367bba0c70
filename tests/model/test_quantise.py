"""The encoded program: exact against numpy written out by hand, and close to the float model."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from model_machines import MACHINES, ROWS, SHAVED, TERNARY, WHOLE
from waist_models import CNN, MLP, imported, transformer_text

import tilewright as tw
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.verification import verify_module
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.model.formats import CodeRules, code_scale, quantise_weights
from tilewright.model.options import CompileOptions
from tilewright.model.prepare import Prepared, prepare
from tilewright.model.ranges import Range
from tilewright.reference import codes
from tilewright.reference.executor import run

F = np.float32


def samples(shape: tuple[int, ...], count: int = 4) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(11)
    return [{"x": generator.standard_normal(shape).astype(F)} for _ in range(count)]


def outputs(prepared: Prepared, x: np.ndarray) -> list[np.ndarray]:
    return run(prepared.parts.module, [x], weights=prepared.parts.weights)


def noise(prepared: Prepared, x: np.ndarray) -> float:
    """The error of the encoded program, relative to the size of the float results."""
    exact = run(prepared.model.module, [x], weights=prepared.model.weights)
    found = outputs(prepared, x)
    return max(
        float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(a))
        for a, b in zip(exact, found, strict=True)
    )


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("text", "shape"),
    [(MLP, (5, 24)), (CNN, (2, 3, 9, 9)), (transformer_text(2), (6, 16))],
    ids=["mlp", "cnn", "transformer"],
)
def test_encoded_programs_are_close_and_survive_printing(machine, text, shape) -> None:
    given = samples(shape)
    prepared = prepare(imported(text), machine, samples=given)
    verify_module(prepared.parts.module)
    x = given[0]["x"]
    limit = 0.8 if machine is TERNARY else 0.06
    assert noise(prepared, x) < limit
    again = parse_text(print_module(prepared.parts.module), "again.mlir")
    verify_module(again)
    second = run(again, [x], weights=prepared.parts.weights)
    for a, b in zip(outputs(prepared, x), second, strict=True):
        assert a.tobytes() == b.tobytes()


def test_float_rescaling_by_hand() -> None:
    """int8 products with an i32 bias and f32 factors, f16 results: no code shared."""
    model = imported(MLP)
    given = samples((5, 24), 2)
    prepared = prepare(model, SHAVED, samples=given)
    x = given[0]["x"]
    w1, b1, w2 = (model.weights[n] for n in ("fc1.weight", "fc1.bias", "fc2.weight"))
    products = [s["x"].astype(float) @ w1.T.astype(float) for s in given]
    hidden = [np.maximum(p.astype(F) + b1, 0) for p in products]

    def layer(x, largest, w, bias, out):
        sx = F(largest / 127)
        q = np.clip(np.rint(x.astype(F) * F(1 / float(sx))), -128, 127).astype(int)
        sw = (np.abs(w.astype(float)).max(1) / 127).astype(F)
        qw = np.clip(np.rint(w / sw.astype(float)[:, None]), -127, 127).astype(int)
        acc = q @ qw.T + (np.rint(bias / (float(sx) * sw.astype(float))).astype(int))
        sy = F(out / 127)
        y = acc.astype(F) * (float(sx) * sw.astype(float) / float(sy)).astype(F)
        return np.maximum(np.clip(np.rint(y), -128, 127), 0), sy

    top = max(np.abs(s["x"]).max() for s in given)
    middle = max(np.abs(h).max() for h in hidden)
    code, sy = layer(x, top, w1, b1, middle)
    # The second product reads the codes as they are.
    sw = (np.abs(w2.astype(float)).max(1) / 127).astype(F)
    qw = np.clip(np.rint(w2 / sw.astype(float)[:, None]), -127, 127).astype(int)
    acc = code.astype(int) @ qw.T
    wanted = (acc.astype(F) * (float(sy) * sw.astype(float)).astype(F)).astype(np.float16)
    found = outputs(prepared, x)[0]
    assert found.tolist() == wanted.astype(F).tolist()


@pytest.mark.parametrize("bits", [0, 1])
def test_fixed_rescaling_against_exact_fractions(bits: int) -> None:
    from fractions import Fraction

    generator = np.random.default_rng(bits)
    factors = np.concatenate([generator.uniform(1e-7, 0.499, 40), 2.0 ** -np.arange(2, 30)])
    multipliers, shifts = codes.multiplier_and_shift(factors)
    sums = generator.integers(-(2**29), 2**29, 200)
    sums = np.concatenate([sums, [0, 1, -1, 2**30 - 1, 1 - 2**30]])
    for m, r in zip(multipliers, shifts, strict=True):
        assert 2**30 <= int(m) < 2**31
        found = codes.rescale_fixed(sums, np.asarray(m), np.asarray(r), bits, 5)
        for acc, code in zip(sums.tolist(), found.tolist(), strict=True):
            high = ((acc << bits) * int(m)) >> 32
            rounded = round(Fraction(high, 2 ** int(r)))  # Python rounds fractions to even
            middle = max(-(2**15), min(2**15 - 1, rounded))
            assert code == max(-128, min(127, max(-(2**15), min(2**15 - 1, middle + 5))))


def test_sums_that_leave_32_bits_are_errors() -> None:
    text = """
    func.func @main(%x: tensor<1x2xi8, #npu_kernel.scale<1.0>>, %w: tensor<2x1xi8, #npu_kernel.scale<1.0>>) -> tensor<1x1xi16> {
      %a = npu_kernel.matmul %x, %w : tensor<1x2xi8, #npu_kernel.scale<1.0>>, tensor<2x1xi8, #npu_kernel.scale<1.0>> -> tensor<1x1xi16>
      return %a : tensor<1x1xi16>
    }
    """
    module = parse_text(text, "sums.mlir")
    verify_module(module)
    x, w = np.full((1, 2), -128, np.int8), np.full((2, 1), -128, np.int8)
    assert run(module, [x // 2, w])[0] == 128 * 128
    with pytest.raises(TilewrightError, match="leaves the 16 bits"):
        run(module, [x, w])


def test_zero_points_and_padding() -> None:
    """Padding adds nothing, whatever code stands for 0."""
    plain = "tensor<1x1x3x3xi8, #npu_kernel.scale<0.5{zero}>>"
    text = """
    func.func @main(%x: {x}, %w: tensor<1x1x3x3xi8, #npu_kernel.scale<1.0>>) -> tensor<1x1x3x3xi32> {{
      %a = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, %w) {{padding = array<i64: 1, 1, 1, 1>}} : {x}, tensor<1x1x3x3xi8, #npu_kernel.scale<1.0>> -> tensor<1x1x3x3xi32>
      return %a : tensor<1x1x3x3xi32>
    }}
    """
    generator = np.random.default_rng(0)
    x = generator.integers(-100, 100, (1, 1, 3, 3)).astype(np.int8)
    w = generator.integers(-127, 128, (1, 1, 3, 3)).astype(np.int8)
    found = []
    for zero, codes_ in (("", x), (", zero = -17", x - np.int8(17))):
        module = parse_text(text.format(x=plain.format(zero=zero)), "padding.mlir")
        found.append(run(module, [codes_, w])[0])
    assert np.array_equal(*found)
    padded = np.pad(x[0, 0].astype(int), 1)
    corner = (padded[:3, :3] * w[0, 0]).sum()
    assert found[0][0, 0, 0, 0] == corner


def test_ternary_weights_and_rows() -> None:
    w = np.array([[0.9, -0.1, 0.4], [-2.0, 0.0, 0.6]])
    found = quantise_weights(w, 0, "ternary")
    gamma = np.abs(w).mean()
    assert found.codes.tolist() == np.clip(np.rint(w / gamma), -1, 1).tolist()
    assert found.scales == F(gamma)
    prepared = prepare(imported(MLP), TERNARY, samples=samples((5, 24)))
    text = prepared.phases["partitioned"]
    assert "tensor<32x24xi2, #npu_kernel.scale<" in text
    assert {p.place for p in prepared.parts.parts} == {"host", "device"}
    for part in prepared.parts.device_parts:
        names = [op.name for op in prepared.parts.function(part.function).body.block.ops]
        assert set(names) == {"arith.constant", "npu_kernel.matmul", "func.return"}


def test_ranges_and_scales() -> None:
    seen = Range()
    seen.observe(np.array([-1.0, 3.0, np.inf, np.nan]))
    symmetric = code_scale(seen, CodeRules())
    assert symmetric.factor == float(F(3 / 127))
    assert symmetric.zero.data == 0
    affine = code_scale(seen, CodeRules(symmetric=False))
    assert affine.factor == float(F(4 / 255))
    assert affine.zero.data == round(-128 + 1 / (4 / 255))
    nothing = code_scale(Range(), CodeRules(symmetric=False))
    assert (nothing.factor, nothing.zero.data) == (1.0, -128)


def test_kept_layers_stay_in_floats() -> None:
    given = samples((5, 24))
    model = imported(MLP)
    options = CompileOptions(keep=("fc1",))
    text = prepare(model, SHAVED, options, given).phases["quantised"]
    assert "fc1.weight.f16" in text
    assert "fc2.weight.i8" in text


def test_codes_throughout_need_no_floats_between() -> None:
    prepared = prepare(imported(CNN), WHOLE, samples=samples((2, 3, 9, 9)))
    (part,) = prepared.parts.device_parts
    function = prepared.parts.function(part.function)
    for op in function.body.block.ops:
        for value in op.results:
            assert "f32" not in str(value.type).split(",")[0]


def test_rows_have_scales_of_their_own() -> None:
    """A large row does not take precision from a small one."""
    prepared = prepare(imported(MLP), ROWS, samples=samples((5, 24)))
    x = samples((5, 24))[0]["x"] * np.array([[1], [1000], [1e-3], [1], [1]], F)
    exact = run(prepared.model.module, [x], weights=prepared.model.weights)[0]
    found = outputs(prepared, x)[0]
    for a, b in zip(exact, found, strict=True):
        assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)


def test_floats_with_powers_of_two_as_scales() -> None:
    """fp8 codes are numbers times a scale; a product of them has the scales in it."""
    text = """
    func.func @main(%x: tensor<3x8xf32>, %w: tensor<8x4xf8E4M3FN, #npu_kernel.scale<0.125>>) -> (tensor<3x4xbf16>, tensor<3x8xf32>) {
      %q = npu_kernel.ukernel_generic "npu_uk_quantise"(%x) : tensor<3x8xf32> -> tensor<3x8xf8E4M3FN, #npu_kernel.scale<0.0078125>>
      %y = npu_kernel.matmul %q, %w : tensor<3x8xf8E4M3FN, #npu_kernel.scale<0.0078125>>, tensor<8x4xf8E4M3FN, #npu_kernel.scale<0.125>> -> tensor<3x4xbf16>
      %d = npu_kernel.ukernel_generic "npu_uk_dequantise"(%q) : tensor<3x8xf8E4M3FN, #npu_kernel.scale<0.0078125>> -> tensor<3x8xf32>
      return %y, %d : tensor<3x4xbf16>, tensor<3x8xf32>
    }
    """
    import ml_dtypes

    module = parse_text(text, "fp8.mlir")
    verify_module(module)
    generator = np.random.default_rng(4)
    x = generator.standard_normal((3, 8)).astype(F)
    x[0, 0] = 100.0  # saturates: 448 * 2^-7 = 3.5
    w = generator.standard_normal((8, 4)).astype(ml_dtypes.float8_e4m3fn)
    product, decoded = run(module, [x, w])
    codes_ = np.clip(x * 128, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(float)
    assert decoded.tolist() == (codes_ / 128).astype(F).tolist()
    assert decoded[0, 0] == 3.5
    wanted = (codes_ / 128) @ (w.astype(float) / 8)
    assert product.tolist() == wanted.astype(ml_dtypes.bfloat16).tolist()


@pytest.mark.parametrize(("target", "form"), [("vpu40", None), ("coral-highmem", "int8")])
def test_biases_of_channels_without_weights_keep_their_digits(target: str, form: str | None):
    """They are whole numbers of steps, and weights that are all 0 ask for no step of their own."""
    random = np.random.default_rng(0)
    x = random.standard_normal((5, 20)).astype(np.float32)
    for zero in (slice(None), slice(0, 3)):
        net = ModelBuilder("pruned", seed=1)
        net.output("y", net.linear(net.input("x", (5, 20)), 7, "layer"))
        model = net.build()
        model.weights["layer.weight"] = model.weights["layer.weight"].copy()
        model.weights["layer.weight"][zero] = 0
        bias = model.weights["layer.bias"] = random.uniform(0.05, 0.1, 7).astype(np.float32)
        program = tw.compile(model, x, target=target, quantize=form)
        step = 2**-10 * bias.max() if form is None else bias.max() / 127
        if zero != slice(None):
            step *= 30  # codes of a result that is that much larger than the biases
        np.testing.assert_allclose(program(x)[:, :3], np.tile(bias[:3], (5, 1)), atol=step)
        assert program.verify().ok
