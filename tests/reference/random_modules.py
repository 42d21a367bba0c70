"""Random linalg modules: the programs that every pass is checked with.

`random_module(choices)` writes a function as MLIR text. All randomness comes from a `Choices`, driven by
hypothesis (so that failures shrink) or by a seed (`SeededChoices`, for long sweeps). The function starts
from tensors of random rank, sizes and type and applies random operations to what it has so far:
element-wise operations with broadcasts and transposed reads, activations and norms as the chains that
exporters write, softmax, reductions, contractions of every layout, attention with masks, convolutions and
poolings, rope, casts, quantisation, slices, pads, joins, transposes, reshapes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tilewright.reference import dtypes

FLOATS = ("f32", "bf16", "f16")
INFINITY = {"f32": "0x7F800000", "bf16": "0x7F80", "f16": "0x7C00"}
NEGATIVE_INFINITY = {"f32": "0xFF800000", "bf16": "0xFF80", "f16": "0xFC00"}
MAX_ELEMENTS = 40_000
MAX_WORK = 4_000_000


class Choices(Protocol):
    """Where decisions come from."""

    def integer(self, low: int, high: int) -> int: ...

    def pick(self, options: Sequence[Any]) -> Any: ...


class SeededChoices:
    """Decisions from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))


class DrawnChoices:
    """Decisions drawn by hypothesis."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        from hypothesis import strategies as st

        return self.draw(st.integers(low, high))

    def pick(self, options: Sequence[Any]) -> Any:
        from hypothesis import strategies as st

        return self.draw(st.sampled_from(list(options)))


@dataclass(frozen=True)
class Value:
    """A tensor of the function: its name, shape, element type, and how large its elements may be."""

    name: str
    shape: tuple[int, ...]
    element: str
    size: float = 4.0

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    @property
    def rank(self) -> int:
        return len(self.shape)


def tensor_type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def affine(loops: int, dims: Sequence[int | str]) -> str:
    """A map from all loops to some of them (numbers) or written-out expressions."""
    names = ", ".join(f"d{i}" for i in range(loops))
    results = ", ".join(d if isinstance(d, str) else f"d{d}" for d in dims)
    return f"affine_map<({names}) -> ({results})>"


@dataclass
class Module:
    """A function as text, its argument types, and what was put into it."""

    text: str
    arguments: list[Value]
    ingredients: list[str]
    # For every result, the steps of its element type that lowering may move it by; 0: none.
    steps: list[int]

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Ordinary data for the arguments: normal floats, small integers, random masks."""
        generator = np.random.default_rng(seed)
        return [_input(generator, a) for a in self.arguments]


def _input(generator: np.random.Generator, argument: Value) -> np.ndarray:
    if argument.element == "i1":
        return generator.random(argument.shape) < 0.7
    if argument.element.startswith("i"):
        bits = int(argument.element[1:])
        return generator.integers(0, min(100, 2 ** (bits - 1) - 1), argument.shape).astype(
            dtypes.integer(bits).storage
        )
    values = generator.standard_normal(argument.shape)
    return dtypes.stored(values, dtypes.FLOATS[argument.element])


