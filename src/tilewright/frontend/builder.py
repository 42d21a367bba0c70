"""Writing a model by hand, without a framework: layers on values, weights from a seed.

    net = ModelBuilder("mlp", seed=0)
    x = net.input("x", (64, 256))
    h = net.relu(net.linear(x, 512, "up"))
    net.output("y", net.linear(h, 256, "down"))
    program = tw.compile(net.build())

Shapes are those of PyTorch: linear layers act on the last dimension and keep [out, in] weights,
attention takes [batch, tokens, width], images are [batch, channels, height, width]. Every layer has
a name; `with net.layer("layers.0"):` puts one in front. Weights are float32: matrices are normal
with variance 1 / inputs, norm weights are near 1, biases near 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dialects.intents import (
    IntentBuilder,
    Lane,
    Literal,
    float_attribute,
    integers,
    literal,
    shape_of,
    tensor_type,
)
from tilewright.dialects.parsing import verify_module
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseResourceAttr,
    IntegerAttr,
    ModuleOp,
    Operation,
    OpResult,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    arith,
    bf16,
    f32,
    func,
    i1,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.frontend.aten_builder import LAYER, identifier
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.reference import dtypes

TYPES: dict[str, Attribute] = {"f32": f32, "bf16": bf16, "i1": i1, "i64": i64}
Shape = Sequence[int]


@dataclass(frozen=True)
class Value:
    """A tensor in the making; `+`, `-` and `*` take values of the same shape and numbers."""

    net: ModelBuilder
    value: SSAValue

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value)

    def __add__(self, other: Value | float) -> Value:
        return self.net.binary("elementwise_add", self, other)

    def __mul__(self, other: Value | float) -> Value:
        return self.net.binary("elementwise_mul", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self.net.binary("elementwise_sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self * -1.0 + other

    __radd__, __rmul__ = __add__, __mul__


class _Intents(IntentBuilder):
    """Intents with the name of their layer, at the end of a block."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block, self.layer = block, ""

    def add(self, op: Operation) -> OpResult:
        if self.layer:
            op.attributes[LAYER] = StringAttr(self.layer)
        self.block.add_op(op)
        return op.results[0]


