"""Data masks: what lies behind the valid part of a tensor must not reach a result.

Static shapes carry padding: a tensor of 64 rows may hold 40. For every value the analysis knows
how far it is valid and what its padding holds: zeros, the lowest number, or anything ("dirty").
An operation that reads across the border gets a mask in front of it, and only if its neutral
element is not there already.

| reads across the border | neutral |
|---|---|
| convolution with a kernel above 1, product along the padded axis, sum | 0 |
| maximum pooling, softmax and maximum along the padded axis | the lowest number |
| attention over padded keys | the keys are left out |
| averages and norms along the padded axis | none: an error |

A mask selects, it does not multiply: nothing times 0 is 0 for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.lowering.images import window_of
from tilewright.targets.vpu.lowering.network import Call, Network, Shape

ZERO, LOWEST, HIGHEST, DIRTY = "zero", "lowest", "highest", "dirty"
_NUMBERS = {ZERO: 0.0, LOWEST: -np.inf, HIGHEST: np.inf}
_ZERO_TO_ZERO = frozenset(
    ("relu", "neg", "abs", "square", "cube", "tanh", "sqrt", "erf", "silu", "gelu_tanh",
     "gelu_erf", "sin", "floor", "ceil", "round")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Padding:
    """How far each axis of a value is valid, and what lies behind."""

    valid: Shape
    content: str

    def along(self, shape: Shape, axis: int) -> bool:
        return self.valid[axis] < shape[axis]


@dataclass(frozen=True, slots=True)
class Masked:
    """A network whose results do not depend on padding, and how far its values are valid."""

    network: Network
    valid: dict[str, Shape]


def with_masks(network: Network, valid: Mapping[str, Sequence[int]]) -> Masked:
    """Insert masks where padding of the given inputs would be mixed into results.

    before: convolution(add(x, b))
    after:  convolution(select(mask, add(x, b), 0)), if x is padded along its lines
    """
    made = Network(dict(network.values), [], list(network.inputs), list(network.outputs))
    pass_ = _Masks(made)
    for name, extents in valid.items():
        pass_.declare(name, tuple(extents))
    for call in network.calls:
        pass_.take(call)
    found = {name: padding.valid for name, padding in pass_.padding.items()}
    return Masked(made, found)


class _Masks:
    """The analysis, and the network as it grows."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.padding: dict[str, Padding] = {}
        self.masked: dict[tuple[str, str], str] = {}

    def declare(self, name: str, valid: Shape) -> None:
        if name not in self.network.inputs:
            raise TilewrightError("TW7089", f"{name!r} is no input that could be padded")
        shape = self.network.values[name].shape
        if len(valid) != len(shape) or any(
            not 1 <= v <= n for v, n in zip(valid, shape, strict=False)
        ):
            raise TilewrightError(
                "TW7089",
                f"{name!r} has the shape {shape}, its valid part cannot be {valid}",
                hint="give the valid extent of every axis, 1 or more",
            )
        if valid != shape:
            self.padding[name] = Padding(valid, DIRTY)

    def take(self, call: Call) -> None:
        roles = {role: self.padding[n] for role, n in call.operands.items() if n in self.padding}
        if not roles:
            self.network.calls.append(call)
            return
        rule = _RULES.get(call.family)
        if rule is None:
            raise _refused(call, f"has no rule for padding in {call.family}")
        changed, result = rule(self, call, roles)
        self.network.calls.append(changed)
        if result is not None and result.valid != self.network.values[call.result].shape:
            self.padding[call.result] = result

    def shape(self, call: Call, role: str) -> Shape:
        return self.network.values[call.operands[role]].shape

    def mask(self, call: Call, role: str, neutral: str) -> Call:
        """The call with an operand whose padding is neutral."""
        name = call.operands[role]
        padding = self.padding.get(name)
        if padding is None or padding.content == neutral:
            return call
        key = (name, neutral)
        if key not in self.masked:
            self.masked[key] = self._select(name, padding, neutral)
        return replace(call, operands={**call.operands, role: self.masked[key]})

    def _select(self, name: str, padding: Padding, neutral: str) -> str:
        network, value = self.network, self.network.values[name]
        padded = [padding.along(value.shape, axis) for axis in range(len(value.shape))]
        sizes = list(value.shape)
        if not padded[-1]:
            sizes[-1] = 1  # the same for all of a row
        elif not any(padded[:-1]):
            sizes[:-1] = [1] * (len(sizes) - 1)
        inside = np.ones(sizes, np.float16)
        for axis, extent in enumerate(padding.valid):
            if padded[axis]:
                inside[(slice(None),) * axis + (slice(extent, None),)] = 0
        mask = network.constant(f"{name}.valid.{neutral}", inside)
        number = np.full(1, _NUMBERS[neutral], np.float16)
        other = network.constant(f"{name}.neutral.{neutral}", number)
        result = network.value(f"{name}.masked.{neutral}", value.shape, value.dtype, value.scale)
        operands = {"condition": mask, "a": name, "b": other}
        network.call("select", result, operands)
        self.padding[result] = Padding(padding.valid, neutral)
        return result


