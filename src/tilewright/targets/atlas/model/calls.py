"""Kernel calls before they have places and numbers: what lowering makes of a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.io.deferred import pages
from tilewright.reference import dtypes
from tilewright.reference.rounding import round_to_fp8
from tilewright.targets.atlas.artifact.atlas_artifact import Kind
from tilewright.targets.atlas.model.narrow_ranges import TARGET, NarrowRange, narrowed, power_of_two
from tilewright.tile.layouts import Layout, held_codes

SMALLEST = 2.0**-96  # scale: 1 over it is a number for all kernels, and what is smaller nothing


class Function(Protocol):
    """What a record of the numbers of a tensor stands for, as data that can be called."""

    def __call__(self, numbers: np.ndarray, /) -> np.ndarray: ...


@dataclass(frozen=True)
class Normed:
    """Rows brought to length 1, or to mean 0 and variance 1 (`layer`)."""

    kind: str
    epsilon: float

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        x = numbers - numbers.mean(-1, keepdims=True) if self.kind == "layer" else numbers
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)


@dataclass(eq=False)
class RangeObserver:
    """The largest absolute value of a tensor, seen in calibration.

    Tensors of layers that share code share their magnitude, so that constants in the code agree.
    """

    value: SSAValue
    function: Function | None = None  # of what is observed, applied first
    amax: float = 0.0
    peers: list[RangeObserver] = field(default_factory=list)
    fixed: bool = False  # the numbers are fp8 as they are: multiples of 1
    narrower: NarrowRange | None = None  # how far the range may be less than the largest value

    def observe(self, array: np.ndarray) -> None:
        numbers = np.asarray(array, np.float32)
        if self.function is not None:
            numbers = self.function(numbers)
        if numbers.size:
            self.amax = float(np.fmax.reduce(np.abs(numbers), axis=None, initial=self.amax))
            if self.narrower is not None:
                self.narrower.observe(numbers)

    @property
    def largest(self) -> float:
        return max([self.amax, *(peer.amax for peer in self.peers)])

    def scale(self) -> float:
        """What fp8 values are multiples of: a power of two, so scaling rounds nothing."""
        if self.fixed:
            return 1.0
        widest = max(power_of_two(self.largest / TARGET), SMALLEST)
        ranges = [one.narrower for one in (self, *(p for p in self.peers if p is not self))]
        known = [one for one in ranges if one is not None]
        return narrowed(widest, known) if len(known) == len(ranges) else widest

    def observed(self) -> tuple[RangeObserver, ...]:
        """The ranges that the scale is made from."""
        return () if self.fixed else (self,)


@dataclass(frozen=True)
class Balance:
    """What the first of two factors of a product is multiplied by, and the second divided by, so
    that both have ranges alike: a power of two."""

    first: RangeObserver
    second: RangeObserver

    def scale(self) -> float:
        first, second = self.first.largest, self.second.largest
        return power_of_two(math.sqrt(second / first)) if first and second else 1.0

    def observed(self) -> tuple[RangeObserver, ...]:
        return (self.first, self.second)


@dataclass(frozen=True)
class LargestScale:
    """The largest of the scales of some tensors."""

    of: tuple[RangeObserver, ...]

    def scale(self) -> float:
        return max(one.scale() for one in self.of)

    def observed(self) -> tuple[RangeObserver, ...]:
        return tuple(one for observer in self.of for one in observer.observed())


@dataclass(frozen=True)
class Factor:
    """A number that calibration decides: a constant times some scales, over others.

    Scales are powers of two, so the order of the factors does not matter.
    """

    constant: float = 1.0
    times: tuple[RangeObserver | Balance | LargestScale, ...] = ()
    over: tuple[RangeObserver | Balance | LargestScale, ...] = ()

    def __mul__(self, other: Factor) -> Factor:
        return Factor(
            self.constant * other.constant, self.times + other.times, self.over + other.over
        )

    def number(self) -> float:
        value = self.constant
        for scale in self.times:
            value *= scale.scale()
        for scale in self.over:
            value /= scale.scale()
        return value

    def observed(self) -> list[RangeObserver]:
        return [one for scale in (*self.times, *self.over) for one in scale.observed()]


@dataclass(frozen=True)
class Times:
    """Numbers multiplied by a factor."""

    factor: Factor

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        return numbers * self.factor.number()


ONE = Factor()


def scale_of(observer: RangeObserver | LargestScale | None) -> Factor:
    """The scale of a tensor; 1 without one."""
    return ONE if observer is None else Factor(times=(observer,))


def inverse_of(observer: RangeObserver | None) -> Factor:
    """What a tensor's numbers are multiplied by to be stored; 1 without a scale."""
    return ONE if observer is None else Factor(over=(observer,))


