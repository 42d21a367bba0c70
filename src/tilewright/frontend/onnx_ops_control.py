"""ONNX operators with graphs inside: branches with a known condition, loops with a known count."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, Scope, lowers, unsupported
from tilewright.frontend.onnx_values import Constant, Value, shape

MOST_ITERATIONS = 256


def run_graph(low: Lowering, graph: Any, inputs: list[Value | None], node: Node) -> list[Value]:
    """The results of an inner graph; it sees the names around it."""
    from tilewright.frontend.onnx_file import constant_of

    scope = Scope(outer=low.scopes[-1])
    for tensor in graph.initializer:
        scope.values[tensor.name] = constant_of(low.source, tensor)
    for info, value in zip(graph.input, inputs, strict=False):
        if value is None:
            unsupported("an inner graph without one of its inputs")
        scope.values[info.name] = value
    low.scopes.append(scope)
    low.outer.append(node.name)
    try:
        low.run(graph.node, scope, node.version)
    finally:
        low.outer.pop()
        low.scopes.pop()
    found = [scope.find(info.name) for info in graph.output]
    if any(value is None for value in found):
        unsupported("an inner graph whose result has no value")
    return [value for value in found if value is not None]


@lowers("If")
def branch(low: Lowering, node: Node) -> list[Value]:
    known = bool(low.known(node.required(0), "the condition").reshape(-1)[0])
    graphs = node.get("else_branch"), node.get("then_branch")
    return run_graph(low, graphs[known], [], node)


@lowers("Loop")
def loop(low: Lowering, node: Node) -> list[Value]:
    """A loop unrolled: the number of iterations is known now."""
    graph = node.get("body")
    count, condition = node.input(0), node.input(1)
    most = MOST_ITERATIONS + 1 if count is None else low.known_list(count, "the trip count")[0]
    going = (
        True if condition is None else bool(low.known(condition, "the condition").reshape(-1)[0])
    )
    carried: list[Value | None] = list(node.inputs[2:])
    scanned: list[list[Value]] = [[] for _ in range(len(graph.output) - 1 - len(carried))]
    step = 0
    while going and step < most:
        if step >= MOST_ITERATIONS:
            unsupported(f"a loop of more than {MOST_ITERATIONS} iterations")
        start = [low.integers(step, "iteration"), Constant(np.asarray(True), "condition", 9)]
        results = run_graph(low, graph, [*start, *carried], node)
        going = bool(low.known(results[0], "the condition to go on").reshape(-1)[0])
        carried = list(results[1 : 1 + len(carried)])
        for bucket, value in zip(scanned, results[1 + len(carried) :], strict=True):
            bucket.append(value)
        step += 1
    return [*(v for v in carried if v is not None), *(_stack(low, part, 0) for part in scanned)]


@lowers("Scan")
def scan(low: Lowering, node: Node) -> list[Value]:
    """A scan over a dimension, unrolled slice by slice."""
    from tilewright.frontend.onnx_ops_movement import reshaped, window

    if node.version < 9:
        unsupported("scans over batches, as before operator set 9")
    graph = node.get("body")
    many = node.get("num_scan_inputs")
    carried: list[Value | None] = list(node.inputs[:-many])
    sequences = [low.tensor(v) for v in node.inputs[-many:] if v is not None]
    axes = node.get("scan_input_axes") or [0] * many
    turned = node.get("scan_input_directions") or [0] * many
    length = shape(sequences[0])[axes[0]]
    if length > MOST_ITERATIONS:
        unsupported(f"a scan of more than {MOST_ITERATIONS} steps")
    outputs = len(graph.output) - len(carried)
    scanned: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        slices: list[Value | None] = []
        for value, axis, backwards in zip(sequences, axes, turned, strict=True):
            axis %= len(shape(value))
            at = length - 1 - step if backwards else step
            sizes = [1 if d == axis else n for d, n in enumerate(shape(value))]
            part = window(low, value, [at if d == axis else 0 for d in range(len(sizes))], sizes)
            slices.append(reshaped(low, part, [n for d, n in enumerate(sizes) if d != axis]))
        results = run_graph(low, graph, [*carried, *slices], node)
        carried = list(results[: len(carried)])
        for bucket, value in zip(scanned, results[len(carried) :], strict=True):
            bucket.append(value)
    places = node.get("scan_output_axes") or [0] * outputs
    reverse = node.get("scan_output_directions") or [0] * outputs
    stacks = [
        _stack(low, part[::-1] if back else part, axis)
        for part, axis, back in zip(scanned, places, reverse, strict=True)
    ]
    return [*(v for v in carried if v is not None), *stacks]


def _stack(low: Lowering, parts: list[Value], axis: int) -> Value:
    if not parts:
        raise Problem("TW6006", "a loop that never runs and collects values")
    sizes = shape(parts[0])
    axis %= len(sizes) + 1
    wide = [*sizes[:axis], 1, *sizes[axis:]]
    tensors = [low.reshape(low.tensor(part), wide) for part in parts]
    return tensors[0] if len(tensors) == 1 else low.concat(tensors, axis)
