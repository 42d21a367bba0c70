"""Reading ONNX models, operator sets 7 to 23 and later where the operators are known.

    imported = read_onnx("model.onnx", shapes={"batch": 1})
    results = run(imported.module, [x], weights=imported.weights)

before: a graph of ONNX nodes with initialisers
after:  func.func @main of kernel intents on static tensors; attention, norms and activations whole;
        weights beside it, by the names that `dense_resource<name>` says

Weights are those of the file; external data stays mapped. Every operation's place is
`model.onnx#node`, so later errors name the node.

Error codes: TW6001 to TW6004, TW6009 see `onnx_file`; TW6005 sizes that are not fixed; TW6006 to
TW6008 see `onnx_lowering`; TW6010 a value given for an input does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.parsing import verify_module
from tilewright.dialects.xdsl_api import (
    FileLineColLoc,
    FunctionType,
    IntAttr,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    func,
    is_side_effect_free,
)
from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.frontend import onnx_file
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.frontend.onnx_file import Source
from tilewright.frontend.onnx_lowering import Lowering, Scope, identifier
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    TYPE_NAMES,
    Array,
    Constant,
    Value,
    element,
    shape,
    stored,
)
from tilewright.io.safetensors_file import save_safetensors
from tilewright.io.tensor_files import SAFETENSORS_TYPES

if TYPE_CHECKING:
    from onnx import ModelProto

Shapes = Mapping[str, int | tuple[int, ...] | list[int]]


@dataclass
class OnnxModel(Imported):
    """An imported model with what only ONNX has."""

    weight_names: dict[str, str] = field(default_factory=dict)  # resource -> name in the model
    folded: tuple[str, ...] = ()  # nodes computed at import
    opset: int = 0

    def save_weights(self, path: str | Path) -> None:
        """Write the weights to a safetensors file: all of it or nothing.

        Narrow types that the format has no name for are kept as bytes; the module that names the
        weight says what they are.
        """
        save_safetensors(path, {name: _plain(array) for name, array in self.weights.items()})


class NeedsValues(TilewrightErrors):
    """The model's sizes depend on the values of these inputs."""

    def __init__(self, errors: list[TilewrightError], names: frozenset[str]) -> None:
        super().__init__(errors)
        self.names = names


def read_onnx(
    source: str | Path | ModelProto,
    shapes: Shapes | None = None,
    values: Mapping[str, Any] | None = None,
    fold: bool = True,
) -> OnnxModel:
    """The model in an ONNX file (or in memory) as kernel intents.

    `shapes` gives sizes to symbolic dimensions by their name, or whole shapes to inputs by theirs.
    `values` fixes inputs that decide shapes, such as the target of a Reshape: they are no longer
    inputs of the function. Everything that cannot be mapped is reported at once.
    """
    loaded = onnx_file.load(source)
    fixed = {name: np.asarray(value) for name, value in (values or {}).items()}
    onnx_file.bind_sizes(loaded, shapes or {}, set(fixed))
    onnx_file.check(loaded)
    lowering = Lowering(loaded, fold)
    scope, specs = _start(lowering, fixed)
    lowering.types = _inferred(loaded)
    lowering.scopes.append(scope)
    lowering.run(loaded.model.graph.node, scope, loaded.opsets[""])
    if lowering.problems:
        if lowering.needs:
            raise NeedsValues(lowering.errors(), lowering.needs)
        raise TilewrightErrors(lowering.errors())
    module = _module(lowering, _results(lowering, scope))
    if fold:
        name_chains(module)
    used = _remove_unused(module, lowering.weights)
    outputs = tuple(
        TensorSpec(info.name, shape(value), str(element(value)))
        for info, value in zip(loaded.model.graph.output, results_of(module), strict=True)
    )
    verify_module(module)
    names = {name: lowering.names.original[name] for name in used}
    return OnnxModel(
        module,
        used,
        tuple(specs),
        outputs,
        loaded.name,
        weight_names=names,
        folded=tuple(lowering.folded),
        opset=loaded.opsets[""],
    )