class ModelBuilder:
    """A model being written: inputs, layers, outputs, `build`."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.random = np.random.default_rng(seed)
        self.weights: dict[str, np.ndarray] = {}
        self._block = Block()
        self._intents = _Intents(self._block)
        self._inputs: list[TensorSpec] = []
        self._outputs: list[tuple[TensorSpec, SSAValue]] = []
        self._constants: dict[str, Value] = {}
        self._prefix: list[str] = []

    # --- the frame ----------------------------------------------------------------------

    def input(self, name: str, shape: Shape, dtype: str = "f32") -> Value:
        """A new input: f32, i1 (masks) or i64 (positions, tokens)."""
        if any(spec.name == name for spec in self._inputs):
            raise TilewrightError("TW6301", f"the model has two inputs {name!r}")
        self._inputs.append(TensorSpec(name, tuple(shape), dtype))
        kind = TensorType(TYPES[dtype], list(shape))
        argument = self._block.insert_arg(kind, len(self._block.args))
        argument.name_hint = identifier(name)
        return Value(self, argument)

    def output(self, name: str, value: Value) -> None:
        """Name a result of the model."""
        spec = TensorSpec(name, value.shape, str(tensor_type(value.value).element_type))
        self._outputs.append((spec, value.value))

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Layers inside get `name.` in front of theirs."""
        self._prefix.append(name)
        yield
        self._prefix.pop()

    def build(self) -> Imported:
        """The model so far, ready for `tw.compile`; more may be added and built again."""
        if not self._outputs:
            raise TilewrightError(
                "TW6302", f"{self.name} has no outputs", hint="net.output('y', y)"
            )
        results = [value for _, value in self._outputs]
        last = func.ReturnOp(*results)
        self._block.add_op(last)
        types = ([a.type for a in self._block.args], [value.type for value in results])
        region = Region([self._block])
        module = ModuleOp([func.FuncOp("main", types, region)]).clone()
        region.detach_block(self._block)
        self._block.erase_op(last)
        verify_module(module)
        specs = tuple(spec for spec, _ in self._outputs)
        return Imported(module, dict(self.weights), tuple(self._inputs), specs, self.name)

    # --- weights ------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        return ".".join([*self._prefix, name])

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A tensor the model keeps; the same name stands for the same tensor."""
        if name in self._constants:
            return self._constants[name]
        self.weights[name] = array
        element = TYPES.get(dtypes.of_array(array).name)
        if element is None:
            raise TilewrightError("TW6303", f"weights of {array.dtype} are not made here")
        kind = TensorType(element, list(array.shape))
        op = arith.ConstantOp(DenseResourceAttr.from_params(name, kind), kind)
        self._block.add_op(op)
        op.result.name_hint = identifier(name)
        self._constants[name] = Value(self, op.result)
        return self._constants[name]

    def drawn(self, name: str, shape: Shape, gain: float, around: float = 0.0) -> Value:
        """A weight of normal numbers."""
        noise = self.random.standard_normal(tuple(shape), dtype=np.float32)
        return self.weight(name, np.float32(around) + np.float32(gain) * noise)

    # --- linear layers and norms --------------------------------------------------------

    def linear(self, x: Value, columns: int, name: str, bias: bool = True) -> Value:
        """x @ weight^T [+ bias]"""
        with self._at(name) as path:
            inside = x.shape[-1]
            weight = self.drawn(f"{path}.weight", (columns, inside), inside**-0.5)
            kind = TensorType(f32, [*x.shape[:-1], columns])
            y = Value(self, self._intents.matmul(x.value, weight.value, kind, transpose_rhs=True))
            if not bias:
                return y
            return self._along(y, self.drawn(f"{path}.bias", (columns,), 0.02), -1, "add")

    def matmul(self, a: Value, b: Value) -> Value:
        """a @ b, both of them computed"""
        kind = TensorType(f32, [*a.shape[:-1], b.shape[-1]])
        return Value(self, self._intents.matmul(a.value, b.value, kind))

    def rms_norm(self, x: Value, name: str, epsilon: float = 1e-5) -> Value:
        return self._norm("rms_norm", x, name, epsilon, bias=False)

    def layer_norm(self, x: Value, name: str, epsilon: float = 1e-6) -> Value:
        return self._norm("layer_norm", x, name, epsilon, bias=True)

    def _norm(self, family: str, x: Value, name: str, epsilon: float, bias: bool) -> Value:
        with self._at(name) as path:
            operands = [x, self.drawn(f"{path}.weight", x.shape[-1:], 0.1, 1.0)]
            if bias:
                operands.append(self.drawn(f"{path}.bias", x.shape[-1:], 0.02))
            axis = IntegerAttr(len(x.shape) - 1, i64)
            attributes = {"epsilon": float_attribute(epsilon), "axis": axis}
            return self._call(family, operands, x.shape, attributes)

    # --- attention ----------------------------------------------------------------------

    def heads(self, x: Value, count: int) -> Value:
        """[batch, tokens, heads * width] as [batch, tokens, heads, width]"""
        batch, tokens, width = x.shape
        return self.reshape(x, (batch, tokens, count, width // count))

    def rotary_tables(self, tokens: int, width: int, base: float = 10000.0) -> tuple[Value, Value]:
        """cos and sin for positions 0, 1, …, as weights of the whole model."""
        wavelength = base ** (np.arange(width // 2, dtype=np.float32) * (2.0 / width))
        angle = (np.arange(tokens, dtype=np.float32)[:, None] / wavelength)[None, :, None, :]
        cos = self.weight(f"rope.cos.{tokens}", np.cos(angle).astype(np.float32))
        return cos, self.weight(f"rope.sin.{tokens}", np.sin(angle).astype(np.float32))

    def rope(self, x: Value, tables: tuple[Value, Value], style: str = "split_half") -> Value:
        """Rotary embedding of heads [batch, tokens, heads, width]."""
        attributes = {"style": StringAttr(style), "axis": IntegerAttr(3, i64)}
        return self._call("rope", [x, *tables], x.shape, attributes)

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        name: str = "attention",
        causal: bool = False,
        mask: Value | None = None,
        scale: float | None = None,
    ) -> Value:
        """softmax(q k^T / sqrt(width)) v of [batch, tokens, heads, width], heads side by side.

        k and v may have fewer heads, each read by several of q. mask: [batch, tokens, keys], i1
        (what to read) or numbers to add to scores. scale: another one than 1 / sqrt(width).
        """
        with self._at(name):
            batch, tokens, heads, _ = q.shape
            turned = [self.transpose(part, (0, 2, 1, 3)) for part in (q, k, v)]
            attributes: dict[str, Attribute] = {}
            if heads != k.shape[2]:
                attributes["kv_group"] = IntegerAttr(heads // k.shape[2], i64)
            if causal:
                attributes["causal"] = UnitAttr()
            if scale is not None:
                attributes["scale"] = float_attribute(scale)
            if mask is not None:
                boolean = tensor_type(mask.value).element_type == i1
                attributes["mask_kind"] = StringAttr("bool" if boolean else "additive")
                turned.append(self.reshape(mask, (mask.shape[0], 1, *mask.shape[1:])))
            width = v.shape[-1]
            shape = (batch, heads, tokens, width)
            y = self._call("gemma_attention", turned, shape, attributes, (f32, f32))
            return self.reshape(self.transpose(y, (0, 2, 1, 3)), (batch, tokens, heads * width))

    def cached(self, cache: Value, new: Value, position: Value) -> Value:
        """A cache [batch, slots, heads, width] with the slot at an i64 [1] position replaced by
        `new` [batch, 1, heads, width]."""
        slots = cache.shape[1]
        places = self.weight(f"places.{slots}", np.arange(slots, dtype=np.int64))
        lanes = [Lane(places.value, (0,)), Lane(position.value, (None,))]
        equal = {"predicate": StringAttr("eq")}
        here = self._intents.elementwise("compare", lanes, i1, {0: slots}, equal).tensor
        row = self._intents.reshape(here, (1, slots, 1, 1))
        lanes = [
            Lane(row, (None, 1, None, None)),
            Lane(new.value, (0, None, 2, 3)),
            Lane(cache.value, (0, 1, 2, 3)),
        ]
        extents = dict(enumerate(cache.shape))
        return Value(self, self._intents.elementwise("select", lanes, f32, extents).tensor)

    # --- images -------------------------------------------------------------------------

    def conv2d(
        self,
        x: Value,
        filters: int,
        size: int,
        name: str,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ) -> Value:
        """A convolution of [batch, channels, height, width]."""
        with self._at(name) as path:
            batch, channels, height, width = x.shape
            taps = channels * size * size
            w = self.drawn(f"{path}.weight", (filters, channels, size, size), taps**-0.5)
            operands = [x, w]
            if bias:
                operands.append(self.drawn(f"{path}.bias", (filters,), 0.02))
            out = [(n + 2 * padding - size) // stride + 1 for n in (height, width)]
            attributes = {
                "strides": integers([stride, stride]),
                "padding": integers([padding] * 4),
            }
            return self._call("conv2d", operands, (batch, filters, *out), attributes)

    def batch_norm(self, x: Value, name: str, epsilon: float = 1e-5) -> Value:
        """(x - mean) / sqrt(variance + epsilon) * weight + bias of each channel, as at inference."""
        with self._at(name) as path:
            channels = (x.shape[1],)
            mean = 0.1 * self.random.standard_normal(channels, dtype=np.float32)
            variance = self.random.uniform(0.5, 1.5, channels).astype(np.float32)
            scale = np.float32(1) + 0.1 * self.random.standard_normal(channels, dtype=np.float32)
            bias = 0.1 * self.random.standard_normal(channels, dtype=np.float32)
            factor = scale / np.sqrt(variance + np.float32(epsilon))
            y = self._along(x, self.weight(f"{path}.factor", factor), 1, "mul")
            return self._along(y, self.weight(f"{path}.offset", bias - mean * factor), 1, "add")

    def max_pool(self, x: Value, size: int, stride: int | None = None) -> Value:
        return self._pool("pool_max", x, size, stride or size)

    def average_pool(self, x: Value, size: int, stride: int | None = None) -> Value:
        return self._pool("pool_avg", x, size, stride or size)

    def _pool(self, family: str, x: Value, size: int, stride: int) -> Value:
        batch, channels, height, width = x.shape
        out = [(n - size) // stride + 1 for n in (height, width)]
        attributes = {"kernel": integers([size, size]), "strides": integers([stride, stride])}
        return self._call(family, [x], (batch, channels, *out), attributes)

    # --- element by element, and movement -----------------------------------------------

    def relu(self, x: Value) -> Value:
        return self.unary("elementwise_relu", x)

    def silu(self, x: Value) -> Value:
        return self.unary("silu", x)

    def gelu(self, x: Value, tanh: bool = True) -> Value:
        return self.unary("gelu_tanh" if tanh else "gelu_erf", x)

    def silu_gate(self, gate: Value, up: Value) -> Value:
        """silu(gate) * up"""
        return self._call("silu_gate", [gate, up], gate.shape)

    def softmax(self, x: Value) -> Value:
        return self._call("softmax", [x], x.shape, {"axis": IntegerAttr(len(x.shape) - 1, i64)})

    def unary(self, family: str, x: Value) -> Value:
        """Any family of one operand, element by element."""
        return Value(self, self._intents.unary(family, x.value))

    def binary(self, family: str, x: Value, other: Value | float) -> Value:
        """Any family of two operands of one shape, or of one and a number."""
        loops = tuple(range(len(x.shape)))
        second: Lane | Literal = (
            Lane(other.value, loops)
            if isinstance(other, Value)
            else literal(other, tensor_type(x.value).element_type)
        )
        if isinstance(other, Value) and other.shape != x.shape:
            raise TilewrightError(
                "TW6304", f"{family} of {list(x.shape)} and {list(other.shape)}: reshape one first"
            )
        extents = dict(enumerate(x.shape))
        element = tensor_type(x.value).element_type
        lanes = [Lane(x.value, loops), second]
        return Value(self, self._intents.elementwise(family, lanes, element, extents).tensor)

    def reshape(self, x: Value, shape: Shape) -> Value:
        if math.prod(shape) != math.prod(x.shape):
            raise TilewrightError("TW6304", f"{list(x.shape)} cannot become {list(shape)}")
        return Value(self, self._intents.reshape(x.value, shape))

    def transpose(self, x: Value, permutation: Shape) -> Value:
        return Value(self, self._intents.transpose(x.value, permutation))

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        return Value(self, self._intents.concat([part.value for part in parts], axis))

    def slice(self, x: Value, offsets: Shape, sizes: Shape) -> Value:
        """The block of these sizes that begins at the offsets."""
        return Value(self, self._intents.slice(x.value, offsets, sizes, [1] * len(x.shape)))

    def embedding(self, indices: Value, rows: int, width: int, name: str) -> Value:
        """Rows of a table at i64 indices; the host looks them up."""
        with self._at(name) as path:
            table = self.drawn(f"{path}.weight", (rows, width), 1.0)
            return self._call("embedding", [table, indices], (*indices.shape, width))

    # --- inside -------------------------------------------------------------------------

    @contextmanager
    def _at(self, name: str) -> Iterator[str]:
        """Name what is added; yields the whole name."""
        before, self._intents.layer = self._intents.layer, self._named(name)
        yield self._intents.layer
        self._intents.layer = before

    def _call(
        self,
        family: str,
        operands: Sequence[Value],
        shape: Shape,
        attributes: Mapping[str, Attribute] | None = None,
        suffix: Sequence[Any] = (),
    ) -> Value:
        values = [operand.value for operand in operands]
        kind = TensorType(f32, list(shape))
        return Value(self, self._intents.call(family, values, kind, attributes, suffix))

    def _along(self, x: Value, row: Value, axis: int, operation: str) -> Value:
        """x combined with one number for each index of an axis."""
        return self.spread(x, row, (axis % len(x.shape),), operation)

    def spread(self, x: Value, other: Value, axes: Sequence[int], operation: str) -> Value:
        """x combined (add, mul, …) with what only has these of its axes."""
        loops = tuple(range(len(x.shape)))
        lanes = [Lane(x.value, loops), Lane(other.value, tuple(axes))]
        extents = dict(enumerate(x.shape))
        made = self._intents.elementwise(f"elementwise_{operation}", lanes, f32, extents)
        return Value(self, made.tensor)
