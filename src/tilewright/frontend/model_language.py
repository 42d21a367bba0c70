"""Models as Python functions on typed tensors, exported as StableHLO text.

    @tw.model
    def grayscale(image: tw.Tensor["f32", 1, 3, 4, 4]) -> tw.Tensor:
        weights = tw.constant([[0.299], [0.587], [0.114]])
        return image.transpose(0, 2, 3, 1).matmul(weights).transpose(0, 3, 1, 2)

    print(grayscale.stablehlo())        # the tape as a module
    program = grayscale.imported()      # for any target

Shapes and element types stand in the annotations and are checked while the function is traced: an
operation that does not fit fails in the line that wrote it. Every operation is put on a tape, in
order; the tape is the program.

Error codes: TW6401 an annotation that is no tensor, TW6402 operands that do not fit, TW6403 a
function that returns something else than tensors.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported

DTYPES = {
    "f32": np.dtype(np.float32),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "i1": np.dtype(np.bool_),
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a shape; `Tensor["f32", 1, 3]` makes one."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}>"


@dataclass
class Tape:
    """Operations in the order they were made."""

    lines: list[str]
    count: int = 0

    def add(self, text: str, result: TensorType) -> Tensor:
        name = f"%{self.count}"
        self.count += 1
        self.lines.append(f"    {name} = {text}")
        return Tensor(self, name, result)


_tapes: list[Tape] = []


def _caller() -> Location:
    """The line of the model that is being traced."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__:
            return Location(frame.filename, frame.lineno or 0)
    return Location("model")


