"""The operations of random models: what each computes, and how torch, ONNX and JAX write it.

An operation's meaning is a function on float64 arrays whose first argument is a `Rounding`: the
exact one leaves numbers alone, others disturb them where the machine rounds (see random_noise.py).
Nothing here is shared with the compiler or its references.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Options = dict[str, Any]


class Rounding:
    """Exact arithmetic; subclasses disturb numbers where a machine rounds them."""

    def bf16(self, x: Array) -> Array:
        """A value that is kept as bf16."""
        return x

    def fp8(self, x: Array) -> Array:
        """An operand of a product."""
        return x

    def sums(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Terms of a sum over `axes` whose partial sums are rounded."""
        return x


@dataclass(frozen=True)
class Operation:
    """One operation: its meaning, and its text by source.

    meaning: (rounding, arrays, options) -> array
    torch, jax: (names of operands, options) -> expression
    onnx: (names of operands, options, name of the result) -> expression that adds nodes
    """

    meaning: Callable[[Rounding, list[Array], Options], Array]
    torch: Callable[[Sequence[str], Options], str]
    jax: Callable[[Sequence[str], Options], str]
    onnx: Callable[[Sequence[str], Options, str], str]


OPERATIONS: dict[str, Operation] = {}


def node(kind: str, operands: Sequence[str], result: str, **attributes: Any) -> str:
    """The call that adds an ONNX node; operands are expressions."""
    extra = "".join(f", {name}={value!r}" for name, value in attributes.items())
    return f'node("{kind}", [{", ".join(operands)}], "{result}"{extra})'


def _define(name: str, meaning: Any, torch: Any, jax: Any, onnx: Any) -> None:
    """An operation; texts may be patterns ({0} is an operand, {name} an option)."""

    def text(pattern: Any) -> Any:
        if not isinstance(pattern, str):
            return pattern
        return lambda a, o: pattern.format(*a, **o)

    nodes = (lambda a, o, out: node(onnx, a, out)) if isinstance(onnx, str) else onnx
    OPERATIONS[name] = Operation(meaning, text(torch), text(jax), nodes)


def _steps(along: Sequence[int]) -> Array:
    """0 to 1 along one axis."""
    return (np.arange(max(along)) / max(along)).reshape(along)


# --- element by element -----------------------------------------------------------------


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _unary(name: str, function: Any, torch: str, jax: str, onnx: Any, inner: Any = None) -> None:
    """function(x), or x * function(inner(x)) where the machine rounds what is inside."""

    def meaning(r: Rounding, a: Sequence[Array], o: Options) -> Array:
        x = r.bf16(a[0])
        return r.bf16(function(x) if inner is None else x * function(r.bf16(inner(x))))

    _define(name, meaning, torch, jax, onnx)


def _chain(*kinds: str) -> Any:
    """ONNX operators of one operand after each other."""

    def text(a: Sequence[str], o: Options, out: str) -> str:
        value = a[0]
        for number, kind in enumerate(kinds):
            last = number == len(kinds) - 1
            value = node(kind, [value], out if last else f"{out}_{number}")
        return value

    return text


def _bend(x: Array) -> Array:
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


