"""Which function writes the C of a group, by the kind of its root."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.coral.emit import Emitter
from tilewright.targets.coral.emit_groups import (
    emit_batch_matmul,
    emit_conv,
    emit_elementwise,
    emit_pool,
    emit_reduce,
)
from tilewright.targets.coral.emit_movement import emit_movement, emit_scatter
from tilewright.targets.coral.emit_rows import emit_ordered, emit_position, emit_rows
from tilewright.targets.coral.groups import Group

EMITTERS: dict[str, Callable[[Emitter, Group, str], list[str]]] = {
    "elementwise": emit_elementwise,
    "conv": emit_conv,
    "pool": emit_pool,
    "reduce": emit_reduce,
    "batch_matmul": emit_batch_matmul,
    "softmax": emit_rows,
    "layer_norm": emit_rows,
    "rms_norm": emit_rows,
    "transpose": emit_movement,
    "slice": emit_movement,
    "pad": emit_movement,
    "insert": emit_movement,
    "concat": emit_movement,
    "gather": emit_movement,
    "scatter": emit_scatter,
    "argmax": emit_position,
    "argmin": emit_position,
    "cumsum": emit_ordered,
    "sort": emit_ordered,
    "argsort": emit_ordered,
}