def _refused(call: Call, why: str) -> TilewrightError:
    return TilewrightError(
        "TW7089", f"{call.name}: the VPU {why}", hint="give this axis its valid extent as its shape"
    )


Roles = Mapping[str, Padding]
Rule = Callable[[_Masks, Call, Roles], tuple[Call, Padding | None]]


def _window(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    """Convolutions and pooling: lines and columns reach across the border if kernels are wide."""
    x, shape = roles.get("x"), masks.shape(call, "x")
    result = masks.network.values[call.result].shape
    if x is None:
        return call, Padding(roles["residual"].valid, DIRTY)
    window = window_of(masks.network.values, call)
    wide = any(
        x.along(shape, axis) and window.kernel[place] > 1 for place, axis in enumerate((1, 2))
    )
    pooled = call.family == "pool"
    averaged = pooled and wide and call.attributes["function"] != "max"
    if averaged and not call.attributes.get("count_padding"):
        raise _refused(call, "cannot leave padding out of an average")
    inner = x.along(shape, 3) and not pooled
    if wide or inner:
        lowest = pooled and call.attributes["function"] == "max"
        call = masks.mask(call, "x", LOWEST if lowest else ZERO)
    valid = [x.valid[0], 0, 0, x.valid[3] if pooled else result[3]]
    for place, axis in enumerate((1, 2)):
        reach = (window.kernel[place] - 1) * window.dilations[place] + 1
        room = x.valid[axis] + window.padding[place] + window.padding[place + 2]
        count = max(1, (room - reach) // window.strides[place] + 1)
        valid[axis] = min(result[axis], count) if x.along(shape, axis) else result[axis]
    return call, Padding(tuple(valid), DIRTY)


def _linear(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    result = masks.network.values[call.result].shape
    x, shape = roles.get("x"), masks.shape(call, "x")
    if x is None:
        return call, Padding(roles["residual"].valid, DIRTY)
    if x.along(shape, len(shape) - 1):
        call = masks.mask(call, "x", ZERO)
    plain = not {"bias", "residual"} & call.operands.keys() and x.content == ZERO
    if call.attributes.get("transposed"):
        valid = (result[0], *x.valid[:-1])
    else:
        valid = (*x.valid[:-1], result[-1])
    return call, Padding(valid, ZERO if plain else DIRTY)


def _matmul(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    result = masks.network.values[call.result].shape
    valid = list(result)
    inner = any(p.along(masks.shape(call, r), len(p.valid) - 1) for r, p in roles.items())
    for role, place in (("x", -2), ("y", -1)):
        if role in roles:
            valid[place] = roles[role].valid[-2]
            for axis in range(len(roles[role].valid) - 2):
                valid[axis] = min(valid[axis], roles[role].valid[axis])
            if inner:
                call = masks.mask(call, role, ZERO)
    return call, Padding(tuple(valid), DIRTY)


def _attention(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    """Keys behind the valid ones are never loaded; padded query rows are padded results."""
    seen = [roles["k"].valid[0]] if "k" in roles else []
    seen += [roles["v"].valid[1]] if "v" in roles else []
    if seen:
        before = call.attributes.get("valid_keys") or masks.shape(call, "k")[0]
        attributes = {**call.attributes, "valid_keys": min(int(before), *seen)}
        call = replace(call, attributes=attributes)
    result = masks.network.values[call.result].shape
    rows = roles["q"].valid[0] if "q" in roles else result[0]
    return call, Padding((rows, *result[1:]), DIRTY)


def _rows(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    """Softmax, norms and reductions: only padding along the last axis is mixed in."""
    x, shape = roles.get("x"), masks.shape(call, "x")
    result = masks.network.values[call.result].shape
    if x is None:
        raise _refused(call, "takes no padded weights")
    content = DIRTY
    if x.along(shape, len(shape) - 1):
        function = call.attributes.get("function", call.family)
        neutral = {"softmax": LOWEST, "sum": ZERO, "max": LOWEST, "min": HIGHEST}.get(function)
        if neutral is None:
            raise _refused(call, f"cannot leave padding out of {call.family}")
        call = masks.mask(call, "x", neutral)
        content = ZERO if call.family == "softmax" and x.valid[:-1] == shape[:-1] else DIRTY
    last = x.valid[-1:] if call.family == "softmax" or len(result) == len(shape) else ()
    if call.family == "reduce":
        last = result[len(shape) - 1 :]
    return call, Padding((*x.valid[:-1], *last), content)


def _elements(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    """Position by position: padding stays where it is; what it holds depends on the operation."""
    result = masks.network.values[call.result].shape
    valid = list(result)
    for role, padding in roles.items():
        shape = masks.shape(call, role)
        first = len(result) - len(shape)
        for axis, extent in enumerate(padding.valid):
            if extent < shape[axis]:
                valid[first + axis] = min(valid[first + axis], extent)
    zero = all(padding.content == ZERO for padding in roles.values())
    alike = all(role in roles for role in call.operands)
    function = call.attributes.get("function")
    if call.family == "unary":
        zero = zero and function in _ZERO_TO_ZERO
    elif call.family == "binary" and function == "multiply":
        others = [n for role, n in call.operands.items() if role not in roles]
        data = [masks.network.values[name].data for name in others]
        zero = zero and all(d is not None and bool(np.isfinite(d).all()) for d in data)
    elif call.family == "binary":
        zero = zero and alike and function in ("add", "subtract", "maximum", "minimum")
    elif call.family not in ("cast", "scale", "rope") and not (
        call.family == "silu_gate" and alike
    ):
        zero = False
    same = len({tuple(p.valid) for p in roles.values()}) == 1
    return call, Padding(tuple(valid), ZERO if zero and same else DIRTY)


def _transpose(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    order = call.attributes["permutation"]
    return call, Padding(tuple(roles["x"].valid[axis] for axis in order), roles["x"].content)


def _reshape(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    """Axes of one element come and go; others would tear the valid part apart."""
    shape, result = masks.shape(call, "x"), masks.network.values[call.result].shape
    if [n for n in shape if n > 1] != [n for n in result if n > 1]:
        raise _refused(call, f"cannot follow padding from {shape} to {result}")
    kept = iter(v for v, n in zip(roles["x"].valid, shape, strict=True) if n > 1)
    return call, Padding(tuple(next(kept) if n > 1 else 1 for n in result), roles["x"].content)


def _slice(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    sizes, offsets = call.attributes["sizes"], call.attributes["offsets"]
    steps = call.attributes.get("steps") or (1,) * len(sizes)
    valid = []
    for axis, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
        inside = max(0, -(-(roles["x"].valid[axis] - offset) // step))
        if not inside:
            raise _refused(call, "is asked for a part that is padding alone")
        valid.append(min(size, inside))
    return call, Padding(tuple(valid), roles["x"].content)


def _concat(masks: _Masks, call: Call, roles: Roles) -> tuple[Call, Padding | None]:
    axis, result = call.attributes["axis"], masks.network.values[call.result].shape
    if any(p.along(masks.shape(call, role), axis % len(p.valid)) for role, p in roles.items()):
        raise _refused(call, "would put padding between parts")
    valid = list(result)
    for padding in roles.values():
        for place, extent in enumerate(padding.valid):
            if place != axis % len(result):
                valid[place] = min(valid[place], extent)
    alike = len(roles) == len(call.operands) and len({p.content for p in roles.values()}) == 1
    same = len({p.valid[:axis] + p.valid[axis + 1 :] for p in roles.values()}) == 1
    content = next(iter(roles.values())).content
    return call, Padding(tuple(valid), content if alike and same else DIRTY)


_RULES: dict[str, Rule] = {
    "convolution": _window,
    "pool": _window,
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    **dict.fromkeys(("softmax", "rms_norm", "layer_norm", "reduce"), _rows),
    **dict.fromkeys(
        ("unary", "binary", "bound", "cast", "scale", "select", "silu_gate", "rope"), _elements
    ),
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "concat": _concat,
}
