"""Reading ONNX models: what they become, that they compute the same, that names stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.dialects.context import make_context
from tilewright.dialects.locations import location_of
from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx import read_onnx
from tilewright.reference.executor import run

sys.path.insert(0, str(Path(__file__).parent))
from onnx_models import check, kernels, model

FLOAT = TensorProto.FLOAT
RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_importing_the_package_does_not_import_onnx() -> None:
    code = "import tilewright, tilewright.frontend.mlir, sys; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def decoder_block(opset: int = 23) -> onnx.ModelProto:
    """Norm, projections, rotary positions, grouped causal attention, residual, gated MLP."""
    heads, groups, width, tokens = 4, 2, 8, 6
    hidden = heads * width
    node = helper.make_node
    angles = np.arange(16)[:, None] * (1.0 / 100 ** (np.arange(width // 2) / (width // 2)))
    weights = {
        "norm.weight": normal(hidden),
        "q.weight": normal(hidden, hidden) / 6,
        "k.weight": normal(hidden, groups * width) / 6,
        "v.weight": normal(hidden, groups * width) / 6,
        "o.weight": normal(hidden, hidden) / 6,
        "norm2.weight": normal(hidden),
        "gate.weight": normal(hidden, 48) / 6,
        "up.weight": normal(hidden, 48) / 6,
        "down.weight": normal(48, hidden) / 6,
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
        "positions": np.arange(3, 3 + tokens)[None],
    }
    nodes = [
        node("RMSNormalization", ["x", "norm.weight"], ["n"], "norm", epsilon=1e-5),
        node("MatMul", ["n", "q.weight"], ["q"], "q_proj"),
        node("MatMul", ["n", "k.weight"], ["k"], "k_proj"),
        node("MatMul", ["n", "v.weight"], ["v"], "v_proj"),
        node("RotaryEmbedding", ["q", "cos", "sin", "positions"], ["qr"], "q_rope", num_heads=heads),
        node("RotaryEmbedding", ["k", "cos", "sin", "positions"], ["kr"], "k_rope", num_heads=groups),
        node(
            "Attention", ["qr", "kr", "v"], ["a"], "attention",
            is_causal=1, q_num_heads=heads, kv_num_heads=groups,
        ),
        node("MatMul", ["a", "o.weight"], ["o"], "o_proj"),
        node("Add", ["x", "o"], ["h"], "residual"),
        node("RMSNormalization", ["h", "norm2.weight"], ["n2"], "norm2", epsilon=1e-5),
        node("MatMul", ["n2", "gate.weight"], ["g"], "gate_proj"),
        node("Sigmoid", ["g"], ["s"], "sigmoid"),
        node("Mul", ["g", "s"], ["silu"], "silu"),
        node("MatMul", ["n2", "up.weight"], ["u"], "up_proj"),
        node("Mul", ["silu", "u"], ["m"], "gated"),
        node("MatMul", ["m", "down.weight"], ["d"], "down_proj"),
        node("Add", ["h", "d"], ["y"], "residual2"),
    ]  # fmt: skip
    return model(nodes, {"x": (FLOAT, [1, tokens, hidden])}, ["y"], weights, opset)


def test_a_decoder_block_keeps_norms_rotation_and_attention_whole() -> None:
    imported = check(decoder_block(), normal(1, 6, 32))
    found = kernels(imported)
    assert found.count("rms_norm") == 2
    assert found.count("rope") == 2
    assert found.count("gemma_attention") == 1
    assert found.count("matmul") == 7
    attention = next(
        op for op in imported.module.walk()
        if "attention" in str(op.properties.get("symbol", ""))
    )  # fmt: skip
    assert attention.attributes["kv_group"].value.data == 2  # type: ignore[attr-defined]
    assert "causal" in attention.attributes


def test_weights_keep_their_names_and_stay_out_of_the_text() -> None:
    imported = read_onnx(decoder_block())
    assert {"norm.weight", "q.weight", "down.weight"} <= set(imported.weights)
    text = str(imported.module)
    assert "dense_resource<q.weight>" in text
    assert len(text) < 10_000


def test_every_operation_names_its_node(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    onnx.save(decoder_block(), path)
    imported = read_onnx(path)
    places = {str(location_of(op)) for op in imported.module.walk()}
    assert f"{path}#attention" in places
    assert f"{path}#residual2" in places


def test_the_text_reads_back_and_runs_with_a_weight_file(tmp_path: Path) -> None:
    imported = read_onnx(decoder_block())
    x = normal(1, 6, 32)
    direct = run(imported.module, [x], weights=imported.weights)
    imported.save_weights(tmp_path / "w.safetensors")
    again = parse_text(str(imported.module), "block.mlir", make_context())
    loaded = run(again, [x], weights=tmp_path / "w.safetensors")
    np.testing.assert_array_equal(direct[0], loaded[0])
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.bool_, np.uint8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
     ml_dtypes.float8_e4m3fnuz],
)  # fmt: skip
def test_weights_of_every_type_survive_the_file(tmp_path: Path, dtype: type) -> None:
    array = np.arange(40).astype(dtype)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Transpose", ["w"], ["y"])]
    tensor = helper.make_tensor("w", number, [8, 5], array.tobytes(), raw=True)
    proto = model(nodes, {"x": (FLOAT, [1])}, ["y"])
    proto.graph.initializer.append(tensor)
    imported = read_onnx(proto, fold=False)
    imported.save_weights(tmp_path / "w.safetensors")
    got = run(imported.module, [np.zeros(1, np.float32)], weights=tmp_path / "w.safetensors")[0]
    np.testing.assert_array_equal(got.view(np.uint8), array.reshape(8, 5).T.copy().view(np.uint8))


def test_external_data_is_mapped_not_copied(tmp_path: Path) -> None:
    weight = normal(64, 32)
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (FLOAT, [2, 64])},
        ["y"],
        {"w": weight},
    )
    path = tmp_path / "big.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="big.data", size_threshold=0)
    imported = read_onnx(path)
    mapped = imported.weights["w"]
    while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    assert isinstance(mapped, np.memmap)
    x = normal(2, 64)
    got = run(imported.module, [x], weights=imported.weights)[0]
    np.testing.assert_allclose(got, x @ weight, rtol=1e-5, atol=1e-5)


def test_a_small_convolutional_network() -> None:
    node = helper.make_node
    weights = {
        "c.weight": normal(8, 3, 3, 3) / 5,
        "c.bias": normal(8),
        "bn.scale": normal(8),
        "bn.bias": normal(8),
        "bn.mean": normal(8),
        "bn.var": np.abs(normal(8)) + 0.5,
        "fc.weight": normal(10, 8),
        "fc.bias": normal(10),
    }
    nodes = [
        node("Conv", ["x", "c.weight", "c.bias"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c", "bn.scale", "bn.bias", "bn.mean", "bn.var"], ["b"]),
        node("Relu", ["b"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("AveragePool", ["p"], ["q"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["q"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]
    proto = model(nodes, {"x": (FLOAT, [2, 3, 17, 13])}, ["y"], weights)
    imported = check(proto, normal(2, 3, 17, 13), rtol=1e-4, atol=1e-5)
    assert kernels(imported) == [
        "conv2d", "elementwise_mul", "elementwise_add", "elementwise_relu", "pool_max", "pool_avg",
        "reduction_mean", "reshape", "matmul", "elementwise_add",
    ]  # fmt: skip


def test_shape_arithmetic_leaves_nothing_behind() -> None:
    """Shape, Gather, Concat and Reshape, as exporters write a split into heads."""
    node = helper.make_node
    weights = {"zero": np.array(0), "heads": np.array([4, 8]), "axis": np.array([0])}
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"], axis=0),
        node("Unsqueeze", ["b", "axis"], ["b1"]),
        node("Concat", ["b1", "heads"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, ["batch", 32])}, ["y"], weights)
    imported = read_onnx(proto, shapes={"batch": 3})
    assert kernels(imported) == ["reshape"]
    assert imported.outputs[0].shape == (3, 4, 8)
    assert not imported.weights


@pytest.mark.parametrize("opset", [13, 17])
def test_older_operator_sets_give_axes_as_attributes(opset: int) -> None:
    node = helper.make_node
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1),
        node("Sub", ["x", "m"], ["d"]),
        node("ReduceMax", ["d"], ["y"], axes=[0], keepdims=0),
    ]
    proto = model(nodes, {"x": (FLOAT, [4, 6])}, ["y"], opset=opset)
    assert kernels(check(proto, normal(4, 6))) == [
        "reduction_mean", "elementwise_sub", "reduction_max",
    ]  # fmt: skip


@pytest.mark.parametrize("opset", [13, 18, 21, 23])
def test_quantised_models_become_requant_and_dequant(opset: int) -> None:
    node = helper.make_node
    weights = {
        "scale": np.float32(0.05),
        "zero": np.int8(0),
        "w": RANDOM.integers(-100, 100, (16, 8)).astype(np.int8),
        "w.scale": np.abs(normal(8)) / 50,
        "w.zero": np.zeros(8, np.int8),
    }
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "w.scale", "w.zero"], ["wd"], axis=1),
        node("MatMul", ["d", "wd"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [4, 16])}, ["y"], weights, opset)
    imported = read_onnx(proto, fold=False)
    assert kernels(imported) == ["requant", "dequant", "dequant", "matmul"]
    x = normal(4, 16)
    steps = np.clip(np.rint(x / np.float32(0.05)), -128, 127)
    wanted = (steps * 0.05) @ (weights["w"] * weights["w.scale"].astype(np.float64))
    got = run(imported.module, [x], weights=imported.weights)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_zero_points_are_exact() -> None:
    node = helper.make_node
    weights = {"scale": np.float32(0.1), "zero": np.uint8(117)}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [64])}, ["y"], weights)
    check(proto, (normal(64) * 20).astype(np.float32), rtol=0, atol=0)


def test_an_embedding_is_a_host_family_and_counts_from_the_end() -> None:
    table = normal(10, 4)
    proto = model(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        {"ids": (TensorProto.INT64, [3])}, ["y"], {"table": table},
    )  # fmt: skip
    imported = check(proto, np.array([0, -1, 7]))
    assert kernels(imported)[-1] == "embedding"


def test_a_branch_with_a_known_condition_is_taken_now() -> None:
    value = helper.make_tensor_value_info("z", FLOAT, [2])
    branches = {
        name: helper.make_graph([helper.make_node(op, ["x"], ["z"])], name, [], [value])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    proto = model(
        [helper.make_node("If", ["c"], ["y"], None, None, None, None, **branches)], {"x": (FLOAT, [2])}, ["y"],
        {"c": np.array(False)},
    )  # fmt: skip
    assert kernels(check(proto, normal(2))) == ["elementwise_abs"]


def test_functions_of_the_model_are_inlined() -> None:
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("local", 1)]
    body = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])]
    function = helper.make_function("local", "MinusSquare", ["a"], ["c"], body, opsets[:1])
    proto = model(
        [helper.make_node("MinusSquare", ["x"], ["y"], domain="local")], {"x": (FLOAT, [3])}, ["y"]
    )
    proto.functions.append(function)
    proto.opset_import.append(opsets[1])
    assert kernels(check(proto, normal(3))) == ["elementwise_mul", "elementwise_neg"]


def test_names_that_mlir_does_not_know_are_changed_once_each() -> None:
    weights = {"/a/w:0": normal(40), "a_w_0": normal(40), "0": normal(40)}
    nodes = [
        helper.make_node("Add", ["x", "/a/w:0"], ["y1"]),
        helper.make_node("Add", ["y1", "a_w_0"], ["y2"]),
        helper.make_node("Add", ["y2", "0"], ["y"]),
    ]
    imported = check(model(nodes, {"x": (FLOAT, [40])}, ["y"], weights), normal(40))
    assert sorted(imported.weight_names.values()) == sorted(weights)
    parse_text(str(imported.module), "again.mlir", make_context())


def test_importing_is_deterministic() -> None:
    proto = decoder_block()
    assert str(read_onnx(proto).module) == str(read_onnx(proto).module)


def test_chains_of_older_exporters_get_their_names_back_with_the_same_bits() -> None:
    """Sigmoid and Mul, GELU by Erf, and a norm in pieces, as operator set 17 spells them."""
    node = helper.make_node
    weights = {
        "root": np.float32(np.sqrt(2.0)), "one": np.float32(1), "half": np.float32(0.5),
        "two": np.float32(2), "epsilon": np.float32(1e-5), "w": normal(32),
    }  # fmt: skip
    nodes = [
        node("Pow", ["x", "two"], ["square"]),
        node("ReduceMean", ["square"], ["mean"], axes=[-1]),
        node("Add", ["mean", "epsilon"], ["above"]),
        node("Sqrt", ["above"], ["deviation"]),
        node("Reciprocal", ["deviation"], ["inverse"]),
        node("Mul", ["x", "inverse"], ["n"]),
        node("Mul", ["n", "w"], ["norm"]),
        node("Sigmoid", ["norm"], ["s"]),
        node("Mul", ["norm", "s"], ["silu"]),
        node("Div", ["silu", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["p"]),
        node("Mul", ["p", "half"], ["h"]),
        node("Mul", ["silu", "h"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [4, 32])}, ["y"], weights, opset=17)
    x = normal(4, 32)
    imported = check(proto, x)
    found = kernels(imported)
    assert "silu" in found
    assert "gelu_erf" in found
    assert "elementwise_erf" not in found
    plain = read_onnx(proto, fold=False)
    assert "gelu_erf" not in kernels(plain)
    got = [run(m.module, [x], weights=m.weights)[0] for m in (imported, plain)]
    np.testing.assert_array_equal(got[0], got[1])


@pytest.mark.parametrize("sizes", [[4, 1], [1, 1], [1, 8]])
def test_norms_over_rows_of_one_element(sizes: list[int]) -> None:
    nodes = [
        helper.make_node("RMSNormalization", ["x", "w"], ["n"]),
        helper.make_node("Mul", ["n", "w"], ["m"]),
        helper.make_node("Add", ["m", "w"], ["y"]),
    ]
    weights = {"w": np.full(sizes[-1], 2, np.float32)}
    check(model(nodes, {"x": (FLOAT, sizes)}, ["y"], weights), normal(*sizes))


def _windows(x: np.ndarray, kernel: tuple[int, ...], border: float, pads: list[int]) -> np.ndarray:
    """All windows over the last dimensions, with the numbers of each in dimensions behind."""
    sides = [(0, 0), (0, 0), *zip(pads[:3], pads[3:], strict=True)]
    wide = np.pad(x.astype(np.float64), sides, constant_values=border)
    return np.lib.stride_tricks.sliding_window_view(wide, kernel, axis=(2, 3, 4))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [(1, 1, 1), (2, 1, 3)])
def test_windows_over_volumes(groups: int, stride: tuple[int, int, int]) -> None:
    """Convolution, then both poolings, with borders that differ at every side."""
    pads, edges = [1, 0, 2, 0, 1, 1], [1, 0, 0, 0, 0, 1]
    counted = groups - 1
    nodes = [
        helper.make_node(
            "Conv", ["x", "w", "b"], ["c"], pads=pads, strides=list(stride), dilations=[2, 1, 1],
            group=groups,
        ),
        helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[2, 1, 2], pads=edges),
        helper.make_node(
            "AveragePool", ["m"], ["y"], kernel_shape=[2, 2, 2], pads=edges,
            count_include_pad=counted,
        ),
    ]  # fmt: skip
    x, w, b = normal(2, 4, 7, 6, 8), normal(6, 4 // groups, 3, 2, 3), normal(6)
    given = {"x": (TensorProto.FLOAT, list(x.shape))}
    imported = read_onnx(model(nodes, given, ["c", "m", "y"], {"w": w, "b": b}, 22))
    got = run(imported.module, [x], weights=imported.weights)

    taps = _windows(x, (5, 2, 3), 0, pads)[:, :, :: stride[0], :: stride[1], :: stride[2], ::2]
    taps = taps.reshape(2, groups, 4 // groups, *taps.shape[2:])
    split = w.reshape(groups, 6 // groups, *w.shape[1:]).astype(np.float64)
    images = np.einsum("ngcdhwijk,gfcijk->ngfdhw", taps, split)
    images = images.reshape(2, 6, *images.shape[3:]) + b[:, None, None, None]
    highest = _windows(images, (2, 1, 2), -np.inf, edges).max((-3, -2, -1))
    border = 0 if counted else np.nan
    mean = np.nanmean(_windows(highest, (2, 2, 2), border, edges), axis=(-3, -2, -1))
    for have, want in zip(got, (images, highest, mean), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_a_window_larger_than_its_image() -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 5])
    with pytest.raises(TilewrightError, match="a window over 5 of 4 numbers"):
        read_onnx(model([node], {"x": (TensorProto.FLOAT, [1, 2, 6, 4])}, ["y"]))


def test_remainders_of_floats_are_exact() -> None:
    """6 / 0.1 is rounded up to 60, and what is left over would be nothing."""
    x = np.arange(-75, 75, dtype=np.float32).reshape(3, 50) / 10
    kinds = {"x": (TensorProto.FLOAT, (3, 50)), "y": (TensorProto.FLOAT, (3, 1))}
    proto = model([helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)], kinds, ["z"])
    y = np.array([[0.1], [-0.3], [7]], np.float32)
    check(proto, x, y, rtol=0, atol=0)
