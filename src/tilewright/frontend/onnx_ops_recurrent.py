"""ONNX's recurrent layers, unrolled step by step: LSTM, GRU, RNN.

Products with the inputs of all steps are one product; a step multiplies the state before it only.
Sequences that end early keep their state and give zeros from there on, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.xdsl_api import Attribute, SSAValue
from tilewright.frontend.onnx_gates import Function, functions
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, lowers, unsupported
from tilewright.frontend.onnx_ops_control import MOST_ITERATIONS
from tilewright.frontend.onnx_ops_movement import window
from tilewright.frontend.onnx_ops_products import product
from tilewright.frontend.onnx_values import Constant, Value, element, shape

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {
    "LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"],
}  # fmt: skip


@dataclass
class Direction:
    """The parameters of one direction: [gates * hidden, …], biases of inputs and of the state."""

    w: SSAValue
    r: SSAValue
    input_bias: SSAValue | None
    state_bias: SSAValue | None
    peepholes: list[SSAValue]  # of the input, output and forget gates, or none
    functions: list[Function]


class Layer:
    """One node: its sizes and how a step is computed."""

    def __init__(self, low: Lowering, node: Node) -> None:
        self.low, self.node, self.kind = low, node, node.operator
        self.layout = node.get("layout", 0)
        x = low.tensor(node.required(0))
        self.x = low.transpose(x, [1, 0, 2]) if self.layout else x
        self.length, self.batch, self.width = shape(self.x)
        if self.length > MOST_ITERATIONS:
            unsupported(f"a layer of more than {MOST_ITERATIONS} steps")
        w = node.required(1)
        self.directions = shape(w)[0]
        self.hidden = shape(node.required(2))[2]
        if node.get("hidden_size", self.hidden) != self.hidden:
            raise Problem("TW6009", "hidden_size is not that of the weights")
        self.clip: float | None = node.get("clip")
        self.before = bool(node.get("linear_before_reset", 0)) if self.kind == "GRU" else False
        self.tied = bool(node.get("input_forget", 0)) if self.kind == "LSTM" else False
        self.type: Attribute = element(self.x)
        self.functions = self.activations()

    # --- parameters -----------------------------------------------------------------------

    def part(self, value: Value, axis: int, start: int, size: int) -> SSAValue:
        x = self.low.tensor(value)
        offsets = [start if d == axis else 0 for d in range(len(shape(x)))]
        sizes = [size if d == axis else n for d, n in enumerate(shape(x))]
        return window(self.low, x, offsets, sizes)

    def direction(self, index: int) -> Direction:
        low, node, gates = self.low, self.node, GATES[self.kind]

        def row(value: Value) -> SSAValue:
            return low.reshape(self.part(value, 0, index, 1), shape(value)[1:])

        of_input: SSAValue | None = None
        of_state: SSAValue | None = None
        if (given := node.input(3)) is not None:
            size = gates * self.hidden
            of_input, of_state = (self.part(row(given), 0, i * size, size) for i in range(2))
        peepholes: list[SSAValue] = []
        if self.kind == "LSTM" and (given := node.input(7)) is not None:
            peepholes = [self.part(row(given), 0, i * self.hidden, self.hidden) for i in range(3)]
        w, r = (low.transpose(row(node.required(i)), [1, 0]) for i in (1, 2))
        count = len(ACTIVATIONS[self.kind])
        own = self.functions[index * count : (index + 1) * count]
        return Direction(w, r, of_input, of_state, peepholes, own)

    def activations(self) -> list[Function]:
        """Those of all directions."""
        defaults = ACTIVATIONS[self.kind]
        names = self.node.get("activations") or defaults * self.directions
        coefficients = (self.node.get(f"activation_{name}") or [] for name in ("alpha", "beta"))
        return functions(self.low, names, *coefficients)

    # --- steps ----------------------------------------------------------------------------

    def sum(self, *values: SSAValue | None) -> SSAValue:
        given = [v for v in values if v is not None]
        total = given[0]
        for value in given[1:]:
            total = self.low.apply("elementwise_add", total, value)
        return total

    def times(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.low.apply("elementwise_mul", a, b)

    def chosen(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.low.apply("select", condition, a, b, to=self.type)

    def clipped(self, x: SSAValue) -> SSAValue:
        if self.clip is None:
            return x
        held = self.low.apply("elementwise_max", x, -self.clip)
        return self.low.apply("elementwise_min", held, self.clip)

    def gates(self, x: SSAValue) -> list[SSAValue]:
        return [self.part(x, 1, i * self.hidden, self.hidden) for i in range(GATES[self.kind])]

    def after(self, d: Direction, h: SSAValue) -> SSAValue:
        return product(self.low, h, d.r, self.type)

    def step(self, d: Direction, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        """The state after a step, the output first; x already holds the products of the input."""
        if self.kind == "LSTM":
            return self.lstm(d, x, state)
        if self.kind == "GRU":
            return [self.gru(d, x, state[0])]
        total = self.sum(x, self.after(d, state[0]), d.state_bias)
        return [d.functions[0](self.clipped(total))]

    def lstm(self, d: Direction, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        h, c = state
        f, g, last = d.functions
        i, o, forget, cell = self.gates(self.sum(x, self.after(d, h), d.state_bias))
        if d.peepholes:
            i = self.sum(i, self.times(c, d.peepholes[0]))
            forget = self.sum(forget, self.times(c, d.peepholes[2]))
        i = f(self.clipped(i))
        kept = self.low.apply("elementwise_sub", 1.0, i) if self.tied else f(self.clipped(forget))
        c = self.sum(self.times(kept, c), self.times(i, g(self.clipped(cell))))
        if d.peepholes:
            o = self.sum(o, self.times(c, d.peepholes[1]))
        return [self.times(f(self.clipped(o)), last(c)), c]

    def gru(self, d: Direction, x: SSAValue, h: SSAValue) -> SSAValue:
        f, g = d.functions
        xz, xr, xn = self.gates(x)
        if self.before:  # one product serves all gates
            z, r, n = self.gates(self.sum(self.after(d, h), d.state_bias))
            z, r = (f(self.clipped(self.sum(a, b))) for a, b in ((xz, z), (xr, r)))
            new = g(self.clipped(self.sum(xn, self.times(r, n))))
            return self.sum(new, self.times(z, self.low.apply("elementwise_sub", h, new)))
        size = 2 * self.hidden
        weights = self.part(d.r, 1, 0, size), self.part(d.r, 1, size, self.hidden)
        bias = d.state_bias
        both = None if bias is None else self.part(bias, 0, 0, size)
        last = None if bias is None else self.part(bias, 0, size, self.hidden)
        first = self.sum(product(self.low, h, weights[0], self.type), both)
        z = f(self.clipped(self.sum(xz, self.part(first, 1, 0, self.hidden))))
        r = f(self.clipped(self.sum(xr, self.part(first, 1, self.hidden, self.hidden))))
        inner = self.sum(product(self.low, self.times(r, h), weights[1], self.type), last)
        new = g(self.clipped(self.sum(xn, inner)))
        return self.sum(new, self.times(z, self.low.apply("elementwise_sub", h, new)))

    # --- runs -----------------------------------------------------------------------------

    def lengths(self) -> SSAValue | None:
        """How long each sequence is; None when all are as long as the input."""
        given = self.node.input(4)
        if given is None:
            return None
        if isinstance(given, Constant) and (given.array == self.length).all():
            return None
        return self.low.reshape(self.low.tensor(self.low.cast(given, builtin.i64)), [self.batch, 1])

    def zeros(self) -> SSAValue:
        zeros = np.zeros((self.batch, self.hidden), np.float32)
        return self.low.tensor(self.low.constant(zeros, self.x, "zeros"))

    def start(self, index: int) -> list[SSAValue]:
        states = []
        for place in (5, 6) if self.kind == "LSTM" else (5,):
            given = self.node.input(place)
            if given is None:
                states.append(self.zeros())
                continue
            axis = 1 if self.layout else 0
            part = self.part(given, axis, index, 1)
            states.append(self.low.reshape(part, [self.batch, self.hidden]))
        return states

    def run(self, index: int, backward: bool) -> tuple[list[SSAValue], list[SSAValue]]:
        """The outputs in order of time, and the last state."""
        low, d = self.low, self.direction(index)
        rows = low.reshape(self.x, [self.length * self.batch, self.width])
        projected = self.sum(product(low, rows, d.w, self.type), d.input_bias)
        state, lengths = self.start(index), self.lengths()
        outputs: dict[int, SSAValue] = {}
        for time in reversed(range(self.length)) if backward else range(self.length):
            x = self.part(projected, 0, time * self.batch, self.batch)
            new = self.step(d, x, state)
            output = new[0]
            if lengths is not None:
                inside = low.compare("gt", lengths, time)
                pairs = zip(new, state, strict=True)
                new = [self.chosen(inside, a, b) for a, b in pairs]
                output = self.chosen(inside, output, self.zeros())
            outputs[time], state = output, new
        return [outputs[time] for time in range(self.length)], state


@lowers("LSTM", "GRU", "RNN")
def recurrent(low: Lowering, node: Node) -> Sequence[Value]:
    """Y [steps, directions, batch, hidden], and the last states [directions, batch, hidden]."""
    layer = Layer(low, node)
    direction = node.get("direction", "forward")
    runs = [layer.run(i, direction == "reverse" or i == 1) for i in range(layer.directions)]

    def stacked(parts: Sequence[SSAValue], lead: Sequence[int]) -> SSAValue:
        rows = [low.reshape(part, [*lead, layer.batch, layer.hidden]) for part in parts]
        return rows[0] if len(rows) == 1 else low.concat(rows, len(lead) - 1)

    def in_time(parts: Sequence[SSAValue]) -> SSAValue:
        rows = [low.reshape(part, [1, 1, layer.batch, layer.hidden]) for part in parts]
        return rows[0] if len(rows) == 1 else low.concat(rows, 0)

    sides = [in_time(outputs) for outputs, _ in runs]
    whole = sides[0] if len(sides) == 1 else low.concat(sides, 1)
    states: list[Any] = [stacked([run[1][i] for run in runs], [1]) for i in range(len(runs[0][1]))]
    if layer.layout:
        whole = low.transpose(whole, [2, 0, 1, 3])
        states = [low.transpose(state, [1, 0, 2]) for state in states]
    return [whole, *states]
