"""Lowering of recurrent layers: one product for the inputs of all steps, one kernel for the steps.

Results of all steps lie in one tensor [steps, batch, width], which is what the model puts together
of them; single steps are parts of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node, shape_of
from tilewright.targets.atlas.model.blocking import padded
from tilewright.targets.atlas.model.calls import (
    Factor,
    Numbers,
    Tensor,
    Unsupported,
    inverse_of,
    scale_of,
    share_range,
)
from tilewright.targets.atlas.model.recurrences import Recurrence, find_recurrences
from tilewright.targets.atlas.model.references_steps import BINARY, UNARY, constant, is_finite
from tilewright.tile.layouts import SIDE, Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

PRODUCTS = 256  # of tiles in a step, at most: all of them stand in one loop body


class RecurrentLayers:
    """Makes the calls of recurrent layers."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering
        self.states: dict[SSAValue, tuple[Recurrence, int, int]] = {}  # with step and number
        self.wholes: dict[SSAValue, Recurrence] = {}
        taken: set[Node] = set()
        for found in find_recurrences(lowering.graph) if lowering.fuse else ():
            if self._is_ours(found) and not taken & set(found.nodes):
                taken.update(found.nodes)
                for step, values in enumerate(found.states):
                    for number, value in enumerate(values):
                        self.states[value] = (found, step, number)
        for node in lowering.graph.nodes if self.states else ():
            whole = self._whole(node)
            if whole is not None:
                self.wholes[node.result] = whole

    def __contains__(self, value: SSAValue) -> bool:
        return value in self.states or value in self.wholes

    def _is_ours(self, found: Recurrence) -> bool:
        """Whether the kernel takes a recurrence as it is."""
        at, width = self.at, found.width
        if any(at.reason_for_host(node) is not None or at.kept(node.layer) for node in found.nodes):
            return False
        tiles = found.gates[1] * (padded(width) // SIDE) ** 2
        room = tiles * SIDE * SIDE
        return tiles <= PRODUCTS and 4 * room <= at.profile.vmem_bytes and _stays_finite(found)

    def _whole(self, node: Node) -> Recurrence | None:
        """The recurrence whose first state a concat puts together, in the order of time."""
        if node.family != "concat":
            return None
        first: Recurrence | None = None
        for time, value in enumerate(node.operands):
            while (inner := self.at.graph.node_of(value, "reshape")) is not None:
                value = inner.operands[0]
            found, step, number = self.states.get(value, (None, 0, 0))
            if found is None or number or found.time(step) != time:
                return None
            first = first or found
            if found is not first:
                return None
        if first is None or len(node.operands) != first.steps:
            return None
        sizes = [size for size in shape_of(node.result) if size != 1]
        wanted = [size for size in (first.steps, first.batch, first.width) if size != 1]
        axis = node.call.axis(len(shape_of(node.result)))
        before = math.prod(shape_of(node.result)[:axis])
        return first if sizes == wanted and before == 1 else None

    # --- forms ------------------------------------------------------------------------------

    def outside(self, value: SSAValue) -> Tensor | None:
        """A tensor with the elements of a value in their order; None: it is not ours after all."""
        recurrence = self._recurrence(value)
        try:
            out = self.at.remembered((id(recurrence), "steps"), lambda: self._emit(recurrence))
        except Unsupported:
            for table in (self.states, self.wholes):
                for one in [v for v in table if self._recurrence(v) is recurrence]:
                    del table[one]
            return None
        if value in self.wholes and _kept(recurrence) == 1:
            return out
        return self.at.remembered((value, "part"), lambda: self._part(value, recurrence, out))

    def bf16(self, value: SSAValue) -> Tensor | None:
        """The value as bf16 [B, M, C]; None: it is not ours after all."""
        tensor = self.outside(value)
        shape = self.at.canonical(shape_of(value))
        if tensor is None or tensor.layout.shape == shape:
            return tensor
        return self.at.from_host(value, shape)  # single rows lie in tiles of their own here

    def _recurrence(self, value: SSAValue) -> Recurrence:
        return self.wholes[value] if value in self.wholes else self.states[value][0]

    def _part(self, value: SSAValue, recurrence: Recurrence, out: Tensor) -> Tensor:
        """One state, of one step or of all of them, taken from the tensor of all."""
        first, count, number = 0, recurrence.steps, 0
        if value in self.states:
            _, step, number = self.states[value]
            first, count = recurrence.time(step), 1
        across = number * padded(recurrence.width) // SIDE
        shape = (count, recurrence.batch, recurrence.width)
        pieces = [[0, [first, 1], [0, 1], count, [0, across], [0, 0], *shape[1:]]]
        tensor = self.at.activation(self.at.hint(value), shape, "bf16", value=value)
        name = self.at.graph.definition[value].layer or "state"
        return self.at.call(name, "move", {"x0": out}, tensor, (), count=1, pieces=pieces)

    # --- calls ------------------------------------------------------------------------------

    def _emit(self, found: Recurrence) -> Tensor:
        at, width, kept = self.at, found.width, _kept(found)
        name = found.product.name
        first = [found.before[0], *(values[0] for values in found.states[:-1])]
        observers = [at.magnitude(value) for value in first if value is not None]
        share_range(observers)
        scale = observers[0]
        gates = found.gates[1]
        weight = found.product.weight.reshape(width, gates, width).transpose(1, 0, 2)
        channel = np.stack([at.channel_scales(part) for part in weight])
        rows = Layout((gates, width), "bf16", "rows")
        bias = found.product.bias
        bias = None if bias is None else bias.reshape(gates, width)
        shared = _added_to_inputs(found) if bias is not None else {}
        operands = {
            "x": self._inputs(found, {x: bias[p] for p, x in shared.items() if bias is not None}),
            "w": at.weight(
                f"{name}.weight", Layout(weight.shape, "fp8", "panels"), weight, channel[:, None]
            ),
            "scale": at.weight(f"{name}.scale", rows, channel, factor=scale_of(scale)),
        }
        biased = [g for g in range(gates) if g not in shared] if bias is not None else []
        if biased and bias is not None:
            operands["bias"] = at.weight(f"{name}.bias", rows, bias)
        if found.rows:
            layout = Layout((len(found.rows), width), "bf16", "rows")
            operands["rows"] = at.weight(f"{name}.rows", layout, np.stack(found.rows))
        for number, value in enumerate(found.before):
            operands[f"s{number}"] = self._first_state(found, name, value)
        whole = next((v for v, other in self.wholes.items() if other is found), None)
        out = at.activation(
            at.hint(whole) if whole is not None else name,
            (found.steps, found.batch, (kept - 1) * padded(width) + width),
            "bf16",
            value=whole if kept == 1 else None,
        )
        macs = found.steps * found.batch * found.product.weight.size
        return at.call(
            name, "recurrent", operands, out, tuple(found.nodes), macs,
            {"factor": inverse_of(scale)}, program=found.program, next=found.following, kept=kept,
            bias=biased, rows=bool(found.rows), backward=found.backward,
        )  # fmt: skip

    def _first_state(self, found: Recurrence, name: str, value: SSAValue | None) -> Tensor:
        shape = (1, found.batch, found.width)
        if value is not None:
            tensor = self.at.bf16(value)
            if tensor.layout.shape != shape:
                raise Unsupported("a state in another form")
            return tensor
        zeros = Numbers(np.zeros(shape, np.float32))
        return self.at.remembered(
            ("zeros", shape),
            lambda: Tensor(
                self.at.unique(f"{name}.zeros"), Layout(shape, "bf16"), "constant", zeros
            ),
        )

    def _inputs(self, found: Recurrence, added: dict[int, np.ndarray]) -> Tensor:
        """What the inputs add in every step, each gate in whole tiles of columns; added: further rows
        by gate."""
        at, linear, width = self.at, found.inputs, found.width
        deep = linear.weight.shape[0]
        wanted = (found.steps, found.batch, deep)
        weight, offset = linear.weight, None
        if at.canonical(shape_of(linear.x)) == wanted:
            a, weight, offset, factor, _ = at.products.operand(linear, merged=False)
            if a.layout.shape != wanted:
                raise Unsupported("inputs of a recurrent layer in another form")
        else:
            a, factor = self._step_by_step(linear.x, wanted)
        columns = found.gates[0] * padded(width)

        def spread(array: np.ndarray) -> np.ndarray:
            """The columns of every gate from a tile's edge on."""
            wide = np.zeros((*array.shape[:-1], found.gates[0], padded(width)), np.float32)
            wide[..., :width] = array.reshape(*array.shape[:-1], found.gates[0], width)
            return wide.reshape(*array.shape[:-1], columns)

        bias = (
            linear.bias if offset is None else offset + (0 if linear.bias is None else linear.bias)
        )
        if added:
            more = np.zeros((found.gates[0], width), np.float32)
            for gate, row in added.items():
                more[gate] = row
            bias = more.reshape(-1) + (0 if bias is None else bias)
        channel = at.channel_scales(weight)
        operands = {
            "a": a,
            "w": at.weight(
                f"{linear.name}.weight",
                Layout((deep, columns), "fp8", "panels"),
                spread(weight / channel),
            ),
            "scale": at.weight(
                f"{linear.name}.scale", Layout((columns,), "bf16"), spread(channel), factor=factor
            ),
        }
        if bias is not None:
            operands["bias"] = at.weight(
                f"{linear.name}.bias", Layout((columns,), "bf16"), spread(bias)
            )
        out = at.activation(f"{linear.name}.gates", (*wanted[:2], columns), "bf16")
        macs = math.prod(wanted[:2]) * linear.weight.size
        options: dict[str, Any] = {"out": "bf16", "scale": True, "bias": bias is not None}
        return at.call(linear.name, "linear", operands, out, (), macs, **options)

    def _step_by_step(self, value: SSAValue, wanted: tuple[int, int, int]) -> tuple[Tensor, Factor]:
        """A value as fp8 with every step in tiles of its own, and its scale."""
        at = self.at
        x = self.outside(value) if value in self.wholes else None
        if x is None or x.layout.shape != wanted:
            x = at.from_host(value, wanted)
        scale = at.magnitude(value)
        out = at.activation(f"{x.name}.fp8", wanted, "fp8", value=value, scale=scale)
        deferred = {"factor": inverse_of(scale)}
        made = at.call(f"{x.name} to fp8", "quantise", {"x": x}, out, (), 0, deferred)
        return made, scale_of(scale)


def _added_to_inputs(found: Recurrence) -> dict[int, int]:
    """Gates of the product that are only added to a gate of the inputs, which nothing else reads: the
    bias of the one may be that of the other."""
    arguments = [a for _, _, args in found.program for a in args]
    result: dict[int, int] = {}
    for operation, _, args in found.program:
        both = operation == "add" and {str(a)[0] for a in args} == {"x", "p"}
        if both and all(arguments.count(a) == 1 for a in args):
            x, p = sorted(args, reverse=True)
            result[int(p[1:])] = int(x[1:])
    return result


def _kept(found: Recurrence) -> int:
    """How many states of every step are stored."""
    return 1 + max(found.outside, default=0)


def _stays_finite(found: Recurrence) -> bool:
    """Whether columns beyond the width, where everything begins as zero, stay finite: they meet
    weights that are zero."""
    zero = constant(0.0)
    states = [zero] * len(found.following)
    for _ in range(found.steps):
        values = {f"s{k}": state for k, state in enumerate(states)}
        for operation, result, arguments in found.program:
            known = [values.get(a, zero) if isinstance(a, str) else constant(a) for a in arguments]
            values[result] = (UNARY if len(known) == 1 else BINARY)[operation](*known)
            if not is_finite(values[result]).all():
                return False
        states = [values[name] for name in found.following]
    return True