@dataclass(frozen=True, eq=False)
class Numbers:
    """What a weight or constant holds: an array, perhaps over another, times a factor."""

    array: np.ndarray
    over: np.ndarray | None = None
    factor: Factor = ONE

    def plain(self) -> Numbers:
        """The same with a single factor."""
        return self

    def content(self) -> np.ndarray:
        array = self.array if self.over is None else self.array / self.over
        return array if self.factor == ONE else array * self.factor.number()


@dataclass(frozen=True, eq=False)
class JoinedNumbers(Numbers):
    """Filters [..., channels, filters] over tensors side by side, of so many channels each, which are
    multiplied by a factor of their own."""

    parts: tuple[tuple[int, Factor], ...] = ()

    def plain(self) -> Numbers:
        along = np.concatenate(
            [np.full(count, factor.number(), np.float32) for count, factor in self.parts]
        )
        return Numbers(self.array * along[:, None], self.over, self.factor)

    def content(self) -> np.ndarray:
        return self.plain().content()


LARGE = 1 << 17  # numbers of a weight from which on they are rounded in blocks
BLOCK = 1 << 16  # numbers of such a block
CODES = {"fp8": np.uint8, "bf16": np.uint16}
ROUNDED = Numbers(np.zeros(0, np.float32))  # content of which only the codes are left


def share_range(observers: Iterable[RangeObserver]) -> None:
    """Let these, and all they shared with before, observe the largest of their ranges."""
    every = dict.fromkeys(peer for m in observers for peer in (m, *m.peers) if not peer.fixed)
    for magnitude in every:
        magnitude.peers = list(every)


@dataclass(eq=False)
class Tensor:
    """A tensor of the device program."""

    name: str
    layout: Layout
    kind: Kind
    content: Numbers | None = None  # of weights and constants
    value: SSAValue | None = None  # what it holds a form of
    scale: RangeObserver | None = None  # of fp8 tensors
    # What the numbers in it say about the value, where that is more than a factor of `scale`.
    undo: Function | None = None
    codes: np.ndarray | None = field(default=None, repr=False)  # of the content, once known

    def __repr__(self) -> str:
        return f"<{self.name} {'x'.join(map(str, self.layout.shape))} {self.layout.dtype}>"


def content_codes(tensor: Tensor) -> np.ndarray:
    """The bit patterns of a weight or constant, in the shape in which it is given.

    To be asked for only when ranges are known: they are computed once, and the numbers, four times
    as large, are let go.
    """
    if tensor.codes is None:
        numbers, given = tensor.content, tensor.layout.given
        assert numbers is not None and numbers is not ROUNDED, "codes were let go"
        numbers = numbers.plain()
        large = numbers.array.size > LARGE and not tensor.layout.is_vector
        if large and numbers.array.shape == given and _one_per_column(numbers):
            tensor.codes = pages(given, np.dtype(CODES[tensor.layout.dtype]))
            _codes_in_blocks(numbers, tensor.codes, tensor.layout.dtype)
        else:
            array = np.asarray(numbers.content(), np.float32).reshape(given)
            if tensor.layout.is_vector:
                array = array + np.float32(0)  # no -0: the same whether it is spread by sums or not
            tensor.codes = held_codes(array, tensor.layout.dtype)
        tensor.content = ROUNDED
    return tensor.codes


