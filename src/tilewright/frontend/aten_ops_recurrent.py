"""ATen's recurrent layers, step by step: lstm, gru, rnn_tanh, rnn_relu.

Products with the inputs of all steps are one product; what is left for a step is the product with
the state before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.aten_builder import Importer, Lowered, lowers
from tilewright.frontend.aten_graph import Node
from tilewright.frontend.aten_ops_products import product

State = tuple[SSAValue, ...]
Step = Callable[[Importer, SSAValue, State, "Weights"], State]


class Weights:
    """The parameters of one layer in one direction."""

    def __init__(self, given: Sequence[SSAValue], biases: bool) -> None:
        self.input, self.state = given[:2]
        self.input_bias, self.state_bias = given[2:4] if biases else (None, None)
        self.projection = given[-1] if len(given) == (5 if biases else 3) else None

    def of_input(self, importer: Importer, x: SSAValue) -> SSAValue:
        found = product(importer, x, self.input, transpose_b=True)
        return _plus(importer, found, self.input_bias)

    def of_state(self, importer: Importer, h: SSAValue) -> SSAValue:
        found = product(importer, h, self.state, transpose_b=True)
        return _plus(importer, found, self.state_bias)


def _plus(importer: Importer, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    return x if bias is None else importer.pointwise("elementwise_add", x, bias)


def _parts(importer: Importer, x: SSAValue, count: int) -> list[SSAValue]:
    size = shape_of(x)[-1] // count
    return [importer.cut(x, len(shape_of(x)) - 1, i * size, size) for i in range(count)]


def lstm_step(importer: Importer, x: SSAValue, state: State, weights: Weights) -> State:
    """Input, forget, cell and output gates, in this order."""
    h, c = state
    gates = importer.pointwise("elementwise_add", x, weights.of_state(importer, h))
    i, f, g, o = _parts(importer, gates, 4)
    i, f, o = (importer.unary("elementwise_sigmoid", gate) for gate in (i, f, o))
    kept = importer.pointwise("elementwise_mul", f, c)
    new = importer.pointwise("elementwise_mul", i, importer.unary("elementwise_tanh", g))
    c = importer.pointwise("elementwise_add", kept, new)
    h = importer.pointwise("elementwise_mul", o, importer.unary("elementwise_tanh", c))
    if weights.projection is not None:
        h = product(importer, h, weights.projection, transpose_b=True)
    return h, c


def gru_step(importer: Importer, x: SSAValue, state: State, weights: Weights) -> State:
    """Reset, update and new gates, in this order; the bias of the state is inside the reset."""
    (h,) = state
    reset_x, update_x, new_x = _parts(importer, x, 3)
    reset_h, update_h, new_h = _parts(importer, weights.of_state(importer, h), 3)
    reset, update = (
        importer.unary("elementwise_sigmoid", importer.pointwise("elementwise_add", a, b))
        for a, b in ((reset_x, reset_h), (update_x, update_h))
    )
    inner = importer.pointwise("elementwise_mul", reset, new_h)
    new = importer.unary("elementwise_tanh", importer.pointwise("elementwise_add", new_x, inner))
    change = importer.pointwise("elementwise_mul", update, importer.pointwise("elementwise_sub", h, new))  # fmt: skip
    return (importer.pointwise("elementwise_add", new, change),)


def plain_step(family: str) -> Step:
    def step(importer: Importer, x: SSAValue, state: State, weights: Weights) -> State:
        total = importer.pointwise("elementwise_add", x, weights.of_state(importer, state[0]))
        return (importer.unary(family, total),)

    return step


STEPS: dict[str, Step] = {
    "lstm": lstm_step,
    "gru": gru_step,
    "rnn_tanh": plain_step("elementwise_tanh"),
    "rnn_relu": plain_step("elementwise_relu"),
}


@lowers("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(importer: Importer, node: Node) -> Lowered:
    """Layers one after the other, each forward and, if asked for, backward."""
    if node.get("train", False) and node.get("dropout", 0.0):
        raise node.error("TW6107", f"{node.target} is in training mode", "call model.eval() first")
    name = node.target.split(".")[1]
    x = importer.tensor(node.get("input"))
    given = node.get("hx")
    states = [importer.tensor(s) for s in (given if isinstance(given, list) else [given])]
    if node.get("batch_first", False):
        x = importer.transpose(x, [1, 0, 2])
    parameters = importer.tensors(node.get("params"))
    directions = 2 if node.get("bidirectional", False) else 1
    runs = node.get("num_layers") * directions
    each = len(parameters) // runs
    ends: list[State] = []
    for layer in range(node.get("num_layers")):
        sides: list[SSAValue] = []
        for direction in range(directions):
            run = layer * directions + direction
            weights = Weights(parameters[run * each : (run + 1) * each], node.get("has_biases"))
            start = tuple(
                importer.reshape(importer.cut(s, 0, run, 1), shape_of(s)[1:]) for s in states
            )
            steps, end = _run(importer, x, start, weights, STEPS[name], direction == 1)
            sides.append(importer.concat(steps, 0) if len(steps) > 1 else steps[0])
            ends.append(end)
        x = sides[0] if directions == 1 else importer.concat(sides, 2)
    if node.get("batch_first", False):
        x = importer.transpose(x, [1, 0, 2])
    last = [_stacked(importer, [end[i] for end in ends]) for i in range(len(states))]
    return [x, *last]


def _run(
    importer: Importer, x: SSAValue, state: State, weights: Weights, step: Step, backward: bool
) -> tuple[list[SSAValue], State]:
    """The outputs of all steps as [1, batch, width] in order of time, and the last state."""
    projected = weights.of_input(importer, x)
    count = shape_of(x)[0]
    outputs: dict[int, SSAValue] = {}
    for time in reversed(range(count)) if backward else range(count):
        row = importer.cut(projected, 0, time, 1)
        state = step(importer, importer.reshape(row, shape_of(row)[1:]), state, weights)
        outputs[time] = importer.reshape(state[0], [1, *shape_of(state[0])])
    return [outputs[time] for time in range(count)], state


def _stacked(importer: Importer, parts: Sequence[SSAValue]) -> SSAValue:
    rows = [importer.reshape(part, [1, *shape_of(part)]) for part in parts]
    return rows[0] if len(rows) == 1 else importer.concat(rows, 0)
