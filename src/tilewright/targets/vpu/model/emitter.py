"""Writing a network from an encoded function: views that cancel, images with channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.targets.vpu.lowering.network import Call, Network, Shape

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # NCHW to NHWC and back


class Emitter:
    """A network that grows; reshapes and transposes of each other are one, or none.

    A transpose of parts side by side is one of each part: what lies before them may cancel it.
    """

    def __init__(self) -> None:
        self.network = Network()
        self.count = 0
        self.transposed: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.reshaped: dict[str, str] = {}
        self.joined: dict[str, tuple[dict[str, str], int]] = {}  # parts and axis
        self.known: dict[tuple[Any, ...], str] = {}
        self.sources: tuple[str, ...] = ()
        self.label = ""

    def shape(self, name: str) -> Shape:
        return self.network.values[name].shape

    def unit(self, name: str) -> float | None:
        """What one step of an i8 value is worth."""
        return _one(self.network.values[name].scale)

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}#{self.count}"

    def constant(self, data: np.ndarray, stem: str = "constant") -> str:
        return self.network.constant(self.fresh(stem), np.ascontiguousarray(data))

    def emit(
        self,
        family: str,
        operands: Mapping[str, str],
        shape: Sequence[int],
        dtype: str,
        unit: float | None = None,
        /,
        **attributes: Any,
    ) -> str:
        """A call and its result; `unit` is the scale of i8."""
        label = self.label or family
        made = self.network.value(self.fresh(label), tuple(shape), dtype, unit)
        if family == "concat":
            self.joined[made] = (dict(operands), attributes["axis"])
        return self.network.call(family, made, operands, label, self.sources, **attributes)

    # --- Views ---------------------------------------------------------------------------------

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        shape = tuple(shape)
        if self.shape(name) == shape:
            return name
        if name in self.reshaped:
            return self.reshape(self.reshaped[name], shape)
        value = self.network.values[name]
        key = ("reshape", name, shape)
        if key not in self.known:
            if value.data is not None:
                made = self.network.constant(
                    self.fresh(name.split("#")[0]), value.data.reshape(shape), value.scale
                )
            else:
                made = self.emit("reshape", {"x": name}, shape, value.dtype, _one(value.scale))
                self.reshaped[made] = name
            self.known[key] = made
        return self.known[key]

    def transpose(self, name: str, order: Sequence[int]) -> str:
        order = tuple(order)
        shape = self.shape(name)
        if name in self.transposed:
            source, before = self.transposed[name]
            return self.transpose(source, tuple(before[d] for d in order))
        wide = [d for d in order if shape[d] != 1]
        target = tuple(shape[d] for d in order)
        if wide == sorted(wide):  # only dimensions of size 1 move
            return self.reshape(name, target)
        value = self.network.values[name]
        key = ("transpose", name, order)
        if key not in self.known and name in self.joined:
            parts, axis = self.joined[name]
            turned = {role: self.transpose(part, order) for role, part in parts.items()}
            unit = _one(value.scale)
            self.known[key] = self.emit(
                "concat", turned, target, value.dtype, unit, axis=order.index(axis)
            )
        elif key not in self.known:
            if value.data is not None:
                made = self.network.constant(
                    self.fresh(name.split("#")[0]),
                    np.ascontiguousarray(value.data.transpose(order)),
                    value.scale,
                )
            else:
                made = self.emit(
                    "transpose", {"x": name}, target, value.dtype, _one(value.scale),
                    permutation=order,
                )  # fmt: skip
                self.transposed[made] = (name, order)
            self.known[key] = made
        return self.known[key]

    def broadcast(self, name: str, shape: Sequence[int]) -> str:
        """Repeat along leading dimensions, so that rows fit row by row."""
        shape = tuple(shape)
        own = self.shape(name)
        whole = (*shape[:-1], own[-1])
        if prod(own[:-1]) == 1 or own[:-1] == shape[:-1]:
            return name
        value = self.network.values[name]
        if value.data is not None:
            return self.constant(np.broadcast_to(value.data, whole))
        return self.emit("broadcast", {"x": name}, whole, value.dtype, _one(value.scale))

    def along_rows(self, name: str, width: int) -> str:
        """Repeat the one element of every row; times 1 changes no bit."""
        own, value = self.shape(name), self.network.values[name]
        if width == 1:
            return name
        if value.data is not None:
            return self.constant(np.broadcast_to(value.data, (*own[:-1], width)))
        ones = self.constant(np.ones((*(1,) * (len(own) - 1), width), np.float16))
        whole = (*own[:-1], width)
        operands = {"a": name, "b": ones}
        return self.emit(
            "binary", operands, whole, value.dtype, _one(value.scale), function="multiply"
        )


def _one(scale: Any) -> float | None:
    return None if scale is None else float(scale)


def simplified(network: Network) -> Network:
    """Without dead calls; activations, residuals and roundings to i8 inside their producers."""
    changed = True
    while changed:
        changed = False
        users: dict[str, list[Call]] = {}
        for call in network.calls:
            for name in call.operands.values():
                users.setdefault(name, []).append(call)
        makers = {call.result: call for call in network.calls}
        for call in network.calls:
            if call.result not in users and call.result not in network.outputs:
                network.calls.remove(call)
                changed = True
                break
            merged = _merged(network, call, makers, users)
            if merged is not None:
                producer, replacement = merged
                place = network.calls.index(call)
                network.calls[place] = replacement
                network.calls.remove(producer)
                changed = True
                break
    return network


_ROUND_ONCE = {"softmax", "rms_norm", "layer_norm", "silu_gate", "rope", "attention", "matmul"}


def _merged(
    network: Network, call: Call, makers: dict[str, Call], users: dict[str, list[Call]]
) -> tuple[Call, Call] | None:
    """A call and its producer as one, with the same bits."""

    def only(name: str) -> Call | None:
        maker = makers.get(name)
        if maker is None or len(users.get(name, ())) != 1 or name in network.outputs:
            return None
        return maker if list(users[name][0].operands.values()).count(name) == 1 else None

    result = network.values[call.result]
    if call.family == "cast" and result.dtype == "i8":
        maker = only(call.operands["x"])
        value = network.values[call.operands["x"]]
        if maker is not None and value.dtype == "f32" and maker.family in _ROUND_ONCE:
            return maker, Call(
                maker.name, maker.family, maker.operands, call.result, maker.attributes,
                maker.sources + call.sources,
            )  # fmt: skip
    products = ("linear", "convolution")
    if call.family == "bound":
        maker = only(call.operands["x"])
        if maker is not None and maker.family in products and "residual" not in maker.operands:
            attributes = {**maker.attributes, **_bounds(call, maker.attributes)}
            return maker, Call(
                maker.name, maker.family, maker.operands, call.result, attributes,
                maker.sources + call.sources,
            )  # fmt: skip
    if call.family == "binary" and call.attributes["function"] == "add" and result.dtype == "f16":
        names = list(call.operands.values())
        for name, other in (names, names[::-1]):
            maker = only(name)
            same = network.values[name].shape == network.values[other].shape == result.shape
            if maker is None or maker.family not in products or not same:
                continue
            floats = network.values[name].dtype == network.values[other].dtype == "f16"
            plain = "residual" not in maker.operands and not maker.attributes.get("transposed")
            if floats and plain:
                operands = {**maker.operands, "residual": other}
                return maker, Call(
                    maker.name, maker.family, operands, call.result, maker.attributes,
                    maker.sources + call.sources,
                )  # fmt: skip
    return None


def _bounds(call: Call, before: Mapping[str, Any]) -> dict[str, Any]:
    low, high = call.attributes["low"], call.attributes["high"]
    if "clamp" in before:
        low, high = max(low, before["clamp"][0]), min(high, before["clamp"][1])
    if before.get("relu"):
        low = max(low, 0.0)
    if low == 0.0 and high >= 1e38:
        return {"relu": True}
    return {"clamp": (low, high)}
