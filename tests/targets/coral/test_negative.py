"""What a transpiler by regular expressions gets wrong, one case each: N01 to N20."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coral_models import Weights

from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tensor, constant, model
from tilewright.targets.coral.compile import compile_model
from tilewright.targets.coral.machines import MACHINES
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")

LUMA_LINES = """func.func @luma(                        // the module may be implicit
    %img: tensor<1x3x4x4xf32>) -> (tensor<1x1x4x4xf32>) {
  %w = stablehlo.constant
      dense<[[[[0.299]], [[0.587]], [[0.114]]]]>
      : tensor<1x3x1x1xf32>
  %y = stablehlo.convolution(%img, %w)
      dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {
        stride = [1, 1],
        pad = [[0, 0], [0, 0]]
      } {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x3x4x4xf32>, tensor<1x3x1x1xf32>) -> tensor<1x1x4x4xf32>
  return %y : tensor<1x1x4x4xf32>
}
"""


def compiled(text: str, machine: str = "coral"):
    return compile_model(import_mlir(text, "model.mlir"), machine)


def function(arguments: str, results: str, body: str, head: str = "func.func public @main") -> str:
    return f"{head}({arguments}) -> ({results}) {{\n{body}\n}}\n"


def loadable(made) -> list[tuple[int, bytes]]:
    return [(s.address, s.data) for s in made.elf.segments]


def test_n01_operations_over_several_lines():
    one_line = " ".join(line.split("//")[0].strip() for line in LUMA_LINES.splitlines())
    first, second = compiled(LUMA_LINES), compiled(one_line)
    assert loadable(first) == loadable(second)
    image = (np.arange(48) / 16).astype(np.float32)
    words = first.run([image])[0].view(np.uint32).reshape(-1)
    assert [f"{w:08x}" for w in words] == [
        "3f50a3d7",
        "3f60a3d7",
        "3f70a3d6",
        "3f8051ec",
        "3f8851ec",
        "3f9051ec",
        "3f9851ec",
        "3fa051ec",
        "3fa851eb",
        "3fb051ec",
        "3fb851ec",
        "3fc051ec",
        "3fc851ec",
        "3fd051ec",
        "3fd851ec",
        "3fe051ec",
    ]


def test_n02_n04_n06_n08_header_splat_padding_layout():
    made = compiled(
        function(
            "%x: tensor<1x3x3x1xf32>",
            'tensor<1x3x3x1xf32> {jax.result_info = "result"}',
            """  %k = stablehlo.constant dense<1.0> : tensor<3x3x1x1xf32>
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x3x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x3x1xf32>
  return %y : tensor<1x3x3x1xf32>""",
        )
    )
    got = made.run([np.arange(1, 10, dtype=np.float32)])[0]
    assert got.reshape(-1).tolist() == [12, 21, 16, 27, 45, 33, 24, 39, 28]


def test_n03_unknown_operations():
    body = "  %y = stablehlo.not_an_op %x : tensor<4xf32>\n  return %y : tensor<4xf32>"
    with pytest.raises(TilewrightError) as error:
        compiled(function("%x: tensor<4xf32>", "tensor<4xf32>", body))
    assert (
        "not_an_op" in str(error.value) and error.value.location and error.value.location.line == 2
    )
    body = "  %y = stablehlo.power %x, %x : tensor<4xi64>\n  return %y : tensor<4xi64>"
    with pytest.raises(TilewrightError) as error:
        compiled(function("%x: tensor<4xi64>", "tensor<4xi64>", body))
    assert "pow" in str(error.value) and "not compiled for Coral" in str(error.value)
    assert error.value.location and error.value.location.line == 2


def test_n04_n05_n10_n11_n12_n16_constants_conversions_results():
    """Splat and hex constants, conversions, a value returned twice, an argument and a constant."""
    made = compiled(
        function(
            "%x: tensor<2xf32>, %n: tensor<2xi8>",
            "tensor<3xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xf32>, tensor<2xi8>, tensor<2xi8>",
            """  %a = stablehlo.constant dense<2.0> : tensor<3xf32>
  %b = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
  %s = stablehlo.add %x, %b : tensor<2xf32>
  %i = stablehlo.convert %s : (tensor<2xf32>) -> tensor<2xi32>
  %m = stablehlo.multiply %n, %n : tensor<2xi8>
  return %a, %b, %i, %i, %x, %m, %n : tensor<3xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xf32>, tensor<2xi8>, tensor<2xi8>""",
        )
    )
    x, n = np.array([3e9, -3.75], dtype=np.float32), np.array([-128, 17], dtype=np.int8)
    got = made.run([x, n])
    wanted = [[2, 2, 2], [1, 2], [2**31 - 1, -1], [2**31 - 1, -1], x.tolist(), [0, 33], n.tolist()]
    assert [g.tolist() for g in got] == wanted
    assert [g.dtype.itemsize for g in got] == [4, 4, 4, 4, 4, 1, 1]
    assert made.run([np.full(2, np.nan), n])[2].tolist() == [0, 0]


def test_n07_n09_groups_and_batch():
    w = Weights(8)

    @model
    def network(x: Tensor["f32", 2, 5, 5, 6]) -> Tensor:
        return (
            x.conv2d(w(3, 3, 2, 9), groups=3).conv2d(w(1, 1, 9, 4)).conv2d(w(3, 3, 1, 4), groups=4)
        )

    made = compile_model(network.imported())
    assert made.verify(2).ok
    x = np.random.default_rng(0).standard_normal((2, 5, 5, 6)).astype(np.float32)
    both = made.run([x])[0]
    swapped = made.run([x[::-1]])[0]
    assert np.array_equal(both[0], swapped[1]) and not np.array_equal(both[0], both[1])


def test_n13_n15_regions_and_calls():
    text = """module {
  func.func public @main(%x: tensor<3x4xf32>) -> tensor<3xf32> {
    %0 = call @total(%x) : (tensor<3x4xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @total(%x: tensor<3x4xf32>) -> tensor<3xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<3xf32>
  }
}
"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert compiled(text).run([x])[0].tolist() == [6, 22, 38]


@pytest.mark.parametrize(
    "window",
    ["lhs_dilate = [2, 2]", "reverse = [true, true]", "rhs_dilate = [2, 2]"],
)
def test_n14_dilation_and_reversal(window):
    """Honoured or refused, never ignored."""
    sizes = {"lhs_dilate = [2, 2]": 7, "reverse = [true, true]": 3, "rhs_dilate = [2, 2]": 1}
    out = sizes[window]
    text = function(
        "%x: tensor<1x5x5x1xf32>",
        f"tensor<1x{out}x{out}x1xf32>",
        f"""  %k = stablehlo.constant dense<[[[[1.0]], [[2.0]], [[3.0]]], [[[4.0]], [[5.0]], [[6.0]]], [[[7.0]], [[8.0]], [[9.0]]]]> : tensor<3x3x1x1xf32>
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x5x5x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x{out}x{out}x1xf32>
  return %y : tensor<1x{out}x{out}x1xf32>""",
    )
    x = np.arange(25, dtype=np.float64).reshape(5, 5)
    k = np.arange(1, 10, dtype=np.float64).reshape(3, 3)
    if "lhs" in window:
        wide = np.zeros((9, 9))
        wide[::2, ::2] = x
        x = wide
    if "reverse" in window:
        k = k[::-1, ::-1]
    step = 2 if "rhs" in window else 1
    wanted = [
        [
            sum(x[i + a * step, j + b * step] * k[a, b] for a in range(3) for b in range(3))
            for j in range(out)
        ]
        for i in range(out)
    ]
    try:
        made = compiled(text)
    except TilewrightError as error:
        assert error.location is not None  # refused, with a place
        return
    got = made.run([np.arange(25, dtype=np.float32)])[0]
    assert got.reshape(out, out).tolist() == wanted


def test_n14_batch_groups():
    """Two groups of images, each with its own filters: honoured or refused, never ignored."""
    text = function(
        "%x: tensor<2x4x4x1xf32>",
        "tensor<1x3x3x2xf32>",
        """  %k = stablehlo.constant dense<[[[[1.0, 5.0]], [[2.0, 6.0]]], [[[3.0, 7.0]], [[4.0, 8.0]]]]> : tensor<2x2x1x2xf32>
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x4x4x1xf32>, tensor<2x2x1x2xf32>) -> tensor<1x3x3x2xf32>
  return %y : tensor<1x3x3x2xf32>""",
    )
    try:
        made = compiled(text)
    except TilewrightError as error:
        assert error.location is not None and error.location.line == 3
        return
    x = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    k = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)  # filter, row, column
    got = made.run([x])[0]
    for f in (0, 1):
        wanted = [
            [float((x[f, i : i + 2, j : j + 2] * k[f]).sum()) for j in range(3)] for i in range(3)
        ]
        assert got[0, :, :, f].tolist() == wanted