_unary("relu", lambda x: np.maximum(x, 0), "F.relu({0})", "jax.nn.relu({0})", "Relu")
_unary("tanh", np.tanh, "torch.tanh({0})", "jnp.tanh({0})", "Tanh")
_unary("sigmoid", _sigmoid, "torch.sigmoid({0})", "jax.nn.sigmoid({0})", "Sigmoid")
_unary("exp", np.exp, "torch.exp({0})", "jnp.exp({0})", "Exp")
_unary("absolute", np.abs, "torch.abs({0})", "jnp.abs({0})", "Abs")
_unary("negate", np.negative, "-{0}", "-{0}", "Neg")
_unary("erf", _erf, "torch.erf({0})", "jax.lax.erf({0})", "Erf")
_unary(
    "softplus",
    lambda x: np.logaddexp(x, 0),
    "F.softplus({0})",
    "jax.nn.softplus({0})",
    "Softplus",
)
_unary(
    "silu",
    lambda x: x * _sigmoid(x),
    "F.silu({0})",
    "jax.nn.silu({0})",
    lambda a, o, out: node("Mul", [a[0], node("Sigmoid", a, f"{out}_s")], out),
)
_unary(
    "gelu",
    lambda bend: 0.5 * (1 + bend),
    "F.gelu({0})",
    "jax.nn.gelu({0}, approximate=False)",
    "Gelu",
    inner=lambda x: _erf(x / math.sqrt(2)),
)
_unary(
    "gelu_tanh",
    lambda bend: 0.5 * (1 + bend),
    'F.gelu({0}, approximate="tanh")',
    "jax.nn.gelu({0})",
    lambda a, o, out: node("Gelu", a, out, approximate="tanh"),
    inner=_bend,
)
_unary(
    "leaky_relu",
    lambda x: np.where(x > 0, x, 0.1 * x),
    "F.leaky_relu({0}, 0.1)",
    "jax.nn.leaky_relu({0}, 0.1)",
    lambda a, o, out: node("LeakyRelu", a, out, alpha=0.1),
)
_unary(
    "elu",
    lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "F.elu({0})",
    "jax.nn.elu({0})",
    "Elu",
)
_unary(
    "hardswish",
    lambda gate: np.clip(gate / 6, 0, 1),
    "F.hardswish({0})",
    "jax.nn.hard_swish({0})",
    "HardSwish",
    inner=lambda x: x + 3,
)
_unary("square", np.square, "{0} * {0}", "{0} * {0}", lambda a, o, out: node("Mul", a * 2, out))
_unary(
    "clamp",
    lambda x: np.clip(x, -0.75, 1.25),
    "torch.clamp({0}, -0.75, 1.25)",
    "jnp.clip({0}, -0.75, 1.25)",
    lambda a, o, out: node("Clip", [a[0], "scalar(-0.75)", "scalar(1.25)"], out),
)
_unary(
    "root",
    lambda x: np.sqrt(np.abs(x) + 0.5),
    "torch.sqrt(torch.abs({0}) + 0.5)",
    "jnp.sqrt(jnp.abs({0}) + 0.5)",
    lambda a, o, out: node(
        "Sqrt", [node("Add", [node("Abs", a, f"{out}_a"), "scalar(0.5)"], f"{out}_b")], out
    ),
)
_unary(
    "logarithm",
    lambda x: np.log(np.abs(x) + 0.5),
    "torch.log(torch.abs({0}) + 0.5)",
    "jnp.log(jnp.abs({0}) + 0.5)",
    lambda a, o, out: node(
        "Log", [node("Add", [node("Abs", a, f"{out}_a"), "scalar(0.5)"], f"{out}_b")], out
    ),
)
_unary("sine", np.sin, "torch.sin({0})", "jnp.sin({0})", "Sin")
_unary("cosine", np.cos, "torch.cos({0})", "jnp.cos({0})", "Cos")


def _binary(name: str, function: Any, sign: str, onnx: str) -> None:
    pattern = f"{{0}} {sign} {{1}}"
    _define(
        name,
        lambda r, a, o: r.bf16(function(r.bf16(a[0]), r.bf16(a[1]))),
        pattern,
        pattern,
        onnx,
    )


_binary("add", np.add, "+", "Add")
_binary("subtract", np.subtract, "-", "Sub")
_binary("multiply", np.multiply, "*", "Mul")


def _both(name: str, function: Any, onnx: str) -> None:
    _define(
        name,
        lambda r, a, o: r.bf16(function(r.bf16(a[0]), r.bf16(a[1]))),
        f"torch.{name}({{0}}, {{1}})",
        f"jnp.{name}({{0}}, {{1}})",
        onnx,
    )


_both("maximum", np.maximum, "Max")
_both("minimum", np.minimum, "Min")
_define(
    "divide",  # by something that is not near zero
    lambda r, a, o: r.bf16(r.bf16(a[0]) / r.bf16(1 + r.bf16(np.abs(r.bf16(a[1]))))),
    "{0} / (1 + torch.abs({1}))",
    "{0} / (1 + jnp.abs({1}))",
    lambda a, o, out: node(
        "Div",
        [a[0], node("Add", ["scalar(1.0)", node("Abs", [a[1]], f"{out}_a")], f"{out}_b")],
        out,
    ),
)
for _name, _sign, _kind, _function in (
    ("add_number", "+", "Add", np.add),
    ("multiply_number", "*", "Mul", np.multiply),
):
    _define(
        _name,
        lambda r, a, o, function=_function: r.bf16(function(r.bf16(a[0]), o["number"])),
        f"{{0}} {_sign} {{number}}",
        f"{{0}} {_sign} {{number}}",
        lambda a, o, out, kind=_kind: node(kind, [a[0], f"scalar({o['number']})"], out),
    )
