"""Identical layers: calls that repeat with other weights become iterations of one loop.

before: 16 times nine calls, each with weights of its own
after:  nine calls and a count of 16; weights exist once per iteration

So do inputs and outputs of the model that every layer has for itself, such as its keys and values:
they lie beside the weights of their iteration.

Calls come as single assignments: every tensor is written once. A loop needs variables: what
an iteration leaves for the next one, it leaves in one tensor for all of them. That is the tensor
the first iteration starts from if nobody needs its first content once the loop overwrites it, and a copy of it
otherwise.

A few small layers are unrolled where launches that follow each other can share a schedule
(`joining.py`): weights of one launch arrive under the work of those before it, which a loop, whose
launches read their addresses, does not allow. That is a tenth of the time of such a model.

Three steps, each its own function: `repetitions` proposes, `_wiring` says whether the iterations are
the same code (and touches nothing), `_Folder._fold` rewrites. `check_layer_loops` follows the values
through the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.model.fold_layers import Repetition, common_prefix, repetitions
from tilewright.targets.atlas.model.buffer_assignment import is_small
from tilewright.targets.atlas.model.calls import Call, Tensor, share_range
from tilewright.targets.atlas.model.launches import LayerLoop
from tilewright.tile.layouts import Layout

COPY_RANKS = (2, 3, 4)  # tensors the copy kernel takes
WRITTEN_OUT = 32  # launches that a few small layers may add to a program
APART = (
    64.0  # ranges that differ by more have no scale in common that keeps the smaller one's digits
)


@dataclass
class Folded:
    """A program with its repetitions."""

    calls: list[Call] = field(default_factory=list)
    layer_loops: list[LayerLoop[Tensor]] = field(default_factory=list)
    renamed: dict[Tensor, Tensor] = field(default_factory=dict)  # where tensors of iterations are
    apart: set[Tensor] = field(default_factory=set)  # inputs and outputs of one iteration
    spans: list[tuple[int, int]] = field(default_factory=list)  # calls of each part


def fold_layers(
    parts: Sequence[Sequence[Call]],
    outputs: Iterable[Tensor] = (),
    fold: bool = True,
    short: bool = True,
    small: int = 0,
) -> Folded:
    """The calls of all parts, with every run of identical layers in a part written once.

    outputs: tensors that are read from outside when the part that makes them has ended.
    short: also a few layers of small launches. small: bytes of a carried tensor that may stay on chip
    for all iterations, at most.
    """
    return _Folder(parts, set(outputs), short, small).run(fold)


# --- proposals --------------------------------------------------------------------------


def _signature(call: Call) -> tuple:
    shapes = tuple((p, t.layout, t.kind == "weight") for p, t in call.tensors.items())
    return (
        call.kernel,
        repr(sorted(call.options.items(), key=str)),
        tuple(sorted((name, f.constant) for name, f in call.deferred.items())),
        shapes,
        len(call.observers()),
    )


def _is_short(calls: Sequence[Call], repetition: Repetition) -> bool:
    """Whether a repetition is a few layers, most of whose launches can share a schedule."""
    body = calls[repetition.at : repetition.at + repetition.period]
    small = sum(map(is_small, body))
    return repetition.period * (repetition.count - 1) <= WRITTEN_OUT and 2 * small > len(body)


def _with_ranges_alike(calls: Sequence[Call], repetition: Repetition) -> Repetition:
    """The repetition up to the first iteration whose ranges are far from those before: iterations share
    their scales, and what is much smaller than a scale is made for would be rounded to nothing."""
    iterations = repetition.iterations(calls)
    lowest, highest = dict[tuple[int, int], float](), dict[tuple[int, int], float]()
    for count, part in enumerate(iterations):
        for place, call in enumerate(part):
            for number, observer in enumerate(call.observers()):
                # With it come all that share its scale already: those of a loop before this one.
                seen = [one.amax for one in (observer, *observer.peers) if one.amax > 0]
                if seen:
                    key = place, number
                    lowest[key] = min(lowest.get(key, seen[0]), *seen)
                    highest[key] = max(highest.get(key, seen[0]), *seen)
        if any(highest[key] > APART * low for key, low in lowest.items()):
            return replace(repetition, count=count)
    return repetition


# --- legality ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Carry:
    """What call `maker` of an iteration leaves for the next iteration; the first one has `start`."""

    maker: int
    start: Tensor


@dataclass
class _Wiring:
    """How iterations hang together: for operands of the body, by (call, parameter), where they come
    from. Operands without an entry are the same tensor in all iterations, or made in the own iteration."""

    carries: dict[tuple[int, str], _Carry] = field(default_factory=dict)
    own: dict[tuple[int, str], tuple[Tensor, ...]] = field(default_factory=dict)
    outputs: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)  # own, by call
    steady: set[Tensor] = field(default_factory=set)  # from outside, the same in all iterations


@dataclass(frozen=True)
class _Around:
    """What is known of tensors outside a repetition.

    outputs: read from outside when the part has ended. later: read by calls behind it. touched:
    read or written by any other call.
    """

    outputs: set[Tensor]
    later: set[Tensor]
    touched: set[Tensor]

    @property
    def live(self) -> set[Tensor]:
        return self.outputs | self.later


def _wiring(calls: Sequence[Call], repetition: Repetition, around: _Around) -> _Wiring | None:
    """The wiring if the iterations are the same code on tensors of their own, else None."""
    iterations, live = repetition.iterations(calls), around.live
    if any(call.others for part in iterations for call in part):
        return None  # what iterations carry or leave is the only result of a call
    wiring = _operands(iterations)
    if wiring is None or not _inputs_are_own(iterations, wiring, around):
        return None
    starts: dict[int, Tensor] = {}
    for (reader, _), carry in wiring.carries.items():
        # The next iteration's input is overwritten when nothing of this iteration reads it any more.
        if reader >= carry.maker or starts.setdefault(carry.maker, carry.start) is not carry.start:
            return None
    for place, group in enumerate(zip(*iterations, strict=True)):
        made = tuple(call.output for call in group)
        needed = set(made[:-1] if place in starts else made) & live
        if not needed:
            continue
        # The loop keeps what it carries, and results that leave the model in every iteration.
        if place in starts or any(t not in around.outputs or t in around.later for t in made):
            return None
        wiring.outputs[place] = made
    for start in set(starts.values()):
        if not _may_be_overwritten(start, wiring, starts, live) and not can_be_copied(start.layout):
            return None
    return wiring


def _operands(iterations: Sequence[Sequence[Call]]) -> _Wiring | None:
    """Where each operand comes from, if that is the same in all iterations."""
    produced = [{call.output: place for place, call in enumerate(part)} for part in iterations]
    inside = {tensor for part in produced for tensor in part}
    wiring = _Wiring()
    for place, call in enumerate(iterations[0]):
        for parameter in call.operands:
            found = [part[place].operands[parameter] for part in iterations]
            first, others = found[0], found[1:]
            if first not in inside and all(other is first for other in others):
                wiring.steady.add(first)
            elif all(t.kind == "weight" for t in found) or _are_inputs(found, inside):
                wiring.own[place, parameter] = tuple(found)
            elif first in produced[0]:
                own = [part.get(tensor) for part, tensor in zip(produced, found, strict=True)]
                if own != [own[0]] * len(own):
                    return None
            else:
                makers = {part.get(t) for part, t in zip(produced, others, strict=False)}
                maker = makers.pop()
                if makers or maker is None or first in inside:
                    return None
                if iterations[0][maker].output.layout != first.layout:
                    return None
                wiring.carries[place, parameter] = _Carry(maker, first)
    return wiring


def _are_inputs(tensors: Sequence[Tensor], inside: set[Tensor]) -> bool:
    """Whether all are inputs that no iteration writes."""
    kinds = {tensor.kind for tensor in tensors}
    return kinds in ({"input"}, {"state"}) and not inside.intersection(tensors)


def _inputs_are_own(iterations: Sequence[Sequence[Call]], wiring: _Wiring, around: _Around) -> bool:
    """Whether inputs that differ between iterations are each read by one of them and nobody else."""
    place: dict[Tensor, tuple[Tensor, ...]] = {}
    for every in wiring.own.values():
        if every[0].kind not in ("input", "state"):
            continue
        for tensor in every:
            if tensor in around.touched or place.setdefault(tensor, every) != every:
                return False
        if len(set(every)) < len(iterations):
            return False
    return not place.keys() & (wiring.steady | {c.start for c in wiring.carries.values()})


def _may_be_overwritten(
    start: Tensor, wiring: _Wiring, starts: dict[int, Tensor], live: set[Tensor]
) -> bool:
    """Whether nobody needs the first content of a carried tensor once an iteration has ended."""
    return (
        start.kind in ("activation", "input")
        and start not in live
        and start not in wiring.steady
        and sum(other is start for other in starts.values()) == 1
    )


def can_be_copied(layout: Layout) -> bool:
    """Whether the copy kernel takes a tensor: plain tiles, of few dimensions."""
    plain = Layout(layout.shape, layout.dtype)
    return layout == plain and len(layout.shape) in COPY_RANKS


# --- rewriting --------------------------------------------------------------------------


class _Folder:
    """Folds part after part; tensors keep their names unless a loop needs one of its own."""

    def __init__(
        self, parts: Sequence[Sequence[Call]], outputs: set[Tensor], short: bool, small: int
    ) -> None:
        # The calls that come in stay as they are.
        self.parts = [[replace(c, options=dict(c.options)) for c in part] for part in parts]
        self.outputs, self.short, self.small = outputs, short, small
        self.result = Folded()
        self.names = {t.name for part in parts for call in part for t in call.tensors.values()}

    def run(self, fold: bool) -> Folded:
        for number, calls in enumerate(self.parts):
            start = len(self.result.calls)
            if fold:
                self._part(number, calls)
            else:
                self.result.calls += calls
            self.result.spans.append((start, len(self.result.calls)))
        return self.result

    def _part(self, number: int, calls: list[Call]) -> None:
        signatures = [_signature(call) for call in calls]
        at = 0
        while at < len(calls):
            found = self._longest(number, signatures, at)
            if found is None:
                self.result.calls.append(calls[at])
                at += 1
            else:
                self._fold(number, *found)
                at = found[0].end

    def _longest(
        self, number: int, signatures: list[tuple], at: int
    ) -> tuple[Repetition, _Wiring] | None:
        """The repetition from `at` on that covers most calls."""
        best: tuple[Repetition, _Wiring] | None = None
        for proposed in repetitions(signatures, at):
            repetition = _with_ranges_alike(self.parts[number], proposed)
            if repetition.count < 2 or (best is not None and repetition.end <= best[0].end):
                continue
            around = self._around(number, repetition)
            wiring = _wiring(self.parts[number], repetition, around)
            if wiring is not None:
                best = repetition, wiring
        if best is not None and not self.short and _is_short(self.parts[number], best[0]):
            return None
        return best

    def _around(self, number: int, repetition: Repetition) -> _Around:
        """What calls before and behind a repetition of a part do with tensors."""
        calls = self.parts[number]
        behind = [*calls[repetition.end :], *(c for p in self.parts[number + 1 :] for c in p)]
        before = [c for p in self.parts[:number] for c in p] + calls[: repetition.at]
        others = [*self.result.calls, *before, *behind]
        return _Around(
            self.outputs,
            {t for call in behind for t in call.operands.values()},
            {t for call in others for t in call.tensors.values()},
        )

    def _fold(self, number: int, repetition: Repetition, wiring: _Wiring) -> None:
        """Write the first iteration for all of them."""
        calls = self.parts[number]
        iterations = repetition.iterations(calls)
        around = self._around(number, repetition)
        variables = self._variables(iterations, wiring, around.live)
        own = self._own(wiring, around)
        first = len(self.result.calls)
        body: list[Call] = []
        inner = {call.output: variables.get(j, call.output) for j, call in enumerate(iterations[0])}
        for place, call in enumerate(iterations[0]):
            operands = {}
            for parameter, tensor in call.operands.items():
                if (place, parameter) in wiring.carries:
                    tensor = variables[wiring.carries[place, parameter].maker]
                elif (place, parameter) in wiring.own:
                    tensor = own[wiring.own[place, parameter]]
                operands[parameter] = inner.get(tensor, tensor)
            scale = call.output.scale
            body.append(replace(call, operands=operands, output=inner[call.output], scale=scale))
        self.result.calls += body
        self.result.layer_loops.append(
            LayerLoop(
                repetition.count,
                first,
                first + repetition.period,
                tuple(_layer(part) for part in iterations),
                {
                    **{tensor: list(every) for every, tensor in own.items()},
                    **{every[0]: list(every) for every in wiring.outputs.values()},
                },
            )
        )
        for group in zip(*iterations, strict=True):
            _share_numbers(group)
        made = [inner[call.output] for call in iterations[0]]
        renamed = {call.output: made[j] for part in iterations for j, call in enumerate(part)}
        for every in (*own, *wiring.outputs.values()):
            if every[0].kind in ("input", "state", "output"):
                renamed |= dict.fromkeys(every, every[0])
                self.result.apart |= {*every}
        self._rename(number, repetition.end, renamed)

    def _variables(
        self, iterations: Sequence[Sequence[Call]], wiring: _Wiring, live: set[Tensor]
    ) -> dict[int, Tensor]:
        """The tensor that each carried value is in, by the call that makes the next one."""
        starts = {carry.maker: carry.start for carry in wiring.carries.values()}
        variables: dict[int, Tensor] = {}
        for maker, start in starts.items():
            variable = start
            leaves = iterations[-1][maker].output in self.outputs
            if not _may_be_overwritten(start, wiring, starts, live) or (
                not leaves and self._may_stay(start)
            ):
                variable = self._copied(start)
            if leaves and variable.kind != "input":
                variable.kind = "output"
            variables[maker] = variable
        return variables

    def _may_stay(self, start: Tensor) -> bool:
        """Whether a copy of an input may stay on chip through all iterations: an input itself is in
        DRAM, where every iteration would read and write it."""
        small = start.layout.bytes <= self.small
        return start.kind == "input" and small and can_be_copied(start.layout)

    def _copied(self, start: Tensor) -> Tensor:
        """A copy of a tensor, made before the loop that is appended next."""
        copy = replace(start, name=self._unique(f"{start.name}.rounds"), kind="activation")
        copy.content = None
        options = {"rank": len(start.layout.shape), "dtype": start.layout.dtype}
        self.result.calls.append(
            Call(f"{start.name} for rounds", "copy", {"x": start}, copy, options)
        )
        return copy

    def _own(self, wiring: _Wiring, around: _Around) -> dict[tuple[Tensor, ...], Tensor]:
        """The tensor that stands for those of all iterations: that of the first iteration, unless somebody
        else reads that one."""
        taken = wiring.steady | around.touched
        result: dict[tuple[Tensor, ...], Tensor] = {}
        for every in wiring.own.values():
            if every in result:
                continue
            tensor = every[0]
            if tensor in taken:
                tensor = replace(tensor, name=self._unique(f"{tensor.name}.rounds"))
            taken.add(tensor)
            result[every] = tensor
        return result

    def _rename(self, number: int, end: int, renamed: dict[Tensor, Tensor]) -> None:
        """Let everything from call `end` of a part on read the loop's results where they are."""
        self.result.renamed |= renamed
        self.outputs = {renamed.get(tensor, tensor) for tensor in self.outputs}
        for part in (self.parts[number][end:], *self.parts[number + 1 :]):
            for call in part:
                call.operands = {p: renamed.get(t, t) for p, t in call.operands.items()}

    def _unique(self, name: str) -> str:
        while name in self.names:
            name += "'"
        self.names.add(name)
        return name


def _share_numbers(group: Sequence[Call]) -> None:
    """Rounds share the numbers in their code, so they share what these are made from."""
    for observers in zip(*(call.observers() for call in group), strict=True):
        share_range(observers)


def _layer(calls: Sequence[Call]) -> str:
    """The name of a layer: what the names of its calls start with."""
    return common_prefix(call.name for call in calls if call.kernel != "copy")
