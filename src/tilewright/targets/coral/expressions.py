"""Elementwise nodes as C: one statement per node, on scalars of the node's type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.targets.coral.program import C_TYPES, Access, Node, Value

# Helper functions a statement needs, by the marks of runtime/math.c.
_EXP, _LOG = ("exp_core", "exp"), ("log_core", "log")
PARTS: dict[str, tuple[str, ...]] = {
    "exp": _EXP,
    "exp2": ("exp_core", "exp2"),
    "log": _LOG,
    "log2": ("log_core", "log2"),
    "sin": ("wave", "sin"),
    "cos": ("wave", "cos"),
    "tanh": (*_EXP, "tanh"),
    "gelu_tanh": (*_EXP, "tanh"),
    "erf": (*_EXP, "erf"),
    "gelu_erf": (*_EXP, "erf"),
    "sigmoid": (*_EXP, "sigmoid"),
    "silu": (*_EXP, "sigmoid"),
    "silu_gate": (*_EXP, "sigmoid"),
    "round": ("round",),
    "floor": ("round",),
    "ceil": ("round",),
    "max": ("max",),
    "min": ("max",),
    "relu": ("max",),
    "clamp": ("max",),
    "div": ("divide", "divide64"),
    "pow": ("exp_core", "power", "power_integer"),
    "cast": ("convert64",),
    "q_add": ("requantise",),
    "q_quantise": ("round", "quantise"),
    "softmax": (*_EXP, "max"),
    "q_conv": ("requantise",),
    "q_mean": ("requantise",),
    "pool": ("max",),
    "reduce": ("max",),
}


def literal(value: object, dtype: str) -> str:
    """A C literal with exactly this value."""
    if dtype == "f32":
        number = np.float32(value)  # pyright: ignore[reportArgumentType, reportCallIssue]
        if np.isnan(number):
            return "tw_from_bits(0x7fc00000u)"
        if np.isinf(number):
            return "__builtin_inff()" if number > 0 else "(-__builtin_inff())"
        shortest = np.format_float_scientific(number, unique=True, trim="-")
        plain = np.format_float_positional(number, unique=True, trim="0")
        text = plain if len(plain) <= len(shortest) + 3 else shortest
        if "." not in text and "e" not in text:
            text += ".0"
        return f"{text}f" if not text.startswith("-") else f"({text}f)"
    if dtype == "i1":
        return "1" if value else "0"
    number = int(value)  # pyright: ignore[reportArgumentType]
    if dtype == "i64":
        return f"({number}ll)" if number > -(2**63) else "INT64_MIN"
    if number == -(2**31):
        return "(-2147483647 - 1)"
    return str(number) if number >= 0 else f"({number})"


def initialiser(array: np.ndarray, dtype: str) -> str:
    """The elements of a constant array, several to a line."""
    if dtype == "f32":
        items = [_short_float(v) for v in array.reshape(-1)]
    elif dtype == "i64":
        items = [literal(v, dtype) for v in array.reshape(-1)]
    else:
        items = [str(int(v)) for v in array.reshape(-1)]
    per_line = 8 if dtype == "f32" else 24
    lines = [", ".join(items[k : k + per_line]) for k in range(0, len(items), per_line)]
    return "{\n  " + ",\n  ".join(lines) + "}"


def _short_float(value: np.float32) -> str:
    if np.isnan(value) or np.isinf(value):
        # No literal: as bits through a hexadecimal float is not possible either.
        return (
            '__builtin_nanf("")'
            if np.isnan(value)
            else ("-" if value < 0 else "") + "__builtin_inff()"
        )
    text = np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
    plain = np.format_float_positional(value, unique=True, trim="0")
    text = plain if len(plain) <= len(text) else text
    if "." not in text and "e" not in text:
        text += ".0"
    assert struct.pack("<f", float(text)) == struct.pack("<f", float(value))
    return text + "f"


def _saturated(expression: str, dtype: str) -> str:
    low, high = {"i8": (-128, 127), "ui8": (0, 255), "i16": (-32768, 32767)}[dtype]
    return f"({expression} < {low} ? {low} : {expression} > {high} ? {high} : {expression})"


def _cast(x: str, source: str, to: str) -> str:
    if to == "i1":
        return f"({x} != 0)"
    if source == "f32" and to == "f32":
        return x
    if "i64" in (source, to) and "f32" in (source, to):
        return f"tw_to_int64({x})" if to == "i64" else f"tw_from_int64({x})"
    if source == "f32":
        whole = f"({x} != {x} ? 0 : tw_to_int_zero({x}))"
        if to == "i32":
            return whole
        return f"({C_TYPES[to]})({_saturated(f'(int32_t){whole}', to)})"
    return f"({C_TYPES[to]}){x}"


def _requant(x: str, to: str) -> str:
    whole = f"({x} != {x} ? 0 : tw_to_int_even({x}))"
    return whole if to == "i32" else f"({C_TYPES[to]})({_saturated(f'(int32_t){whole}', to)})"


def _compare(node: Node, a: str, b: str) -> str:
    predicate, dtype = node.attributes["predicate"], node.inputs[0].dtype
    symbols = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    if dtype == "f32":
        unordered = f"({a} != {a} || {b} != {b})"
        if predicate in ("ord", "uno"):
            return f"(!{unordered})" if predicate == "ord" else unordered
        if predicate in symbols:
            return f"({a} {symbols[predicate]} {b})"
        if predicate == "one":
            return f"({a} < {b} || {a} > {b})"
        return f"({unordered} || {a} {symbols[predicate[1:]]} {b})"
    if predicate.startswith("u"):
        kind = {
            "i8": "uint8_t",
            "ui8": "uint8_t",
            "i1": "uint8_t",
            "i16": "uint16_t",
            "i32": "uint32_t",
            "i64": "uint64_t",
        }[dtype]
        return f"(({kind}){a} {symbols[predicate[1:]]} ({kind}){b})"
    return f"({a} {symbols[predicate]} {b})"


def _clamp(node: Node, x: str) -> str:
    dtype = node.output.dtype
    low, high = node.attributes["min"], node.attributes["max"]
    for bound, name, sign in ((low, "tw_max", "<"), (high, "tw_min", ">")):
        if bound is None:
            continue
        limit = literal(bound, dtype)
        x = f"{name}({x}, {limit})" if dtype == "f32" else f"({x} {sign} {limit} ? {limit} : {x})"
    return x


def expression(node: Node, operands: Sequence[str]) -> str:
    """The C expression of a node's element from those of its operands (names or literals)."""
    dtype = node.output.dtype
    is_float = dtype == "f32"
    kind = C_TYPES[dtype]
    a = operands[0] if operands else ""
    b = operands[1] if len(operands) > 1 else ""

    divide = "tw_div64" if dtype == "i64" else "tw_div"

    def wrap(text: str) -> str:
        return text if is_float else f"({kind})({text})"

    def choose(function: str, sign: str) -> str:
        return f"{function}({a}, {b})" if is_float else f"({a} {sign} {b} ? {a} : {b})"

    # Sums and products of 32-bit integers wrap (-fwrapv); narrower ones are cut by the cast.
    table: dict[str, Callable[[], str]] = {
        "copy": lambda: a,
        "neg": lambda: wrap(f"-{a}"),
        "abs": lambda: f"__builtin_fabsf({a})" if is_float else wrap(f"{a} < 0 ? -{a} : {a}"),
        "exp": lambda: f"tw_exp({a})",
        "exp2": lambda: f"tw_exp2({a})",
        "log": lambda: f"tw_log({a})",
        "log2": lambda: f"tw_log2({a})",
        "sin": lambda: f"tw_sin({a})",
        "cos": lambda: f"tw_cos({a})",
        "sqrt": lambda: f"__builtin_sqrtf({a})",
        "rsqrt": lambda: f"1.0f / __builtin_sqrtf({a})",
        "recip": lambda: f"1.0f / {a}",
        "tanh": lambda: f"tw_tanh({a})",
        "sigmoid": lambda: f"tw_sigmoid({a})",
        "silu": lambda: f"{a} * tw_sigmoid({a})",
        "silu_gate": lambda: f"({a} * tw_sigmoid({a})) * {b}",
        "relu": lambda: f"tw_max({a}, 0.0f)" if is_float else f"({a} < 0 ? 0 : {a})",
        "square": lambda: wrap(f"{a} * {a}"),
        "cube": lambda: wrap(f"({a} * {a}) * {a}"),
        "floor": lambda: f"tw_floor({a})",
        "ceil": lambda: f"tw_ceil({a})",
        "round": lambda: f"tw_round({a})",
        "gelu_tanh": lambda: (
            f"(0.5f * {a}) * (1.0f + tw_tanh({literal(node.attributes['inner_scale'], 'f32')} * "
            f"({a} + 0.044715f * (({a} * {a}) * {a}))))"
        ),
        "erf": lambda: f"tw_erf({a})",
        "gelu_erf": lambda: f"{a} * (0.5f * (1.0f + tw_erf({_gelu_inner(node, a)})))",
        "cast": lambda: _cast(a, node.inputs[0].dtype, dtype),
        "requant": lambda: _requant(a, dtype),
        "clamp": lambda: _clamp(node, a),
        "logical_not": lambda: f"!{a}" if dtype == "i1" else wrap(f"~{a}"),
        "logical_and": lambda: wrap(f"{a} & {b}"),
        "logical_or": lambda: wrap(f"{a} | {b}"),
        "logical_xor": lambda: wrap(f"{a} ^ {b}"),
        "add": lambda: wrap(f"{a} + {b}"),
        "sub": lambda: wrap(f"{a} - {b}"),
        "mul": lambda: wrap(f"{a} * {b}"),
        "div": lambda: f"{a} / {b}" if is_float else wrap(f"{divide}({a}, {b})"),
        "pow": lambda: f"tw_power({a}, {b})" if is_float else wrap(f"tw_ipow({a}, {b})"),
        "max": lambda: choose("tw_max", ">"),
        "min": lambda: choose("tw_min", "<"),
        "compare": lambda: _compare(node, a, b),
        "select": lambda: f"{a} ? {b} : {operands[2]}",
        "q_quantise": lambda: _quantise(node, a),
        "q_dequantise": lambda: (
            f"(float)((int32_t){a} - {literal(node.attributes['zero'], 'i32')}) * "
            f"{literal(node.attributes['scale'], 'f32')}"
        ),
    }
    return table[node.kind]()


def _gelu_inner(node: Node, x: str) -> str:
    scale = node.attributes["inner_scale"]
    return f"{x} / 1.4142135f" if scale is None else f"{x} * {literal(scale, 'f32')}"


def _quantise(node: Node, x: str) -> str:
    scale, zero = (
        literal(node.attributes["scale"], "f32"),
        literal(float(node.attributes["zero"]), "f32"),
    )
    return f"tw_quantise(tw_round({x} / {scale}) + {zero})"


def index_text(value: Value, access: Access, loops: Sequence[str]) -> str:
    """The linear index of an operand's element from the loop variables of the result."""
    terms = []
    stride = 1
    for size, dim in reversed(list(zip(value.shape, access, strict=True))):
        if dim is not None and size > 1 and loops[dim] != "0":
            terms.append(loops[dim] if stride == 1 else f"{loops[dim]} * {stride}")
        stride *= size
    return " + ".join(reversed(terms)) or "0"