_define(
    # A known vector, repeated along all axes but one.
    "add_steps",
    lambda r, a, o: r.bf16(r.bf16(a[0]) + r.bf16(_steps(o["along"]))),
    "{0} + (torch.arange({size}) / {size}).reshape({along}).expand({whole})",
    "{0} + jnp.broadcast_to((jnp.arange({size}) / {size}).reshape({along}), {whole})",
    lambda a, o, out: node(
        "Add",
        [
            a[0],
            node(
                "Expand",
                [
                    f"floats(np.arange({o['size']}).reshape({o['along']}) / {o['size']})",
                    f"ints({o['whole']})",
                ],
                f"{out}_steps",
            ),
        ],
        out,
    ),
)
_define(
    "reverse_subtract",
    lambda r, a, o: r.bf16(o["number"] - r.bf16(a[0])),
    "{number} - {0}",
    "{number} - {0}",
    lambda a, o, out: node("Sub", [f"scalar({o['number']})", a[0]], out),
)
_define(
    "choose",
    lambda r, a, o: np.where(a[0], r.bf16(a[1]), r.bf16(a[2])),
    "torch.where({0}, {1}, {2})",
    "jnp.where({0}, {1}, {2})",
    "Where",
)
_define(
    "masked_fill",
    lambda r, a, o: np.where(a[1], o["number"], r.bf16(a[0])),
    "{0}.masked_fill({1}, {number})",
    "jnp.where({1}, {number}, {0})",
    lambda a, o, out: node("Where", [a[1], f"scalar({o['number']})", a[0]], out),
)
_define(
    "below",  # integers below a number: a mask computed by the model
    lambda r, a, o: a[0] < o["number"],
    "{0} < {number}",
    "{0} < {number}",
    lambda a, o, out: node("Less", [a[0], f"ints({o['number']})"], out),
)
_define(
    "as_numbers",  # integers as floats, which products and others take
    lambda r, a, o: a[0].astype(np.float64),
    "{0}.float()",
    "{0}.astype(jnp.float32)",
    lambda a, o, out: node("Cast", [a[0]], out, to=1),
)
_define(
    "waves",  # sin or cos of positions times frequencies
    lambda r, a, o: r.bf16(getattr(np, o["wave"])(a[0].astype(np.float64)[..., None] * a[1])),
    "torch.{wave}({0}.float()[..., None] * {1})",
    "jnp.{wave}({0}.astype(jnp.float32)[..., None] * {1})",
    lambda a, o, out: node(
        o["wave"].capitalize(),
        [
            node(
                "Mul",
                [
                    node(
                        "Unsqueeze",
                        [node("Cast", [a[0]], f"{out}_f", to=1), "ints([-1])"],
                        f"{out}_u",
                    ),
                    a[1],
                ],
                f"{out}_m",
            )
        ],
        out,
    ),
)


# --- movement ---------------------------------------------------------------------------


def _list(o: Options, name: str) -> list[int]:
    return [int(v) for v in o[name]]


_define(
    "reshape",
    lambda r, a, o: a[0].reshape(o["shape"]),
    "{0}.reshape({shape})",
    "{0}.reshape({shape})",
    lambda a, o, out: node("Reshape", [a[0], f"ints({_list(o, 'shape')})"], out),
)
_define(
    "transpose",
    lambda r, a, o: a[0].transpose(o["order"]),
    "{0}.permute({order})",
    "{0}.transpose({order})",
    lambda a, o, out: node("Transpose", a, out, perm=_list(o, "order")),
)
_define(
    "unsqueeze",
    lambda r, a, o: np.expand_dims(a[0], o["axis"]),
    "{0}.unsqueeze({axis})",
    "jnp.expand_dims({0}, {axis})",
    lambda a, o, out: node("Unsqueeze", [a[0], f"ints([{o['axis']}])"], out),
)
_define(
    "squeeze",
    lambda r, a, o: np.squeeze(a[0], o["axis"]),
    "{0}.squeeze({axis})",
    "jnp.squeeze({0}, {axis})",
    lambda a, o, out: node("Squeeze", [a[0], f"ints([{o['axis']}])"], out),
)
_define(
    "expand",
    lambda r, a, o: np.broadcast_to(a[0], o["shape"]),
    "{0}.expand({shape})",
    "jnp.broadcast_to({0}, {shape})",
    lambda a, o, out: node("Expand", [a[0], f"ints({_list(o, 'shape')})"], out),
)
_define(
    "repeat",
    lambda r, a, o: np.tile(a[0], o["times"]),
    "{0}.repeat({times})",
    "jnp.tile({0}, {times})",
    lambda a, o, out: node("Tile", [a[0], f"ints({_list(o, 'times')})"], out),
)


