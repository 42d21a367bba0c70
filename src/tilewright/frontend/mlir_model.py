"""MLIR text as a model: linalg, npu_kernel or StableHLO, with IREE's wrapping or without.

before: model.mlir with linalg, tensor and arith on tensors, `dense_resource<name>` for weights
after:  Imported: one function @main of kernel intents, weights as arrays, inputs and outputs by name

Weights are the resources at the end of the text, or the tensors of a safetensors file beside it with
the same name (`model.safetensors`). In StableHLO, arguments that the file has a tensor for are weights.

Error codes: TW6206 no function to import, TW6208 weights that are missing or do not fit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from tilewright.dialects.locations import location_of
from tilewright.dialects.parsing import MOST_BYTES, parse_text, verify_module
from tilewright.dialects.xdsl_api import (
    Block,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    arith,
    func,
)
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.aten import INLINE_ELEMENTS
from tilewright.frontend.aten_graph import BY_NAME
from tilewright.frontend.imported import Array, Imported, TensorSpec
from tilewright.frontend.mlir import split_resources, without_device
from tilewright.frontend.stablehlo import (
    BYTECODE,
    import_artifact,
    import_stablehlo,
    is_stablehlo,
    main_function,
)
from tilewright.frontend.stablehlo_locations import plain_locations
from tilewright.frontend.stablehlo_ops_movement import literal_array
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.transforms.iree_unwrap import unwrap
from tilewright.transforms.linalg_to_kernel.driver import convert_module
from tilewright.transforms.linalg_to_kernel.emitter import Settings

DEEPEST_CALL = 64
DECLARED = re.compile(r"%(\w+)\s*:\s*tensor<")


def read_mlir_model(path: str | Path, weights: str | Path | None = None) -> Imported:
    """The model in a file of MLIR text, or of a StableHLO portable artifact.

    `weights` is a safetensors file; by default the one beside the model, if there is one.
    """
    name = str(path)
    content = read_bytes(name, MOST_BYTES)
    beside = Path(name).with_suffix(".safetensors")
    tensors = TensorFile(
        weights if weights is not None else beside if os.path.exists(beside) else None
    )
    if content.startswith(BYTECODE) and b"StableHLO" in content[:64]:
        return import_artifact(content, name, tensors)
    if content.startswith(BYTECODE):
        raise TilewrightError(
            "TW1210",
            "this is MLIR bytecode, not text",
            Location(name, 1),
            "print it as text first, for example with mlir-opt or iree-opt",
        )
    return import_mlir(decode_text(content, name), name, tensors)


class TensorFile(Mapping[str, Array]):
    """The tensors of a safetensors file, mapped when asked for; none without a file."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = path
        self.names: list[str] = []
        if path is not None:
            from safetensors import SafetensorError, safe_open

            try:
                with safe_open(str(path), framework="numpy") as file:
                    self.names = sorted(file.keys())
            except (OSError, SafetensorError) as error:
                raise TilewrightError(
                    "TW6208", f"the weights cannot be read: {error}", Location(str(path))
                ) from None

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(name)
        from tilewright.io.tensor_files import read_tensor

        return read_tensor(f"{self.path}#{name}").array

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def import_mlir(text: str, source: str, weights: Mapping[str, Array] | None = None) -> Imported:
    """The model in MLIR text; `weights` are tensors that its resources or arguments name."""
    weights = weights if weights is not None else {}
    body, resources = split_resources(text, source)
    module = parse_text(without_device(plain_locations(body, source)), source)
    declared = declared_names(module)
    unwrap(module)
    if is_stablehlo(module):
        return import_stablehlo(module, source, weights, resources)
    verify_module(module)
    functions = {
        op.properties["sym_name"].data: op  # type: ignore[attr-defined]
        for op in module.walk()
        if op.name == "func.func"
    }
    main = main_function(functions, source)
    inline_calls(main, functions, source)
    alone = _alone(main)
    # Convolutions stay whole, as from every front end; how to carry them out is decided later.
    convert_module(alone, Settings(convolution="direct")).install()
    verify_module(alone)
    return _imported(alone, source, weights, resources, declared)


