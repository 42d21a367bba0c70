"""Recurrent layers in a graph: steps that were unrolled one by one, found again as a loop.

before: for every step a product with the state before it and operations on its gates
after:  the products with all inputs as one linear layer, and one kernel that carries the states

A recurrence is a chain of products with the same weights, each of a state that the product before
it leads to. What lies between is taken apart into terms: element-wise operations on gates of the
product ("p"), gates of the inputs of a step ("x"), states ("s") and constant rows ("r"). All steps
have to have the same terms; the first one may have lost its product because its states are zero.
Anything else stays as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, scalars, shape_of
from tilewright.targets.atlas.model.kernels import BINARY, UNARY, UNSAFE
from tilewright.targets.atlas.model.matching import Linear, column_slice, find_linear, unary_name

Term = tuple[Any, ...]

SHORTEST = 4  # products in a chain, at least: fewer do not tell states from other values


class _Other(Exception):
    """Something that is not part of a recurrence as it is known here."""


@dataclass
class Recurrence:
    """One layer in one direction.

    states: the values of every step, in the order in which they are computed; before: those the first
    step finds, None for zero. program, following: what a step computes, as the kernel wants it. rows:
    constants of one number per column. inputs: the linear layer that makes [steps, batch, gates].
    """

    inputs: Linear
    product: Linear
    width: int
    gates: tuple[int, int]  # of the inputs, of the product
    states: list[tuple[SSAValue, ...]]
    before: tuple[SSAValue | None, ...]
    program: list[tuple[str, str, list[Any]]]
    following: list[str]
    rows: list[np.ndarray]
    backward: bool
    batch: int
    nodes: list[Node] = field(default_factory=list)
    outside: set[int] = field(default_factory=set)  # states that somebody else reads

    @property
    def steps(self) -> int:
        return len(self.states)

    def time(self, step: int) -> int:
        """Where in the sequence a step is."""
        return self.steps - 1 - step if self.backward else step


def find_recurrences(graph: Graph) -> list[Recurrence]:
    """All recurrences of a graph."""
    groups: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        weight = graph.constants.get(node.inputs["rhs"]) if node.family == "matmul" else None
        if weight is None or weight.ndim != 2 or len(shape_of(node.result)) != 2 or not weight.size:
            continue
        ends = weight[0].tobytes() + weight[-1].tobytes()  # of equals; the rest is compared later
        groups.setdefault((weight.shape, node.call.flag("transpose_rhs"), ends), []).append(node)
    found = []
    for products in groups.values():
        if len(products) >= SHORTEST:
            try:
                found.append(_Finder(graph, products).run())
            except _Other:
                continue
    return found


class _Finder:
    """The recurrence of a chain of products, or _Other."""

    def __init__(self, graph: Graph, products: list[Node]) -> None:
        self.graph, self.products = graph, products
        self.linears = [self._linear(node) for node in products]
        first = self.linears[0]
        weights = [graph.constants[node.inputs["rhs"]] for node in products]
        if not all(w is weights[0] or np.array_equal(w, weights[0]) for w in weights):
            raise _Other
        bias = [np.zeros(0) if linear.bias is None else linear.bias for linear in self.linears]
        if not all(np.array_equal(row, bias[0]) for row in bias):
            raise _Other
        self.ends = {linear.nodes[-1].result: k for k, linear in enumerate(self.linears)}
        self.batch, self.width = shape_of(products[0].inputs["lhs"])
        if first.weight.shape[1] % self.width or self.width == 1:
            raise _Other
        self.level = self._levels()
        self.source: SSAValue | None = None  # of the inputs of all steps
        self.inside: dict[Node, None] = {}
        self.rows: list[np.ndarray] = []

    def _linear(self, node: Node) -> Linear:
        """A product with its bias, without what follows."""
        value = node.result
        users = self.graph.users.get(value, ())
        if len(users) == 1 and users[0].family == "elementwise_add":
            found = find_linear(self.graph, users[0].result)
            if found is not None and found.activation is None and found.nodes[0] is node:
                return found
        found = find_linear(self.graph, value)
        if found is None:
            raise _Other
        return found

    def _levels(self) -> dict[SSAValue, int]:
        """How many products of the chain a value comes after; the chain has to be one."""
        number = {node: k for k, node in enumerate(self.products)}
        level: dict[SSAValue, int] = {}
        for node in self.graph.nodes:
            before = max((level.get(value, 0) for value in node.operands), default=0)
            if node in number:
                if before != number[node]:
                    raise _Other
                before += 1
            level[node.result] = before
        return level

    # --- terms ------------------------------------------------------------------------------

    def term(self, value: SSAValue, start: int, step: int) -> Term:
        """Columns from `start` on of a value, by what the step of product number `step` finds."""
        if self.ends.get(value) == step:
            self.inside.update(dict.fromkeys(self.linears[step].nodes))
            return ("p", self._gate(start))
        row = self._row(value, start)
        if row is not None:
            return ("r", row)
        node = self.graph.definition.get(value)
        if self.level.get(value, 0) <= step:
            given = self._input(value, start)
            if given is not None:
                return given
            if start or shape_of(value) != (self.batch, self.width):
                raise _Other
            return ("s", value)
        if node is None or step < 0:
            raise _Other
        return self._operation(node, start, step)

    def _operation(self, node: Node, start: int, step: int) -> Term:
        self.inside[node] = None
        part = column_slice(node) if node.family == "slice" else None
        if part is not None:
            return self.term(node.operands[0], start + part.start, step)
        name, literal = unary_name(node), scalars(node)
        count = len(node.operands) + len(literal)
        if name in UNSAFE or name not in (UNARY if count == 1 else BINARY):
            raise _Other
        arguments: list[Any] = []
        if "scalar_lhs" in literal:
            arguments.append(literal["scalar_lhs"])
        for index, operand in enumerate(node.operands):
            plain = operand in self.graph.constants or node.reads_plainly(index)
            if not plain:
                raise _Other
            arguments.append(self.term(operand, start, step))
        if "scalar_rhs" in literal:
            arguments.append(literal["scalar_rhs"])
        return (name, *arguments)

    def _gate(self, start: int) -> int:
        if start % self.width:
            raise _Other
        return start // self.width

    def _row(self, value: SSAValue, start: int) -> int | None:
        """The number of a constant that is the same in every row."""
        array = self.graph.constants.get(value)
        if array is None or not array.ndim or array.shape[-1] < start + self.width:
            return None
        flat = np.asarray(array, np.float32).reshape(-1, array.shape[-1])
        if not (flat == flat[:1]).all():
            return None
        row = flat[0, start : start + self.width]
        for number, other in enumerate(self.rows):
            if np.array_equal(other, row):
                return number
        self.rows.append(row)
        return len(self.rows) - 1

    def _input(self, value: SSAValue, start: int) -> Term | None:
        """Gates of the inputs of one step: a slice of what is made of all inputs."""
        passed: list[Node] = []
        while (node := self.graph.node_of(value, "reshape", "slice")) is not None:
            passed.append(node)
            if node.family == "reshape":
                source = node.operands[0]
                if shape_of(source)[-1] != shape_of(value)[-1]:
                    return None
                value = source
                continue
            part = column_slice(node)
            if part is not None:
                start, value = start + part.start, node.operands[0]
                continue
            return self._slice_of_steps(node, start, passed)
        return None

    def _slice_of_steps(self, node: Node, start: int, passed: list[Node]) -> Term | None:
        """("x", time, gate) of rows of one step."""
        source = node.operands[0]
        offsets, sizes = node.call.integers("offsets"), node.call.integers("sizes")
        whole = shape_of(source)
        if offsets is None or sizes is None or len(whole) < 2:
            return None
        if any(offsets[1:-1]) or tuple(sizes[1:-1]) != whole[1:-1]:
            return None
        if set(node.call.integers("strides") or (1,)) != {1} or offsets[0] % sizes[0]:
            return None
        rows = int(np.prod(sizes[:-1]))
        if rows != self.batch or self.source not in (None, source):
            return None
        self.source = source
        self.inside.update(dict.fromkeys(passed))
        return ("x", offsets[0] // sizes[0], self._gate(start + offsets[-1]))

    # --- the same in all steps ----------------------------------------------------------------

    def run(self) -> Recurrence:
        heads = [node.inputs["lhs"] for node in self.products]
        count = len(heads)
        # The second step has states that the first one made; its successor says which.
        example, after = self.term(heads[2], 0, 1), self.term(heads[3], 0, 2)
        now, later = _states(example, [heads[1]]), _states(after, [heads[2]])
        if len(now) != len(later):
            raise _Other
        terms = [_numbered(self.term(value, 0, 1), now) for value in later]
        steps: list[tuple[SSAValue, ...]] = []
        times: list[int] = []
        found: dict[int, SSAValue] = {}
        for step in range(count):
            following = heads[step + 1] if step + 1 < count else self._last(terms[0], step, found)
            found, time = self._same(terms, following, step, heads[step])
            times.append(time)
            steps.append(tuple(found[k] for k in range(len(terms))))
        # `steps` are the states that each product finds; the last one leaves its own.
        final = self._final(terms, steps[-1], count - 1, times[-1])
        states, before = [*steps[1:], final], steps[0]
        first = self._without_product(terms, steps[0])
        given: tuple[SSAValue | None, ...] = before
        if first is not None:
            states, times, given = [before, *states], [first, *times], (None,) * len(before)
        backward = times[0] > times[-1]
        if times != (list(range(len(times)))[::-1] if backward else list(range(len(times)))):
            raise _Other
        return self._checked(terms, states, given, backward)

    def _same(
        self, terms: list[Term], value: SSAValue, step: int, head: SSAValue
    ) -> tuple[dict[int, SSAValue], int]:
        """The states a step finds and its time, if it computes the first term."""
        bound: dict[int, SSAValue] = {0: head}
        times: set[int] = set()
        if not _matches(terms[0], self.term(value, 0, step), bound, times):
            raise _Other
        if len(bound) != len(terms) or len(times) != 1:
            raise _Other
        return bound, times.pop()

    def _candidates(self, step: int) -> Iterator[SSAValue]:
        for node in self.graph.nodes:
            value = node.result
            if self.level[value] == step + 1 and shape_of(value) == (self.batch, self.width):
                yield value

    def _last(self, term: Term, step: int, found: dict[int, SSAValue]) -> SSAValue:
        """The first state that the last step leaves."""
        for value in self._candidates(step):
            if self._computes(value, term, step, {0: self.products[step].inputs["lhs"]}):
                return value
        raise _Other

    def _computes(self, value: SSAValue, term: Term, step: int, bound: dict[int, SSAValue]) -> bool:
        kept = dict(self.inside)
        try:
            if _matches(term, self.term(value, 0, step), bound, set()):
                return True
        except _Other:
            pass
        self.inside = kept
        return False

    def _final(
        self, terms: list[Term], states: tuple[SSAValue, ...], step: int, time: int
    ) -> tuple[SSAValue, ...]:
        """The states that the last step leaves."""
        bound = dict(enumerate(states))
        result = []
        for term in terms:
            for value in self._candidates(step):
                if self._computes(value, term, step, dict(bound)):
                    result.append(value)
                    break
            else:
                raise _Other
        return tuple(result)

    def _without_product(self, terms: list[Term], values: tuple[SSAValue, ...]) -> int | None:
        """The time of a step before the first product, if that is what states of zero make of it."""
        times: set[int] = set()
        bias = self.linears[0].bias
        kept = dict(self.inside)

        def product(gate: int) -> np.ndarray:
            start = gate * self.width
            return np.zeros(self.width) if bias is None else bias[start : start + self.width]

        try:
            for term, value in zip(terms, values, strict=True):
                if not self._from_zero(term, value, 0, product, times):
                    raise _Other
        except _Other:
            self.inside = kept
            return None
        return times.pop() if len(times) == 1 else None

    def _from_zero(self, term: Any, value: Any, start: int, product: Any, times: set[int]) -> bool:
        """Whether columns of a value, or a number, are what a term is for states of zero."""
        if not isinstance(value, SSAValue):
            same = term[0] == "s" if isinstance(term, tuple) else term == value
            return same and value == 0 if isinstance(term, tuple) else same
        if not isinstance(term, tuple):
            return False
        row = self._row(value, start)
        if row is not None:
            if term[0] == "p":
                return np.array_equal(self.rows[row], np.asarray(product(term[1]), np.float32))
            return term == ("r", row) or (term[0] == "s" and not self.rows[row].any())
        if term[0] == "x":
            given = self._input(value, start)
            times.update(() if given is None else given[1:2])
            return given is not None and term[2] == given[2]
        node = self.graph.definition.get(value)
        if node is None or term[0] in ("p", "s", "x", "r"):
            return False
        if term[0] == "add":  # zeros that were added are left out
            for one, other in (term[1:], term[:0:-1]):
                if _is_zero(other, product) and self._from_zero(one, value, start, product, times):
                    return True
        part = column_slice(node) if node.family == "slice" else None
        self.inside[node] = None
        if part is not None:
            return self._from_zero(term, node.operands[0], start + part.start, product, times)
        literal = scalars(node)
        arguments: list[Any] = [literal["scalar_lhs"]] if "scalar_lhs" in literal else []
        arguments += node.operands
        arguments += [literal["scalar_rhs"]] if "scalar_rhs" in literal else []
        return (
            unary_name(node) == term[0]
            and len(arguments) == len(term) - 1
            and all(
                self._from_zero(one, other, start, product, times)
                for one, other in zip(term[1:], arguments, strict=True)
            )
        )

    # --- the result -------------------------------------------------------------------------

    def _checked(
        self,
        terms: list[Term],
        states: list[tuple[SSAValue, ...]],
        before: tuple[SSAValue | None, ...],
        backward: bool,
    ) -> Recurrence:
        graph, source = self.graph, self.source
        inputs = find_linear(graph, source) if source is not None else None
        if inputs is None or source is None or inputs.activation is not None:
            raise _Other
        if inputs.weight.shape[1] % self.width or len(states) * self.batch != int(
            np.prod(shape_of(source)[:-1])
        ):
            raise _Other
        self.inside.update(dict.fromkeys(inputs.nodes))
        number = {value: k for step in states for k, value in enumerate(step)}
        outputs = {value for _, value in graph.outputs}
        outside = set()
        for node in self.inside:
            value = node.result
            if value in outputs or any(n not in self.inside for n in graph.users.get(value, ())):
                if value not in number:
                    raise _Other
                outside.add(number[value])
        program: list[tuple[str, str, list[Any]]] = []
        known: dict[Term, str] = {}
        following = [_written(term, program, known) for term in terms]
        if any(not str(name).startswith("t") for name in following):
            raise _Other
        used = {a for _, _, args in program for a in args if isinstance(a, str)}
        rows = [row for k, row in enumerate(self.rows) if f"r{k}" in used]
        renamed = {f"r{k}": f"r{j}" for j, k in enumerate(
            k for k in range(len(self.rows)) if f"r{k}" in used)}  # fmt: skip
        program = [(o, r, [_swapped(a, renamed) for a in args]) for o, r, args in program]
        return Recurrence(
            inputs, self.linears[0], self.width,
            (inputs.weight.shape[1] // self.width, self.linears[0].weight.shape[1] // self.width),
            states, before, program, following, rows, backward, self.batch, list(self.inside), outside,
        )  # fmt: skip


def _is_zero(term: Any, product: Callable[[int], np.ndarray]) -> bool:
    """Whether a term is zero because states are."""
    if not isinstance(term, tuple):
        return term == 0
    if term[0] == "mul":
        return any(_is_zero(part, product) for part in term[1:])
    return term[0] == "s" or (term[0] == "p" and not product(term[1]).any())


def _swapped(argument: Any, renamed: dict[str, str]) -> Any:
    return renamed.get(argument, argument) if isinstance(argument, str) else argument


def _states(term: Term, first: list[SSAValue]) -> list[SSAValue]:
    """The states a term reads, the one of the product first, then as they come."""
    found = list(first)

    def look(part: Any) -> None:
        if isinstance(part, tuple) and part[0] == "s":
            if not any(part[1] is value for value in found):
                found.append(part[1])
        elif isinstance(part, tuple):
            for inner in part[1:]:
                look(inner)

    look(term)
    return found


def _numbered(term: Any, states: Sequence[SSAValue]) -> Any:
    """The term with states by number, and inputs without their time."""
    if not isinstance(term, tuple):
        return term
    if term[0] == "s":
        for number, value in enumerate(states):
            if value is term[1]:
                return ("s", number)
        raise _Other
    if term[0] == "x":
        return ("x", None, term[2])
    return (term[0], *(_numbered(part, states) for part in term[1:]))


def _matches(pattern: Any, term: Any, bound: dict[int, SSAValue], times: set[int]) -> bool:
    """Whether a term is the pattern, with states that agree wherever they occur."""
    if not isinstance(pattern, tuple) or not isinstance(term, tuple):
        return pattern == term and not isinstance(term, tuple) and not isinstance(pattern, tuple)
    if pattern[0] != term[0] or len(pattern) != len(term):
        return False
    if pattern[0] == "s":
        return bound.setdefault(pattern[1], term[1]) is term[1]
    if pattern[0] == "x":
        times.add(term[1])
        return pattern[2] == term[2]
    return all(_matches(a, b, bound, times) for a, b in zip(pattern[1:], term[1:], strict=True))


def _written(term: Any, program: list[tuple[str, str, list[Any]]], known: dict[Term, str]) -> Any:
    """The name of a term's result, with operations added to the program."""
    if not isinstance(term, tuple):
        return term
    if term[0] in ("p", "s", "r", "x"):
        return f"{term[0]}{term[-1]}"
    if term not in known:
        arguments = [_written(part, program, known) for part in term[1:]]
        known[term] = f"t{len(program)}"
        program.append((term[0], known[term], arguments))
    return known[term]
