"""From StableHLO to kernel intents: text as JAX prints it, generic text, portable artifacts.

before: func.func public @main(%arg0: tensor<16x8xf32>, %arg1: tensor<4x16xf32>) -> …
          %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : …
after:  func.func @main(%x: tensor<4x16xf32>) -> …
          %w = arith.constant dense_resource<w> : tensor<16x8xf32>
          %0 = npu_kernel.matmul %x, %w : …

Calls are followed, loops of known length unrolled, everything that depends on no input and no weight
computed here. JAX takes every layer apart, so norms, activations, rotary embeddings and attention
are put together again from their pieces (`stablehlo_chains.py`, `stablehlo_attention.py`).

Reading text needs nothing but this package; portable artifacts need jaxlib.

Error codes: TW6201 an operation without a mapping, TW6202 a loop without a known length, TW6203 an
operation with arguments that have no mapping, TW6204 text that contradicts itself, TW6205 a dynamic
shape, TW6206 no function to import, TW6207 a value that must be known at import, TW6208 weights that
do not fit, TW6209 jaxlib is not there or does not read the file.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.locations import location_of, name_of
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.stablehlo import no_mapping
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Block,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    VerifyException,
    func,
)
from tilewright.errors import Location, TilewrightError, TilewrightErrors, plain_reason
from tilewright.frontend.aten_builder import identifier
from tilewright.frontend.aten_graph import BY_NAME, TensorInfo
from tilewright.frontend.imported import Array, Imported, TensorSpec
from tilewright.frontend.stablehlo_builder import OPERATIONS, HLOImporter
from tilewright.frontend.stablehlo_locations import name_in, plain_locations
from tilewright.frontend.stablehlo_raising import raise_forms
from tilewright.frontend.stablehlo_reading import live_operations, users_location

OPERATION_FILES = (
    "elementwise", "bits", "special", "movement", "rows", "products", "lookup", "control",
)  # fmt: skip
ILL_FITTING = (
    KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError, ArithmeticError,
    MemoryError, StopIteration, VerifyException,
)  # fmt: skip
BYTECODE = b"ML\xefR"
READING_SECONDS = 300  # a portable artifact


def import_text(
    text: str,
    source: str,
    weights: Mapping[str, Array] | None = None,
    resources: Mapping[str, bytes] | None = None,
) -> Imported:
    """The model in StableHLO text; arguments that `weights` has a tensor for become weights."""
    module = parse_text(plain_locations(text, source), source)
    return import_stablehlo(module, source, weights, resources)


def import_artifact(
    content: bytes, source: str, weights: Mapping[str, Array] | None = None
) -> Imported:
    """The model in a portable artifact, as jax.export saves it; jaxlib reads it."""
    return import_text(artifact_text(content, source), source, weights)


def artifact_text(content: bytes, source: str) -> str:
    """A portable artifact as text with its locations; jaxlib reads it, in another process."""
    from tilewright.frontend.artifact_reader import MISSING, REFUSED

    try:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright.frontend.artifact_reader"],
            input=content, capture_output=True, timeout=READING_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        done = None
    if done is not None and done.returncode == 0:
        return done.stdout.decode()
    if done is not None and done.returncode == MISSING:
        raise TilewrightError(
            "TW6209",
            "portable artifacts are read by jaxlib, which is not installed",
            Location(source),
            'pip install "tilewright[jax]", or save the text: jax.jit(f).lower(…).as_text()',
        )
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() if done else []
    if done is None:
        reason = f"it does not come to an end within {READING_SECONDS} s"
    elif done.returncode == REFUSED and lines:
        reason = lines[-1]
    else:
        reason = "it stops in the middle"
    raise TilewrightError(
        "TW6209",
        f"jaxlib does not read this artifact: {reason}",
        Location(source),
        "it may be damaged or cut off, or made by a newer version",
    )


def load_operations() -> dict[str, Any]:
    """The table of operations with all its files loaded."""
    for name in OPERATION_FILES:
        importlib.import_module(f"tilewright.frontend.stablehlo_ops_{name}")
    return OPERATIONS


def is_stablehlo(module: ModuleOp) -> bool:
    """Whether a module has operations of StableHLO."""
    return any(name_of(op).split(".")[0] in ("stablehlo", "chlo", "mhlo") for op in module.walk())


def import_stablehlo(
    module: ModuleOp,
    source: str,
    weights: Mapping[str, Array] | None = None,
    resources: Mapping[str, bytes] | None = None,
    names: Sequence[str] | None = None,
) -> Imported:
    """A parsed module as intents; `names` are those of the arguments of its main function."""
    load_operations()
    functions = {
        op.properties["sym_name"].data: op  # type: ignore[attr-defined]
        for op in module.walk()
        if op.name == "func.func" and "sym_name" in op.properties
    }
    main = main_function(functions, source)
    check_operations(main, functions, source)
    importer = ModuleImporter(source)
    importer.functions = functions
    importer.resources = resources or {}
    try:
        return importer.import_main(main, weights or {}, names)
    except ILL_FITTING as error:
        message = plain_reason(error)
        if importer.current is None or importer.node is None:
            raise TilewrightError(
                "TW6204", f"the module contradicts itself ({message})", Location(source)
            ) from error
        raise importer.refused(f"does not fit its operands ({message})", "TW6204") from error


def main_function(functions: Mapping[str, Operation], source: str) -> Operation:
    """The function to import: @main, or the only one that others may call."""
    named = functions.get("main")
    if named is not None and named.regions[0].blocks:
        return named
    public = [
        op
        for op in functions.values()
        if op.regions[0].blocks
        and getattr(op.properties.get("sym_visibility"), "data", "public") == "public"
    ]
    if len(public) != 1:
        found = ", ".join(f"@{name}" for name in functions) or "none"
        raise TilewrightError(
            "TW6206",
            f"there is no function @main (functions: {found})",
            Location(source),
            "name the function to import @main, or make the others private",
        )
    return public[0]


def check_return(function: Operation) -> None:
    """A function ends with what its type says it gives."""
    block = function.regions[0].blocks[0]
    last, said = block.last_op, function.properties.get("function_type")
    if last is None or not name_of(last).endswith(".return"):
        place = location_of(last) if last is not None else location_of(function)
        raise TilewrightError(
            "TW6204", "a function does not end with a return", place, "end it with `return %value`"
        )
    if isinstance(said, FunctionType):
        types = [value.type for value in last.operands]
        if types != list(said.outputs.data):
            given, wanted = (
                ", ".join(map(str, row)) or "nothing" for row in (types, said.outputs.data)
            )
            raise TilewrightError(
                "TW6204", f"return gives {given}, the function {wanted}", location_of(last)
            )


def check_operations(main: Operation, functions: Mapping[str, Operation], source: str) -> None:
    """Refuse what has no mapping, every kind of operation once, before anything is built."""
    errors: dict[str, TilewrightError] = {}
    seen: set[Operation] = set()
    waiting: list[tuple[Operation, Location | None]] = [(main, None)]
    while waiting:
        function, caller = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        if len(function.regions[0].blocks) != 1:
            raise TilewrightError(
                "TW6204", "a function has more than one block", location_of(function)
            )
        check_return(function)
        for outer in live_operations(function.regions[0].blocks[0]):
            for op in outer.walk():
                name = name_of(op)
                if name not in OPERATIONS and not name.endswith(".return") and name not in errors:
                    errors[name] = no_mapping(name)
                    place = users_location(op, caller, source)
                    if place is not None:
                        errors[name].at(place)
                for value in (*op.properties.values(), *op.attributes.values()):
                    if isinstance(value, SymbolRefAttr) and value.string_value() in functions:
                        place = users_location(op, caller, source)
                        waiting.append((functions[value.string_value()], place))
    if errors:
        found = list(errors.values())
        raise found[0] if len(found) == 1 else TilewrightErrors(found)


class ModuleImporter(HLOImporter):
    """The driver: arguments first, then the body of the main function, then its forms raised."""

    def import_main(
        self, main: Operation, weights: Mapping[str, Array], names: Sequence[str] | None
    ) -> Imported:
        body = main.regions[0].blocks[0]
        given = list(names) if names is not None else argument_names(main, body)
        arguments, inputs = self._arguments_of(body, given, weights)
        for argument, value in zip(body.args, arguments, strict=True):
            self.views[argument] = value
        found = self.inlined(body, arguments)
        self.current = None
        self.node = None
        results = [self.whole(value) for value in found]
        self.block.add_op(func.ReturnOp(*results))
        self._settle_constants()
        self._drop_dead()
        self.made.clear()
        raise_forms(self)
        self._drop_dead()
        return self._module(main, inputs)

    def _arguments_of(
        self, body: Block, names: Sequence[str], weights: Mapping[str, Array]
    ) -> tuple[list[SSAValue], list[str]]:
        """Inputs as block arguments, weights as named constants; and the names of the inputs."""
        arguments: list[SSAValue] = []
        inputs: list[str] = []
        for argument, name in zip(body.args, names, strict=True):
            type_ = argument.type
            if (
                not isinstance(type_, TensorType)
                or str(type_.element_type) not in BY_NAME
                or any(n < 0 for n in type_.get_shape())
            ):
                function = body.parent_op()
                place = location_of(function) if function is not None else None
                hint = "lower the function with fixed shapes and real numbers"
                if "!quant." in str(type_):
                    hint = "give integers, and write out scales: convert, multiply, round, clamp"
                raise TilewrightError(
                    "TW6205",
                    f"the argument {name} is {type_}, a tensor of fixed shape is needed",
                    place or Location(self.graph.source),
                    hint,
                )
            info = TensorInfo(tuple(type_.get_shape()), BY_NAME[str(type_.element_type)])
            key = weight_key(name, weights)
            if key is None:
                value: SSAValue = self.block.insert_arg(type_, len(self.block.args))
                value.name_hint = identifier(name)
                inputs.append(name)
            else:
                array = np.asarray(weights[key])
                if array.shape != info.shape or array.dtype != info.dtype.storage:
                    raise TilewrightError(
                        "TW6208",
                        f"the weight {key} is {array.dtype} of shape {list(array.shape)}, "
                        f"the model takes {info}",
                        Location(self.graph.source),
                    )
                value = self.resource(key, info)
                self.weights[key] = array
                self.names[value] = key
            arguments.append(value)
        return arguments, inputs

    def _module(self, main: Operation, inputs: list[str]) -> Imported:
        terminator = self.block.last_op
        assert terminator is not None
        kinds = ([a.type for a in self.block.args], [v.type for v in terminator.operands])
        outputs = [
            TensorSpec(name, shape_of(value), self.kind(value).name)
            for name, value in zip(
                result_names(main, len(terminator.operands)), terminator.operands, strict=True
            )
        ]
        specs = [
            TensorSpec(name, shape_of(argument), self.kind(argument).name)
            for name, argument in zip(inputs, self.block.args, strict=True)
        ]
        module = ModuleOp([func.FuncOp("main", kinds, Region(self.block))])
        verify_module(module)
        return Imported(
            module,
            self.weights,
            tuple(specs),
            tuple(outputs),
            self.graph.source,
            folded=tuple(self.folded),
        )


# ------------------------------------------------------------------------------------------ names


_STEP = re.compile(r"\['((?:[^'\\]|\\.)*)'\]|\[(\d+)\]|\.?([^\[\].]+)")


def dotted(path: str) -> str:
    """params['layers'][0]['w'] as params.layers.0.w"""
    return ".".join(m[1] or m[2] or m[3] for m in _STEP.finditer(path))


def argument_names(main: Operation, body: Block) -> list[str]:
    """What JAX says the arguments are called, in its locations; else arg0, arg1, …"""
    names: list[str] = []
    for index, argument in enumerate(body.args):
        name = dotted(name_in(argument.location)) or f"arg{index}"
        while name in names:
            name = f"{name}_{index}"
        names.append(name)
    return names


def result_names(main: Operation, count: int) -> list[str]:
    """The paths of the results in what the function returns; `output` where there is one."""
    attributes = main.properties.get("res_attrs")
    names: list[str] = []
    for index in range(count):
        path = ""
        if isinstance(attributes, ArrayAttr) and index < len(attributes.data):
            entry = attributes.data[index]
            if isinstance(entry, DictionaryAttr):
                info = entry.data.get("jax.result_info")
                path = info.data if isinstance(info, StringAttr) else ""
        name = dotted(re.sub(r"^result\b", "", path))
        if not name or name[0].isdigit():
            name = f"output_{name.replace('.', '_')}" if name else f"output_{index}"
        names.append("output" if count == 1 and name == "output_0" else name)
    return names


def weight_key(name: str, weights: Mapping[str, Array]) -> str | None:
    """The tensor for an argument: by its whole name, or without the name of the tree it is in."""
    if name in weights:
        return name
    inner = name.partition(".")[2]
    return inner if inner and inner in weights else None
