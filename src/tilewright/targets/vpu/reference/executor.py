"""Runs a network call by call on whole tensors: the bits that its task list has to give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.lowering.network import Call, Network, Value
from tilewright.targets.vpu.operations.numbers import exp, lane_sum, rounded
from tilewright.targets.vpu.operations.shave import unary_table
from tilewright.targets.vpu.reference import attention as attend
from tilewright.targets.vpu.reference import products

Arrays = dict[str, np.ndarray]
Watch = Callable[[Call, np.ndarray], None]


def run_network(
    network: Network, inputs: Mapping[str, np.ndarray], watch: Watch | None = None
) -> Arrays:
    """All values of a network, by name."""
    known: Arrays = {n: v.data for n, v in network.values.items() if v.data is not None}
    for name in network.inputs:
        known[name] = np.asarray(inputs[name]).reshape(network.values[name].shape)
    for call in network.calls:
        made = compute(network, call, known)
        result = network.values[call.result]
        known[call.result] = np.ascontiguousarray(made).reshape(result.shape)
        if watch is not None:
            watch(call, known[call.result])
    return known


def compute(network: Network, call: Call, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result of one call."""
    arrays = {role: known[name] for role, name in call.operands.items()}
    values = {role: network.values[name] for role, name in call.operands.items()}
    function = FAMILIES.get(call.family)
    if function is None:
        raise TilewrightError("TW7085", f"the VPU has no {call.family!r}")
    return function(arrays, values, network.values[call.result], dict(call.attributes))


def _f32(array: np.ndarray, value: Value) -> np.ndarray:
    if value.dtype == "i8":
        return array.astype(np.float32) * np.float32(value.scale)  # type: ignore[arg-type]
    return array.astype(np.float32)


def _out(values: np.ndarray, result: Value) -> np.ndarray:
    if result.dtype == "i8":
        values = values * np.float32(1.0 / np.float64(result.scale))  # type: ignore[arg-type]
    return rounded(np.asarray(values), result.dtype)


def _units(result: Value) -> float:
    return float(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]


def _channels(values: dict[str, Value], arrays: Arrays, result: Value) -> tuple[Any, Any]:
    """f32 scale per channel, and the bias in units of the sums."""
    x, weight = values["x"], values["weight"]
    bias = arrays.get("bias")
    if "factor" in arrays:
        return arrays["factor"].astype(np.float32), bias
    out = np.float64(_units(result))
    if x.dtype != "i8":
        return np.float32(1.0 / out if result.dtype == "i8" else 1.0), bias
    unit = np.float64(x.scale) * np.float64(weight.scale)  # type: ignore[arg-type]
    whole = None
    if bias is not None:
        whole = np.clip(np.rint(bias.astype(np.float64) / unit), -(2**31), 2**31 - 1)
    return np.asarray(unit / out).astype(np.float32), whole


def _options(attributes: dict[str, Any], result: Value) -> dict[str, Any]:
    if "clamp" in attributes:
        unit = _units(result)
        attributes["clamp"] = tuple(float(bound) / unit for bound in attributes["clamp"])
    return attributes


def _residual(made: np.ndarray, arrays: Arrays, result: Value) -> np.ndarray:
    if "residual" not in arrays:
        return made
    with np.errstate(all="ignore"):
        added = made.astype(np.float32) + arrays["residual"].reshape(made.shape).astype(np.float32)
    return rounded(added, result.dtype)


