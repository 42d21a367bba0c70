"""Small models written step by step, to see which names the passes find in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import (
    IntentBuilder,
    Lane,
    integers,
    literal,
    shape_of,
    tensor_type,
)
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.verification import verify_module
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseResourceAttr,
    FunctionType,
    ModuleOp,
    Operation,
    OpResult,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    bf16,
    f32,
    func,
    i1,
    i64,
)
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.model.simplify import simplify
from tilewright.reference.executor import run
from tilewright.transforms.kernel_rewriting import family_name

Array = np.ndarray[Any, np.dtype[Any]]
ELEMENTS: dict[str, Attribute] = {"float32": f32, "bfloat16": bf16, "bool": i1, "int64": i64}


class Graph(IntentBuilder):
    """Appends intents to one function; operands broadcast as in numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.names: list[str] = []
        self.weights: dict[str, Array] = {}

    def add(self, op: Operation) -> OpResult:
        self.block.add_op(op)
        return op.results[0]

    def input(self, name: str, shape: Sequence[int], element: Attribute = f32) -> SSAValue:
        self.names.append(name)
        return self.block.insert_arg(TensorType(element, list(shape)), len(self.block.args))

    def weight(self, name: str, array: Array) -> SSAValue:
        self.weights[name] = array
        type_ = TensorType(ELEMENTS[str(array.dtype)], list(array.shape))
        return self.add(arith.ConstantOp(DenseResourceAttr.from_params(name, type_), type_))

    def op(
        self, family: str, *operands: SSAValue | float, element: Attribute | None = None
    ) -> SSAValue:
        """An element-wise step, `add` or `elementwise_add`."""
        known = ("cast", "select", "compare", "silu", "logical_not", "logical_and")
        name = family if family in known else f"elementwise_{family}"
        tensors = [v for v in operands if isinstance(v, SSAValue)]
        shape = np.broadcast_shapes(*map(shape_of, tensors))
        type_ = tensor_type(tensors[-1]).element_type
        lanes = []
        for value in operands:
            if not isinstance(value, SSAValue):
                lanes.append(literal(value, type_))
                continue
            first = len(shape) - len(shape_of(value))
            reads = [
                None if n == 1 and shape[first + d] != 1 else first + d
                for d, n in enumerate(shape_of(value))
            ]
            lanes.append(Lane(value, tuple(reads)))
        extents = dict(enumerate(shape))
        loops = range(len(shape))
        return self.elementwise(name, lanes, element or type_, extents, loops=loops).tensor

    def repeat(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """x broadcast to a shape."""
        reads = tuple(None if n == 1 and shape[d] != 1 else d for d, n in enumerate(shape_of(x)))
        lane = Lane(x, reads)
        loops = range(len(shape))
        element = tensor_type(x).element_type
        return self.elementwise("cast", [lane], element, dict(enumerate(shape)), loops=loops).tensor

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        return self.unary("cast", x, element)

    def mean(self, x: SSAValue, axis: int = -1) -> SSAValue:
        return self.reduction("mean", x, [axis % len(shape_of(x))], keepdims=True)

    def product(self, a: SSAValue, b: SSAValue, turned: bool = False) -> SSAValue:
        """a x b, or a x bᵀ."""
        columns = shape_of(b)[-2] if turned else shape_of(b)[-1]
        batch = shape_of(a)[:-2] or shape_of(b)[:-2]
        result = TensorType(tensor_type(a).element_type, [*batch, shape_of(a)[-2], columns])
        return self.matmul(a, b, result, transpose_rhs=turned)

    def part(self, x: SSAValue, start: int, size: int, step: int = 1) -> SSAValue:
        """Elements of the last dimension."""
        shape = shape_of(x)
        rest = len(shape) - 1
        return self.slice(x, [0] * rest + [start], [*shape[:-1], size], [1] * rest + [step])

    def insert(self, x: SSAValue, into: SSAValue, start: int, step: int = 1) -> SSAValue:
        """`into` with elements of the last dimension replaced by x."""
        rest = len(shape_of(into)) - 1
        attributes = {
            "offsets": integers([0] * rest + [start]),
            "sizes": integers(shape_of(x)),
            "strides": integers([1] * rest + [step]),
        }
        return self.call("insert_slice", [x, into], into.type, attributes)

    def halves(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        half = shape_of(x)[-1] // 2
        return self.part(x, 0, half), self.part(x, half, half)

    def finish(self, *results: SSAValue) -> Imported:
        self.block.add_op(func.ReturnOp(*results))
        types = FunctionType.from_lists(
            [a.type for a in self.block.args], [r.type for r in results]
        )
        module = ModuleOp([func.FuncOp("main", types, Region(self.block))])
        verify_module(module)
        inputs = [_spec(n, a) for n, a in zip(self.names, self.block.args, strict=True)]
        outputs = [_spec(f"output_{i}", r) for i, r in enumerate(results)]
        return Imported(module, self.weights, tuple(inputs), tuple(outputs), "spelled")


def _spec(name: str, value: SSAValue) -> TensorSpec:
    return TensorSpec(name, shape_of(value), str(tensor_type(value).element_type))


def counts(module: ModuleOp) -> dict[str, int]:
    """How often each family is used."""
    ops = (op for op in module.walk() if isinstance(op, UKernelGenericOp | MatmulOp))
    return dict(Counter(family_name(op) for op in ops))


def inputs_of(model: Imported, seed: int = 0) -> list[Array]:
    """Random inputs: floats around 0, small integers, masks that let every row see something."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for spec in model.inputs:
        if spec.dtype == "i1":
            mask = rng.random(spec.shape) < 0.7
            mask[..., 0] = True
            arrays.append(mask)
        elif spec.dtype == "i64":
            arrays.append(rng.integers(0, 2, spec.shape))
        else:
            values = rng.standard_normal(spec.shape).astype(np.float32)
            arrays.append(values if spec.dtype == "f32" else values.astype("bfloat16"))
    return arrays


def simplified(
    model: Imported, tolerance: float = 2e-6, seed: int = 0, **options: Any
) -> tuple[Imported, dict[str, int]]:
    """The simplified model and its families, after a check that it computes the same.

    `tolerance` is relative to the largest value of each output.
    """
    result = simplify(model, **options)
    verify_module(result.module)
    inputs = inputs_of(model, seed)
    before = run(model.module, inputs, weights=model.weights)
    after = run(result.module, inputs, weights=result.weights)
    for old, new in zip(before, after, strict=True):
        wide, other = old.astype(np.float64), new.astype(np.float64)
        limit = tolerance * max(1e-30, float(np.abs(wide).max(initial=0.0)))
        assert old.shape == new.shape and old.dtype == new.dtype
        assert np.abs(wide - other).max(initial=0.0) <= limit
    return result, counts(result.module)


def attribute_of(model: Imported, family: str, name: str) -> Attribute | None:
    """An attribute of the first intent of a family."""
    for op in model.module.walk():
        if isinstance(op, UKernelGenericOp) and family_name(op) == family:
            return op.attributes.get(name)
    raise AssertionError(f"no {family}")


def text_of(model: Imported, family: str, name: str) -> str:
    value = attribute_of(model, family, name)
    assert isinstance(value, StringAttr)
    return value.data
