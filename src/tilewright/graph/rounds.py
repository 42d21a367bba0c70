"""Identical layers: calls that repeat with other weights become rounds of the same code.

before: 16 times nine calls, each with weights of its own
after:  nine calls and a count of 16; weights exist once per round

A round leaves its result where the next one finds its input.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.graph.calls import Call, Tensor


@dataclass
class Repeat:
    """Calls `first` to `end` (exclusive) of a program run `count` times."""

    count: int
    first: int
    end: int
    names: tuple[str, ...] = ()
    weights: dict[Tensor, list[Tensor]] = field(default_factory=dict)  # of each round


@dataclass
class Folded:
    """A program with its repetitions."""

    calls: list[Call]
    repeats: list[Repeat]
    renamed: dict[Tensor, Tensor] = field(default_factory=dict)  # tensors of later rounds


def fold_rounds(calls: list[Call]) -> Folded:
    """The calls with every run of identical layers written once."""
    signatures = [_signature(call) for call in calls]
    result = Folded([], [])
    at = 0
    while at < len(calls):
        found = _longest(calls, signatures, at)
        if found is None:
            result.calls.append(calls[at])
            at += 1
            continue
        period, count, weights, carried, renamed = found
        first = len(result.calls)
        body = calls[at : at + period]
        for call in body:
            call.operands = {p: carried.get(t, t) for p, t in call.operands.items()}
            call.output = carried.get(call.output, call.output)
        result.calls += body
        names = tuple(_layer(calls[at + k * period : at + (k + 1) * period]) for k in range(count))
        result.repeats.append(Repeat(count, first, first + period, names, weights))
        result.renamed |= renamed
        at += period * count
        for call in calls[at:]:
            call.operands = {p: renamed.get(t, t) for p, t in call.operands.items()}
    return result


def _signature(call: Call) -> tuple:
    shapes = tuple((p, t.layout, t.kind == "weight") for p, t in call.tensors.items())
    return (
        call.kernel,
        repr(sorted(call.options.items(), key=str)),
        tuple(sorted(call.late)),
        shapes,
    )


def _longest(calls: list[Call], signatures: list[tuple], at: int):
    """The repetition from `at` on that covers most calls: smallest period first."""
    best = None
    for period in range(1, (len(calls) - at) // 2 + 1):
        count = 1
        while (
            signatures[at : at + period]
            == signatures[at + count * period : at + (count + 1) * period]
        ):
            count += 1
        while count > 1 and (best is None or count * period > best[0]):
            wiring = _wiring(calls, at, period, count)
            if wiring is not None:
                best = (count * period, (period, count, *wiring))
                break
            count -= 1
    return best[1] if best else None


def _wiring(calls: list[Call], at: int, period: int, count: int):
    """How the rounds hang together: (weights, carried results, later rounds' tensors), or None
    if they are not the same code on different weights."""
    rounds = [calls[at + k * period : at + (k + 1) * period] for k in range(count)]
    produced = [{call.output: j for j, call in enumerate(part)} for part in rounds]
    weights: dict[Tensor, list[Tensor]] = {}
    carried: dict[Tensor, Tensor] = {}  # result of a round -> what it replaces
    renamed: dict[Tensor, Tensor] = {}
    for j, first in enumerate(rounds[0]):
        for k in range(1, count):
            renamed[rounds[k][j].output] = first.output
            if len(first.magnitudes) != len(rounds[k][j].magnitudes):
                return None
        for parameter, tensor in first.operands.items():
            others = [part[j].operands[parameter] for part in rounds[1:]]
            if all(other is tensor for other in others):
                continue
            if tensor.kind == "weight" and all(o.kind == "weight" for o in others):
                weights[tensor] = [tensor, *others]
            elif tensor in produced[0]:
                places = [produced[k + 1].get(other) for k, other in enumerate(others)]
                if places != [produced[0][tensor]] * (count - 1):
                    return None
            else:
                sources = {produced[k].get(other, -1) for k, other in enumerate(others)}
                place = next(iter(sources))
                if len(sources) != 1 or place < 0:
                    return None
                maker = rounds[0][place].output
                if maker.layout != tensor.layout or carried.get(maker, tensor) is not tensor:
                    return None
                carried[maker] = tensor
    if len(set(carried.values())) != len(carried):
        return None
    for maker, start in carried.items():
        # The next round's input is overwritten when nothing of this round reads it any more.
        reads = [j for j, call in enumerate(rounds[0]) if start in call.operands.values()]
        if max(reads, default=-1) >= produced[0][maker] or start.kind == "weight":
            return None
        renamed = {t: (start if o is maker else o) for t, o in renamed.items()}
        renamed[maker] = start
    inside = {call.output for part in rounds for call in part}
    last = {rounds[-1][produced[0][maker]].output for maker in carried}
    for k, call in enumerate(calls):
        if not at <= k < at + period * count:
            for tensor in call.operands.values():
                if tensor in inside and tensor not in last:
                    return None
    if any(t.kind == "output" for t in inside - last):
        return None
    for j in range(period):
        # Rounds share the numbers in their code.
        for group in zip(*(part[j].magnitudes for part in rounds), strict=True):
            for magnitude in group:
                magnitude.peers = list(group)
    return weights, carried, renamed


def _layer(calls: list[Call]) -> str:
    """The name of a layer: what the names of its calls start with."""
    parts = [call.name.split(".") for call in calls if call.kernel != "copy"]
    shared = []
    for pieces in zip(*parts, strict=False):
        if len(set(pieces)) > 1:
            break
        shared.append(pieces[0])
    return ".".join(shared)
