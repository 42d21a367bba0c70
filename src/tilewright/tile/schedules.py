"""Functions of npu_schedule, as the compiler makes them, as kernels.

before: loops over slices of padded tensors, launches on blocks of any shape, whole results
after:  a kernel of the tile language: 32x32 tiles, edges masked, results that later loops read
        kept in DRAM

`schedule_kernel(function)` gives the kernel; compiling it is the same as for a kernel that a person
wrote. What has no tiles (integers, f32, comparisons, windows) is an error at its location.
"""

from __future__ import annotations

from typing import Any

from tilewright.dialects.locations import error_at, location_of
from tilewright.dialects.xdsl_api import (
    Block as IRBlock,
)
from tilewright.dialects.xdsl_api import (
    ModuleOp,
    Operation,
    SSAValue,
    TensorType,
    func,
    scf,
    tensor,
)
from tilewright.errors import TilewrightError
from tilewright.tile.backend import active
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.machine import DEFAULT
from tilewright.tile.schedule_replay import Replay, Stored, dtype_of, shape_of
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec


def compile_schedule(
    source: str | ModuleOp | func.FuncOp, target: Any = DEFAULT, name: str | None = None
) -> Any:
    """The program of a function of npu_schedule: text, a module (with `name`, or its only
    function), or the function."""
    function = _function(source, name)
    kernel = schedule_kernel(function)
    try:
        return kernel.compile(target=target)
    except TilewrightError as error:
        # What is wrong with the whole kernel stands at its first line, which is ours.
        if error.location is not None and error.location.file == kernel.code.co_filename:
            error.location = location_of(function)
        raise


def _function(source: str | ModuleOp | func.FuncOp, name: str | None) -> func.FuncOp:
    if isinstance(source, str):
        from tilewright.dialects.parsing import parse_text

        source = parse_text(source)
    if isinstance(source, func.FuncOp):
        return source
    found = [op for op in source.body.block.ops if isinstance(op, func.FuncOp) and op.body.blocks]
    chosen = [op for op in found if name in (None, op.sym_name.data)]
    if len(chosen) != 1:
        names = ", ".join(op.sym_name.data for op in found) or "none"
        raise TilewrightError(
            "TW1470",
            f"{len(chosen)} functions to compile" + (f" are called {name}" if name else ""),
            hint=f"name one of: {names}",
        )
    return chosen[0]


def schedule_kernel(function: func.FuncOp) -> Kernel:
    """The kernel of a function: its arguments in, its results out."""
    last = function.body.blocks[0].last_op
    if len(function.body.blocks) != 1 or not isinstance(last, func.ReturnOp):
        raise error_at(
            function, "TW1466", "a program is one block of operations that ends in func.return"
        )
    block = function.body.block
    inputs = [f"{value.name_hint or 'x'}_{i}" for i, value in enumerate(block.args)]
    inputs = [f"in_{n}" if n.startswith("out") else n for n in inputs]
    single = len(last.operands) == 1
    outputs = ["out" if single else f"out_{i}" for i in range(len(last.operands))]
    specs = {n: _spec(v, n, function) for n, v in zip(inputs, block.args, strict=True)}
    specs |= {n: _spec(v, n, last) for n, v in zip(outputs, last.operands, strict=True)}
    sizes = {f"{n}_{d}": size for n, v in [*zip(inputs, block.args, strict=True),
             *zip(outputs, last.operands, strict=True)] for d, size in enumerate(shape_of(v))}  # fmt: skip

    def run(**tensors: Tensor) -> None:
        """A function of npu_schedule."""
        replay = Replay(active(), _logical_shapes(block))
        for name, argument in zip(inputs, block.args, strict=True):
            replay.known[argument] = Stored(tensors[name])
        replay.results = _returned(last, [tensors[n] for n in outputs])
        replay.block(block)
        for name, value in zip(outputs, last.operands, strict=True):
            replay.deliver(last, value, tensors[name])

    made = kernel_of(function.sym_name.data, specs, run)
    made.known_sizes = sizes
    return made


def _spec(value: SSAValue, name: str, op: Operation) -> TensorSpec:
    if not isinstance(value.type, TensorType) or not value.type.has_static_shape():
        raise error_at(
            op,
            "TW1466",
            f"{name} is {value.type}, a program takes and gives tensors of fixed sizes",
        )
    shape = shape_of(value)
    dtype = dtype_of(op, value.type)
    if len(shape) == 1 and dtype == "fp8":
        raise error_at(op, "TW1466", f"{name} is a vector of fp8, vectors are bf16")
    if not shape:
        raise error_at(
            op, "TW1466", f"{name} has no dimensions, tensors of a program have one or more"
        )
    if 0 in shape:
        raise error_at(op, "TW1466", f"{name} has no elements, tensors of a program have some")
    return TensorSpec(dtype, tuple(f"{name}_{d}" for d in range(len(shape))))


# --- which results are what -----------------------------------------------------------------


def _origin(value: SSAValue) -> SSAValue:
    """The tensor.empty that a result was written into, through loops and cuts at its end."""
    while isinstance(value.owner, Operation):
        op = value.owner
        if isinstance(op, tensor.ExtractSliceOp) and _from_zero(op):
            value = op.source
        elif isinstance(op, tensor.InsertSliceOp):
            value = op.dest
        elif isinstance(op, scf.ForOp):
            value = op.iter_args[op.results.index(value)]
        else:
            break
    return value


def _from_zero(op: tensor.ExtractSliceOp) -> bool:
    same = len(shape_of(op.source)) == len(shape_of(op.result))
    return same and not any(op.static_offsets.get_values())


def _logical_shapes(block: IRBlock) -> dict[SSAValue, tuple[int, ...]]:
    """For each tensor.empty the shape that is used of it: padding is cut off in the end."""
    shapes: dict[SSAValue, tuple[int, ...]] = {}
    for op in block.walk():
        if isinstance(op, tensor.ExtractSliceOp) and _from_zero(op):
            root = _origin(op.source)
            if isinstance(root.owner, tensor.EmptyOp):
                before = shapes.get(root, (0,) * len(shape_of(root)))
                shapes[root] = tuple(map(max, before, shape_of(op.result)))
    return shapes


def _returned(last: func.ReturnOp, tensors: list[Tensor]) -> dict[SSAValue, Tensor]:
    """Outputs that results are written into at once."""
    found: dict[SSAValue, Tensor] = {}
    for value, output in zip(last.operands, tensors, strict=True):
        root = _origin(value)
        if isinstance(root.owner, tensor.EmptyOp) and root not in found:
            found[root] = output
    return found