def linear(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x, weight = arrays["x"].reshape(-1, arrays["x"].shape[-1]), arrays["weight"]
    whole = x.dtype == np.int8
    sums = products.whole_sums(x, weight) if whole else products.in_order(x, weight)
    scale, bias = _channels(values, arrays, result)
    made = products.finish(sums, whole, scale, bias, result.dtype, _options(attributes, result))
    if attributes.get("transposed"):
        return made.T
    return _residual(made, arrays, result)


def matmul(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    sums = products.in_order(arrays["x"], arrays["y"])
    with np.errstate(all="ignore"):
        if "factor" in attributes or result.dtype == "i8":
            sums = sums * np.float32(float(attributes.get("factor", 1.0)) / _units(result))
    return rounded(sums, result.dtype)


def convolution(
    arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]
):
    whole = arrays["x"].dtype == np.int8
    sums = products.convolution(arrays["x"], arrays["weight"], attributes)
    scale, bias = _channels(values, arrays, result)
    made = products.finish(sums, whole, scale, bias, result.dtype, _options(attributes, result))
    return _residual(made, arrays, result)


def pool(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = values["x"]
    own = float(x.scale) if x.dtype == "i8" else 1.0  # type: ignore[arg-type]
    return products.pool(arrays["x"], result.dtype, own / _units(result), attributes)


def attention(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    mask = arrays.get("mask")
    q = arrays["q"].reshape(-1, arrays["q"].shape[-1])
    if mask is not None:
        mask = np.broadcast_to(mask.reshape(-1, mask.shape[-1]), (q.shape[0], mask.shape[-1]))
    return attend.attention(
        q, arrays["k"], arrays["v"], mask, _units(result), result.dtype, attributes
    )


def rope(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    width = attributes["width"]
    heads = x.reshape(-1, x.shape[-1] // width, width)
    cos, sin = (
        arrays[r].astype(np.float32).reshape(-1, 1, arrays[r].shape[-1]) for r in ("cos", "sin")
    )
    turned = np.empty_like(heads)
    if attributes.get("interleaved"):
        places = (slice(0, None, 2), slice(1, None, 2))
    else:
        places = (slice(None, width // 2), slice(width // 2, None))
    first, second = heads[..., places[0]], heads[..., places[1]]
    whole = cos.shape[-1] == width
    with np.errstate(all="ignore"):
        for place, parts in zip(places, ((first, -second), (second, first)), strict=True):
            c, s = (cos[..., place], sin[..., place]) if whole else (cos, sin)
            turned[..., place] = parts[0] * c + parts[1] * s
    return _out(turned.reshape(x.shape), result)


def softmax(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    mask = _f32(arrays["mask"], values["mask"]) if "mask" in arrays else None
    seen = np.ones(x.shape, bool)
    return _out(attend.softmax(x, attributes.get("factor", 1.0), mask, seen), result)


def rms_norm(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    with np.errstate(all="ignore"):
        mean = lane_sum(x * x) / np.float32(x.shape[-1])
        inverse = np.float32(1) / np.sqrt(mean + np.float32(attributes["epsilon"]))
        made = x * inverse[..., None]
        if "weight" in arrays:
            made = made * _f32(arrays["weight"], values["weight"])
    return _out(made, result)


def layer_norm(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    count = np.float32(x.shape[-1])
    with np.errstate(all="ignore"):
        apart = x - (lane_sum(x) / count)[..., None]
        variance = lane_sum(apart * apart) / count
        made = (
            apart
            * (np.float32(1) / np.sqrt(variance + np.float32(attributes["epsilon"])))[..., None]
        )
        if "weight" in arrays:
            made = made * _f32(arrays["weight"], values["weight"])
        if "bias" in arrays:
            made = made + _f32(arrays["bias"], values["bias"])
    return _out(made, result)


def reduce(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    function = attributes["function"]
    if function in ("max", "min"):
        return _out(getattr(x, function)(axis=-1), result)
    total = lane_sum(x)
    if function == "mean":
        total = total / np.float32(x.shape[-1])
    return _out(total, result)


def unary(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = arrays["x"]
    if x.dtype == np.float16 and result.dtype == "f16":
        return unary_table(attributes["function"])[np.ascontiguousarray(x).view(np.uint16)]
    from tilewright.targets.vpu.operations.shave import UNARY

    with np.errstate(all="ignore"):
        made = UNARY[attributes["function"]](_f32(x, values["x"]).astype(np.float64))
        return _out(made.astype(np.float32), result)


_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


def binary(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    """On the DPU i8 operands count times scale over the result's scale, on a SHAVE times scale."""
    from tilewright.targets.vpu.lowering.rows import on_dpu

    (a, b), (first, second) = arrays.values(), values.values()
    function = _BINARY[attributes["function"]]
    with np.errstate(all="ignore"):
        if not on_dpu("binary", attributes, [first, second], result):
            return _out(function(_f32(a, first), _f32(b, second)), result)
        unit = _units(result)
        own = [float(v.scale) if v.dtype == "i8" else 1.0 for v in (first, second)]  # type: ignore[arg-type]
        if attributes["function"] == "multiply":
            ratios = [own[0] / unit, own[1]]
        else:
            ratios = [one / unit for one in own]
        left, right = (
            x.astype(np.float32) * np.float32(r) for x, r in zip((a, b), ratios, strict=True)
        )
        made = function(left, right)
        if attributes.get("relu"):
            made = np.maximum(made, np.float32(0))
    return rounded(made, result.dtype)


def bound(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    x = _f32(arrays["x"], values["x"])
    held = np.minimum(np.maximum(x, np.float32(attributes["low"])), np.float32(attributes["high"]))
    return _out(held, result)


def cast(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    return _out(_f32(arrays["x"], values["x"]), result)


def scale(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    with np.errstate(all="ignore"):
        return _out(_f32(arrays["x"], values["x"]) * np.float32(attributes["factor"]), result)


def select(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    choice, first, second = (_f32(arrays[r], values[r]) for r in arrays)
    return _out(np.where(choice != 0, first, second), result)


def silu_gate(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    gate, up = (_f32(arrays[r], values[r]) for r in ("gate", "up"))
    with np.errstate(all="ignore"):
        return _out(gate / (np.float32(1) + exp(-gate)) * up, result)


def reshape(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    return arrays["x"].reshape(result.shape)


def transpose(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    return arrays["x"].transpose(attributes["permutation"])


def slice_(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    steps = attributes.get("steps") or (1,) * arrays["x"].ndim
    places = tuple(
        slice(offset, offset + (size - 1) * step + 1, step)
        for offset, size, step in zip(
            attributes["offsets"], attributes["sizes"], steps, strict=True
        )
    )
    return arrays["x"][places]


def concat(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    return np.concatenate(list(arrays.values()), axis=attributes["axis"])


def broadcast(arrays: Arrays, values: dict[str, Value], result: Value, attributes: dict[str, Any]):
    return np.broadcast_to(arrays["x"], result.shape)


FAMILIES: dict[str, Callable[..., np.ndarray]] = {
    "linear": linear, "matmul": matmul, "convolution": convolution, "pool": pool,
    "attention": attention, "rope": rope, "softmax": softmax, "rms_norm": rms_norm,
    "layer_norm": layer_norm, "reduce": reduce, "unary": unary, "binary": binary, "bound": bound, "cast": cast,
    "scale": scale, "select": select, "silu_gate": silu_gate, "reshape": reshape,
    "transpose": transpose, "slice": slice_, "concat": concat, "broadcast": broadcast,
}  # fmt: skip
