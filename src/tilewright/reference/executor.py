"""Run a module on numpy arrays: the meaning every later form of the program is checked against.

    run(module, [x, y], weights={"proj.weight": w}) -> [result, ...]

Inputs and results are numpy arrays in stored form (`ml_dtypes` for bf16 and fp8). See
`reference/__init__.py` for the rules of arithmetic.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault, name_of
from tilewright.reference.machine_kernels import check_machine
from tilewright.reference.program import (
    BlockProgram,
    Builder,
    Semantics,
    Watch,
    as_array,
    is_index_scalar,
    tensor_shape,
)

# Each module registers the operations of one dialect when it is imported.
DIALECTS = (
    "ops_arith",
    "ops_func",
    "ops_tensor",
    "ops_linalg",
    "ops_scf",
    "ops_attention",
    "ops_npu_kernel",
    "ops_npu_schedule",
)

Weights = Mapping[str, Array] | str | Path | None


def run(
    module: builtin.ModuleOp,
    inputs: Sequence[Any],
    function: str = "main",
    weights: Weights = None,
    semantics: Semantics | None = None,
) -> list[Array]:
    """The results of a function of a module on the given inputs.

    `weights` holds the tensors the module names with `dense_resource<name>`: a mapping or the
    path of a safetensors file. With a single function in the module, its name does not matter.
    """
    executor = Executor(module, weights, semantics)
    return executor.run(inputs, function)


class Executor:
    """A module ready to run; functions are compiled on first use and kept.

    watch: functions that are told values of the module whenever they are made.
    """

    def __init__(
        self,
        module: builtin.ModuleOp,
        weights: Weights = None,
        semantics: Semantics | None = None,
        watch: Watch | None = None,
    ) -> None:
        for dialect in DIALECTS:
            importlib.import_module(f"tilewright.reference.{dialect}")
        self.module = module
        self.semantics = semantics or Semantics()
        check_semantics(self.semantics)
        self.weights = weight_lookup(weights)
        self.watch = watch or {}
        self.functions = functions_of(module)
        self.compiled: dict[str, tuple[Operation, Builder, BlockProgram]] = {}

    def run(self, inputs: Sequence[Any], function: str = "main") -> list[Array]:
        """The results of one function."""
        name = self.resolve(function)
        entry = self.functions[name].regions[0].blocks[0]
        arguments = check_inputs(self.functions[name], list(entry.args), inputs)
        with np.errstate(all="ignore"):
            results = self.call(name, arguments, self.module)
        return [as_array(r) for r in results]

    def resolve(self, function: str) -> str:
        if function in self.functions:
            return function
        if len(self.functions) == 1:
            return next(iter(self.functions))
        known = ", ".join(self.functions) or "none"
        raise TilewrightError(
            "TW1506", f"the module has no function {function}", hint=f"functions: {known}"
        )

    def call(self, name: str, arguments: Sequence[Any], caller: Operation) -> list[Any]:
        """Run a function with its own slots; arguments and results are in running form."""
        if name not in self.functions:
            raise fault(caller, "TW1506", f"the function {name} is called but has no body")
        if name not in self.compiled:
            op = self.functions[name]
            builder = Builder(
                self.functions, self.weights, self.semantics, self.call, watch=self.watch
            )
            block = builder.single_block(op.regions[0], op)
            self.compiled[name] = (op, builder, builder.block(block))
        _, builder, program = self.compiled[name]
        slots: list[Any] = [None] * len(builder.slot_of)
        block = self.functions[name].regions[0].blocks[0]
        for slot, value, argument in zip(program.arguments, arguments, block.args, strict=True):
            slots[slot] = value
            if argument in self.watch:
                self.watch[argument](as_array(value))
        del arguments
        return program.run(slots)


def check_semantics(semantics: Semantics) -> None:
    """Fail for choices that do not exist."""
    if semantics.accumulate not in ("wide", "stepwise"):
        raise TilewrightError(
            "TW1502",
            f"there is no way to accumulate called {semantics.accumulate}",
            hint="use wide or stepwise",
        )
    check_machine(semantics.machine)


def functions_of(module: builtin.ModuleOp) -> dict[str, Operation]:
    """Functions with a body, by name, in order."""
    found: dict[str, Operation] = {}
    for op in module.walk():
        if name_of(op) in ("func.func", "util.func") and op.regions and op.regions[0].blocks:
            symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
            if isinstance(symbol, builtin.StringAttr):
                found[symbol.data] = op
    return found


def check_inputs(op: Operation, arguments: list[SSAValue], inputs: Sequence[Any]) -> list[Any]:
    """Inputs in running form, after a check of their number, shapes and types."""
    if len(arguments) != len(inputs):
        raise fault(
            op, "TW1504", f"{len(inputs)} inputs were given, the function takes {len(arguments)}"
        )
    checked: list[Any] = []
    for index, (argument, value) in enumerate(zip(arguments, inputs, strict=True)):
        element = dtypes.element_type(argument.type)
        array = np.asarray(value)
        shape = tensor_shape(argument)
        fits = len(shape) == array.ndim and all(
            want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            raise fault(
                op,
                "TW1504",
                f"input {index} has shape {_sizes(array.shape)}, the function takes {_sizes(shape)}",
            )
        if array.dtype != element.storage:
            if isinstance(value, np.ndarray) and array.dtype != np.dtype(object):
                raise fault(
                    op,
                    "TW1504",
                    f"input {index} has numpy type {array.dtype}, the function takes {element.name}",
                    f"convert it with tilewright.reference.dtypes.stored to {element.storage}",
                )
            array = dtypes.stored(array, element)
        checked.append(int(array) if is_index_scalar(argument) else array)
    return checked


def _sizes(shape: Sequence[int]) -> str:
    return "x".join("?" if s < 0 else str(s) for s in shape) or "scalar"


def weight_lookup(weights: Weights) -> Callable[[str], Any]:
    """A function from a weight's name to its array, or None if there is no such weight."""
    if weights is None:
        return lambda name: None
    if isinstance(weights, Mapping):
        return weights.get
    path = Path(weights)
    if not os.path.exists(path):
        raise TilewrightError("TW1503", f"the weight file {path} does not exist")
    from safetensors import safe_open

    from tilewright.io.tensor_files import read_tensor

    with safe_open(str(path), framework="numpy") as file:
        names = set(file.keys())
    # Mapped, not read; safetensors' own reader has no fp8 for numpy.
    return lambda name: read_tensor(f"{path}#{name}").array if name in names else None
