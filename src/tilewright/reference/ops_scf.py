"""Structured control flow: loops carry arrays from one iteration to the next without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.reference.faults import fault, name_of
from tilewright.reference.ops_tensor import SliceOf, mixed
from tilewright.reference.program import (
    Builder,
    Slots,
    Step,
    as_array,
    control,
    integers,
    is_index_scalar,
    segments,
)
from tilewright.reference.scalar_ops import attribute_of


def take(slots: Slots, slot: int, dying: frozenset[int]) -> Any:
    """The value of a slot; the slot lets go of it if this is its last use."""
    value = slots[slot]
    if slot in dying:
        slots[slot] = None
    return value


@control("scf.for")
def for_loop(op: Operation, builder: Builder) -> Step:
    dying = builder.dying
    operands = [builder.slot(v) for v in op.operands]
    low, high, stride = operands[:3]
    initial = operands[3:]
    results = [builder.slot(v) for v in op.results]
    wide_index = not is_index_scalar(op.operands[0])
    body = builder.block(builder.single_block(op.regions[0], op))
    index, carried = body.arguments[0], body.arguments[1:]
    # A value that is carried twice must stay in its slot until all copies are taken.
    once = frozenset(slot for slot in initial if initial.count(slot) == 1) & dying

    def step(slots: Slots) -> None:
        start, stop, by = int(slots[low]), int(slots[high]), int(slots[stride])
        if by <= 0:
            raise fault(op, "TW1505", f"scf.for with step {by}")
        values = [take(slots, slot, once) for slot in initial]
        kind = as_array(slots[low]).dtype
        for position in range(start, stop, by):
            slots[index] = np.asarray(position, dtype=kind) if wide_index else position
            for slot in reversed(carried):
                slots[slot] = values.pop()
            values = body.run(slots)
        for slot in reversed(results):
            slots[slot] = values.pop()

    return step


@control("scf.if")
def branch(op: Operation, builder: Builder) -> Step:
    condition = builder.slot(op.operands[0])
    results = [builder.slot(v) for v in op.results]
    programs = [
        builder.block(builder.single_block(region, op)) if region.blocks else None
        for region in op.regions
    ]

    def step(slots: Slots) -> None:
        chosen = programs[0 if bool(slots[condition]) else 1]
        values = chosen.run(slots) if chosen is not None else []
        for slot in reversed(results):
            slots[slot] = values.pop()

    return step


@control("scf.while")
def while_loop(op: Operation, builder: Builder) -> Step:
    dying = builder.dying
    initial = [builder.slot(v) for v in op.operands]
    once = frozenset(slot for slot in initial if initial.count(slot) == 1) & dying
    results = [builder.slot(v) for v in op.results]
    before = builder.block(builder.single_block(op.regions[0], op))
    after = builder.block(builder.single_block(op.regions[1], op))

    def step(slots: Slots) -> None:
        values = [take(slots, slot, once) for slot in initial]
        while True:
            for slot in reversed(before.arguments):
                slots[slot] = values.pop()
            values = before.run(slots)
            if not bool(values.pop(0)):
                break
            for slot in reversed(after.arguments):
                slots[slot] = values.pop()
            values = after.run(slots)
        for slot in reversed(results):
            slots[slot] = values.pop()

    return step


@control("scf.execute_region")
def execute_region(op: Operation, builder: Builder) -> Step:
    results = [builder.slot(v) for v in op.results]
    body = builder.block(builder.single_block(op.regions[0], op))

    def step(slots: Slots) -> None:
        values = body.run(slots)
        for slot in reversed(results):
            slots[slot] = values.pop()

    return step


@control("scf.forall")
def forall(op: Operation, builder: Builder) -> Step:
    """Every iteration writes its slices of the shared outputs; they run in index order."""
    lower_values, upper_values, step_values, outputs = segments(op, 4)
    first = 0
    bounds = []
    for name, dynamic in (
        ("staticLowerBound", lower_values),
        ("staticUpperBound", upper_values),
        ("staticStep", step_values),
    ):
        bounds.append(mixed(integers(attribute_of(op, name)), dynamic, first))
        first += len(dynamic)
    operands = [builder.slot(v) for v in op.operands]
    initial = [builder.slot(v) for v in outputs]
    results = [builder.slot(v) for v in op.results]
    block = builder.single_block(op.regions[0], op)
    terminator = block.last_op
    if terminator is None or not terminator.regions:
        raise fault(op, "TW1502", "scf.forall without its scf.forall.in_parallel")
    inserts = [i for i in terminator.regions[0].walk() if name_of(i).endswith("insert_slice")]
    writers = []
    for insert in inserts:
        window = SliceOf(insert, 2, segments(insert, 5)[2:])
        writers.append((window, [builder.slot(v) for v in insert.operands]))
    # The inserts read values of the body: nothing dies before they have run.
    body = builder.block(block)
    body.steps = [(step, ()) for step, _ in body.steps]
    body.dying = ()

    def run(slots: Slots) -> None:
        given = [slots[i] for i in operands]
        lower, upper, stride = (bound(given) for bound in bounds)
        shared = [np.array(slots[i]) for i in initial]
        count = len(lower)
        ranges = [range(a, b, c) for a, b, c in zip(lower, upper, stride, strict=True)]
        for point in np.ndindex(*[len(r) for r in ranges]):
            for slot, span, at in zip(body.arguments[:count], ranges, point, strict=True):
                slots[slot] = span[at]
            for slot, array in zip(body.arguments[count:], shared, strict=True):
                slots[slot] = array.copy()
            body.run(slots)
            for window, places in writers:
                target = shared[body.arguments[count:].index(places[1])]
                values = [slots[i] for i in places]
                view = target[window(values, target.shape)]
                view[...] = values[0].reshape(view.shape)
        for slot, array in zip(results, shared, strict=True):
            slots[slot] = array

    return run


@control("scf.index_switch")
def index_switch(op: Operation, builder: Builder) -> Step:
    argument = builder.slot(op.operands[0])
    cases = list(integers(attribute_of(op, "cases")))
    results = [builder.slot(v) for v in op.results]
    programs = [builder.block(builder.single_block(region, op)) for region in op.regions]

    def step(slots: Slots) -> None:
        value = int(slots[argument])
        chosen = programs[cases.index(value) + 1 if value in cases else 0]
        values = chosen.run(slots)
        for slot in reversed(results):
            slots[slot] = values.pop()

    return step
