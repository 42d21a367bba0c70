"""What abstract instructions say, carried out on numpy: only names and attributes are looked at."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.parsing import parse_text
from tilewright.reference import dtypes

erf = np.vectorize(math.erf, otypes=[float])
UNARY = {
    "vexp": np.exp, "vlog": np.log, "vsqrt": np.sqrt, "vtanh": np.tanh, "vsin": np.sin, "vcos": np.cos,
    "vrcp": lambda x: 1 / x, "vabs": np.abs, "verf": erf, "vnot": np.invert,
}  # fmt: skip
BINARY = {
    "vadd": np.add, "vsub": np.subtract, "vmul": np.multiply, "vmax": np.maximum, "vmin": np.minimum,
    "vand": np.bitwise_and, "vor": np.bitwise_or, "vxor": np.bitwise_xor,
}  # fmt: skip
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
REDUCE: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min, "mul": np.prod}


def carry_out(text: str, inputs: list[np.ndarray]) -> np.ndarray:
    """The result of a function of abstract instructions, in double precision."""
    module = parse_text(text)
    function = next(op for op in module.walk() if op.name == "func.func")
    block = function.regions[0].blocks[0]
    values: dict[SSAValue, np.ndarray] = {
        argument: array if array.dtype == np.bool_ else array.astype(float if array.dtype.kind in "fV" else int)
        for argument, array in zip(block.args, inputs, strict=True)
    }  # fmt: skip
    with np.errstate(all="ignore"):
        for op in block.ops:
            if op.name == "func.return":
                return values[op.operands[0]]
            if op.results:
                shape = tuple(op.results[0].type.get_shape())  # type: ignore[attr-defined]
                made = _step(op, [values[v] for v in op.operands], shape)
                assert made.shape == shape, (op.name, made.shape, shape)
                values[op.results[0]] = made
    raise AssertionError("no return")


def _note(op: Operation, name: str) -> Any:
    """An attribute as a plain value; None if there is none."""
    found = op.attributes.get(name)
    if isinstance(found, builtin.DenseArrayBase):
        return [int(v) for v in found.get_values()]
    if isinstance(found, builtin.IntegerAttr | builtin.FloatAttr):
        return found.value.data
    if isinstance(found, builtin.StringAttr):
        return found.data
    return None if found is None else True


def _step(op: Operation, given: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    name = op.name.removeprefix("npu_isa.")
    element = dtypes.element_type(op.results[0].type)
    if name in UNARY:
        return UNARY[name](given[0])
    if name in BINARY:
        return BINARY[name](*given)
    if name == "vcmp":
        return COMPARE[_note(op, "predicate")](*given)
    if name == "vsel":
        return np.where(*given)
    if name == "vround":
        return {"floor": np.floor, "ceil": np.ceil, "even": np.rint}[_note(op, "rounding")](
            given[0]
        )
    if name == "vli":
        return _literal(op, shape)
    if name.startswith("vreduce_"):
        return _reduction(op, REDUCE[name.removeprefix("vreduce_")], given[0], shape)
    if name == "vinsert":
        result = np.array(given[0])
        offsets, strides = _note(op, "offsets"), _note(op, "strides") or [1] * result.ndim
        window = [
            slice(o, o + (n - 1) * s + 1, s)
            for o, n, s in zip(offsets, given[1].shape, strides, strict=True)
        ]
        result[tuple(window)] = given[1]
        return result
    if name == "matmul_mxu0":
        return _product(op, given[0], given[1], shape)
    assert name == "vmov", name
    moved = _moved(op, given[0], shape)
    if not element.is_float and element.kind != "bool":
        low, high = -(2 ** (element.bits - 1)), 2 ** (element.bits - 1) - 1
        moved = np.clip(np.rint(moved), low, high) if _note(op, "saturate") else np.trunc(moved)
        return moved.astype(int)
    return moved


def _literal(op: Operation, shape: tuple[int, ...]) -> np.ndarray:
    if _note(op, "iota"):
        axis = _note(op, "axis") % len(shape)
        return np.broadcast_to(
            np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]),
            shape,
        )
    value = _note(op, "value")
    if op.attributes.keys() & {"causal", "valid_keys"}:
        rows, columns = np.indices(shape[-2:])
        seen = np.ones(shape[-2:], bool)
        if _note(op, "causal"):
            start = (_note(op, "key_start") or 0) - (_note(op, "query_start") or 0)
            seen &= columns + start <= rows + shape[-1] - shape[-2]
        if _note(op, "valid_keys") is not None:
            seen &= columns < _note(op, "valid_keys")
        return np.broadcast_to(np.where(seen, 0.0, value), shape)
    return np.full(shape, value)


def _reduction(op: Operation, function: Any, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if (kernel := _note(op, "kernel")) is None:
        axes = tuple(_note(op, "axes"))
        return function(x, axis=axes, keepdims=True).reshape(shape)
    border = -np.inf if function is np.max else 0.0
    windows = _windows(op, x, kernel, border, _note(op, "layout") or "nchw")
    return (
        function(windows, axis=(-2, -1))
        if (_note(op, "layout") or "nchw") == "nchw"
        else np.moveaxis(function(windows, axis=(-2, -1)), 1, 3)
    )


def _windows(
    op: Operation, x: np.ndarray, kernel: list[int], border: float, layout: str
) -> np.ndarray:
    """[n, c, oh, ow, kh, kw]"""
    if layout.startswith("nhwc"):
        x = np.moveaxis(x, 3, 1)
    top, left, bottom, right = _note(op, "padding") or (0, 0, 0, 0)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    (sh, sw), (dh, dw) = _note(op, "strides") or (1, 1), _note(op, "dilations") or (1, 1)
    height = (x.shape[2] - (kernel[0] - 1) * dh - 1) // sh + 1
    width = (x.shape[3] - (kernel[1] - 1) * dw - 1) // sw + 1
    result = np.empty((*x.shape[:2], height, width, *kernel))
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        result[..., i, j] = x[
            :,
            :,
            i * dh : i * dh + (height - 1) * sh + 1 : sh,
            j * dw : j * dw + (width - 1) * sw + 1 : sw,
        ]
    return result


def _product(op: Operation, a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    layout = _note(op, "layout") or "nchw_fchw"
    if (
        a.ndim == 4
        and b.ndim == 4
        and ("strides" in op.attributes or "layout" in op.attributes or "padding" in op.attributes)
    ):
        filters = b if layout == "nchw_fchw" else np.transpose(b, (3, 2, 0, 1))
        windows = _windows(op, a, list(filters.shape[2:]), 0.0, layout)
        groups = _note(op, "groups") or 1
        parts = [np.einsum("nchwij,fcij->nfhw", x, w)
                 for x, w in zip(np.split(windows, groups, 1), np.split(filters, groups, 0), strict=True)]  # fmt: skip
        made = np.concatenate(parts, axis=1)
        return made if layout == "nchw_fchw" else np.moveaxis(made, 1, 3)
    group = _note(op, "kv_group") or 1
    b = np.repeat(b, group, axis=-3) if group > 1 else b
    a = np.swapaxes(a, -1, -2) if _note(op, "transpose_lhs") else a
    b = np.swapaxes(b, -1, -2) if _note(op, "transpose_rhs") else b
    return np.matmul(a, b)


def _moved(op: Operation, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    maps = op.attributes.get("operand_maps")
    if isinstance(maps, builtin.ArrayAttr):
        results = maps.data[0].data.results  # type: ignore[attr-defined]
        positions = [getattr(result, "position", None) for result in results]
        kept = [n for n, p in enumerate(positions) if p is not None]
        x = x[tuple(slice(None) if n in kept else 0 for n in range(x.ndim))]
        order = sorted(range(len(kept)), key=lambda n: positions[kept[n]])  # type: ignore[arg-type, return-value]
        target = [1] * len(shape)
        for n in kept:
            target[positions[n]] = op.operands[0].type.get_shape()[n]  # type: ignore[attr-defined, index]
        return np.broadcast_to(np.transpose(x, order).reshape(target), shape)
    move = _note(op, "move")
    if move == "transpose":
        return np.transpose(x, _note(op, "permutation"))
    if move == "slice":
        offsets, sizes = _note(op, "offsets"), _note(op, "sizes")
        strides = _note(op, "strides") or [1] * x.ndim
        return x[
            tuple(
                slice(o, o + (n - 1) * s + 1, s)
                for o, n, s in zip(offsets, sizes, strides, strict=True)
            )
        ]
    if _note(op, "partner") or _note(op, "pairs"):
        return _rotary(op, x, shape)
    if _note(op, "scale") and x.shape != shape:
        axis, block = _note(op, "axis"), _note(op, "block")
        if block is None:
            return np.broadcast_to(x, shape)
        axis = (-1 if axis is None else axis) % len(shape)
        return np.repeat(x, block, axis=axis)[tuple(slice(0, n) for n in shape)]
    return x.reshape(shape) if x.size == math.prod(shape) else np.broadcast_to(x, shape)


def _rotary(op: Operation, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    axis = (-1 if _note(op, "axis") is None else _note(op, "axis")) % len(shape)
    split = (_note(op, "style") or "split_half") == "split_half"
    if _note(op, "pairs"):
        x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape)
        if x.shape[axis] == shape[axis] // 2 and shape[axis] > 2:
            x = np.concatenate((x, x), axis) if split else np.repeat(x, 2, axis)
        return np.broadcast_to(x, shape)
    a, b = (
        np.split(x, 2, axis) if split else (x.take(range(k, shape[axis], 2), axis) for k in (0, 1))
    )
    if split:
        return np.concatenate((-b, a), axis)
    return np.stack((-b, a), axis + 1).reshape(shape)