def test_n17_large_intermediates_are_planned():
    """Intermediates of 1 KB each: nothing on the stack, everything right."""

    @model
    def network(x: Tensor["f32", 256]) -> Tensor:
        a = x.reshape(16, 16).transpose(1, 0) + 1.0
        b = a.reshape(4, 64).transpose(1, 0) * x.reshape(64, 4)
        return b.reshape(16, 16).transpose(1, 0).reshape(256) + x

    made = compile_model(network.imported())
    verdict = made.verify()
    assert verdict.ok and made.storage.arena >= 1024
    outcome = made.run_with_outcome([np.ones(256)])[1]
    assert outcome.stack_low is not None
    assert made.elf.symbol("__stack_top").address - outcome.stack_low < 256


def test_n18_verification_compares_by_itself():
    """A wrong constant in the program is found; zeros as input would not show it."""

    @model
    def network(x: Tensor["f32", 8]) -> Tensor:
        return x * constant(np.arange(8))

    made = compile_model(network.imported())
    assert made.verify().ok
    node = next(n for n in made.program.nodes if n.kind == "mul")
    weights = next(v for v in node.inputs if v.data is not None)
    assert weights.data is not None
    weights.data = weights.data + 1
    verdict = made.verify()
    assert not verdict.ok and "differ" in verdict.text


