"""Designs with one thing changed, and whether anything notices.

Every stride, size, offset and depth, every lock count, buffer and descriptor, and every await can
be changed. A change that leaves all walks as they are is no mutant. What the checker lets pass is
run: a wrong value or a hang counts as noticed, anything else is a survivor.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.descriptors import Descriptor
from tilewright.targets.xdna.design import Await, Design, Dimensions, Fifo, Replay, Step, Transfer
from tilewright.targets.xdna.lowering import DmaEnd, Lowering, lower
from tilewright.targets.xdna.patterns import Pattern
from tilewright.targets.xdna.report import values_agree


@dataclass(frozen=True)
class Mutant:
    """A changed design, or a changed lowering of the design as it was."""

    kind: str
    what: str
    design: Design
    lowering: Lowering | None = None


def _numbers(value: int, choose: random.Random) -> int:
    """Another number near or far."""
    others = {value + 1, value - 1, value * 2, value // 2, value + 4, value - 4, 0, 1} - {value}
    return choose.choice(sorted(others))


def _same_walk(one: Pattern, other: Pattern) -> bool:
    return one.canonical() == other.canonical()


def _changed_dimensions(dimensions: Dimensions, choose: random.Random) -> Dimensions | None:
    """One size or stride changed; None if the walk is still the same or is none at all."""
    loops = [list(loop) for loop in dimensions]
    loop, part = choose.randrange(len(loops)), choose.randrange(2)
    loops[loop][part] = _numbers(loops[loop][part], choose)
    if any(size < 1 for size, _ in loops):
        return None
    made = tuple((size, stride) for size, stride in loops)
    before = Pattern(tuple(n for n, _ in dimensions), tuple(s for _, s in dimensions))
    after = Pattern(tuple(n for n, _ in made), tuple(s for _, s in made))
    return None if _same_walk(before, after) else made


def mutants(design: Design, count: int, seed: int) -> Iterator[Mutant]:
    """Random mutants, all kinds alike."""
    choose = random.Random(seed)
    lowering = lower(design)
    makers = [
        _leaving, _arriving, _transfer, _transfer, _depth, _offset, _await, _replay, _lock,
        _buffer, _descriptor, _descriptor_number,
    ]  # fmt: skip
    made = 0
    while made < count:
        mutant = choose.choice(makers)(design, lowering, choose)
        if mutant is not None:
            made += 1
            yield mutant


def _with_fifo(design: Design, fifo: Fifo, kind: str, what: str) -> Mutant:
    fifos = tuple(fifo if f.name == fifo.name else f for f in design.fifos)
    return Mutant(kind, what, replace(design, fifos=fifos))


def _leaving(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    found = [f for f in design.fifos if f.to_stream]
    if not found:
        return None
    fifo = choose.choice(found)
    made = _changed_dimensions(fifo.to_stream, choose)
    if made is None:
        return None
    what = f"@{fifo.name} leaves by {made}"
    return _with_fifo(design, replace(fifo, to_stream=made), "to_stream", what)


def _arriving(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    found = [f for f in design.fifos if f.from_stream]
    if not found:
        return None
    fifo = choose.choice(found)
    at = choose.randrange(len(fifo.from_stream))
    made = _changed_dimensions(fifo.from_stream[at], choose)
    if made is None:
        return None
    streams = (*fifo.from_stream[:at], made, *fifo.from_stream[at + 1 :])
    what = f"@{fifo.name} arrives by {made}"
    return _with_fifo(design, replace(fifo, from_stream=streams), "from_stream", what)


def _with_step(design: Design, at: int, step: Step | None, kind: str, what: str) -> Mutant:
    middle = () if step is None else (step,)
    steps = (*design.runtime[:at], *middle, *design.runtime[at + 1 :])
    return Mutant(kind, what, replace(design, runtime=steps))


def _transfer(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    at = choose.choice([i for i, s in enumerate(design.runtime) if isinstance(s, Transfer)])
    step = design.runtime[at]
    assert isinstance(step, Transfer)
    part = choose.randrange(9)
    if part == 8:
        made = replace(step, offset=_numbers(step.offset, choose))
    else:
        numbers = list(step.sizes if part < 4 else step.strides)
        numbers[part % 4] = _numbers(numbers[part % 4], choose)
        first, second, third, fourth = numbers
        if part < 4:
            if min(numbers) < 1:
                return None
            made = replace(step, sizes=(first, second, third, fourth))
        else:
            made = replace(step, strides=(first, second, third, fourth))
    if _same_walk(made.pattern, step.pattern):
        return None
    return _with_step(design, at, made, "transfer", f"@{step.fifo}: {made.pattern}")


def _depth(design: Design, lowering: Lowering, choose: random.Random) -> Mutant | None:
    fifo = choose.choice(design.fifos)
    depth = fifo.depth + choose.choice([1, -1, 2])
    if depth < 1 or not _counts(design, fifo):
        return None
    mutant = _with_fifo(design, replace(fifo, depth=depth), "depth", f"@{fifo.name}: {depth}")
    return replace(mutant, lowering=lowering)


def _counts(design: Design, fifo: Fifo) -> bool:
    """Whether any buffers have this FIFO's depth: a link's come from one of its FIFOs only."""
    ends = [fifo.producer, *fifo.consumers]
    links = [design.link_into.get(fifo.name), design.link_out_of.get(fifo.name)]
    owner = any(link is not None and design.memory_fifo(link) is fifo for link in links)
    return owner or any(tile.row >= 2 for tile in ends)


def _offset(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    found = [i for i, link in enumerate(design.links) if link.offsets]
    if not found:
        return None
    at = choose.choice(found)
    link = design.links[at]
    part = choose.randrange(len(link.offsets))
    offsets = list(link.offsets)
    offsets[part] = _numbers(offsets[part], choose)
    made = replace(link, offsets=tuple(offsets))
    links = (*design.links[:at], made, *design.links[at + 1 :])
    return Mutant("offset", f"link @{link.outputs[0]}: {offsets}", replace(design, links=links))


def _await(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    at = choose.choice([i for i, s in enumerate(design.runtime) if isinstance(s, Await)])
    return _with_step(design, at, None, "await", f"step {at} dropped")


def _replay(design: Design, _: Lowering, choose: random.Random) -> Mutant | None:
    found = [i for i, s in enumerate(design.runtime) if isinstance(s, Replay)]
    if not found:
        return None
    at = choose.choice(found)
    step = design.runtime[at]
    assert isinstance(step, Replay)
    made = None if choose.random() < 0.3 else replace(step, sweeps=_numbers(step.sweeps, choose))
    return _with_step(design, at, made, "replay", f"step {at}: {made}")


def _lock(design: Design, lowering: Lowering, choose: random.Random) -> Mutant | None:
    at = choose.randrange(len(lowering.locks))
    pair = lowering.locks[at]
    if choose.random() < 0.7:
        made = replace(pair, free_value=_numbers(pair.free_value, choose))
    else:
        made = replace(pair, full_value=choose.choice([1, 2]))
    locks = (*lowering.locks[:at], made, *lowering.locks[at + 1 :])
    return Mutant("lock", f"{made}", design, replace(lowering, locks=locks))


def _with_end(
    design: Design, lowering: Lowering, at: int, end: DmaEnd, kind: str, what: str
) -> Mutant:
    ends = (*lowering.ends[:at], end, *lowering.ends[at + 1 :])
    return Mutant(kind, what, design, replace(lowering, ends=ends))


def _some_end(lowering: Lowering, choose: random.Random) -> int:
    return choose.choice([i for i, end in enumerate(lowering.ends) if end.descriptors])


def _buffer(design: Design, lowering: Lowering, choose: random.Random) -> Mutant | None:
    at = _some_end(lowering, choose)
    end = lowering.ends[at]
    buffers = end.buffers[:-1] if choose.random() < 0.5 else (*end.buffers, end.buffers[0])
    made = replace(end, buffers=buffers)
    return _with_end(design, lowering, at, made, "buffer", f"@{end.fifo} at {end.tile}")


def _descriptor(design: Design, lowering: Lowering, choose: random.Random) -> Mutant | None:
    at = _some_end(lowering, choose)
    end = lowering.ends[at]
    drop = choose.randrange(len(end.descriptors))
    uses = end.descriptors[:drop] + end.descriptors[drop + 1 :]
    if choose.random() < 0.5:
        uses = (*end.descriptors, end.descriptors[drop])
    made = replace(end, descriptors=uses)
    return _with_end(design, lowering, at, made, "descriptor", f"@{end.fifo} at {end.tile}")


def _descriptor_number(design: Design, lowering: Lowering, choose: random.Random) -> Mutant | None:
    """A field of a static descriptor."""
    at = _some_end(lowering, choose)
    end = lowering.ends[at]
    which = choose.randrange(len(end.descriptors))
    use = end.descriptors[which]
    made = _changed_descriptor(use.descriptor, choose)
    if made is None:
        return None
    uses = list(end.descriptors)
    uses[which] = replace(use, descriptor=made)
    changed = replace(end, descriptors=tuple(uses))
    return _with_end(design, lowering, at, changed, "field", f"@{end.fifo} at {end.tile}: {made}")


def _changed_descriptor(old: Descriptor, choose: random.Random) -> Descriptor | None:
    part = choose.choice(["base", "length", "sizes", "strides"])
    if part in ("base", "length"):
        made = replace(old, **{part: _numbers(getattr(old, part), choose)})
    else:
        numbers = list(getattr(old, part))
        if not numbers:
            return None
        i = choose.randrange(len(numbers))
        numbers[i] = _numbers(numbers[i], choose)
        made = replace(old, **{part: tuple(numbers)})
    try:
        if _same_walk(made.pattern(), old.pattern()):
            return None
    except (TilewrightError, ZeroDivisionError):
        return None  # no descriptor any more
    return made


def caught(mutant: Mutant, seed: int = 0) -> str | None:
    """What notices a mutant: the name of a check, `values`, or None."""
    try:
        checks = check_design(mutant.design, mutant.lowering)
    except TilewrightError as error:
        return f"error {error.code}"
    for check in checks:
        if not check.ok:
            return check.name
    if mutant.lowering is not None and mutant.kind != "depth":
        return None
    try:
        return None if values_agree(mutant.design, seed) else "values"
    except TilewrightError as error:
        return f"error {error.code}"