def _fail(message: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW6402", message, _caller(), hint)


def _tape() -> Tape:
    if not _tapes:
        raise _fail("tensors exist only while a model is traced", "call this inside of @tw.model")
    return _tapes[-1]


def _integers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


class Tensor:
    """A value of a model while it is traced."""

    def __init__(self, tape: Tape, name: str, kind: TensorType) -> None:
        self.tape = tape
        self.name = name
        self.type = kind

    def __class_getitem__(cls, parameters: Any) -> TensorType:
        dtype, *shape = parameters if isinstance(parameters, tuple) else (parameters,)
        if dtype not in DTYPES or not all(isinstance(n, int) and n > 0 for n in shape):
            raise TilewrightError(
                "TW6401",
                f"Tensor[{parameters!r}] is no tensor type",
                _caller(),
                f"write an element type ({', '.join(DTYPES)}) and sizes: Tensor['f32', 1, 3]",
            )
        return TensorType(dtype, tuple(shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"

    # Elementwise

    def __add__(self, other: Any) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _binary("divide", self, other)

    def maximum(self, other: Any) -> Tensor:
        return _binary("maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        return _binary("minimum", self, other)

    def relu(self) -> Tensor:
        return self.maximum(0)

    def clip(self, low: float, high: float) -> Tensor:
        return self.maximum(low).minimum(high)

    def exp(self) -> Tensor:
        return self._unary("exponential")

    def log(self) -> Tensor:
        return self._unary("log")

    def tanh(self) -> Tensor:
        return self._unary("tanh")

    def sqrt(self) -> Tensor:
        return self._unary("sqrt")

    def sigmoid(self) -> Tensor:
        return self._unary("logistic")

    def _unary(self, name: str) -> Tensor:
        if self.dtype != "f32":
            raise _fail(f"{name} needs f32, this is {self.dtype}")
        return self.tape.add(f"stablehlo.{name} {self.name} : {self.type}", self.type)

    def convert(self, dtype: str) -> Tensor:
        if dtype not in DTYPES:
            raise _fail(f"there is no element type {dtype}", f"one of {', '.join(DTYPES)}")
        result = TensorType(dtype, self.shape)
        return self.tape.add(f"stablehlo.convert {self.name} : ({self.type}) -> {result}", result)

    # Movement

    def transpose(self, *order: int) -> Tensor:
        if sorted(order) != list(range(len(self.shape))):
            raise _fail(f"{order} is no order of the {len(self.shape)} dimensions")
        result = TensorType(self.dtype, tuple(self.shape[k] for k in order))
        return self.tape.add(
            f"stablehlo.transpose {self.name}, dims = [{_integers(order)}] : ({self.type}) -> {result}",
            result,
        )

    def reshape(self, *shape: int) -> Tensor:
        if prod(shape) != prod(self.shape):
            raise _fail(f"{self.shape} has {prod(self.shape)} elements, {shape} {prod(shape)}")
        result = TensorType(self.dtype, shape)
        return self.tape.add(f"stablehlo.reshape {self.name} : ({self.type}) -> {result}", result)

    def broadcast(self, shape: tuple[int, ...]) -> Tensor:
        """The same values for new leading and unit dimensions."""
        if self.shape == shape:
            return self
        skipped = len(shape) - len(self.shape)
        if skipped < 0 or any(
            a not in (1, b) for a, b in zip(self.shape, shape[skipped:], strict=True)
        ):
            raise _fail(f"{self.shape} does not fit {shape}")
        dims = _integers(range(skipped, len(shape)))
        result = TensorType(self.dtype, shape)
        return self.tape.add(
            f"stablehlo.broadcast_in_dim {self.name}, dims = [{dims}] : ({self.type}) -> {result}",
            result,
        )

    # Products and sums

    def matmul(self, other: Any, dtype: str | None = None) -> Tensor:
        """The last dimension against the first of a matrix; int8 sums have 32 bits.

        Where the other is a batch of matrices too, each with its own.
        """
        right = _tensor(other, self.dtype)
        batch = len(right.shape) - 2
        if (
            batch < 0
            or not self.shape
            or self.shape[-1] != right.shape[-2]
            or (batch and self.shape[:-2] != right.shape[:-2])
        ):
            raise _fail(f"{self.shape} and {right.shape} do not fit as a product")
        kind = dtype or ("i32" if self.dtype == "i8" else self.dtype)
        result = TensorType(kind, (*self.shape[:-1], right.shape[-1]))
        outer = list(range(batch))
        batching = f"batching_dims = {outer} x {outer}, " if batch else ""
        return self.tape.add(
            f"stablehlo.dot_general {self.name}, {right.name}, {batching}contracting_dims = "
            f"[{len(self.shape) - 1}] x [{batch}] : ({self.type}, {right.type}) -> {result}",
            result,
        )

    def conv2d(
        self,
        weights: Any,
        strides: tuple[int, int] = (1, 1),
        padding: str | tuple[tuple[int, int], tuple[int, int]] = "same",
        groups: int = 1,
        layout: str = "NHWC",
    ) -> Tensor:
        """Weights are HWIO for NHWC images, OIHW for NCHW ones."""
        w = _tensor(weights, self.dtype)
        if len(self.shape) != 4 or len(w.shape) != 4:
            raise _fail(
                f"an image and weights have four dimensions, not {self.shape} and {w.shape}"
            )
        last = layout == "NHWC"
        space = (1, 2) if last else (2, 3)
        taps = w.shape[:2] if last else w.shape[2:]
        depth, filters = (w.shape[2], w.shape[3]) if last else (w.shape[1], w.shape[0])
        channels = self.shape[3 if last else 1]
        if depth * groups != channels or filters % groups:
            raise _fail(f"{channels} channels in {groups} groups do not fit weights {w.shape}")
        sizes = [self.shape[k] for k in space]
        if padding == "same":
            pads: list[tuple[int, int]] = []
            for size, tap, stride in zip(sizes, taps, strides, strict=True):
                total = max((-(-size // stride) - 1) * stride + tap - size, 0)
                pads.append((total // 2, total - total // 2))
        elif padding == "valid":
            pads = [(0, 0), (0, 0)]
        else:
            pads = [(int(low), int(high)) for low, high in padding]
        out = [
            (n + sum(p) - t) // s + 1 for n, p, t, s in zip(sizes, pads, taps, strides, strict=True)
        ]
        if min(out) < 1:
            raise _fail(f"windows {taps} are larger than the image {tuple(sizes)}")
        shape = (self.shape[0], *out, filters) if last else (self.shape[0], filters, *out)
        numbers = (
            "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
            if last
            else "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
        )
        result = TensorType("i32" if self.dtype == "i8" else self.dtype, shape)
        window = f"stride = [{_integers(strides)}], pad = [[{_integers(pads[0])}], [{_integers(pads[1])}]]"
        return self.tape.add(
            f"stablehlo.convolution({self.name}, {w.name}) dim_numbers = {numbers}, window = {{{window}}} "
            f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
            f"({self.type}, {w.type}) -> {result}",
            result,
        )

    def sum(self, *axes: int) -> Tensor:
        return self._reduce("add", "0.0" if self.dtype == "f32" else "0", axes)

    def max(self, *axes: int) -> Tensor:
        lowest = {"f32": "0xFF800000", "i8": "-128", "i32": "-2147483648"}[self.dtype]
        return self._reduce("maximum", lowest, axes)

    def mean(self, *axes: int) -> Tensor:
        count = prod(self.shape[a] for a in axes)
        return self.sum(*axes) / float(count)

    def _reduce(self, operation: str, start: str, axes: tuple[int, ...]) -> Tensor:
        if not axes or any(not 0 <= a < len(self.shape) for a in axes):
            raise _fail(f"axes {axes} are not dimensions of {self.shape}")
        scalar = TensorType(self.dtype, ())
        first = self.tape.add(f"stablehlo.constant dense<{start}> : {scalar}", scalar)
        result = TensorType(self.dtype, tuple(n for k, n in enumerate(self.shape) if k not in axes))
        return self.tape.add(
            f"stablehlo.reduce({self.name} init: {first.name}) applies stablehlo.{operation} across "
            f"dimensions = [{_integers(sorted(axes))}] : ({self.type}, {scalar}) -> {result}",
            result,
        )

    def softmax(self) -> Tensor:
        """Along the last dimension."""
        last = len(self.shape) - 1
        kept = (*self.shape[:-1], 1)
        top = self.max(last).reshape(*kept).broadcast(self.shape)
        e = (self - top).exp()
        return e / e.sum(last).reshape(*kept).broadcast(self.shape)


def constant(value: Any, dtype: str = "f32") -> Tensor:
    """A constant of a model."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TilewrightError(
            "TW6401", f"there is no element type {dtype!r}", hint=f"use {', '.join(DTYPES)}"
        )
    try:
        array = np.asarray(value, dtype=DTYPES[dtype])
    except (TypeError, ValueError, OverflowError) as error:
        raise TilewrightError("TW6401", f"this is no constant of {dtype}: {error}") from None
    kind = TensorType(dtype, array.shape)
    if array.size and np.all(array == array.reshape(-1)[0]) and dtype != "f32":
        text = str(array.reshape(-1)[0]).lower()
    elif dtype == "i1":
        text = str(array.tolist()).lower()
    else:
        text = f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'
    return _tape().add(f"stablehlo.constant dense<{text}> : {kind}", kind)


def _tensor(value: Any, dtype: str) -> Tensor:
    return value if isinstance(value, Tensor) else constant(value, dtype)


def _binary(name: str, a: Any, b: Any) -> Tensor:
    known = a if isinstance(a, Tensor) else b
    a, b = _tensor(a, known.dtype), _tensor(b, known.dtype)
    if a.dtype != b.dtype:
        raise _fail(f"{name} of {a.dtype} and {b.dtype}", "convert one of them")
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise _fail(f"{name}: {a.shape} and {b.shape} do not fit") from None
    a, b = a.broadcast(shape), b.broadcast(shape)
    return a.tape.add(f"stablehlo.{name} {a.name}, {b.name} : {a.type}", a.type)


@dataclass(frozen=True)
class Model:
    """A function that was given tensor types; calling it inside of another model inlines it."""

    function: Callable[..., Any]
    inputs: tuple[TensorType, ...]
    names: tuple[str, ...]

    def __call__(self, *arguments: Tensor) -> Any:
        return self.function(*arguments)

    def stablehlo(self) -> str:
        """The traced model as a StableHLO module."""
        tape = Tape([])
        _tapes.append(tape)
        try:
            values = [
                Tensor(tape, f"%{n}", t) for n, t in zip(self.names, self.inputs, strict=True)
            ]
            returned = self.function(*values)
        finally:
            _tapes.pop()
        results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if not results or not all(isinstance(r, Tensor) for r in results):
            raise TilewrightError(
                "TW6403", f"{self.function.__name__} does not return tensors", self._place()
            )
        arguments = ", ".join(f"%{n}: {t}" for n, t in zip(self.names, self.inputs, strict=True))
        types = ", ".join(str(r.type) for r in results)
        body = "\n".join(tape.lines)
        back = f"    return {', '.join(r.name for r in results)} : {types}"
        return (
            f"module @{self.function.__name__} {{\n  func.func public @main({arguments}) -> ({types}) {{\n"
            f"{body}\n{back}\n  }}\n}}\n"
        )

    def imported(self) -> Imported:
        """The model as every front end gives it."""
        from tilewright.frontend.mlir_model import import_mlir

        return import_mlir(self.stablehlo(), self.function.__name__)

    def _place(self) -> Location:
        code = getattr(self.function, "__code__", None)
        return Location(code.co_filename, code.co_firstlineno) if code else Location("model")


def model(function: Callable[..., Any]) -> Model:
    """Make a model of a function whose parameters are annotated with tensor types."""
    if not inspect.isfunction(function):
        raise TilewrightError("TW6401", f"tw.model takes a function, not {type(function).__name__}")
    made = []
    signature = inspect.signature(function, eval_str=True)
    for name, parameter in signature.parameters.items():
        if not isinstance(parameter.annotation, TensorType):
            raise TilewrightError(
                "TW6401",
                f"parameter {name} of {function.__name__} has no tensor type",
                Location(function.__code__.co_filename, function.__code__.co_firstlineno),
                f"write {name}: tw.Tensor['f32', 1, 3]",
            )
        made.append((name, parameter.annotation))
    return Model(function, tuple(t for _, t in made), tuple(n for n, _ in made))