def test_n19_overflow_is_a_report():
    w = Weights(9)

    @model
    def network(x: Tensor["f32", 1, 200]) -> Tensor:
        return x.matmul(w(200, 100))

    with pytest.raises(TilewrightError) as error:
        compile_model(network.imported())
    text = str(error.value)
    assert error.value.code == "TW5030" and "80,000 bytes, constant of op_0_conv" in text
    assert "coral-highmem" in text and "50,480 more" in text  # how much is missing
    assert compile_model(network.imported(), "coral-highmem").verify(1).ok


def test_n19_code_overflow_is_a_report():
    """Too much code: by how much, and which functions are large."""
    machine = replace(
        MACHINES["coral"],
        memories=(replace(MACHINES["coral"].code, size=1024), MACHINES["coral"].data),
    )

    @model
    def network(x: Tensor["f32", 2, 6]) -> Tensor:
        return (x.tanh() + x.sigmoid()).softmax()

    with pytest.raises(TilewrightError) as error:
        compile_model(network.imported(), machine)
    text = str(error.value)
    assert error.value.code == "TW5012" and "bytes more than the 1,024" in text
    assert "op_0_elementwise: " in text and "bytes of code" in text and "highmem" in text


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "ui32"])
def test_n20_other_types_are_refused(dtype):
    body = f"  %y = stablehlo.add %x, %x : tensor<4x{dtype}>\n  return %y : tensor<4x{dtype}>"
    with pytest.raises(TilewrightError) as error:
        compiled(function(f"%x: tensor<4x{dtype}>", f"tensor<4x{dtype}>", body))
    assert dtype in str(error.value)


def test_n20_64_bits_are_computed():
    body = "  %y = stablehlo.add %x, %x : tensor<4xi64>\n  return %y : tensor<4xi64>"
    made = compiled(function("%x: tensor<4xi64>", "tensor<4xi64>", body))
    x = np.array([2**40 + 1, -(2**62), -1, 2**62])
    assert made.run([x])[0].tolist() == [2**41 + 2, -(2**63), -2, -(2**63)]


