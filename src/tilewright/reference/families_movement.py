"""Kernel families that move values without arithmetic, and those that run on the host."""

from __future__ import annotations

import numpy as np

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array
from tilewright.reference.families import Call, family, literal_value
from tilewright.reference.faults import fault


@family("transpose")
def transpose(call: Call) -> Array:
    return call.values["x"].transpose(call.kernel.integers("permutation"))


@family("reshape")
def reshape(call: Call) -> Array:
    return call.values["x"].reshape(call.shape)


def _window(call: Call, rank: int) -> tuple[slice, ...]:
    offsets = call.kernel.integers("offsets") or ()
    sizes = call.kernel.integers("sizes") or ()
    strides = call.kernel.integers("strides") or (1,) * rank
    return tuple(
        slice(offset, offset + max(0, (size - 1) * stride + 1), stride)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )


@family("slice")
def slice_(call: Call) -> Array:
    x = call.values["x"]
    return x[_window(call, x.ndim)].reshape(call.shape)


@family("insert_slice")
def insert_slice(call: Call) -> Array:
    result = np.array(call.values["into"])
    view = result[_window(call, result.ndim)]
    view[...] = call.values["x"].reshape(view.shape)
    return result


@family("concat")
def concat(call: Call) -> Array:
    parts = call.values["parts"]
    return np.concatenate(parts, axis=call.kernel.axis(len(call.shape)))


@family("pad")
def pad(call: Call) -> Array:
    amounts = zip(
        call.kernel.integers("low") or (), call.kernel.integers("high") or (), strict=True
    )
    value = literal_value(call.kernel.value("value") or 0, call.target)
    return np.pad(call.values["x"], list(amounts), constant_values=value)


@family("fill")
def fill(call: Call) -> Array:
    value = call.values.get("value")
    if value is None:
        value = literal_value(call.kernel.value("value") or 0, call.target)
    return np.broadcast_to(value, call.shape)


@family("iota")
def iota(call: Call) -> Array:
    axis = call.kernel.axis(len(call.shape))
    shape = [1] * len(call.shape)
    shape[axis] = call.shape[axis]
    numbers = np.arange(call.shape[axis]).reshape(shape)
    kind = np.float64 if call.target.is_float else np.int64
    return np.broadcast_to(numbers.astype(kind), call.shape)


@family("gather", "embedding")
def gather(call: Call) -> Array:
    x, indices = call.values["x"], call.values["indices"]
    axis = call.axis()
    if indices.size and (indices.min() < 0 or indices.max() >= x.shape[axis]):
        raise fault(
            call.op, "TW1505", f"an index leaves axis {axis}, which has {x.shape[axis]} elements"
        )
    # Of a table in a narrow type only what is looked up is widened.
    return dtypes.working(np.take(x, indices.astype(np.int64), axis=axis), call.elements["x"])


@family("argmax", "argmin")
def argmax(call: Call) -> Array:
    find = np.argmax if call.kernel.family.name == "argmax" else np.argmin
    keep = call.kernel.flag("keepdims")
    return np.asarray(find(call.values["x"], axis=call.axis(), keepdims=keep)).astype(np.int64)


@family("cumsum", "cumprod")
def running_arithmetic(call: Call) -> Array:
    x = call.values["x"]
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    accumulate = np.cumsum if call.kernel.family.name == "cumsum" else np.cumprod
    return accumulate(x, axis=call.axis(), dtype=wide)


@family("cummax", "cummin")
def running_extreme(call: Call) -> Array:
    extreme = np.maximum if call.kernel.family.name == "cummax" else np.minimum
    return extreme.accumulate(call.values["x"], axis=call.axis())


@family("sort")
def sort(call: Call) -> Array:
    ordered = np.sort(call.values["x"], axis=call.axis(), kind="stable")
    return np.flip(ordered, axis=call.axis()) if call.kernel.flag("descending") else ordered


@family("argsort")
def argsort(call: Call) -> Array:
    x, axis = call.values["x"], call.axis()
    if not call.kernel.flag("descending"):
        return np.argsort(x, axis=axis, kind="stable").astype(np.int64)
    # The stable order of the reversed input, read backwards, keeps equal elements in place.
    backwards = np.argsort(np.flip(x, axis=axis), axis=axis, kind="stable")
    return (x.shape[axis] - 1 - np.flip(backwards, axis=axis)).astype(np.int64)


_SCATTER = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@family("scatter")
def scatter(call: Call) -> Array:
    result, indices = np.array(call.values["x"]), call.values["indices"].astype(np.int64)
    if indices.size and (indices.min() < 0 or indices.max() >= result.shape[0]):
        raise fault(
            call.op, "TW1505", f"an index leaves axis 0, which has {result.shape[0]} elements"
        )
    kind = call.kernel.string("reduction")
    if kind is None:
        result[indices] = call.values["updates"]  # of equal indices the last one stays
    else:
        _SCATTER[kind].at(result, indices, call.values["updates"])
    return result
