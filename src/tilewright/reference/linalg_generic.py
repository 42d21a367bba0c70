"""`linalg.generic`: a loop nest with a scalar body, evaluated on whole arrays.

Four ways, chosen from the iterators and the body once per operation:

* all loops parallel: the body runs once on views of the operands;
* a contraction, `out + f(a) * g(b)`: matrix multiplication (`contraction`);
* another reduction whose body combines `out` with an expression: the expression is evaluated
  over all loops, a piece at a time, and folded (`reductions`);
* anything else, such as an argmax: the reduction loops run one after the other, each step on whole
  arrays over the parallel loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tilewright.reference import dtypes
from tilewright.reference.bodies import Body, arguments_used
from tilewright.reference.contraction import contract
from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault, name_of
from tilewright.reference.program import (
    Builder,
    Evaluate,
    as_array,
    element_of,
    operation,
    segments,
)
from tilewright.reference.reductions import COMBINERS, combine, fold
from tilewright.reference.scalar_ops import attribute_of
from tilewright.reference.views import (
    dimensions_of,
    is_output_map,
    loop_index,
    loop_sizes,
    operand_view,
    to_operand,
)

# Loop iterations evaluated at once; keeps temporaries of a large nest small.
PIECE = 1 << 23


@dataclass(frozen=True)
class Combination:
    """`yield combiner(out, expression)`: one output of a reduction."""

    kind: str
    expression: SSAValue
    product: tuple[SSAValue, SSAValue] | None  # the factors if the expression is a product


@dataclass(frozen=True)
class Nest:
    """The loops of one operation: maps, iterators, and which operands are outputs."""

    op: Operation
    maps: list[AffineMap]
    parallel: list[bool]
    inputs: int
    block: Block

    @property
    def output_maps(self) -> list[AffineMap]:
        return self.maps[self.inputs :]


def iterator_kinds(op: Operation) -> list[bool]:
    """True for every parallel loop."""
    kinds = attribute_of(op, "iterator_types")
    result = []
    for kind in kinds.data:
        text = kind.data if isinstance(kind, builtin.StringAttr) else str(kind.data)
        result.append("parallel" in str(text).lower())
    return result


@operation("linalg.generic")
def generic(op: Operation, builder: Builder) -> Evaluate:
    inputs, outputs = segments(op, 2)
    maps = [m.data for m in attribute_of(op, "indexing_maps").data]
    parallel = iterator_kinds(op)
    nest = Nest(op, maps, parallel, len(inputs), builder.single_block(op.regions[0], op))
    check_nest(nest, len(inputs) + len(outputs))
    return evaluate_nest(nest, builder)


def check_nest(nest: Nest, operands: int) -> None:
    """The maps fit the loops and every output element belongs to its parallel loops alone."""
    op = nest.op
    if len(nest.maps) != operands:
        raise fault(op, "TW1502", f"{len(nest.maps)} indexing maps for {operands} operands")
    if any(m.num_dims != len(nest.parallel) or m.num_symbols for m in nest.maps):
        raise fault(op, "TW1502", "an indexing map does not fit the number of iterators")
    for affine in nest.output_maps:
        if not is_output_map(affine) or any(not nest.parallel[d] for d in dimensions_of(affine)):
            raise fault(
                op,
                "TW1502",
                f"the output map {affine} is not a projection of the parallel loops",
            )


def evaluate_nest(nest: Nest, builder: Builder) -> Evaluate:
    """A function from operand arrays and captured values to the result array(s)."""
    yielded = list(nest.block.last_op.operands) if nest.block.last_op else []
    reduction = not all(nest.parallel)
    combinations = None
    if reduction and builder.semantics.accumulate == "wide":
        combinations = find_combinations(nest, yielded)
    if not reduction:
        strategy = _parallel(nest, yielded)
    elif combinations is not None:
        strategy = _folding(nest, combinations)
    else:
        strategy = _sequential(nest, yielded)
    operand_count = len(nest.maps)
    elements = [element_of(v) for v in nest.op.operands[:operand_count]]
    several = len(nest.op.results) != 1

    def evaluate(*values: Any) -> Any:
        arrays = [
            dtypes.working(as_array(v), e)
            for v, e in zip(values[:operand_count], elements, strict=True)
        ]
        sizes = loop_sizes(nest.op, nest.maps, [a.shape for a in arrays])
        views = [operand_view(nest.op, a, m, sizes) for a, m in zip(arrays, nest.maps, strict=True)]
        results = strategy(views, values[operand_count:], sizes)
        kept = [
            dtypes.stored(dtypes.contiguous(to_operand(r, m, sizes)), e)
            for r, m, e in zip(results, nest.output_maps, elements[nest.inputs :], strict=True)
        ]
        return kept if several else kept[0]

    return evaluate


# --------------------------------------------------------------------------- pieces


def pieces(sizes: Sequence[int], parallel: Sequence[bool]) -> Iterator[tuple[int, slice] | None]:
    """Windows of one parallel loop that keep the nest within PIECE iterations; None is all of it."""
    total = math.prod(sizes)
    candidates = [d for d, p in enumerate(parallel) if p and sizes[d] > 1]
    if total <= PIECE or not candidates:
        yield None
        return
    loop = next((d for d in candidates if sizes[d] >= total // PIECE), candidates[0])
    step = max(1, sizes[loop] * PIECE // total)
    for start in range(0, sizes[loop], step):
        yield loop, slice(start, min(start + step, sizes[loop]))


def window(view: Array, piece: tuple[int, slice] | None) -> Array:
    """The part of a view inside a piece (all of it along loops it does not use)."""
    if piece is None or view.shape[piece[0]] == 1:
        return view
    cut: list[slice] = [slice(None)] * view.ndim
    cut[piece[0]] = piece[1]
    return view[tuple(cut)]


def piece_sizes(sizes: Sequence[int], piece: tuple[int, slice] | None) -> list[int]:
    shape = list(sizes)
    if piece is not None:
        shape[piece[0]] = piece[1].stop - piece[1].start
    return shape


def index_function(sizes: Sequence[int], piece: tuple[int, slice] | None) -> Any:
    """`linalg.index` inside a piece."""
    shape = piece_sizes(sizes, piece)

    def index_of(dimension: int) -> Array:
        start = piece[1].start if piece is not None and piece[0] == dimension else 0
        return loop_index(dimension, shape, start)

    return index_of


class Assembled:
    """An output over the loops, filled piece by piece."""

    def __init__(self) -> None:
        self.array: Array | None = None

    def put(
        self, part: Array, piece: tuple[int, slice] | None, sizes: Sequence[int], loops: set[int]
    ) -> None:
        if piece is None:
            self.array = part
            return
        if self.array is None:
            shape = [size if d in loops else 1 for d, size in enumerate(sizes)]
            self.array = np.empty(shape, part.dtype)
        cut: list[slice] = [slice(None)] * self.array.ndim
        if piece[0] in loops:
            cut[piece[0]] = piece[1]
        self.array[tuple(cut)] = part


# --------------------------------------------------------------------------- strategies


def _parallel(nest: Nest, yielded: list[SSAValue]) -> Any:
    body = Body(nest.block, yielded, nest.op)

    def run(views: list[Array], captured: Sequence[Any], sizes: tuple[int, ...]) -> list[Array]:
        outputs = [Assembled() for _ in yielded]
        for piece in pieces(sizes, nest.parallel):
            parts = body.run(
                [window(v, piece) for v in views], captured, index_function(sizes, piece)
            )
            for output, part, affine in zip(outputs, parts, nest.output_maps, strict=True):
                output.put(part, piece, sizes, dimensions_of(affine))
        return [o.array for o in outputs if o.array is not None]

    return run


def find_combinations(nest: Nest, yielded: list[SSAValue]) -> list[Combination] | None:
    """How each output is combined, or None if some output is not a plain fold."""
    found: list[Combination] = []
    arguments = list(nest.block.args)
    outputs = set(arguments[nest.inputs :])
    for number, value in enumerate(yielded):
        out = arguments[nest.inputs + number]
        owner = value.owner
        if not isinstance(owner, Operation) or name_of(owner) not in COMBINERS:
            return None
        sides = list(owner.operands)
        if len(sides) != 2 or out not in sides:
            return None
        expression = sides[1] if sides[0] is out else sides[0]
        depends = arguments_used(nest.block, [expression])
        if expression is out or any(arguments[i] in outputs for i in depends):
            return None
        if dimensions_of(nest.output_maps[number]) != {
            d for d, parallel in enumerate(nest.parallel) if parallel
        }:
            return None
        kind = COMBINERS[name_of(owner)]
        found.append(Combination(kind, expression, _factors(nest, kind, expression)))
    return found


def _factors(nest: Nest, kind: str, expression: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """The two factors if the expression is a product of functions of two different inputs."""
    owner = expression.owner
    if kind != "sum" or not isinstance(owner, Operation):
        return None
    if name_of(owner) not in ("arith.mulf", "arith.muli"):
        return None
    left, right = owner.operands
    for side in (left, right):
        used = arguments_used(nest.block, [side])
        if len(used) != 1 or not isinstance(nest.block.args[next(iter(used))], BlockArgument):
            return None
        if Body(nest.block, [side], nest.op).uses_index:
            return None
    if arguments_used(nest.block, [left]) == arguments_used(nest.block, [right]):
        return None
    return left, right


def _folding(nest: Nest, combinations: list[Combination]) -> Any:
    reduced = tuple(d for d, parallel in enumerate(nest.parallel) if not parallel)
    steps = [
        _contraction(nest, c.product) if c.product else _fold(nest, c, reduced)
        for c in combinations
    ]

    def run(views: list[Array], captured: Sequence[Any], sizes: tuple[int, ...]) -> list[Array]:
        results = []
        for number, (step, combination) in enumerate(zip(steps, combinations, strict=True)):
            initial = views[nest.inputs + number]
            element = element_of(nest.op.operands[nest.inputs + number])
            folded = step(views, captured, sizes)
            results.append(combine(initial, folded, combination.kind, element))
        return results

    return run


def _contraction(nest: Nest, factors: tuple[SSAValue, SSAValue]) -> Any:
    bodies = [Body(nest.block, [side], nest.op) for side in factors]
    numbers = [next(iter(arguments_used(nest.block, [side]))) for side in factors]
    loops = [dimensions_of(nest.maps[n]) for n in numbers]
    parallel = {d for d, p in enumerate(nest.parallel) if p}

    def run(views: list[Array], captured: Sequence[Any], sizes: tuple[int, ...]) -> Array:
        sides = []
        for body, number in zip(bodies, numbers, strict=True):
            arguments: list[Array | None] = [None] * len(nest.block.args)
            arguments[number] = views[number]
            sides.append(body.run(arguments, captured, index_function(sizes, None))[0])
        result = contract(sides[0], loops[0], sides[1], loops[1], parallel)
        # Summing loops that neither factor has repeats the same product.
        repeated = set(range(len(sizes))) - parallel - loops[0] - loops[1]
        return result * math.prod(sizes[d] for d in repeated)

    return run


def _fold(nest: Nest, combination: Combination, reduced: tuple[int, ...]) -> Any:
    body = Body(nest.block, [combination.expression], nest.op)
    element = element_of(combination.expression)
    parallel = {d for d, p in enumerate(nest.parallel) if p}

    def run(views: list[Array], captured: Sequence[Any], sizes: tuple[int, ...]) -> Array:
        output = Assembled()
        for piece in pieces(sizes, nest.parallel):
            (values,) = body.run(
                [window(v, piece) for v in views], captured, index_function(sizes, piece)
            )
            # The fold must see every iteration, also of loops the expression does not read.
            shape = list(np.broadcast_shapes(values.shape, (1,) * len(sizes)))
            for d in reduced:
                shape[d] = sizes[d]
            values = np.broadcast_to(values, shape)
            folded = fold(values, reduced, combination.kind, element)
            output.put(folded, piece, sizes, parallel)
        assert output.array is not None
        return output.array

    return run


def _sequential(nest: Nest, yielded: list[SSAValue]) -> Any:
    body = Body(nest.block, yielded, nest.op)
    reduced = [d for d, parallel in enumerate(nest.parallel) if not parallel]

    def run(views: list[Array], captured: Sequence[Any], sizes: tuple[int, ...]) -> list[Array]:
        inputs, carried = views[: nest.inputs], list(views[nest.inputs :])
        for position in np.ndindex(*[sizes[d] for d in reduced]):
            place = dict(zip(reduced, position, strict=True))
            current = []
            for view in inputs:
                cut: list[slice] = [slice(None)] * view.ndim
                for d, at in place.items():
                    if view.shape[d] > 1:
                        cut[d] = slice(at, at + 1)
                current.append(view[tuple(cut)])

            def index_of(dimension: int, place: dict[int, int] = place) -> Array:
                if dimension in place:
                    return np.asarray(place[dimension])
                return loop_index(dimension, sizes)

            carried = body.run(current + carried, captured, index_of)
        return carried

    return run
