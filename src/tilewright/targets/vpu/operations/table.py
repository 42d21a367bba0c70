"""The table of task operations: a name, a function on typed arrays, and the engine that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations import dpu, shave
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.tile_graph import DPU, SHAVE, Operation, Task

Typed = Callable[[list[np.ndarray], Mapping[str, Any]], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class TaskOperation:
    """What an operation computes, and on which engine."""

    engine: str
    function: Typed


OPERATIONS: dict[str, TaskOperation] = {
    "matmul": TaskOperation(DPU, dpu.matmul),
    "convolution": TaskOperation(DPU, dpu.convolution),
    "depthwise": TaskOperation(DPU, dpu.depthwise),
    "elementwise": TaskOperation(DPU, dpu.elementwise),
    "pool": TaskOperation(DPU, dpu.pool),
    "softmax": TaskOperation(SHAVE, shave.softmax),
    "rms_norm": TaskOperation(SHAVE, shave.rms_norm),
    "layer_norm": TaskOperation(SHAVE, shave.layer_norm),
    "unary": TaskOperation(SHAVE, shave.unary),
    "silu_gate": TaskOperation(SHAVE, shave.silu_gate),
    "rope": TaskOperation(SHAVE, shave.rope),
    "binary": TaskOperation(SHAVE, shave.binary),
    "scale": TaskOperation(SHAVE, shave.scale),
    "bound": TaskOperation(SHAVE, shave.bound),
    "cast": TaskOperation(SHAVE, shave.cast),
    "select": TaskOperation(SHAVE, shave.select),
    "row_reduce": TaskOperation(SHAVE, shave.row_reduce),
    "transpose": TaskOperation(SHAVE, shave.transpose),
    "online_softmax": TaskOperation(SHAVE, shave.online_softmax),
    "accumulate": TaskOperation(SHAVE, shave.accumulate),
    "normalise": TaskOperation(SHAVE, shave.normalise),
    "partial_attention": TaskOperation(SHAVE, shave.partial_attention),
}


def operation(
    name: str,
    inputs: Sequence[tuple[str, tuple[int, ...]]],
    outputs: Sequence[tuple[str, tuple[int, ...]]],
    **options: Any,
) -> Operation:
    """A record for a task: formats and shapes of its operands in order, and its options."""
    if name not in OPERATIONS:
        raise TilewrightError("TW7072", f"there is no task operation {name!r}")
    options.setdefault("output", outputs[0][0])
    return Operation(name, {"inputs": tuple(inputs), "outputs": tuple(outputs), **options})


class Stored(Protocol):
    """An operand in a buffer of CMX."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


def computing(
    name: str,
    inputs: Sequence[Stored],
    outputs: Sequence[Stored],
    cycles: int,
    tile: int,
    in_place: tuple[tuple[str, str], ...],
    **options: Any,
) -> Task:
    """A DPU or SHAVE task that computes an operation of the table."""
    record = operation(
        name,
        [(item.dtype, item.shape) for item in inputs],
        [(item.dtype, item.shape) for item in outputs],
        **options,
    )
    return Task(
        f"{name} {outputs[0].name}",
        OPERATIONS[name].engine,
        tuple(item.name for item in inputs),
        tuple(item.name for item in outputs),
        cycles,
        in_place=in_place,
        tile=tile,
        operation=record,
    )


def run(name: str, inputs: Sequence[np.ndarray], sizes: Sequence[int], options: Mapping[str, Any]):
    """An operation on bytes: what the value machine calls."""
    arrays = [
        content.view(DTYPES[dtype]).reshape(shape)
        for content, (dtype, shape) in zip(inputs, options["inputs"], strict=True)
    ]
    results = OPERATIONS[name].function(arrays, options)
    made = []
    for result, size, (dtype, shape) in zip(results, sizes, options["outputs"], strict=True):
        if result.dtype != DTYPES[dtype] or result.shape != tuple(shape) or result.nbytes != size:
            raise TilewrightError(
                "TW7073",
                f"{name} gives {result.dtype} {result.shape}, its task has room for {dtype} {shape}",
            )
        made.append(np.ascontiguousarray(result).reshape(-1).view(np.uint8))
    return made


def kernels() -> dict[str, Callable[..., list[np.ndarray]]]:
    """The table as the value machine takes it."""

    def bound(name: str) -> Callable[..., list[np.ndarray]]:
        return lambda inputs, sizes, options: run(name, inputs, sizes, options)

    return {name: bound(name) for name in OPERATIONS}
