"""Drawing random programs: single operations, known pieces of networks, towers of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from random_operations import Array
from random_programs import Node, RandomProgram, Spec, evaluate, tidied

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96)
MANY = (66, 91, 100, 128, 144, 160, 200, 257)  # batches and rows beyond what one loop body holds
WIDE = (128, 192, 200, 256, 300)
# Elements of a value, and how many programs may have so many: most are small, so that many can be
# tried, and what only happens with many tiles happens in some.
MOST = ((0.75, 4_000), (0.22, 16_000), (0.03, 100_000))
SMALL = 33  # sizes up to here are drawn more often than others
UNARY = [
    "relu",
    "tanh",
    "sigmoid",
    "exp",
    "absolute",
    "negate",
    "erf",
    "softplus",
    "silu",
    "gelu",
    "gelu_tanh",
    "leaky_relu",
    "elu",
    "hardswish",
    "square",
    "clamp",
    "root",
    "logarithm",
    "sine",
    "cosine",
]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "divide"]


class Unfit(Exception):
    """An operation that does not apply here, or whose numbers are of no use."""


class Drawing:
    """A program in the making, with the values it has on its first sample."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = np.random.default_rng([seed, 77])
        self.inputs: dict[str, Spec] = {}
        self.weights: dict[str, Spec] = {}
        self.nodes: list[Node] = []
        self.values: dict[str, Array] = {}
        shares, sizes = zip(*MOST, strict=True)
        self.most = int(self.random.choice(sizes, p=shares))

    # --- choices ------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def one(self, things: Sequence):
        return things[int(self.random.integers(len(things)))]

    def size(self, most: int = 96, least: int = 1) -> int:
        most = min(most, SMALL) if self.chance(0.6) else most
        return self.one([size for size in SIZES if least <= size <= most])

    def width(self) -> int:
        return self.one(WIDE) if self.chance(0.06) else self.size(least=4)

    # --- values -------------------------------------------------------------------------

    def input(self, shape: Sequence[int], kind: str = "normal", limit: int = 0) -> str:
        if math.prod(shape) > self.most:
            raise Unfit("too large")
        name = f"x{len(self.inputs)}"
        gain = self.one((0.3, 1.0, 1.0, 1.0, 4.0)) if kind == "normal" else 1.0
        self.inputs[name] = Spec(tuple(shape), kind, gain, limit)
        return self._known(name, self.inputs[name])

    def weight(self, shape: Sequence[int], kind: str = "normal", gain: float = 1.0) -> str:
        spec = Spec(tuple(shape), kind, gain)
        same = [name for name, other in self.weights.items() if other == spec]
        if same and self.chance(0.15):
            return self.one(same)
        name = f"w{len(self.weights)}"
        self.weights[name] = spec
        return self._known(name, spec)

    def _known(self, name: str, spec: Spec) -> str:
        array = spec.draw(self.seed, name)
        self.values[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def rank(self, name: str) -> int:
        return self.values[name].ndim

    def add(self, operation: str, *operands: str, **options) -> str:
        """The result of one more operation."""
        node = Node(operation, operands, f"v{len(self.nodes)}", options)
        try:
            value = evaluate(node, self.values)
        except ValueError as error:  # shapes that do not go together
            raise Unfit(str(error)) from error
        if not 0 < value.size <= self.most or value.ndim > 5:
            raise Unfit("too large")
        if value.dtype.kind == "f":
            largest = float(np.abs(value).max())
            if not 1e-3 < largest < 300:
                raise Unfit("numbers of no use")
        self.nodes.append(node)
        self.values[node.result] = value
        return node.result

    def floats(self, rank: int | None = None, least: int = 0, most: int = 9) -> list[str]:
        """Values of numbers that are no weights, in the order they were made."""
        return [
            name
            for name, value in self.values.items()
            if name[0] != "w" and value.dtype.kind == "f" and least <= value.ndim <= most
            if rank is None or value.ndim == rank
        ]

    def pick(self, rank: int | None = None, least: int = 0, most: int = 9) -> str:
        """One of them, most often a late one."""
        found = self.floats(rank, least, most)
        if not found:
            raise Unfit("no such value")
        return (
            found[-1] if self.chance(0.6) else self.one(found[-5:] if self.chance(0.6) else found)
        )


def draw_program(seed: int) -> RandomProgram:
    """The program of a seed."""
    from random_networks import RECIPES  # they draw with what is above
    from random_pieces import STARTS

    attempt = 0
    while True:
        drawing = Drawing(seed + attempt * 1_000_000_007)
        _fill(drawing, RECIPES, STARTS)
        results = [node.result for node in drawing.nodes]
        if len(results) >= 2 and drawing.floats():
            outputs = _outputs(drawing, results)
            style = drawing.one(("functions", "modules", "digits"))
            program = RandomProgram(
                drawing.seed,
                drawing.inputs,
                drawing.weights,
                tuple(drawing.nodes),
                outputs,
                style,
            )
            program = tidied(program)
            if program.inputs and len(program.nodes) >= 2:
                return program
        attempt += 1


Recipe = Callable[[Drawing], None]


def _fill(
    drawing: Drawing, recipes: Sequence[tuple[float, Recipe]], starts: Sequence[Recipe]
) -> None:
    try:
        drawing.one(starts)(drawing)
    except Unfit:
        return  # too large: the next attempt starts elsewhere
    goal = drawing.number(3, 15)
    chances = np.array([chance for chance, _ in recipes])
    for _ in range(60):
        if len(drawing.nodes) >= goal:
            break
        recipe = recipes[int(drawing.random.choice(len(recipes), p=chances / chances.sum()))][1]
        before = len(drawing.nodes)
        try:
            recipe(drawing)
        except Unfit:
            for node in drawing.nodes[before:]:
                del drawing.values[node.result]
            del drawing.nodes[before:]


def _outputs(drawing: Drawing, results: list[str]) -> tuple[str, ...]:
    """The last value, what nothing reads, and sometimes any other value or an input."""
    read = {name for node in drawing.nodes for name in node.operands}
    found = [drawing.floats()[-1]]
    for name in results:
        if (name not in read and drawing.chance(0.7)) or drawing.chance(0.06):
            found.append(name)
    if drawing.chance(0.05):
        found.append(drawing.one(list(drawing.inputs)))
    return tuple(dict.fromkeys(found))


def scaled(inside: int) -> float:
    """The gain that keeps the size of numbers through a product."""
    return 1 / math.sqrt(inside)
