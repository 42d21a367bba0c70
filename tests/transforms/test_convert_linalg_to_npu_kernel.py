"""convert-linalg-to-npu-kernel changes no bit, names chains, and covers real models."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.dialects.composites import expand
from tilewright.dialects.context import make_context
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.xdsl_api import DenseResourceAttr, ModuleOp, TensorType
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir import read_mlir
from tilewright.reference.executor import run
from tilewright.transforms.convert_linalg_to_npu_kernel import ConvertLinalgToNPUKernel
from tilewright.transforms.linalg_to_kernel.chains import recognise_chains
from tilewright.transforms.linalg_to_kernel.coverage import coverage_of
from tilewright.transforms.linalg_to_kernel.driver import remove_dead
from tilewright.transforms.linalg_to_kernel.emitter import Settings

TESTS = Path(__file__).parents[1]
BLOCKS = sorted((TESTS / "data" / "mlir").glob("*.mlir"))
LIT = sorted((TESTS / "filecheck" / "transforms").glob("convert_linalg_to_npu_kernel*.mlir"))
DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
}


def convert(module: ModuleOp, **options) -> ModuleOp:
    ConvertLinalgToNPUKernel(**options).apply(make_context(), module)
    verify_module(module)
    return module


def random_array(type_, generator: np.random.Generator) -> np.ndarray:
    """Values of a tensor type: floats around 1, small integers, mostly true bits."""
    if not isinstance(type_, TensorType):
        name = str(type_)
        return np.asarray(1, np.int64) if name == "index" else np.asarray(1.5, DTYPES[name])
    shape, dtype = type_.get_shape(), DTYPES[str(type_.element_type)]
    if dtype == np.bool_:
        return generator.random(shape) < 0.9
    if dtype.kind == "i":
        return generator.integers(0, 3, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def inputs_of(module: ModuleOp, name: str, seed: int = 0) -> tuple[list, dict]:
    """Random arguments of a function and random weights of the module."""
    generator = np.random.default_rng(seed)
    function = next(
        op
        for op in module.walk()
        if op.name == "func.func" and op.properties["sym_name"].data == name  # type: ignore[attr-defined]
    )
    arguments = [random_array(a.type, generator) for a in function.regions[0].block.args]
    weights = {}
    for op in module.walk():
        value = op.properties.get("value")
        if isinstance(value, DenseResourceAttr):
            array = random_array(value.type, generator)
            weights[value.resource_handle.data] = (array * 0.05).astype(array.dtype)
    return arguments, weights


def assert_same_bits(actual, expected) -> None:
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape
        nan = (
            np.isnan(e.astype(np.float64)) if e.dtype.kind not in "bi" else np.zeros(e.shape, bool)
        )
        assert np.array_equal(a[~nan].view(np.uint8), e[~nan].view(np.uint8))
        assert nan.sum() == 0 or np.isnan(a.astype(np.float64))[nan].all()


def functions_of(path: Path) -> list[str]:
    return re.findall(r"^func\.func @(\w+)", path.read_text(), re.M)


LIT_FUNCTIONS = [
    (path, name)
    for path in LIT
    if not path.stem.endswith(("_errors", "_demotion"))
    for name in functions_of(path)
]


@pytest.mark.parametrize(("path", "name"), LIT_FUNCTIONS, ids=[n for _, n in LIT_FUNCTIONS])
def test_every_shown_function_computes_the_same_after_conversion(path: Path, name: str) -> None:
    module = read_mlir(path)
    arguments, _ = inputs_of(module, name)
    expected = run(module, arguments, name)
    assert_same_bits(run(convert(module), arguments, name), expected)


@pytest.mark.parametrize(
    "block",
    ["smollm2_block", "expert_block_cross", "text_block_bf16", "text_block_eager.optimised"],
)
def test_blocks_of_models_compute_the_same_after_conversion(block: str) -> None:
    module = read_mlir(TESTS / "data" / "mlir" / f"{block}.mlir")
    arguments, weights = inputs_of(module, "main")
    expected = run(module, arguments, weights=weights)
    assert_same_bits(run(convert(module), arguments, weights=weights), expected)


@pytest.mark.parametrize("path", BLOCKS, ids=[p.stem for p in BLOCKS])
def test_every_op_of_the_blocks_is_assigned(path: Path) -> None:
    module = read_mlir(path)
    host = path.stem.startswith("denoise")  # its time embedding is f64
    coverage = coverage_of(module, Settings(unmapped="host" if host else "error"))
    assert coverage.count("unbound") == 0 and coverage.assigned == 1.0
    assert coverage.count("bound") >= 50
    for row in coverage.rows:
        assert row.state != "host" or row.reason
    on_host = coverage.count("host")
    assert on_host == {"decode_step_2_layers": 1, "denoise_step_4_layers": 10}.get(path.stem, 0)


# What a reader of the model would count.
NAMED = {
    "vision_block": {"layer_norm": 2, "gelu_tanh": 1, "gemma_attention_f32_f32": 1},
    "vision_block_eager": {"layer_norm": 2, "gelu_tanh": 1, "softmax": 1},
    "vision_block.optimised": {"layer_norm": 2, "gelu_tanh": 1, "gemma_attention_f32_f32": 1},
    "text_block": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "gemma_attention_f32_f32": 1},
    "text_block_241": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "gemma_attention_f32_f32": 1},
    "text_block_bf16": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "gemma_attention_bf16_bf16": 1},
    "text_block_eager": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "softmax": 1},
    "text_block_interleaved": {"rms_norm": 2, "rope": 2, "silu_gate": 1},
    "text_block.optimised": {"rms_norm": 2, "rope": 2, "silu_gate": 1},
    "text_block_bf16.optimised": {"rms_norm": 2, "rope": 2, "silu_gate": 1},
    "text_block_eager.optimised": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "softmax": 1},
    "smollm2_block": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "gemma_attention_f32_f32": 1},
    "expert_block_cross": {"rms_norm": 2, "rope": 1, "silu_gate": 1},
    "expert_block_concat": {"rms_norm": 2, "rope": 2, "silu_gate": 1, "concat": 2},
    "expert_block_eager": {"rms_norm": 2, "rope": 1, "silu_gate": 1, "softmax": 1},
    "vision_tower_2_layers": {"layer_norm": 5, "gelu_tanh": 2, "gemma_attention_f32_f32": 2},
    "decode_step_2_layers": {"rms_norm": 5, "rope": 4, "silu_gate": 2, "embedding": 1},
    "denoise_step_4_layers": {"rms_norm": 9, "rope": 6, "silu_gate": 4, "silu": 1},
}


@pytest.mark.parametrize("block", NAMED)
def test_chains_of_the_blocks_have_their_names(block: str) -> None:
    module = read_mlir(TESTS / "data" / "mlir" / f"{block}.mlir")
    found: Counter[str] = Counter()
    for op in convert(module, unmapped="host").walk():
        if isinstance(op, UKernelGenericOp):
            found[op.symbol.data.removeprefix("npu_uk_")] += 1
    for name, count in NAMED[block].items():
        assert found[name] == count, name
    # Nothing of a norm or an activation is left in pieces.
    loose = {"elementwise_rsqrt", "elementwise_tanh", "elementwise_sigmoid", "reduction_mean"}
    assert not loose & set(found)


def test_grouped_keys_and_the_mask_of_all_heads_are_read_unrepeated() -> None:
    module = convert(read_mlir(TESTS / "data" / "mlir" / "text_block.mlir"))
    attention = next(
        op
        for op in module.walk()
        if isinstance(op, UKernelGenericOp) and "attention" in op.symbol.data
    )
    assert attention.attributes["kv_group"].value.data == 3  # type: ignore[attr-defined]
    shapes = [tuple(TensorType.get_shape(v.type)) for v in attention.operands]  # type: ignore[arg-type]
    assert shapes == [(15, 113, 64), (5, 113, 64), (5, 113, 64), (113, 113)]


def test_patch_convolutions_record_their_strategy() -> None:
    module = convert(read_mlir(TESTS / "data" / "mlir" / "vision_tower_2_layers.mlir"))
    chosen = [
        op for op in module.walk() if isinstance(op, MatmulOp) and "strategy" in op.attributes
    ]
    assert len(chosen) == 1 and chosen[0].init is not None


def test_an_error_leaves_the_module_as_it_was() -> None:
    text = (
        "func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) {\n"
        "%0 = arith.addf %x, %x : tensor<4xf32>\n%1 = arith.addf %y, %y : tensor<4xf64>\n"
        "return %0, %1 : tensor<4xf32>, tensor<4xf64> }"
    )
    module = parse_text(text, "model.mlir")
    before = str(module)
    with pytest.raises(TilewrightError) as caught:
        convert(module)
    error = caught.value
    assert (error.code, str(error.location)) == ("TW1222", "model.mlir:3:6")
    assert error.hint and "unmapped=host" in error.hint
    assert str(module) == before


def test_ops_left_to_the_host_say_why_and_still_compute() -> None:
    text = (
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "%1 = arith.addf %x, %x : tensor<4xf64>\nreturn %1 : tensor<4xf64> }"
    )
    module = convert(parse_text(text), unmapped="host")
    kept = next(op for op in module.walk() if op.name == "arith.addf")
    assert kept.attributes["npu.host"].data == "no kernel works on f64"  # type: ignore[attr-defined]
    assert run(module, [np.arange(4.0)])[0].tolist() == [0, 2, 4, 6]


# ------------------------------------------------------------------------------ names and meanings

NAMES = {
    "elementwise_sigmoid": ("tensor<3x8xf32>", "", "tensor<3x8xf32>"),
    "silu": ("tensor<3x8xbf16>", "", "tensor<3x8xbf16>"),
    "silu_gate": ("tensor<3x8xf32>, tensor<3x8xf32>", "", "tensor<3x8xf32>"),
    "gelu_tanh": ("tensor<3x8xf32>", "", "tensor<3x8xf32>"),
    "gelu_erf": ("tensor<3x8xbf16>", "", "tensor<3x8xbf16>"),
    "clamp": ("tensor<3x8xf32>", "{min = -1.0 : f32, max = 0.5 : f32}", "tensor<3x8xf32>"),
    "reduction_mean": ("tensor<3x8xf32>", "{axes = array<i64: 1>, keepdims}", "tensor<3x1xf32>"),
    "softmax": ("tensor<2x3x8xf32>", "{axis = 1 : i64}", "tensor<2x3x8xf32>"),
    "rms_norm": (
        "tensor<3x8xbf16>, tensor<8xbf16>",
        "{epsilon = 1.0e-05 : f32, axis = 1 : i64}",
        "tensor<3x8xbf16>",
    ),
    "layer_norm": (
        "tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>",
        "{epsilon = 1.0e-06 : f32, axis = 1 : i64}",
        "tensor<3x8xf32>",
    ),
    "rope": (
        "tensor<5x3x8xf32>, tensor<5x1x4xf32>, tensor<5x1x4xf32>",
        '{style = "split_half", axis = 2 : i64}',
        "tensor<5x3x8xf32>",
    ),
    "requant": ("tensor<3x8xf32>", "{scale = 3.0 : f32}", "tensor<3x8xi8>"),
    "dequant": (
        "tensor<3x64xf8E4M3FN>, tensor<3x2xbf16>",
        "{block = 32 : i64, axis = 1 : i64}",
        "tensor<3x64xbf16>",
    ),
}


def named_module(name: str) -> ModuleOp:
    types, attributes, result = NAMES[name]
    arguments = [f"%a{i}: {t}" for i, t in enumerate(types.split(", "))]
    values = ", ".join(f"%a{i}" for i in range(len(arguments)))
    return parse_text(
        f"func.func @main({', '.join(arguments)}) -> {result} {{\n"
        f'%0 = npu_kernel.ukernel_generic "npu_uk_{name}"({values}) {attributes} : {types} -> {result}\n'
        f"return %0 : {result} }}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_its_steps_and_the_steps_get_the_name(name: str) -> None:
    module = named_module(name)
    verify_module(module)
    arguments, _ = inputs_of(module, "main")
    expected = run(module, arguments)
    op = next(o for o in module.walk() if isinstance(o, UKernelGenericOp))
    steps = expand(op)
    assert steps is not None and len(steps[0]) > 1
    block = op.parent
    assert block is not None
    block.insert_ops_before(steps[0], op)
    op.result.replace_all_uses_with(steps[1])
    op.detach()
    op.erase()
    verify_module(module)
    assert_same_bits(run(module, arguments), expected)
    recognise_chains(block, {}, Settings())
    remove_dead(block)
    symbols = [o.symbol.data for o in block.ops if isinstance(o, UKernelGenericOp)]
    assert symbols[-1] == f"npu_uk_{name}"
    assert set(symbols[:-1]) <= {"npu_uk_reshape"}
    assert_same_bits(run(module, arguments), expected)


def test_block_scales_decode_for_every_exponent_byte() -> None:
    path = TESTS / "filecheck" / "transforms" / "convert_linalg_to_npu_kernel_chains.mlir"
    module, converted = read_mlir(path), convert(read_mlir(path))
    generator = np.random.default_rng(1)
    for start in range(0, 256, 16):
        payload = generator.standard_normal((8, 64)).astype(ml_dtypes.float8_e4m3fn)
        exponents = np.arange(start, start + 16, dtype=np.uint8).view(np.int8).reshape(8, 2)
        expected = run(module, [payload, exponents], "mx_blocks")
        assert_same_bits(run(converted, [payload, exponents], "mx_blocks"), expected)


WINDOWS = [
    ("conv_2d_nhwc_fhwc", "1x6x7x3", "4x2x3x3", "1x5x5x4", 1, 1),
    ("conv_2d_ngchw_fgchw", "1x2x3x6x6", "4x2x3x3x3", "1x2x4x4x4", 1, 1),
    ("conv_2d_ngchw_gfchw", "1x2x3x6x6", "2x4x3x3x3", "1x2x4x2x2", 2, 1),
    ("conv_2d_nhwgc_gfhwc", "1x6x6x2x3", "2x4x3x3x3", "1x4x4x2x4", 1, 1),
    ("depthwise_conv_2d_nchw_chw", "1x3x6x6", "3x2x2", "1x3x3x3", 2, 1),
    ("conv_2d_nchw_fchw", "2x3x9x8", "4x3x2x3", "2x4x4x2", 2, 2),
    ("conv_2d_nhwc_hwcf", "2x9x8x3", "2x3x3x4", "2x8x6x4", 1, 1),
    ("conv_1d_ncw_fcw", "2x3x9", "4x3x3", "2x4x4", 2, 1),
    ("conv_1d_nwc_wcf", "2x9x3", "3x3x4", "2x7x4", 1, 1),
    ("conv_2d", "6x6", "3x3", "4x4", 1, 1),
    ("pooling_nhwc_max", "1x6x6x3", "2x2", "1x5x5x3", 1, 1),
    ("pooling_ncw_sum", "1x3x8", "2", "1x3x4", 2, 1),
    # The result stops before the image ends.
    ("pooling_nchw_max", "1x3x9x8", "2x2", "1x3x3x4", 2, 1),
    ("depthwise_conv_2d_nhwc_hwc", "1x9x8x3", "2x2x3", "1x3x5x3", 1, 2),
    ("conv_2d_nhwc_hwcf", "1x9x8x3", "2x2x3x4", "1x2x3x4", 2, 1),
]


@pytest.mark.parametrize("convolution", ["auto", "direct"])
@pytest.mark.parametrize("window", WINDOWS, ids=[w[0] for w in WINDOWS])
def test_every_window_layout_computes_the_same(window: tuple, convolution: str) -> None:
    name, x, w, out, stride, dilation = window
    count = 1 if "1d" in name or "ncw" in name else 2
    start = "0xFF800000" if name.endswith("max") else "0.0"
    steps = (
        ""
        if name == "conv_2d"
        else (
            f"{{dilations = dense<{dilation}> : tensor<{count}xi64>, "
            f"strides = dense<{stride}> : tensor<{count}xi64>}} "
        )
    )
    x, w, out = (f"tensor<{shape}xf32>" for shape in (x, w, out))
    module = parse_text(
        f"func.func @main(%x: {x}, %w: {w}) -> {out} {{\n"
        f"%f = arith.constant dense<{start}> : {out}\n"
        f"%0 = linalg.{name} {steps}ins(%x, %w : {x}, {w}) outs(%f : {out}) -> {out}\n"
        f"return %0 : {out} }}"
    )
    verify_module(module)
    arguments, _ = inputs_of(module, "main")
    expected = run(module, arguments)
    assert_same_bits(run(convert(module, convolution=convolution), arguments), expected)


def test_demotion_goes_through_bf16() -> None:
    path = TESTS / "filecheck" / "transforms" / "convert_linalg_to_npu_kernel_demotion.mlir"
    for casts in ("kernel", "linalg"):
        module = read_mlir(path)
        arguments, _ = inputs_of(module, "mixed")
        a, b = (v.astype(ml_dtypes.bfloat16).astype(np.float64) for v in arguments)
        expected = (a @ b).astype(ml_dtypes.bfloat16).astype(np.float32)
        convert(module, demote_score_matmuls=True, demote_casts=casts)
        assert_same_bits(run(module, arguments, "mixed"), [expected])


@pytest.mark.parametrize("option", ["unmapped", "convolution", "demote_casts"])
def test_unknown_option_values_are_errors(option: str) -> None:
    with pytest.raises(TilewrightError, match="is 'sideways'") as caught:
        convert(parse_text("func.func @f() { return }"), **{option: "sideways"})
    assert caught.value.code == "TW1228"