def test_n20_dynamic_shapes_are_refused():
    body = "  %y = stablehlo.add %x, %x : tensor<?xf32>\n  return %y : tensor<?xf32>"
    with pytest.raises(TilewrightError):
        compiled(function("%x: tensor<?xf32>", "tensor<?xf32>", body))


def test_malformed_text():
    for text in (
        "func.func @main(",
        "module {",
        "",
        "func.func @main() { return %0 : tensor<f32> }",
    ):
        with pytest.raises(TilewrightError):
            compiled(text)


@pytest.mark.parametrize(
    ("results", "last", "line"),
    [
        ("tensor<5xf32>", "  return %y : tensor<4xf32>", 3),
        ("tensor<4xf32>, tensor<4xf32>", "  return %y : tensor<4xf32>", 3),
        ("tensor<4xf32>", "", 2),
    ],
)
def test_a_function_gives_what_its_type_says(results, last, line):
    """A return of another type, of fewer values, and none at all."""
    body = f"  %y = stablehlo.add %x, %x : tensor<4xf32>\n{last}"
    with pytest.raises(TilewrightError, match="TW6204") as error:
        compiled(function("%x: tensor<4xf32>", results, body))
    assert error.value.location and error.value.location.line == line


def test_quantised_types_are_refused_with_a_place():
    kind = "tensor<4x!quant.uniform<i8:f32, 0.5:3>>"
    body = f"  %y = stablehlo.add %x, %x : {kind}\n  return %y : {kind}"
    with pytest.raises(TilewrightError, match="TW6205") as error:
        compiled(function(f"%x: {kind}", kind, body))
    assert error.value.location and error.value.location.line == 1
    assert error.value.hint and "scales" in error.value.hint


def test_requantisation_chain_is_exact():
    """Hex scale, half to even, saturation: multiplier and shift would give 1 in the second place."""
    text = function(
        "%acc: tensor<8xi32>",
        "tensor<8xi8>",
        """  %s = stablehlo.constant dense<"0x0AD7233C"> : tensor<f32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %lo = stablehlo.constant dense<-128.0> : tensor<f32>
  %hi = stablehlo.constant dense<127.0> : tensor<f32>
  %f = stablehlo.convert %acc : (tensor<8xi32>) -> tensor<8xf32>
  %m = stablehlo.multiply %f, %sb : tensor<8xf32>
  %r = stablehlo.round_nearest_even %m : tensor<8xf32>
  %c = stablehlo.clamp %lo, %r, %hi : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %q = stablehlo.convert %c : (tensor<8xf32>) -> tensor<8xi8>
  return %q : tensor<8xi8>""",
    )
    given = np.array([50, 150, -50, 250, 12850, -13000, 49, 51], dtype=np.int32)
    assert compiled(text).run([given])[0].tolist() == [0, 2, 0, 2, 127, -128, 0, 1]


def test_shifts_by_known_places():
    """To the right rounds down; places outside of the type leave the sign, or nothing."""
    made = compiled(
        function(
            "%x: tensor<6xi8>",
            "tensor<6xi8>, tensor<6xi8>",
            """  %n = stablehlo.constant dense<[0, 1, 3, 7, 8, 100]> : tensor<6xi8>
  %r = stablehlo.shift_right_arithmetic %x, %n : tensor<6xi8>
  %l = stablehlo.shift_left %x, %n : tensor<6xi8>
  return %r, %l : tensor<6xi8>, tensor<6xi8>""",
        )
    )
    places = np.array([0, 1, 3, 7, 7, 7])
    for x in (np.full(6, -128), np.full(6, 127), np.array([-1, -3, -9, -1, -1, 5])):
        right, left = made.run([x.astype(np.int8)])
        assert right.tolist() == (x >> places).tolist()
        wanted = np.where(np.arange(6) < 4, x << places, 0).astype(np.int8)
        assert left.tolist() == wanted.tolist()