@dataclass
class Writer:
    """Collects operations, arguments and live values."""

    choices: Choices
    lines: list[str] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    ingredients: list[str] = field(default_factory=list)
    # Results that only the return may use, because lowering may move them by a step.
    final: list[Value] = field(default_factory=list)
    steps: int = 0
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def argument(self, shape: Sequence[int], element: str) -> Value:
        value = Value(f"%a{len(self.arguments)}", tuple(shape), element)
        self.arguments.append(value)
        return value

    def constant(self, number: float | int, element: str) -> str:
        name = self.fresh()
        if element[0] == "i":
            text = str(number)
        elif math.isinf(number):
            text = NEGATIVE_INFINITY[element] if number < 0 else INFINITY[element]
        else:
            text = f"{float(number):.16e}"
        self.lines.append(f"{name} = arith.constant {text} : {element}")
        return name

    def empty(self, shape: Sequence[int], element: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = tensor.empty() : {tensor_type(shape, element)}")
        return name

    def filled(self, shape: Sequence[int], element: str, number: float) -> str:
        scalar, empty, name = self.constant(number, element), self.empty(shape, element), self.fresh()
        type_ = tensor_type(shape, element)
        self.lines.append(
            f"{name} = linalg.fill ins({scalar} : {element}) outs({empty} : {type_}) -> {type_}"
        )
        return name

    def generic(
        self,
        inputs: Sequence[tuple[Value, Sequence[int | str]]],
        output: str,
        result: Value,
        result_dims: Sequence[int],
        loops: int,
        body: Callable[[list[str]], list[str]],
        reduced: Sequence[int] = (),
    ) -> Value:
        """A linalg.generic; `body` gets the names of elements and returns lines, the last yields."""
        maps = [affine(loops, dims) for _, dims in inputs] + [affine(loops, result_dims)]
        kinds = ['"reduction"' if d in reduced else '"parallel"' for d in range(loops)]
        names = [f"%e{self.count}_{i}" for i in range(len(inputs) + 1)]
        arguments = ", ".join(
            f"{n}: {v.element}"
            for n, v in zip(names, [*(v for v, _ in inputs), result], strict=True)
        )
        ins = ""
        if inputs:
            listed = ", ".join(v.name for v, _ in inputs)
            types = ", ".join(v.type for v, _ in inputs)
            ins = f"ins({listed} : {types}) "
        self.lines.append(
            f"{result.name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f"iterator_types = [{', '.join(kinds)}]}} {ins}outs({output} : {result.type}) {{"
        )
        self.lines.append(f"^bb0({arguments}):")
        self.lines.extend(f"  {line}" for line in body(names))
        self.lines.append(f"}} -> {result.type}")
        return result

    def elementwise(
        self,
        inputs: Sequence[tuple[Value, Sequence[int | str]]],
        shape: Sequence[int],
        element: str,
        operations: Sequence[str],
        size: float = 4.0,
    ) -> Value:
        """A parallel generic whose body is written with $0, $1, … for inputs and t0, t1, … for temporaries.

        The last operation defines the result; every operation is `NAME OPERANDS : TYPES`.
        """
        result = Value(self.fresh(), tuple(shape), element, size)

        def body(names: list[str]) -> list[str]:
            lines = []
            temporaries: list[str] = []
            for operation in operations:
                for i, name in reversed(list(enumerate(names))):
                    operation = operation.replace(f"${i}", name)
                for i, name in reversed(list(enumerate(temporaries))):
                    operation = operation.replace(f"@{i}", name)
                temporaries.append(f"%t{self.count}_{len(temporaries)}_{result.name[2:]}")
                lines.append(f"{temporaries[-1]} = {operation}")
            return [*lines, f"linalg.yield {temporaries[-1]} : {element}"]

        output = self.empty(shape, element)
        return self.generic(inputs, output, result, range(len(shape)), len(shape), body)

    def line(self, text: str, value: Value) -> Value:
        self.lines.append(f"{value.name} = {text}")
        return value

    def keep(self, name: str, value: Value) -> None:
        self.ingredients.append(name)
        self.values.append(value)


# --------------------------------------------------------------------------- helpers for recipes


def identity(value: Value) -> range:
    return range(value.rank)


def operand_like(writer: Writer, value: Value) -> tuple[Value, list[int | str]]:
    """A second operand for an element-wise operation on `value`, and the dimensions it is read by.

    The same shape, or broadcast from fewer dimensions, or transposed, or size 1 in some dimensions.
    """
    choices = writer.choices
    same = [v for v in writer.values if v.shape == value.shape and v.element == value.element]
    way = choices.pick(("live", "new", "vector", "transposed", "unit"))
    if way == "live":
        return choices.pick(same or [value]), list(identity(value))
    if way == "vector" and value.rank:
        dims = sorted({choices.integer(0, value.rank - 1) for _ in range(choices.integer(1, 2))})
        return writer.argument([value.shape[d] for d in dims], value.element), list(dims)
    if way == "transposed" and value.rank > 1:
        order = list(identity(value))
        i, j = choices.integer(0, value.rank - 1), choices.integer(0, value.rank - 1)
        order[i], order[j] = order[j], order[i]
        return writer.argument([value.shape[d] for d in order], value.element), list(order)
    if way == "unit" and value.rank:
        flat = choices.integer(0, value.rank - 1)
        shape = [1 if d == flat else n for d, n in enumerate(value.shape)]
        dims: list[int | str] = ["0" if d == flat else d for d in identity(value)]
        return writer.argument(shape, value.element), dims
    return writer.argument(value.shape, value.element), list(identity(value))


def is_float(value: Value) -> bool:
    return value.element in FLOATS


def factor(value: Value) -> int:
    return math.prod(value.shape)


# --------------------------------------------------------------------------- element-wise recipes


def binary(writer: Writer, x: Value) -> Value | None:
    name = writer.choices.pick(
        ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.divf")
    )
    if name == "arith.divf":
        other, dims = operand_like(writer, x)
        size = 4.0
        # A divisor of at least 1.
        operations = [
            f"math.absf $1 : {x.element}",
            f"arith.addf @0, {writer.constant(1.0, x.element)} : {x.element}",
            f"arith.divf $0, @1 : {x.element}",
        ]
    else:
        other, dims = operand_like(writer, x)
        size = x.size * other.size if name == "arith.mulf" else x.size + other.size
        pair = writer.choices.pick(("$0, $1", "$1, $0"))
        operations = [f"{name} {pair} : {x.element}"]
    return writer.elementwise(
        [(x, list(identity(x))), (other, dims)], x.shape, x.element, operations, size
    )


def named_binary(writer: Writer, x: Value) -> Value:
    other = writer.argument(x.shape, x.element)
    name = writer.choices.pick(("add", "sub", "mul", "max", "min"))
    output = writer.empty(x.shape, x.element)
    size = x.size * 4 if name == "mul" else x.size + 4
    result = Value(writer.fresh(), x.shape, x.element, size)
    return writer.line(
        f"linalg.{name} ins({x.name}, {other.name} : {x.type}, {other.type}) "
        f"outs({output} : {x.type}) -> {x.type}",
        result,
    )


def scalar_operand(writer: Writer, x: Value) -> Value:
    name = writer.choices.pick(("arith.addf", "arith.subf", "arith.mulf", "arith.divf"))
    number = writer.choices.pick((0.5, 2.0, -1.25, 3.0, 0.1))
    constant = writer.constant(number, x.element)
    pair = f"$0, {constant}"
    if name == "arith.subf" and writer.choices.integer(0, 1):
        pair = f"{constant}, $0"
    size = x.size * 10 if name == "arith.divf" else x.size * 3 + 3
    return writer.elementwise(
        [(x, list(identity(x)))], x.shape, x.element, [f"{name} {pair} : {x.element}"], size
    )


def unary(writer: Writer, x: Value) -> Value | None:
    name = writer.choices.pick(
        ("arith.negf", "math.absf", "math.tanh", "math.sin", "math.cos", "math.erf", "math.floor", "math.ceil", "math.exp", "root", "math.roundeven")  # fmt: skip
    )
    bounded = {"math.tanh": 1.0, "math.sin": 1.0, "math.cos": 1.0, "math.erf": 1.0}
    if name == "math.exp" and x.size > 8:
        return None
    if name in ("math.sin", "math.cos") and x.size > 1e4:
        return None
    operations = [f"{name} $0 : {x.element}"]
    size = bounded.get(name, x.size)
    if name == "math.exp":
        size = math.exp(x.size)
    if name == "root":
        other = writer.choices.pick(("math.sqrt", "math.rsqrt", "math.log", "math.log2"))
        operations = [
            f"math.absf $0 : {x.element}",
            f"arith.addf @0, {writer.constant(0.5, x.element)} : {x.element}",
            f"{other} @1 : {x.element}",
        ]
        size = max(4.0, math.sqrt(x.size))
    return writer.elementwise([(x, list(identity(x)))], x.shape, x.element, operations, size)


def select(writer: Writer, x: Value) -> Value:
    other, dims = operand_like(writer, x)
    predicate = writer.choices.pick(("ogt", "olt", "oge", "ole", "une", "oeq", "ugt", "ult"))
    if writer.choices.integer(0, 1):
        constant = writer.constant(0.0, x.element)
        operations = [
            f"arith.cmpf {predicate}, $0, $1 : {x.element}",
            f"arith.select @0, $0, {constant} : {x.element}",
        ]
        return writer.elementwise(
            [(x, list(identity(x))), (other, dims)], x.shape, x.element, operations, x.size
        )
    # A mask of its own.
    mask = writer.elementwise(
        [(x, list(identity(x))), (other, dims)],
        x.shape,
        "i1",
        [f"arith.cmpf {predicate}, $0, $1 : {x.element}"],
    )
    third = writer.argument(x.shape, x.element)
    inputs = [(v, list(identity(x))) for v in (mask, x, third)]
    operations = [f"arith.select $0, $1, $2 : {x.element}"]
    return writer.elementwise(inputs, x.shape, x.element, operations, max(x.size, 4.0))


def cast(writer: Writer, x: Value) -> Value | None:
    others = [e for e in FLOATS if e != x.element]
    target = writer.choices.pick(others)
    if x.size > 6e4 and target == "f16":
        return None
    widths = {"f32": 32, "bf16": 16, "f16": 16}
    if widths[x.element] == widths[target]:
        operations = [f"arith.extf $0 : {x.element} to f32", f"arith.truncf @0 : f32 to {target}"]
    else:
        name = "arith.extf" if widths[target] > widths[x.element] else "arith.truncf"
        operations = [f"{name} $0 : {x.element} to {target}"]
    return writer.elementwise([(x, list(identity(x)))], x.shape, target, operations, x.size)


def integers(writer: Writer, x: Value) -> Value:
    """Through integers and back: fptosi of a bounded value, some integer steps, sitofp."""
    element = x.element
    limit = writer.constant(50.0, element)
    low = writer.constant(-50.0, element)
    seven = writer.constant(7, "i32")
    operations = [
        f"arith.minimumf $0, {limit} : {element}",
        f"arith.maximumf @0, {low} : {element}",
        f"arith.fptosi @1 : {element} to i32",
        f"arith.muli @2, {seven} : i32",
        f"arith.addi @3, @2 : i32",
        f"arith.sitofp @4 : i32 to {element}",
    ]
    return writer.elementwise([(x, list(identity(x)))], x.shape, element, operations, 400.0)


def positions(writer: Writer, x: Value) -> Value | None:
    """Add the index along one dimension."""
    if not x.rank:
        return None
    dimension = writer.choices.integer(0, x.rank - 1)
    operations = [
        f"linalg.index {dimension} : index",
        "arith.index_cast @0 : index to i32",
        f"arith.sitofp @1 : i32 to {x.element}",
        f"arith.addf $0, @2 : {x.element}",
    ]
    size = x.size + x.shape[dimension]
    return writer.elementwise([(x, list(identity(x)))], x.shape, x.element, operations, size)


# --------------------------------------------------------------------------- chains


def activation(writer: Writer, x: Value) -> Value:
    """sigmoid, silu, gelu in the order and the pieces exporters use."""
    t = x.element
    kind = writer.choices.pick(("sigmoid", "silu", "silu_gate", "gelu_tanh", "gelu_erf", "relu"))
    here = list(identity(x))
    writer.ingredients.append(kind)
    one = writer.constant(1.0, t)
    sigmoid = [
        f"arith.negf $0 : {t}",
        f"math.exp @0 : {t}",
        f"arith.addf @1, {one} : {t}",
        f"arith.divf {one}, @2 : {t}",
    ]
    if kind == "relu":
        zero = writer.constant(0.0, t)
        if writer.choices.integer(0, 1):
            operations = [f"arith.maximumf $0, {zero} : {t}"]
        else:
            operations = [
                f"arith.cmpf ugt, $0, {zero} : {t}",
                f"arith.select @0, $0, {zero} : {t}",
            ]
        return writer.elementwise([(x, here)], x.shape, t, operations, x.size)
    if kind == "sigmoid":
        return writer.elementwise([(x, here)], x.shape, t, sigmoid, 1.0)
    if kind in ("silu", "silu_gate"):
        if writer.choices.integer(0, 1):
            y = writer.elementwise(
                [(x, here)], x.shape, t, [*sigmoid, f"arith.mulf @3, $0 : {t}"], x.size
            )
        else:
            s = writer.elementwise([(x, here)], x.shape, t, sigmoid, 1.0)
            y = writer.elementwise(
                [(s, here), (x, here)], x.shape, t, [f"arith.mulf $0, $1 : {t}"], x.size
            )
        if kind == "silu":
            return y
        up = writer.argument(x.shape, t)
        return writer.elementwise(
            [(y, here), (up, here)], x.shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
    half = writer.constant(0.5, t)
    if kind == "gelu_tanh":
        three = writer.constant(3, "i32")
        kappa, beta = writer.constant(0.044715, t), writer.constant(math.sqrt(2 / math.pi), t)
        inner = [
            f"math.fpowi $0, {three} : {t}, i32",
            f"arith.mulf @0, {kappa} : {t}",
            f"arith.addf $0, @1 : {t}",
            f"arith.mulf @2, {beta} : {t}",
            f"math.tanh @3 : {t}",
        ]
    else:
        inner = [
            f"arith.mulf $0, {writer.constant(math.sqrt(0.5), t)} : {t}",
            f"math.erf @0 : {t}",
        ]
    last = len(inner) - 1
    tail = [
        f"arith.addf @{last}, {one} : {t}",
        f"arith.mulf @{last + 1}, {half} : {t}",
        f"arith.mulf $0, @{last + 2} : {t}",
    ]
    return writer.elementwise([(x, here)], x.shape, t, [*inner, *tail], x.size)


def reduce_along(
    writer: Writer, x: Value, axes: Sequence[int], combiner: str, start: float, keep: bool = False
) -> Value:
    """A reduction of x; kept axes have size 1."""
    t = x.element
    kept = [d for d in identity(x) if d not in axes]
    if keep:
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
    else:
        shape = [x.shape[d] for d in kept]
    initial = writer.filled([x.shape[d] for d in kept], t, start)
    count = math.prod(x.shape[d] for d in axes)
    size = x.size * (count if combiner == "arith.addf" else 1)
    result = Value(writer.fresh(), tuple(x.shape[d] for d in kept), t, size)

    def body(names: list[str]) -> list[str]:
        pair = f"{names[0]}, {names[1]}"
        total = f"%s{writer.count}"
        return [f"{total} = {combiner} {pair} : {t}", f"linalg.yield {total} : {t}"]

    writer.generic([(x, list(identity(x)))], initial, result, kept, x.rank, body, axes)
    return result if not keep else expanded(writer, result, shape)


def expanded(writer: Writer, x: Value, shape: Sequence[int]) -> Value:
    """x with dimensions of size 1 put in to reach a shape."""
    result = Value(writer.fresh(), tuple(shape), x.element, x.size)
    if not x.rank:
        groups = "[]"
    else:
        found: list[list[int]] = [[] for _ in x.shape]
        at = -1
        pending: list[int] = []
        for d, n in enumerate(shape):
            if at + 1 < x.rank and n == x.shape[at + 1] and (n != 1 or _rest(shape, d, x.shape, at)):
                at += 1
                found[at] = [*pending, d]
                pending = []
            elif at >= 0:
                found[at].append(d)
            else:
                pending.append(d)
        if pending:
            found[-1] = [*found[-1], *pending]
        groups = "[" + ", ".join(str(g) for g in found) + "]"
    return writer.line(
        f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into {result.type}",
        result,
    )


def _rest(shape: Sequence[int], d: int, small: Sequence[int], at: int) -> bool:
    """Whether taking a size-1 dimension here leaves enough for the rest."""
    return len(shape) - d - 1 >= len(small) - at - 2


def reduction(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    axes = sorted({writer.choices.integer(0, x.rank - 1) for _ in range(writer.choices.integer(1, 2))})
    kind = writer.choices.pick(("sum", "max", "min", "mean", "named", "initial", "square"))
    writer.ingredients.append(f"reduction {kind}")
    t = x.element
    if kind in ("max", "min"):
        combiner = "arith.maximumf" if kind == "max" else "arith.minimumf"
        start = -math.inf if kind == "max" else math.inf
        return reduce_along(writer, x, axes, combiner, start)
    if kind == "named":
        kept = [n for d, n in enumerate(x.shape) if d not in axes]
        initial = writer.filled(kept, t, 0.0)
        count = math.prod(x.shape[d] for d in axes)
        result = Value(writer.fresh(), tuple(kept), t, x.size * count)
        return writer.line(
            f"linalg.reduce {{ arith.addf }} ins({x.name} : {x.type}) "
            f"outs({initial} : {result.type}) dimensions = {axes}",
            result,
        )
    if kind in ("initial", "square"):
        kept = [d for d in identity(x) if d not in axes]
        initial = writer.argument([x.shape[d] for d in kept], t)
        count = math.prod(x.shape[d] for d in axes)
        size = x.size * (x.size if kind == "square" else 1) * count + 4
        result = Value(writer.fresh(), tuple(x.shape[d] for d in kept), t, size)

        def body(names: list[str]) -> list[str]:
            total, squared = f"%s{writer.count}", f"%q{writer.count}"
            if kind == "initial":
                first, value = [], names[0]
            else:
                first, value = [f"{squared} = arith.mulf {names[0]}, {names[0]} : {t}"], squared
            return [
                *first,
                f"{total} = arith.addf {names[1]}, {value} : {t}",
                f"linalg.yield {total} : {t}",
            ]

        return writer.generic(
            [(x, list(identity(x)))], initial.name, result, kept, x.rank, body, axes
        )
    total = reduce_along(writer, x, axes, "arith.addf", 0.0)
    if kind == "sum":
        return total
    count = writer.constant(math.prod(x.shape[d] for d in axes), t)
    return writer.elementwise(
        [(total, list(identity(total)))],
        total.shape,
        t,
        [f"arith.divf $0, {count} : {t}"],
        x.size,
    )


def softmax(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    t = x.element
    axis = writer.choices.integer(0, x.rank - 1)
    here = list(identity(x))
    if writer.choices.integer(0, 1):
        output = writer.empty(x.shape, t)
        result = Value(writer.fresh(), x.shape, t, 1.0)
        return writer.line(
            f"linalg.softmax dimension({axis}) ins({x.name} : {x.type}) "
            f"outs({output} : {x.type}) -> {x.type}",
            result,
        )
    kept: list[int | str] = [d for d in here if d != axis]
    top = reduce_along(writer, x, [axis], "arith.maximumf", -math.inf)
    operations = [f"arith.subf $0, $1 : {t}", f"math.exp @0 : {t}"]
    if writer.choices.integer(0, 1):
        e = writer.elementwise([(x, here), (top, kept)], x.shape, t, operations, 1.0)
    else:
        d = writer.elementwise([(x, here), (top, kept)], x.shape, t, operations[:1], x.size)
        e = writer.elementwise([(d, here)], x.shape, t, [f"math.exp $0 : {t}"], 1.0)
    total = reduce_along(writer, e, [axis], "arith.addf", 0.0)
    return writer.elementwise(
        [(e, here), (total, kept)], x.shape, t, [f"arith.divf $0, $1 : {t}"], 1.0
    )


def norm(writer: Writer, x: Value) -> Value | None:
    """rms_norm or layer_norm along the last dimension, in f32 with casts around, as exporters write it."""
    if not x.rank:
        return None
    kind = writer.choices.pick(("rms_norm", "layer_norm"))
    writer.ingredients.append(kind)
    t, here = x.element, list(identity(x))
    rows: list[int | str] = list(here[:-1])
    h = x
    if t != "f32":
        h = writer.elementwise([(x, here)], x.shape, "f32", [f"arith.extf $0 : {t} to f32"], x.size)
    count = writer.constant(x.shape[-1], "f32")
    epsilon = writer.constant(1e-5, "f32")

    def mean(value: Value) -> Value:
        total = reduce_along(writer, value, [x.rank - 1], "arith.addf", 0.0)
        operations = [f"arith.divf $0, {count} : f32"]
        return writer.elementwise(
            [(total, list(identity(total)))], total.shape, "f32", operations, value.size
        )

    if kind == "layer_norm":
        centre = mean(h)
        h = writer.elementwise(
            [(h, here), (centre, rows)], x.shape, "f32", ["arith.subf $0, $1 : f32"], x.size
        )
    squares = writer.elementwise(
        [(h, here)], x.shape, "f32", ["arith.mulf $0, $0 : f32"], x.size**2
    )
    variance = mean(squares)
    scale = writer.elementwise(
        [(variance, list(identity(variance)))],
        variance.shape,
        "f32",
        [f"arith.addf $0, {epsilon} : f32", "math.rsqrt @0 : f32"],
        400.0,
    )
    size = math.sqrt(x.shape[-1]) + 1
    h = writer.elementwise(
        [(h, here), (scale, rows)], x.shape, "f32", ["arith.mulf $0, $1 : f32"], size
    )
    weighted = writer.choices.integer(0, 1)
    if kind == "rms_norm":
        if t != "f32":
            h = writer.elementwise([(h, here)], x.shape, t, [f"arith.truncf $0 : f32 to {t}"], size)
        if not weighted:
            return h
        weight = writer.argument(x.shape[-1:], t)
        pair = writer.choices.pick(("$0, $1", "$1, $0"))
        return writer.elementwise(
            [(h, here), (weight, [x.rank - 1])], x.shape, t, [f"arith.mulf {pair} : {t}"], size * 4
        )
    if weighted:
        weight, bias = (writer.argument(x.shape[-1:], "f32") for _ in range(2))
        last: list[int | str] = [x.rank - 1]
        h = writer.elementwise(
            [(h, here), (weight, last)], x.shape, "f32", ["arith.mulf $0, $1 : f32"], size * 4
        )
        h = writer.elementwise(
            [(h, here), (bias, last)], x.shape, "f32", ["arith.addf $0, $1 : f32"], size * 4 + 4
        )
    if t != "f32":
        h = writer.elementwise([(h, here)], x.shape, t, [f"arith.truncf $0 : f32 to {t}"], h.size)
    return h


def rope(writer: Writer, x: Value) -> Value | None:
    """Rotation of pairs along the last dimension."""
    if x.rank < 2 or x.shape[-1] % 2 or x.shape[-1] < 2:
        return None
    t, half = x.element, x.shape[-1] // 2
    interleaved = writer.choices.integer(0, 1)
    writer.ingredients.append("rope interleaved" if interleaved else "rope split")
    shape = (*x.shape[:-1], half)
    cos, sin = (writer.argument((x.shape[-2], half), t) for _ in range(2))
    here: list[int | str] = list(range(x.rank))
    table: list[int | str] = [x.rank - 2, x.rank - 1]
    parts = []
    for second in (0, 1):
        offset = [0] * (x.rank - 1) + [second if interleaved else second * half]
        stride = [1] * (x.rank - 1) + [2 if interleaved else 1]
        part = Value(writer.fresh(), shape, t, x.size)
        parts.append(
            writer.line(
                f"tensor.extract_slice {x.name}{offset} {list(shape)} {stride} : {x.type} to {part.type}",
                part,
            )
        )
    a, b = parts

    def turned(p: Value, q: Value, name: str) -> Value:
        if writer.choices.integer(0, 1):
            operations = [
                f"arith.mulf $0, $2 : {t}",
                f"arith.mulf $1, $3 : {t}",
                f"{name} @0, @1 : {t}",
            ]
            inputs = [(p, here), (q, here), (cos, table), (sin, table)]
            return writer.elementwise(inputs, shape, t, operations, x.size * 8)
        left = writer.elementwise(
            [(p, here), (cos, table)], shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
        right = writer.elementwise(
            [(q, here), (sin, table)], shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
        return writer.elementwise(
            [(left, here), (right, here)], shape, t, [f"{name} $0, $1 : {t}"], x.size * 8
        )

    first, second = turned(a, b, "arith.subf"), turned(b, a, "arith.addf")
    result = Value(writer.fresh(), x.shape, t, x.size * 8)
    if not interleaved:
        return writer.line(
            f"tensor.concat dim({x.rank - 1}) {first.name}, {second.name} : "
            f"({first.type}, {second.type}) -> {result.type}",
            result,
        )
    paired = [expanded_last(writer, v) for v in (first, second)]
    both = Value(writer.fresh(), (*shape, 2), t, x.size * 8)
    writer.line(
        f"tensor.concat dim({x.rank}) {paired[0].name}, {paired[1].name} : "
        f"({paired[0].type}, {paired[1].type}) -> {both.type}",
        both,
    )
    groups = [[d] for d in range(x.rank - 1)] + [[x.rank - 1, x.rank]]
    return writer.line(
        f"tensor.collapse_shape {both.name} {groups} : {both.type} into {result.type}", result
    )


def expanded_last(writer: Writer, x: Value) -> Value:
    shape = (*x.shape, 1)
    groups = [[d] for d in range(x.rank - 1)] + [[x.rank - 1, x.rank]]
    result = Value(writer.fresh(), shape, x.element, x.size)
    return writer.line(
        f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into {result.type}",
        result,
    )
