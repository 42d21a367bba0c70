"""Identical layers become one loop over their weights.

before: 16 times the same operations, each time with other weights
after:  npu_kernel.layers 16 iter(%h = %x) weights(%w = "layers.*.q.weight") { … }

Three steps, each its own function: `repetitions` proposes runs of operations that look alike,
`wiring_of` says whether they are iterations of one loop (and touches nothing), `_Folder` rewrites.
`unfold` writes the iterations out again.

An operand of an iteration is made in the same iteration, is carried from the one before, is the
same in all, or is different in each (a weight by name, other values in a list). Results that are
read outside of the loop are the carried values after the last iteration; any other value that is
read outside, of whichever iteration, is collected.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tilewright.dialects.layers import LayersOp, LayerYieldOp
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    Block,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    func,
)
from tilewright.model.weights import resource_name, weight_constant

NAMES = "tw.layers"  # attribute of a loop: what the model calls its iterations
LAYER = "tw.layer"
Step = TypeVar("Step")  # an operation, or what else a program consists of


# --- proposals --------------------------------------------------------------------------


@dataclass(frozen=True)
class Repetition:
    """`count` times `period` operations from `at` on that look alike."""

    at: int
    period: int
    count: int

    @property
    def end(self) -> int:
        return self.at + self.period * self.count

    def iterations(self, ops: Sequence[Step]) -> list[list[Step]]:
        starts = range(self.at, self.end, self.period)
        return [list(ops[start : start + self.period]) for start in starts]


def signatures(ops: Sequence[Operation]) -> list[int]:
    """A number for each operation; equal numbers are equal but for operands and layer names."""
    numbers: dict[tuple, int] = {}
    return [numbers.setdefault(_signature(op), len(numbers)) for op in ops]


def _signature(op: Operation) -> tuple:
    attributes = frozenset((k, v) for k, v in op.attributes.items() if k != LAYER)
    properties = frozenset(op.properties.items())
    types = tuple(value.type for value in op.operands)
    return op.name, attributes, properties, types, tuple(r.type for r in op.results)


def repetitions(ids: Sequence[Hashable], at: int) -> Iterator[Repetition]:
    """Runs from `at` on that look alike: shortest period first, most iterations first."""
    for period in range(1, (len(ids) - at) // 2 + 1):
        if ids[at] != ids[at + period]:
            continue
        count = 1
        body = ids[at : at + period]
        while body == ids[at + count * period : at + (count + 1) * period]:
            count += 1
        for fewer in range(count, 1, -1):
            yield Repetition(at, period, fewer)


# --- legality ---------------------------------------------------------------------------

Place = tuple[int, int]  # an operation of the body and the number of an operand or result


@dataclass(frozen=True)
class Carry:
    """What result `maker` of an iteration leaves for the next one; the first one has `start`."""

    maker: Place
    start: SSAValue


@dataclass
class Wiring:
    """Where operands come from, by place; places without an entry are made in the iteration, or
    are the same value in all of them."""

    carries: dict[Place, Carry] = field(default_factory=dict)
    weights: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    each: dict[Place, tuple[SSAValue, ...]] = field(default_factory=dict)


def wiring_of(iterations: Sequence[Sequence[Operation]]) -> Wiring | None:
    """How iterations hang together, None if they are not those of a loop."""
    made: list[dict[SSAValue, Place]] = [
        {result: (p, n) for p, op in enumerate(part) for n, result in enumerate(op.results)}
        for part in iterations
    ]
    inside = {value for part in made for value in part}
    wiring = Wiring()
    for place, op in enumerate(iterations[0]):
        for number in range(len(op.operands)):
            found = [part[place].operands[number] for part in iterations]
            first = found[0]
            own = [part.get(value) for part, value in zip(made, found, strict=True)]
            if own[0] is not None:
                if any(maker != own[0] for maker in own):
                    return None
                continue
            before = [part.get(value) for part, value in zip(made, found[1:], strict=False)]
            if first in inside:
                return None
            if all(maker is not None and maker == before[0] for maker in before):
                assert before[0] is not None
                wiring.carries[place, number] = Carry(before[0], first)
            elif any(value in inside for value in found):
                return None
            elif all(value is first or _same_constant(value, first) for value in found):
                continue
            else:
                _differs(wiring, (place, number), found)
    return wiring


def _differs(wiring: Wiring, place: Place, found: Sequence[SSAValue]) -> None:
    names = [resource_name(v.owner) if isinstance(v.owner, Operation) else None for v in found]
    if all(name is not None for name in names):
        wiring.weights[place] = tuple(name for name in names if name is not None)
    else:
        wiring.each[place] = tuple(found)


def _same_constant(left: SSAValue, right: SSAValue) -> bool:
    a, b = left.owner, right.owner
    return (
        isinstance(a, arith.ConstantOp)
        and isinstance(b, arith.ConstantOp)
        and left.type == right.type
        and a.value == b.value
    )


def longest(
    ops: Sequence[Operation], ids: Sequence[int], at: int
) -> tuple[Repetition, Wiring] | None:
    """The loop from `at` on that covers most operations and has weights of its own."""
    best: tuple[Repetition, Wiring] | None = None
    for repetition in repetitions(ids, at):
        if best is not None and repetition.end <= best[0].end:
            continue
        wiring = wiring_of(repetition.iterations(ops))
        if wiring is not None and wiring.weights and wiring.carries:
            best = repetition, wiring
    return best


def loops_of(block: Block) -> list[tuple[list[list[Operation]], Wiring]]:
    """The loops that a block could be folded into, in order."""
    ops = operations(block)
    ids = signatures(ops)
    found, at = [], 0
    while at < len(ops):
        loop = longest(ops, ids, at)
        if loop is None:
            at += 1
        else:
            found.append((loop[0].iterations(ops), loop[1]))
            at = loop[0].end
    return found


def operations(block: Block) -> list[Operation]:
    """Operations that compute, in order."""
    return [op for op in block.ops if not isinstance(op, (arith.ConstantOp, func.ReturnOp))]


def same_values(function: func.FuncOp) -> list[list[SSAValue]]:
    """Groups of values that are one value of a loop: results of all iterations, with what the
    first one starts from. Encoded alike, the layers stay identical."""
    groups: list[list[SSAValue]] = []
    for iterations, wiring in loops_of(function.body.block):
        starts: dict[Place, list[SSAValue]] = {}
        for carry in wiring.carries.values():
            starts.setdefault(carry.maker, []).append(carry.start)
        for place, op in enumerate(iterations[0]):
            for number in range(len(op.results)):
                group = [part[place].results[number] for part in iterations]
                groups.append([*starts.get((place, number), ()), *group])
    return _joined(groups)


def _joined(groups: Iterable[list[SSAValue]]) -> list[list[SSAValue]]:
    """Groups that share a value are one."""
    home: dict[SSAValue, list[SSAValue]] = {}
    for group in groups:
        merged = list(group)
        for value in group:
            merged += [v for v in home.get(value, ()) if v not in merged]
        for value in merged:
            home[value] = merged
    return list({id(group): group for group in home.values()}.values())


# --- rewriting --------------------------------------------------------------------------


def fold_layers(function: func.FuncOp) -> int:
    """Fold a function; how many loops it has then."""
    block = function.body.block
    hoist_constants(block)
    found = loops_of(block)
    for iterations, _ in found:
        wiring = wiring_of(iterations)  # loops before this one have other values now
        assert wiring is not None
        _Folder(block, iterations, wiring).run()
    _remove_unused_constants(block)
    return len(found)


def hoist_constants(block: Block) -> None:
    """Constants in front of everything, in order."""
    constants = [op for op in block.ops if isinstance(op, arith.ConstantOp)]
    for op in constants:
        op.detach()
    first = block.first_op
    for op in constants:
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)


def _remove_unused_constants(block: Block) -> None:
    for op in list(block.ops):
        if isinstance(op, arith.ConstantOp) and not op.result.uses:
            op.detach()
            op.erase()


class _Folder:
    def __init__(self, block: Block, iterations: list[list[Operation]], wiring: Wiring) -> None:
        self.block, self.iterations, self.wiring = block, iterations, wiring
        self.inside = {op for part in iterations for op in part}
        # One variable per maker and start, one argument per list of weights or values.
        self.carries = list(dict.fromkeys(wiring.carries.values()))
        self.weights = list(dict.fromkeys(self._weight_keys().values()))
        self.each = list(dict.fromkeys(wiring.each.values()))

    def _weight_keys(self) -> dict[Place, tuple[tuple[str, ...], Attribute]]:
        first = self.iterations[0]
        return {
            place: (names, first[place[0]].operands[place[1]].type)
            for place, names in self.wiring.weights.items()
        }

    def run(self) -> None:
        body, made = self._body()
        first = self.iterations[0]
        carried = [made[c.maker] for c in self.carries]
        collected = self._collected()
        body.add_op(LayerYieldOp(carried, [made[place] for place in collected]))
        count = len(self.iterations)
        types = [value.type for value in carried]
        types += [made[place].type for place in collected for _ in range(count)]
        loop = LayersOp(
            count,
            [c.start for c in self.carries],
            self.each,
            [names for names, _ in self.weights],
            Region([body]),
            types,
            self._names(),
        )
        self.block.insert_op_before(loop, first[0])
        self._connect(loop, collected)
        for part in reversed(self.iterations):
            for op in reversed(part):
                op.detach()
                op.erase()

    def _body(self) -> tuple[Block, dict[Place, SSAValue]]:
        """The first iteration, with arguments in place of what differs."""
        first, wiring = self.iterations[0], self.wiring
        types = [c.start.type for c in self.carries]
        types += [values[0].type for values in self.each] + [kind for _, kind in self.weights]
        body = Block(arg_types=types)
        split, middle = len(self.carries), len(self.carries) + len(self.each)
        carry = dict(zip(self.carries, body.args[:split], strict=True))
        each = dict(zip(self.each, body.args[split:middle], strict=True))
        weight = dict(zip(self.weights, body.args[middle:], strict=True))
        keys = self._weight_keys()
        known: dict[SSAValue, SSAValue] = {}
        made: dict[Place, SSAValue] = {}
        for place, op in enumerate(first):
            copy = op.clone(value_mapper=dict(known))
            for number, value in enumerate(op.operands):
                at = (place, number)
                if at in wiring.carries:
                    copy.operands[number] = _named(carry[wiring.carries[at]], value)
                elif at in wiring.each:
                    copy.operands[number] = _named(each[wiring.each[at]], value)
                elif at in wiring.weights:
                    copy.operands[number] = _named(weight[keys[at]], value)
                else:
                    copy.operands[number] = known.get(value, value)
            copy.location = op.location
            body.add_op(copy)
            for number, (old, new) in enumerate(zip(op.results, copy.results, strict=True)):
                new.name_hint = old.name_hint
                known[old], made[place, number] = new, new
        return body, made

    def _collected(self) -> list[Place]:
        """Results that are read outside of the loop and not carried out of it."""
        carried = {c.maker for c in self.carries}
        found: dict[Place, None] = {}
        for number, part in enumerate(self.iterations):
            final = number == len(self.iterations) - 1
            for place, op in enumerate(part):
                for index, value in enumerate(op.results):
                    if self._read_outside(value) and not (final and (place, index) in carried):
                        found[place, index] = None
        return list(found)

    def _read_outside(self, value: SSAValue) -> bool:
        return any(use.operation not in self.inside for use in value.uses)

    def _connect(self, loop: LayersOp, collected: Sequence[Place]) -> None:
        """Let what is outside read the loop's results."""
        final = {c.maker: loop.outputs[n] for n, c in enumerate(self.carries)}
        rows = dict(zip(collected, loop.collected_results(), strict=True))
        for number, part in enumerate(self.iterations):
            for place, op in enumerate(part):
                for index, value in enumerate(op.results):
                    key = (place, index)
                    last = number == len(self.iterations) - 1
                    result = final.get(key) if last else None
                    if result is None and key in rows:
                        result = rows[key][number]
                    if result is None:
                        continue
                    for use in list(value.uses):
                        if use.operation not in self.inside and use.operation is not loop:
                            use.operation.operands[use.index] = result
                    result.name_hint = result.name_hint or value.name_hint

    def _names(self) -> dict[str, Attribute]:
        """What the model calls the iterations, if their operations differ by that alone."""
        prefixes = [_prefix(part) for part in self.iterations]
        for prefix, part in zip(prefixes, self.iterations, strict=True):
            for op, model in zip(part, self.iterations[0], strict=True):
                if _layer(op) != _renamed(_layer(model), prefixes[0], prefix):
                    return {}
        return {NAMES: ArrayAttr([StringAttr(prefix) for prefix in prefixes])}


