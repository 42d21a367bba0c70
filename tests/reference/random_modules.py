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

    def inputs(self, seed: int = 0, special: bool = False) -> list[np.ndarray]:
        """Data for the arguments: normal floats, small integers, random masks.

        With `special`, some floats are zeros of both signs, infinities, NaN, large or tiny (but no
        huge ones: sums that cancel across more than 53 bits depend on their order).
        """
        generator = np.random.default_rng(seed)
        return [_input(generator, a, special) for a in self.arguments]


SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 448.0, -1e4, 1e-40, 1e-7, 1.0)


def _input(generator: np.random.Generator, argument: Value, special: bool) -> np.ndarray:
    if argument.element == "i1":
        return generator.random(argument.shape) < 0.7
    if argument.element.startswith("i"):
        bits = int(argument.element[1:])
        # 64-bit integers are places in a tensor of `size` rows.
        limit = int(argument.size) if bits == 64 else min(100, 2 ** (bits - 1) - 1)
        return generator.integers(0, limit, argument.shape).astype(dtypes.integer(bits).storage)
    values = generator.standard_normal(argument.shape)
    if special:
        chosen = generator.choice(SPECIAL, argument.shape)
        values = np.where(generator.random(argument.shape) < 0.02, chosen, values)
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

    def argument(self, shape: Sequence[int], element: str, size: float = 4.0) -> Value:
        value = Value(f"%a{len(self.arguments)}", tuple(shape), element, size)
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
        scalar, empty, name = (
            self.constant(number, element),
            self.empty(shape, element),
            self.fresh(),
        )
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
    same = [
        v
        for v in writer.values
        if v.shape == value.shape and v.element == value.element and math.isfinite(v.size)
    ]
    way = choices.pick(("live", "new", "vector", "transposed", "unit"))
    if way == "live":
        return choices.pick(same or [value]), list(identity(value))
    if way == "vector" and value.rank:
        some = sorted({choices.integer(0, value.rank - 1) for _ in range(choices.integer(1, 2))})
        return writer.argument([value.shape[d] for d in some], value.element), list(some)
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


def shuffled(choices: Choices, items: list[int]) -> list[int]:
    rest, found = list(items), []
    while rest:
        found.append(rest.pop(choices.integer(0, len(rest) - 1)))
    return found