def _start(low: Lowering, fixed: Mapping[str, Array]) -> tuple[Scope, list[TensorSpec]]:
    """The names a graph starts with: initialisers, fixed inputs, and arguments."""
    scope, specs = Scope(), []
    graph = low.source.model.graph
    if graph.sparse_initializer:
        raise low.source.error("TW6008", "the model has sparse weights, which are not read")
    for tensor in graph.initializer:
        scope.values[tensor.name] = onnx_file.constant_of(low.source, tensor)
    known = {info.name for info in graph.input}
    for name in fixed:
        if name not in known:
            raise low.source.error(
                "TW6010", f"values names {name}, which is no input", f"inputs: {sorted(known)}"
            )
    for info in graph.input:
        if info.name in scope.values:
            continue
        if not info.type.HasField("tensor_type"):
            kind = info.type.WhichOneof("value") or "nothing"
            raise low.source.error(
                "TW6008", f"the input {info.name} is of the kind {kind}, only tensors are read"
            )
        number = info.type.tensor_type.elem_type
        if number not in ELEMENTS:
            kind = TYPE_NAMES.get(number, str(number))
            raise low.source.error("TW6008", f"the input {info.name} holds {kind}")
        if info.name in fixed:
            array = stored(fixed[info.name])
            if array.dtype != np.dtype(ELEMENTS[number][2]):
                raise low.source.error(
                    "TW6010",
                    f"the value of {info.name} is {array.dtype}, the input is {TYPE_NAMES[number]}",
                )
            scope.values[info.name] = Constant(array, info.name, number)
            continue
        sizes = tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        type_ = TensorType(ELEMENTS[number][1], sizes)
        argument = low.block.insert_arg(type_, len(low.block.args))
        argument.name_hint = identifier(info.name)
        low.depends[argument] = frozenset([info.name])
        scope.values[info.name] = argument
        specs.append(TensorSpec(info.name, sizes, str(ELEMENTS[number][1])))
    return scope, specs


def _inferred(source: Source) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Types that ONNX's shape inference found: what stands in for nodes with problems."""
    found = {}
    graph = source.model.graph
    for info in (*graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        dims = tensor.shape.dim
        known = info.type.HasField("tensor_type") and tensor.HasField("shape")
        known = known and all(d.HasField("dim_value") for d in dims)
        if known and tensor.elem_type in ELEMENTS:
            found[info.name] = (tensor.elem_type, tuple(d.dim_value for d in dims))
    return found


def _results(low: Lowering, scope: Scope) -> list[SSAValue]:
    results = []
    for info in low.source.model.graph.output:
        value: Value | None = scope.find(info.name)
        if value is None:
            raise low.source.error("TW6009", f"the output {info.name} is made by no node")
        results.append(low.tensor(value))
    return results


def _module(low: Lowering, results: list[SSAValue]) -> ModuleOp:
    """The finished block as func.func @main in a module."""
    low.block.add_op(func.ReturnOp(*results))
    type_ = FunctionType.from_lists(
        [a.type for a in low.block.args], [value.type for value in results]
    )
    main = func.FuncOp("main", type_, Region(low.block))
    module = ModuleOp([main])
    place = FileLineColLoc(StringAttr(low.source.name), IntAttr(0), IntAttr(0))
    for op in (module, main, low.block.last_op):
        if isinstance(op, Operation):
            op.location = place
    return module


def name_chains(module: ModuleOp) -> None:
    """Chains that older exporters take apart get the name of their family back.

    before: x * sigmoid(x)
    after:  silu(x), the same bits
    """
    from tilewright.transforms.linalg_to_kernel.chains import recognise_chains
    from tilewright.transforms.linalg_to_kernel.emitter import Settings

    for op in module.body.block.ops:
        for region in op.regions:
            recognise_chains(region.block, {}, Settings())


def results_of(module: ModuleOp) -> list[SSAValue]:
    """What @main returns."""
    (main,) = module.body.block.ops
    last = main.regions[0].block.last_op
    assert last is not None
    return list(last.operands)


def _remove_unused(module: ModuleOp, weights: dict[str, Array]) -> dict[str, Array]:
    """Operations nobody reads are gone; the weights that are still named."""
    from tilewright.dialects.xdsl_api import DenseResourceAttr, arith

    for op in reversed(list(module.walk())):
        if op.results and not any(r.uses for r in op.results) and is_side_effect_free(op):
            op.detach()
            op.erase()
    named = [
        op.value.resource_handle.data
        for op in module.walk()
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseResourceAttr)
    ]
    return {name: weights[name] for name in named}


def _plain(array: Array) -> Array:
    return array if array.dtype in SAFETENSORS_TYPES else array.view(np.uint8)


__all__ = ["NeedsValues", "OnnxModel", "read_onnx"]