def _slice(o: Options) -> tuple[slice, ...]:
    return (slice(None),) * o["axis"] + (slice(o["start"], o["end"], o["step"]),)


def _slice_text(a: Sequence[str], o: Options) -> str:
    step = f":{o['step']}" if o["step"] != 1 else ""
    return f"{a[0]}[{':, ' * o['axis']}{o['start']}:{o['end']}{step}]"


_define(
    "slice",
    lambda r, a, o: a[0][_slice(o)],
    _slice_text,
    _slice_text,
    lambda a, o, out: node(
        "Slice",
        [a[0], *(f"ints([{o[name]}])" for name in ("start", "end", "axis", "step"))],
        out,
    ),
)
_define(
    "select",
    lambda r, a, o: np.take(a[0], o["index"], o["axis"]),
    "{0}.select({axis}, {index})",
    "jnp.take({0}, {index}, axis={axis})",
    lambda a, o, out: node("Gather", [a[0], f"ints({o['index']})"], out, axis=o["axis"]),
)
_define(
    "concat",
    lambda r, a, o: np.concatenate(a, o["axis"]),
    lambda a, o: f"torch.cat([{', '.join(a)}], {o['axis']})",
    lambda a, o: f"jnp.concatenate([{', '.join(a)}], {o['axis']})",
    lambda a, o, out: node("Concat", a, out, axis=o["axis"]),
)
_define(
    "stack",
    lambda r, a, o: np.stack(a, o["axis"]),
    lambda a, o: f"torch.stack([{', '.join(a)}], {o['axis']})",
    lambda a, o: f"jnp.stack([{', '.join(a)}], {o['axis']})",
    lambda a, o, out: node(
        "Concat",
        [node("Unsqueeze", [x, f"ints([{o['axis']}])"], f"{out}_{k}") for k, x in enumerate(a)],
        out,
        axis=o["axis"],
    ),
)
_define(
    "flip",
    lambda r, a, o: np.flip(a[0], o["axis"]),
    "torch.flip({0}, [{axis}])",
    "jnp.flip({0}, {axis})",
    lambda a, o, out: node(
        "Slice",
        [a[0], "ints([-1])", "ints([-2**31])", f"ints([{o['axis']}])", "ints([-1])"],
        out,
    ),
)


def _pads(o: Options) -> list[tuple[int, int]]:
    return [(0, 0)] * (o["rank"] - 1) + [(o["before"], o["after"])]


_define(
    "pad",
    lambda r, a, o: np.pad(a[0], _pads(o)),
    "F.pad({0}, ({before}, {after}))",
    lambda a, o: f"jnp.pad({a[0]}, {_pads(o)})",
    lambda a, o, out: node(
        "Pad", [a[0], f"ints({[p[0] for p in _pads(o)] + [p[1] for p in _pads(o)]})"], out
    ),
)
_define(
    "rows",  # of a table or an activation, chosen by integers
    lambda r, a, o: a[0][a[1]],
    lambda a, o: f"F.embedding({a[1]}, {a[0]})" if o["table"] else f"{a[0]}[{a[1]}]",
    "{0}[{1}]",
    lambda a, o, out: node("Gather", a, out, axis=0),
)
_define(
    "choose_rows",  # the same along any axis, by a list of integers
    lambda r, a, o: np.take(a[0], a[1], o["axis"]),
    "torch.index_select({0}, {axis}, {1})",
    "jnp.take({0}, {1}, axis={axis})",
    lambda a, o, out: node("Gather", a, out, axis=o["axis"]),
)
