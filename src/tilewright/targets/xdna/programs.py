"""Core programs, run without their arithmetic: who acquires, calls and releases what, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import (
    Acquire,
    Barrier,
    Call,
    CoreProgram,
    Design,
    Loop,
    Parameter,
    Release,
    SetParameter,
    Start,
    Statement,
    Tile,
)

MAX_STEPS = 1 << 24  # statements of one core that are followed


@dataclass(frozen=True)
class Invocation:
    """One call: the kernel and the number of each operand's object in its FIFO."""

    kernel: str
    objects: tuple[int, ...]
    fifos: tuple[str, ...]
    last: bool


@dataclass
class CoreTrace:
    """What one core does with its FIFOs from start to end."""

    tile: Tile
    invocations: list[Invocation] = field(default_factory=list)
    released: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    acquired: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    # After the i-th release of a FIFO that the core produces: objects released of the others.
    snapshots: dict[str, list[dict[str, int]]] = field(default_factory=lambda: defaultdict(list))


def parameters_of(design: Design, tile: Tile) -> dict[int, int]:
    """Numbers the controller writes before it starts a core."""
    values: dict[int, int] = {}
    for step in design.runtime:
        if isinstance(step, SetParameter) and step.tile == tile:
            values[step.index] = step.value
        if isinstance(step, Start) and step.tile == tile:
            break
    return values


def length(body: tuple[Statement, ...], parameters: dict[int, int]) -> int:
    """Statements executed, loops counted without running them."""
    total = 0
    for statement in body:
        if not isinstance(statement, Loop):
            total += 1
            continue
        count = statement.count
        times = parameters.get(count.index, 0) if isinstance(count, Parameter) else count
        total += max(0, times) * length(statement.body, parameters)
    return total


def flat(
    body: tuple[Statement, ...], parameters: dict[int, int], last: bool = False
) -> Iterator[tuple[Statement, bool]]:
    """Statements as executed, with whether the innermost loop around each is in its last round."""
    for statement in body:
        if isinstance(statement, Loop):
            count = statement.count
            if isinstance(count, Parameter):
                if count.index not in parameters:
                    raise TilewrightError(
                        "TW8041",
                        f"a core reads parameter {count.index}, which is not written before it starts",
                    )
                count = parameters[count.index]
            if not 0 <= count <= MAX_STEPS:
                raise TilewrightError("TW8041", f"a loop of a core runs {count} times")
            if not statement.body:
                continue
            if not any(isinstance(s, Loop) for s in statement.body):
                inner = [(s, False) for s in statement.body]
                for _ in range(count - 1):
                    yield from inner
                if count > 0:
                    yield from ((s, True) for s in statement.body)
                continue
            for i in range(count):
                yield from flat(statement.body, parameters, i == count - 1)
        else:
            yield statement, last


def trace_core(design: Design, core: CoreProgram) -> CoreTrace:
    """Run a core's program; objects it uses without holding them are errors."""
    trace = CoreTrace(core.tile)
    held: dict[str, int] = defaultdict(int)
    cleared: set[tuple[str, int]] = set()
    produced = {f.name for f in design.fifos if f.producer == core.tile}
    consumed = {f.name for f in design.fifos if core.tile in f.consumers}

    def wrong(sentence: str) -> TilewrightError:
        return TilewrightError("TW8041", f"core {core.tile}: {sentence}")

    parameters = parameters_of(design, core.tile)
    if length(core.body, parameters) > MAX_STEPS:
        raise wrong(f"runs more than {MAX_STEPS} statements, which are not followed")
    started = any(isinstance(s, Start) and s.tile == core.tile for s in design.runtime)
    for statement, last in flat(core.body, parameters):
        if isinstance(statement, Acquire):
            name = statement.fifo
            if name not in produced and name not in consumed:
                raise wrong(f"acquires from FIFO @{name}, which does not end here")
            held[name] += statement.count
            trace.acquired[name] += statement.count
            if held[name] > design.fifo(name).depth:
                raise wrong(
                    f"holds {held[name]} objects of FIFO @{name}, which has"
                    f" {design.fifo(name).depth}; it waits for itself"
                )
        elif isinstance(statement, Release):
            name = statement.fifo
            held[name] -= statement.count
            if held[name] < 0:
                raise wrong(f"releases an object of FIFO @{name} that it does not hold")
            for _ in range(statement.count):
                trace.released[name] += 1
                if name in produced:
                    trace.snapshots[name].append(dict(trace.released))
        elif isinstance(statement, Call):
            fifos = tuple(name for name, _ in statement.operands)
            objects = []
            for name, position in statement.operands:
                if position >= held[name]:
                    raise wrong(f"@{statement.kernel} uses an object of @{name} that is not held")
                objects.append(trace.released[name] + position)
            kernel = design.kernel_by_name.get(statement.kernel)
            if kernel is not None and kernel.kind != "opaque":
                target = (fifos[-1], objects[-1])
                if kernel.kind == "multiply" and target not in cleared:
                    raise wrong(
                        f"@{statement.kernel} adds to an object of @{fifos[-1]} never cleared"
                    )
                cleared.add(target)
            trace.invocations.append(
                Invocation(statement.kernel, tuple(objects), fifos, statement.last_step and last)
            )
        elif isinstance(statement, Barrier) and not started:
            raise wrong("waits at a barrier that the controller never opens")
    for name, count in held.items():
        if count:
            raise wrong(f"ends without releasing {count} object(s) of FIFO @{name}")
    return trace
