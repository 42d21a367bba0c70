"""Cycles that no program for a model can beat on a machine, by the table of its timing.

Three units work side by side: the scalar float unit, the vector (or integer) unit, and the one that
loads and stores. Each has a least amount of work, whatever the order of loops; the busiest counts.
What a later slice or gather may make superfluous is not counted, nor are products with padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilewright.targets.artifact import Bound
from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.program import Node, Program, Value

FLOAT = "float unit"
INTEGER = "integer products"
MOVES = "inputs and outputs"
PARTIAL = frozenset(["slice", "gather", "scatter", "insert"])  # may read a part only
IGNORED = ("constants", "elementwise arithmetic", "start-up")

FLOAT_CYCLES = 2  # of a scalar multiplication or addition, which are two instructions
# Products per cycle: two vector units of eight 16-bit sums, and the scalar multiplier. A float product
# takes two such places (four lanes, and two cycles of the scalar unit).
VECTOR_PRODUCTS = 17
SCALAR_PRODUCTS = 2  # two bytes may share a word
FLOAT_PLACES = 2
LINE = 16  # bytes that one access of the vector unit moves
LINE_LOAD, LINE_STORE = 4, 3
WORD_LOAD, WORD_STORE = 4, 2


def lower_bound(machine: CoralMachine, programs: Iterable[Program]) -> Bound:
    """The bound of programs that run one after the other."""
    total, terms = 0, dict[str, int]()
    for program in programs:
        own = _terms(machine, program)
        total += max(own.values(), default=0)
        for name, cycles in own.items():
            terms[name] = terms.get(name, 0) + cycles
    cause = max(terms, key=lambda name: terms[name], default="")
    return Bound(total, cause, terms, IGNORED)


def _terms(machine: CoralMachine, program: Program) -> dict[str, int]:
    needed = _needed(program)
    floats = integers = 0
    for node in program.nodes:
        if node.output not in needed:
            continue
        products = _products(node)
        if node.output.dtype != "f32":
            integers += products
        elif machine.vector_float:
            integers += products * FLOAT_PLACES
        else:  # every product, and every sum but the first
            floats += FLOAT_CYCLES * max(0, 2 * products - node.output.elements)
    lanes = VECTOR_PRODUCTS if machine.vector else SCALAR_PRODUCTS
    line, load, store = (
        (LINE, LINE_LOAD, LINE_STORE) if machine.vector else (4, WORD_LOAD, WORD_STORE)
    )
    loaded = sum(v.bytes // line for v in program.inputs if v in needed)
    stored = sum(v.bytes // line for v in program.outputs)
    found = {FLOAT: floats, INTEGER: integers // lanes, MOVES: loaded * load + stored * store}
    return {name: cycles for name, cycles in found.items() if cycles}


def _needed(program: Program) -> set[Value]:
    """Values of which every element may matter to an output."""
    found = set(program.outputs)
    for node in reversed(program.nodes):
        if node.output not in found or node.kind in PARTIAL:
            continue
        inputs = node.inputs
        if node.kind in ("conv", "q_conv", "pool") and not _covers(node):
            inputs = inputs[1:]
        found |= set(inputs)
    return found


def _taps(node: Node) -> tuple[list[list[int]], list[list[int]]]:
    """For every row and for every column of a result, those of the image under its window."""
    at, x = node.attributes, node.inputs[0]
    order = at.get("order", (0, 1, 2, 3))
    kernel = at["kernel"] if node.kind == "pool" else node.inputs[1].shape[:2]
    sides = []
    for axis in (0, 1):
        size, made = x.shape[order[axis + 1]], node.output.shape[axis + 1]
        stride, dilation, before = at["strides"][axis], at["dilations"][axis], at["padding"][axis]
        sides.append(
            [
                [
                    p
                    for k in range(kernel[axis])
                    if 0 <= (p := o * stride + k * dilation - before) < size
                ]
                for o in range(made)
            ]
        )
    return sides[0], sides[1]


def _covers(node: Node) -> bool:
    """Whether the windows of a node see the whole image."""
    order = node.attributes.get("order", (0, 1, 2, 3))
    return all(
        len({p for window in side for p in window}) == node.inputs[0].shape[order[axis + 1]]
        for axis, side in enumerate(_taps(node))
    )


def _products(node: Node) -> int:
    """Multiplications of a node that are not with padding."""
    if node.kind == "batch_matmul":
        return node.output.elements * node.inputs[0].shape[2]
    if node.kind not in ("conv", "q_conv"):
        return 0
    images, _, _, filters = node.output.shape
    seen = prod(sum(map(len, side)) for side in _taps(node))
    return images * filters * node.inputs[1].shape[2] * seen