def _named(argument: SSAValue, value: SSAValue) -> SSAValue:
    argument.name_hint = argument.name_hint or value.name_hint
    return argument


def _layer(op: Operation) -> str:
    value = op.attributes.get(LAYER)
    return value.data if isinstance(value, StringAttr) else ""


def _prefix(ops: Sequence[Operation]) -> str:
    """What the layer names of operations start with."""
    return common_prefix(name for name in map(_layer, ops) if name)


def common_prefix(names: Iterable[str]) -> str:
    """What dotted names start with: mlp of mlp.gate and mlp.up."""
    rows = [name.split(".") for name in names]
    shared: list[str] = []
    for pieces in zip(*rows, strict=False):
        if len(set(pieces)) > 1:
            break
        shared.append(pieces[0])
    return ".".join(shared)


def _renamed(name: str, old: str, new: str) -> str:
    """A layer's name in another iteration."""
    return new + name[len(old) :] if old and name.startswith(old) else name


# --- and back ---------------------------------------------------------------------------


def unfold_layers(function: func.FuncOp) -> None:
    """Write every loop out, iteration by iteration."""
    for op in list(function.body.block.ops):
        if isinstance(op, LayersOp):
            _unfold(op)


def _unfold(loop: LayersOp) -> None:
    block = loop.parent
    assert block is not None
    names = loop.attributes.get(NAMES)
    prefixes = [n.data for n in names] if isinstance(names, ArrayAttr) else []  # type: ignore[attr-defined]
    carried = list(loop.start)
    rows = loop.collected_results()
    for number in range(loop.iterations):
        known: dict[SSAValue, SSAValue] = dict(zip(loop.carried_arguments, carried, strict=True))
        known.update(
            (argument, values[number])
            for argument, values in zip(loop.each_arguments, loop.each_values(), strict=True)
        )
        for argument, row in zip(loop.weight_arguments, loop.weight_names(), strict=True):
            kind = argument.type
            assert isinstance(kind, TensorType)
            constant = weight_constant(row[number], kind)
            block.insert_op_before(constant, loop)
            known[argument] = constant.result
        for op in loop.block.ops:
            if isinstance(op, LayerYieldOp):
                continue
            copy = op.clone(value_mapper=dict(known))
            if prefixes and _layer(op):
                name = _renamed(_layer(op), prefixes[0], prefixes[number])
                copy.attributes[LAYER] = StringAttr(name)
            copy.location = op.location
            block.insert_op_before(copy, loop)
            for old, new in zip(op.results, copy.results, strict=True):
                known[old] = new
                new.name_hint = old.name_hint
        end = loop.terminator
        carried = [known.get(value, value) for value in end.carried]
        for row, value in zip(rows, end.collected, strict=True):
            row[number].replace_all_uses_with(known.get(value, value))
    for result, value in zip(loop.outputs, carried, strict=False):
        result.replace_all_uses_with(value)
    loop.detach()
    loop.erase()
