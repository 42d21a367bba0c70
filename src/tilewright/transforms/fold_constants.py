"""fold-constants: what depends on no input is computed once, at compile time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright.dialects.intents import literal, shape_of, tensor_type
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Context,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    ModulePass,
    Operation,
    SSAValue,
    TensorType,
    arith,
)
from tilewright.transforms.canonicalize import remove_dead
from tilewright.transforms.kernel_rewriting import BuilderBefore, family_name, replace_value
from tilewright.transforms.known_values import Array, KnownValues, resource_name, uniform

INLINE_ELEMENTS = 16  # results up to this size are written into the IR
INLINE_WITHOUT_WEIGHTS = 4096  # the same where there is no place for weights beside the IR

# Families whose elements follow those of their operands: a repeated operand is read in place.
READS_IN_PLACE = frozenset(
    ["cast", "select", "compare", "silu", "silu_gate", "clamp", "gelu_tanh", "gelu_erf"]
)


@dataclass(frozen=True)
class FoldConstants(ModulePass):
    """Compute every intent whose operands are constants or weights, and drop what is unused.

    before: %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%w) {permutation = array<i64: 1, 0>}
    after:  %t = arith.constant dense_resource<w.transpose> : tensor<96x64xf32>

    Large results become new weights under names derived from those they are made of. Without a
    file of weights only small constants written in the IR are computed.
    """

    name = "fold-constants"

    weights: str = field(
        default="", metadata={"meaning": "safetensors file with the weights the module names"}
    )
    output: str = field(
        default="", metadata={"meaning": "safetensors file for the weights it names afterwards"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.weights and not self.output:
            fold_constants(op, {}, named=False)
            return
        from tilewright.io.safetensors_file import save_safetensors

        found = fold_constants(op, read_weights(self.weights) if self.weights else {})
        if self.output:
            save_safetensors(self.output, found)


def read_weights(path: str) -> dict[str, Array]:
    """The tensors of a safetensors file, mapped, not read."""

    from safetensors import safe_open

    from tilewright.errors import Location, TilewrightError
    from tilewright.io.tensor_files import read_tensor

    if not os.path.isfile(path):
        raise TilewrightError("TW0020", "there is no such file of weights", Location(path))
    try:
        with safe_open(path, framework="numpy") as file:
            names = sorted(file.keys())
    except Exception as error:
        raise TilewrightError(
            "TW0029", f"the file is not readable safetensors: {error}", Location(path)
        ) from None
    return {name: read_tensor(f"{path}#{name}").array for name in names}


def fold_constants(
    module: ModuleOp,
    weights: Mapping[str, Array],
    keep: Collection[str] = (),
    named: bool = True,
) -> dict[str, Array]:
    """The weights of the module after everything without inputs has been computed in it.

    Weights that nothing names any more are left out, except those in `keep`. Without `named`,
    results that are too large for the IR stay as they were.
    """
    store = _Store(dict(weights), _names(module) | set(weights), named)
    known = KnownValues(weights)
    for op in list(module.walk()):
        if isinstance(op, UKernelGenericOp | MatmulOp) and op.parent is not None:
            _fold(op, known, store)
    known.forget()
    remove_dead(module)
    used = _names(module)
    return {name: array for name, array in store.weights.items() if name in used or name in keep}


def _names(module: ModuleOp) -> set[str]:
    """The weights that a module names."""
    return {name for op in module.walk() if (name := resource_name(op)) is not None}


def _fold(op: Operation, known: KnownValues, store: _Store) -> None:
    """Put a constant in the place of an op that others need when the module runs."""
    result = op.results[0]
    if not known.is_known(result):
        return
    if family_name(op) == "fill" and not op.operands:
        return  # a literal already
    users = [use.operation for use in result.uses]
    if all(_is_folded(user, known) for user in users):
        return  # only part of other constants
    if known.stored(result) > 2 * sum(known.stored(v) for v in op.operands) and (
        family_name(op) == "cast" and all(_reads_in_place(user) for user in users)
    ):
        return  # a repetition, which its users read from the original
    array = known.array(result)
    if array is None:
        return
    number = uniform(array)
    if number is not None and array.size > 1:
        value = literal(number, tensor_type(result).element_type).value
        made: SSAValue = BuilderBefore(op).fill(value, shape_of(result))
    else:
        constant = store.constant(op, array)
        if constant is None:
            return
        made = BuilderBefore(op).add(constant)
    known.remember(made, array)
    replace_value(op, made)


def _is_folded(user: Operation, known: KnownValues) -> bool:
    return bool(user.results) and known.is_known(user.results[0])


def _reads_in_place(user: Operation) -> bool:
    name = family_name(user)
    return name.startswith(("elementwise_", "logical_")) or name in READS_IN_PLACE


@dataclass
class _Store:
    """The weights as they grow."""

    weights: dict[str, Array]
    taken: set[str]
    named: bool
    by_content: dict[bytes, str] = field(default_factory=dict)

    def constant(self, op: Operation, array: Array) -> arith.ConstantOp | None:
        """A constant for the array: in the IR when small, else by the name of a weight."""
        type_ = tensor_type(op.results[0])
        limit = INLINE_ELEMENTS if self.named else INLINE_WITHOUT_WEIGHTS
        if array.size <= limit:
            return arith.ConstantOp(_dense(array, type_), type_)
        if not self.named:
            return None
        name = self._place(op, np.ascontiguousarray(array))
        return arith.ConstantOp(DenseResourceAttr.from_params(name, type_), type_)

    def _place(self, op: Operation, array: Array) -> str:
        """The name of the weight that holds an array; equal arrays share one."""
        digest = hashlib.blake2b(array.tobytes(), digest_size=16)
        digest.update(f"{array.dtype}{array.shape}".encode())
        name = self.by_content.get(digest.digest())
        if name is None:
            wanted = f"{_origin(op)}.{family_name(op).removeprefix('elementwise_')}"
            name, count = wanted, 1
            while name in self.taken:
                count += 1
                name = f"{wanted}.{count}"
            self.taken.add(name)
            self.by_content[digest.digest()] = name
            self.weights[name] = array
        return name


def _origin(op: Operation) -> str:
    """The largest weight that a constant is made of, by name."""
    best, size = "constant", -1
    seen: set[Operation] = set()
    pending: list[Operation] = [op]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        name = resource_name(current)
        if name is not None:
            elements = int(np.prod(shape_of(current.results[0])))
            if (elements, name) > (size, best):
                best, size = name, elements
        pending += [v.owner for v in current.operands if isinstance(v.owner, Operation)]
    return best


def _dense(array: Array, type_: TensorType) -> DenseIntOrFPElementsAttr:
    """An array as elements written in the IR."""
    flat = array.reshape(-1)
    values = [int(v) for v in flat] if array.dtype.kind in "biu" else [float(v) for v in flat]
    return DenseIntOrFPElementsAttr.from_list(type_, values)  # type: ignore[arg-type]