def held(number: float) -> float:
    """A literal as bf16 can hold it."""
    return dtypes.literal(number, dtypes.BF16)


def let_go_of_codes(tensors: Iterable[Tensor]) -> None:
    """Say that nobody will ask for the codes of these again."""
    for tensor in tensors:
        tensor.codes = None


def _codes_in_blocks(numbers: Numbers, codes: np.ndarray, dtype: str) -> None:
    """The codes of a large matrix, or of several, some at a time: what they are rounded from takes
    four times the room and more on the way, and small blocks stay in caches.

    A matrix that lies in memory column by column is rounded so, and turned as codes.
    """
    array, over = numbers.array, numbers.over
    if array.ndim > 2:
        for index, (one, part) in enumerate(zip(array, codes, strict=True)):
            row = None if over is None else over[index if len(over) > 1 else 0]
            _codes_in_blocks(replace(numbers, array=one, over=row), part, dtype)
        return
    if over is not None:
        over = over.reshape(1, -1)
    if dtype == "fp8" and all(x is None or x.dtype == np.float32 for x in (array, over)):
        factor = 1.0 if numbers.factor == ONE else numbers.factor.number()
        round_to_fp8(array, over, factor, codes)
        return
    if array.flags.f_contiguous:
        array, codes, over = array.T, codes.T, None if over is None else over.T
    step = max(1, BLOCK // array.shape[1])
    for first in range(0, len(array), step):
        some = slice(first, first + step)
        row = over if over is None or len(over) == 1 else over[some]
        part = Numbers(array[some], row, numbers.factor).content()
        codes[some] = held_codes(np.asarray(part, np.float32), dtype)


def _one_per_column(numbers: Numbers) -> bool:
    """Whether what the numbers are divided by is one number per column, or nothing."""
    shape, over = numbers.array.shape, numbers.over
    if over is None:
        return True
    if len(shape) == 2:
        return over.shape in ((shape[1],), (1, shape[1]))
    return (
        over.ndim == len(shape)
        and over.shape[-2:] == (1, shape[-1])
        and all(have in (1, want) for have, want in zip(over.shape, shape[:-2], strict=False))
    )


@dataclass(eq=False)
class Call:
    """A kernel on tensors."""

    name: str
    kernel: str
    operands: dict[str, Tensor]
    output: Tensor
    options: dict[str, Any] = field(default_factory=dict)
    deferred: dict[str, Factor] = field(default_factory=dict)  # numbers of scales
    sources: tuple[str, ...] = ()
    macs: int = 0
    value: SSAValue | None = None  # the model's value the output stands for
    noted: tuple[RangeObserver, ...] = ()  # more that rounds have to agree about
    scale: RangeObserver | None = None  # of the result, where the output stands for others too
    others: dict[str, Tensor] = field(default_factory=dict)  # what it makes beside that

    @property
    def result_scale(self) -> RangeObserver | None:
        return self.scale or self.output.scale

    def all_options(self) -> dict[str, Any]:
        """Options with the numbers of scales, as JSON values."""
        fixed = {name: _listed(value) for name, value in self.options.items()}
        return {**fixed, **{name: f.number() for name, f in self.deferred.items()}}

    def observers(self) -> list[RangeObserver]:
        """What the numbers in the code are made from, and the scale of the result."""
        found = [*self.noted, *(one for f in self.deferred.values() for one in f.observed())]
        return [*found, *(t.scale for t in self.results.values() if t.scale is not None)]

    @property
    def results(self) -> dict[str, Tensor]:
        return {"out": self.output, **self.others}

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {**self.operands, **self.results}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, (list, tuple)) else value


class Unsupported(Exception):
    """Why an operation is not for the device."""