def declared_names(module: ModuleOp) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs that IREE notes on a function, if it does."""
    for op in module.walk():
        reflection = op.attributes.get("iree.reflection")
        if isinstance(reflection, DictionaryAttr):
            text = reflection.data.get("iree.abi.declaration")
            if isinstance(text, StringAttr):
                before, _, after = text.data.partition("->")
                return DECLARED.findall(before), DECLARED.findall(after)
    return [], []


def inline_calls(main: Operation, functions: Mapping[str, Operation], source: str) -> None:
    """Put the bodies of called functions in the place of calls, in place."""
    for _ in range(DEEPEST_CALL):
        calls = [op for op in main.walk() if op.name == "func.call"]
        if not calls:
            return
        for call in calls:
            callee = call.properties["callee"]
            assert isinstance(callee, SymbolRefAttr)
            function = functions.get(callee.string_value())
            if function is None or len(function.regions[0].blocks) != 1:
                raise TilewrightError(
                    "TW6206",
                    f"the function @{callee.string_value()} that is called has no body of one block",
                    location_of(call),
                )
            _inline(call, function.regions[0].blocks[0])
    raise TilewrightError("TW6206", "functions call each other without end", Location(source))


def _inline(call: Operation, body: Block) -> None:
    block = call.parent
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
    results: list[SSAValue] = []
    for op in body.ops:
        if op is body.last_op:
            results = [values.get(v, v) for v in op.operands]
            break
        new = op.clone(values)
        new.location = op.location
        block.insert_op_before(new, call)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()


def _alone(main: Operation) -> ModuleOp:
    """A module with one function, under the name @main."""
    main.detach()
    body = main.detach_region(main.regions[0])
    terminator = body.blocks[0].last_op
    assert terminator is not None
    types = ([a.type for a in body.blocks[0].args], [v.type for v in terminator.operands])
    function = func.FuncOp("main", types, Region() if not body.blocks else body)
    function.location = main.location
    return ModuleOp([function])


def _imported(
    module: ModuleOp,
    source: str,
    weights: Mapping[str, Array],
    resources: Mapping[str, bytes],
    declared: tuple[list[str], list[str]],
) -> Imported:
    """The weights that a converted module names, and what goes in and out."""
    found: dict[str, Array] = {}
    for op in module.walk():
        if not isinstance(op, arith.ConstantOp) or not isinstance(op.result.type, TensorType):
            continue
        if isinstance(op.value, DenseResourceAttr):
            name = op.value.resource_handle.data
            if name not in found:
                found[name] = _weight(name, op, weights, resources)
        elif isinstance(op.value, DenseIntOrFPElementsAttr):
            _move_out(op, found)
    function = next(op for op in module.walk() if op.name == "func.func")
    block = function.regions[0].blocks[0]
    terminator = block.last_op
    assert terminator is not None
    inputs, outputs = list(block.args), list(terminator.operands)
    names = [a.name_hint or f"arg{i}" for i, a in enumerate(inputs)]
    results = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    if len(declared[0]) == len(inputs) and len(declared[1]) == len(outputs):
        names, results = declared
    return Imported(
        module,
        found,
        tuple(_spec(n, v, source) for n, v in zip(names, inputs, strict=True)),
        tuple(_spec(n, v, source) for n, v in zip(results, outputs, strict=True)),
        source,
    )


def _spec(name: str, value: SSAValue, source: str) -> TensorSpec:
    if not isinstance(value.type, TensorType):
        raise TilewrightError(
            "TW6206",
            f"{name} is {value.type}, a function of tensors is needed",
            Location(source),
        )
    return TensorSpec(name, tuple(value.type.get_shape()), str(value.type.element_type))


def _weight(
    name: str,
    op: arith.ConstantOp,
    weights: Mapping[str, Array],
    resources: Mapping[str, bytes],
) -> Array:
    """The tensor a resource stands for, from the text or from the file beside it."""
    type_ = op.result.type
    assert isinstance(type_, TensorType)
    kind = BY_NAME.get(str(type_.element_type))
    shape = tuple(type_.get_shape())
    if kind is None:
        raise TilewrightError(
            "TW6208", f"the weight {name} is {type_}, which has no arrays", location_of(op)
        )
    if name in weights:
        array = weights[name]
        if array.dtype != kind.storage and array.dtype.itemsize == kind.storage.itemsize and (
            array.dtype.kind == "u"
        ):  # fmt: skip
            array = array.view(kind.storage)  # types that the file's reader gives as bytes
    elif name in resources:
        array = np.frombuffer(resources[name], np.uint8)
        if array.nbytes == math.prod(shape) * kind.storage.itemsize:
            array = array.view(kind.storage).reshape(shape)
    else:
        raise TilewrightError(
            "TW6208",
            f"the weight {name} has no data",
            location_of(op),
            "keep the resources in the text, or put a safetensors file with the same name beside it",
        )
    if array.shape != shape or array.dtype != kind.storage:
        raise TilewrightError(
            "TW6208",
            f"the weight {name} is {array.dtype} of shape {list(array.shape)}, the text has {type_}",
            location_of(op),
        )
    return array


def _move_out(op: arith.ConstantOp, found: dict[str, Array]) -> None:
    """A large literal becomes a weight, so that the text of the module stays small."""
    value, type_ = op.value, op.result.type
    assert isinstance(value, DenseIntOrFPElementsAttr)
    assert isinstance(type_, TensorType)
    kind = BY_NAME.get(str(type_.element_type))
    count = math.prod(type_.get_shape())
    if kind is None or count <= INLINE_ELEMENTS or len(value.data.data) <= kind.storage.itemsize:
        return
    name = f"literal.{sum(key.startswith('literal.') for key in found)}"
    found[name] = literal_array(value, tuple(type_.get_shape()), kind.storage)
    op.properties["value"] = DenseResourceAttr.from_params(name, type_)
