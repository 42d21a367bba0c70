"""Sampling between pixels, columns put back to images and transposed convolutions of ONNX, with unusual
attributes, against onnxruntime; and positions that stay exact on machines with narrow formats."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx import read_onnx
from tilewright.model.capture import capture
from tilewright.model.positions import positions_of
from tilewright.reference.executor import run

onnx: Any = pytest.importorskip("onnx")
runtime: Any = pytest.importorskip("onnxruntime")
helper = onnx.helper
Arrays = dict[str, np.ndarray]


def model_of(
    operator: str, inputs: Arrays, constants: Arrays, opset: int, **attributes: Any
) -> Any:
    node = helper.make_node(operator, [*inputs, *constants], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, 1, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def wanted_of(model: Any, inputs: Arrays) -> np.ndarray:
    runtime.set_default_logger_severity(4)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)[0]


def found_of(model: Any, inputs: Arrays) -> np.ndarray:
    imported = read_onnx(model)
    return run(imported.module, list(inputs.values()), weights=imported.weights)[0]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def grid(*shape: int, seed: int = 1) -> np.ndarray:
    """Coordinates, some of which lie far outside."""
    found = np.random.default_rng(seed).uniform(-1.5, 1.5, shape).astype(np.float32)
    found.reshape(-1)[::7] *= 4
    return found


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_samples_between_pixels(mode: str, padding: str, aligned: int):
    older = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    for (opset, name), size in itertools.product(
        ((16, older), (22, mode)), ((5, 7), (1, 6), (3, 4, 5))
    ):
        if len(size) == 3 and (opset == 16 or mode == "cubic"):
            continue
        inputs = {"x": numbers(2, 3, *size), "grid": grid(2, *size[1:], 4, len(size))}
        model = model_of(
            "GridSample", inputs, {}, opset, mode=name, padding_mode=padding, align_corners=aligned
        )
        np.testing.assert_allclose(
            found_of(model, inputs), wanted_of(model, inputs), atol=2e-4, rtol=1e-4
        )


def test_cubic_volumes_are_refused():
    inputs = {"x": numbers(1, 1, 3, 4, 5), "grid": grid(1, 2, 2, 2, 3)}
    with pytest.raises(TilewrightError, match="cubic sampling"):
        read_onnx(model_of("GridSample", inputs, {}, 20, mode="cubic"))


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1", "vpu40"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_coordinates_are_not_rounded(mode: str, target: str):
    """In bf16 a coordinate of 60.3 is another one: samples of a smooth image were off by tenths."""
    ramp = np.linspace(-2, 2, 8 * 64 * 90, dtype=np.float32).reshape(1, 8, 64, 90)
    inputs = {"x": ramp + numbers(1, 8, 64, 90), "grid": grid(1, 6, 9, 2) / 2}
    model = model_of("GridSample", inputs, {}, 20, mode=mode)
    program = tw.compile(model, target=target)
    assert program.verify().ok
    np.testing.assert_allclose(
        program(*inputs.values()), wanted_of(model, inputs), atol=0.05, rtol=0.02
    )


def test_what_positions_are_computed_from():
    """What leads to an index, and the shares beside it; not what is found there, nor the layer before."""
    steps = [
        ("MatMul", ["x", "w"], "layer"), ("Abs", ["layer"], "size"), ("Add", ["size", "layer"], "at"),
        ("Floor", ["at"], "base"), ("Sub", ["at", "base"], "share"), ("Gather", ["table", "index"], "rows"),
        ("Exp", ["share"], "weight"), ("Exp", ["rows"], "y"),
    ]  # fmt: skip
    nodes = [helper.make_node(name, inputs, [output]) for name, inputs, output in steps]
    nodes.insert(5, helper.make_node("Cast", ["base"], ["index"], to=7))
    graph = helper.make_graph(
        nodes,
        "looks up",
        [helper.make_tensor_value_info("x", 1, (4, 40))],
        [helper.make_tensor_value_info(name, 1, None) for name in ("y", "weight")],
        [
            onnx.numpy_helper.from_array(numbers(*sizes), name)
            for name, sizes in (("w", (40, 8)), ("table", (50, 6)))
        ],
    )
    model = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    families = [node.family for node in positions_of(capture(model))]
    floats = [name for name in families if name.startswith("elementwise")]
    assert {"elementwise_abs", "elementwise_floor", "elementwise_sub", "cast"} <= set(families)
    assert floats.count("elementwise_exp") == 1
    assert not {"matmul", "gather", "embedding"} & set(families)


@pytest.mark.parametrize("seed", range(12))
def test_columns_are_put_back(seed: int):
    draw = random.Random(seed)
    rank, spaced = 2, draw.random() < 0.7
    block = [draw.randint(1, 4) for _ in range(rank)]
    strides = [draw.randint(1, 3) if spaced else 1 for _ in range(rank)]
    dilations = [draw.randint(1, 3) for _ in range(rank)]
    pads = [draw.randint(0, 2) for _ in range(2 * rank)]
    size = [(k - 1) * d + 1 + draw.randint(0, 6) for k, d in zip(block, dilations, strict=True)]
    counts = [
        (size[i] + pads[i] + pads[rank + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(rank)
    ]
    inputs = {"x": numbers(2, 3 * int(np.prod(block)), int(np.prod(counts)), seed=seed)}
    shapes = {"size": np.array(size, np.int64), "block": np.array(block, np.int64)}
    attributes = {"strides": strides} if spaced else {}
    model = model_of("Col2Im", inputs, shapes, 18, dilations=dilations, pads=pads, **attributes)
    np.testing.assert_allclose(
        found_of(model, inputs), wanted_of(model, inputs), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("rank", [1, 3])
def test_columns_of_other_ranks_are_put_back(rank: int):
    """By hand: onnxruntime is wrong for these where blocks are spread."""
    block, dilations, strides, size = (
        [2, 3, 2][:rank],
        [3, 1, 2][:rank],
        [1, 2, 1][:rank],
        [6, 5, 4][:rank],
    )
    spans = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    counts = [(n - span) // step + 1 for n, span, step in zip(size, spans, strides, strict=True)]
    x = numbers(2, 2 * int(np.prod(block)), int(np.prod(counts)))
    wanted = np.zeros((2, 2, *size), np.float32)
    parts = x.reshape(2, 2, *block, *counts)
    for place in itertools.product(*map(range, (*block, *counts))):
        tap, window = place[:rank], place[rank:]
        at = tuple(
            t * d + w * s for t, d, w, s in zip(tap, dilations, window, strides, strict=True)
        )
        wanted[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *place)]
    shapes = {"size": np.array(size, np.int64), "block": np.array(block, np.int64)}
    model = model_of("Col2Im", {"x": x}, shapes, 18, dilations=dilations, strides=strides)
    np.testing.assert_allclose(found_of(model, {"x": x}), wanted, atol=1e-5, rtol=1e-5)


def test_columns_that_do_not_fit_are_refused():
    shapes = {"size": np.array([5, 5], np.int64), "block": np.array([2, 2], np.int64)}
    with pytest.raises(TilewrightError, match="does not fit"):
        read_onnx(model_of("Col2Im", {"x": numbers(1, 4, 17)}, shapes, 18))


@pytest.mark.parametrize("seed", range(30))
def test_transposed_convolutions(seed: int):
    """Volumes above all: strides, dilations, groups, padding that cuts, output_padding, output_shape."""
    draw = random.Random(seed)
    rank = draw.choice((1, 2, 3, 3, 3))
    groups = draw.choice((1, 1, 2, 3))
    size = [draw.randint(2, 5) for _ in range(rank)]
    kernel, strides = ([draw.randint(1, 3) for _ in range(rank)] for _ in range(2))
    kernel = [max(k, s) for k, s in zip(kernel, strides, strict=True)]
    dilations = [draw.randint(1, 2) for _ in range(rank)]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    kind = draw.choice(("pads", "same", "shape", "plain"))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if kind == "pads":
        attributes["pads"] = [draw.randint(0, spans[i % rank]) // 2 for i in range(2 * rank)]
    elif kind == "same":
        attributes["auto_pad"] = draw.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif kind == "shape":
        full = [(n - 1) * s + span for n, s, span in zip(size, strides, spans, strict=True)]
        attributes["output_shape"] = [max(1, n - draw.randint(0, 2)) for n in full]
        attributes["auto_pad"] = draw.choice(("SAME_UPPER", "SAME_LOWER", "NOTSET"))
    if draw.random() < 0.5:
        most = [s - 1 for s in strides]
        attributes["output_padding"] = [draw.randint(0, n) for n in most]
    channels, filters = groups * draw.randint(1, 2), draw.randint(1, 3)
    inputs = {"x": numbers(2, channels, *size), "w": numbers(channels, filters, *kernel)}
    if draw.random() < 0.5:
        inputs["b"] = numbers(filters * groups)
    model = model_of("ConvTranspose", inputs, {}, draw.choice((11, 22)), **attributes)
    found = found_of(model, inputs)
    np.testing.assert_allclose(found, wanted_of(model, inputs), atol=1e-4, rtol=1e-4)
