"""Mistakes of the compiler's middle, made on purpose: each kind breaks one data structure.

A kind is a function that changes what a stage of the compiler hands to the next, and says what it
did; it says None where there is nothing to break. Stages: `fold` (calls and layer loops), `lives` (live
ranges), `places` (addresses), `model` (the assembled model, its code included).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np

from hand_made import AtlasModel
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.isa import BY_MNEMONIC
from tilewright.targets.atlas.model import buffer_assignment, compiler, fitting, layer_loops
from tilewright.targets.atlas.model.buffer_assignment import PAGE, BufferAssignment
from tilewright.targets.atlas.model.calls import Call, Factor, Tensor
from tilewright.targets.atlas.model.host import Parts
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.targets.atlas.model.layer_loops import Folded
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction

Chosen = str | None


@dataclass(frozen=True)
class Kind:
    """A way to break the compiler."""

    name: str
    stage: str
    apply: Callable[..., Any]  # what it broke; for rules, functions in place of others


KINDS: list[Kind] = []


def kind(stage: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        KINDS.append(Kind(function.__name__.replace("_", " "), stage, function))
        return function

    return note


def _pick(choose: random.Random, found: list[Any]) -> Any:
    return choose.choice(found) if found else None


# --- layers and calls ---------------------------------------------------------------------


@kind("rule")
def a_fold_that_should_not_be(choose: random.Random) -> dict[str, Any]:
    """Carried tensors are overwritten whoever reads them later."""
    return {"_may_be_overwritten": lambda *_: True}


@kind("rule")
def readers_behind_the_loop_not_asked_for(choose: random.Random) -> dict[str, Any]:
    """A loop keeps only its last results, whoever reads others."""
    known = layer_loops._wiring

    def asks_nobody(calls: Any, repetition: Any, around: Any) -> Any:
        return known(calls, repetition, replace(around, outputs=set(), later=set()))

    return {"_wiring": asks_nobody}


@kind("rule")
def inputs_of_iterations_that_others_read(choose: random.Random) -> dict[str, Any]:
    """Inputs move beside the weights of an iteration, whoever else reads them."""
    return {"_inputs_are_own": lambda *_: True}


@kind("fold")
def a_port_of_another_iteration(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    own = [every for loop in folded.layer_loops for every in loop.own.values()]
    every = _pick(choose, [ts for ts in own if folded.apart.issuperset(ts)])
    if every is None:
        return None
    a, b = choose.sample(range(len(every)), 2)
    every[a], every[b] = every[b], every[a]
    return f"{every[a].name} and {every[b].name}"


@kind("fold")
def weights_of_another_iteration(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    every = [w for repeat in folded.layer_loops for w in repeat.own.values()]
    weights = _pick(choose, [tensors for tensors in every if tensors[0].content is not None])
    if weights is None:
        return None
    a, b = choose.sample(range(len(weights)), 2)
    weights[a], weights[b] = weights[b], weights[a]
    return f"iterations {a} and {b} of {weights[a].name}"


@kind("fold")
def a_number_in_the_code_halved(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    call = _pick(choose, [call for call in folded.calls if call.deferred])
    if call is None:
        return None
    name = choose.choice(sorted(call.deferred))
    call.deferred = {**call.deferred, name: call.deferred[name] * Factor(0.5)}
    return f"{name} of {call.name}"


def _replace_operand(folded: Folded, call: Call, parameter: str, new: Tensor) -> None:
    old = call.operands[parameter]
    call.operands = {**call.operands, parameter: new}
    for repeat in folded.layer_loops:
        if old in repeat.own and call in folded.calls[repeat.first : repeat.end]:
            every = repeat.own.pop(old)
            repeat.own[new] = [new, *every[1:]]


@kind("fold")
def a_scale_halved(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    found = [(c, p) for c in folded.calls for p in c.operands if p.startswith("scale")]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    call, parameter = chosen
    content = call.operands[parameter].content
    assert content is not None
    new = replace(
        call.operands[parameter], content=replace(content, factor=content.factor * Factor(0.5))
    )
    _replace_operand(folded, call, parameter, new)
    return f"{parameter} of {call.name}"


@kind("fold")
def another_operand(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    """A call reads another tensor of the same form that is there already."""
    found = []
    for index, call in enumerate(folded.calls):
        before = {t for c in folded.calls[:index] for t in c.tensors.values()}
        turning = {t for repeat in folded.layer_loops for t in repeat.own}
        for parameter, tensor in call.operands.items():
            for other in sorted(before - {tensor} - turning, key=lambda t: t.name):
                same = other.layout == tensor.layout and tensor not in turning
                if same and (other.content is None) == (tensor.content is None):
                    found.append((call, parameter, other))
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    call, parameter, other = chosen
    call.operands = {**call.operands, parameter: other}
    return f"{parameter} of {call.name} is {other.name}"


@kind("fold")
def an_iteration_left_out(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    repeat = _pick(choose, folded.layer_loops)
    if repeat is None:
        return None
    repeat.count -= 1
    repeat.names = repeat.names[:-1]
    repeat.own = {t: every[:-1] for t, every in repeat.own.items()}
    return f"the last of {repeat.count + 1} iterations"


@kind("fold")
def a_result_taken_for_another(choose: random.Random, folded: Folded, parts: Parts) -> Chosen:
    """Later readers, and ports, find a result of a loop in another tensor."""
    tensors = {t for call in folded.calls for t in call.tensors.values() if t.content is None}
    outputs = list(parts.lowered.outputs.values())
    found = [
        (out, other)
        for out in outputs
        for other in sorted(tensors, key=lambda t: t.name)
        if other is not folded.renamed.get(out, out) and other.layout == out.layout
    ]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    out, other = chosen
    parts.renamed = {**parts.renamed, out: other}
    return f"{out.name} is in {other.name}"


# --- live ranges and places ---------------------------------------------------------------


def _some(choose: random.Random, lives: dict[StoredTensor, Any]) -> list[StoredTensor]:
    """A part of the tensors that live through more than one call."""
    found = [t for t, life in lives.items() if life.last > life.first and t.content is None]
    return choose.sample(found, choose.randint(1, len(found))) if found else []


@kind("lives")
def a_live_range_cut_short(choose: random.Random, lives: dict[StoredTensor, Any]) -> Chosen:
    chosen = _some(choose, lives)
    for tensor in chosen:
        life = lives[tensor]
        life.last = choose.randrange(life.first, life.last)
        tensor.kind = "activation" if tensor.kind == "output" else tensor.kind
    return ", ".join(f"{t.name} ends at {lives[t].last}" for t in chosen) or None


@kind("lives")
def a_live_range_begins_late(choose: random.Random, lives: dict[StoredTensor, Any]) -> Chosen:
    chosen = _some(choose, lives)
    for tensor in chosen:
        life = lives[tensor]
        life.first = choose.randrange(life.first + 1, life.last + 1)
    return ", ".join(f"{t.name} begins at {lives[t].first}" for t in chosen) or None


@kind("places")
def a_slot_reused_early(
    choose: random.Random, places: BufferAssignment, calls: list[Launch]
) -> Chosen:
    found = []
    for table in (places.vmem, places.dram):
        tensors = [t for t in table if t.content is None]
        for a in tensors:
            for b in tensors:
                one, other = places.lives[a], places.lives[b]
                if a is not b and one.first <= other.last and other.first <= one.last:
                    found.append((table, a, b))
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    table, a, b = chosen
    table[a] = table[b]
    return f"{a.name} lies over {b.name}"


@kind("places")
def a_stay_cut_short(
    choose: random.Random, places: BufferAssignment, calls: list[Launch]
) -> Chosen:
    found = [s for s in places.stays.values() if s.until > s.first + 1]
    stay = _pick(choose, found)
    if stay is None:
        return None
    until = choose.randrange(stay.first + 1, stay.until)
    places.stays[stay.tensor] = replace(stay, until=until)
    places.dram.setdefault(stay.tensor, places.dram_end)
    return f"{stay.tensor.name} stays until {until}"


@kind("places")
def a_work_area_over_a_tensor(
    choose: random.Random, places: BufferAssignment, calls: list[Launch]
) -> Chosen:
    found = []
    for index, area in enumerate(places.areas):
        for tensor, stay in places.stays.items():
            if stay.first <= index <= stay.until:
                found.append((index, area, places.vmem[tensor], tensor))
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    index, area, address, tensor = chosen
    end = address + tensor.layout.bytes
    places.areas[index] = Area(address, max(end, address + area.end - area.start))
    return f"{calls[index].name} works over {tensor.name}"


@kind("places")
def a_stride_of_iterations_wrong(
    choose: random.Random, places: BufferAssignment, calls: list[Launch]
) -> Chosen:
    number = _pick(choose, list(places.stride))
    if number is None:
        return None
    places.stride[number] += choose.choice([-PAGE, PAGE, 32, 1024])
    return f"of loop {number}"


@kind("places")
def a_tensor_moved_aside(
    choose: random.Random, places: BufferAssignment, calls: list[Launch]
) -> Chosen:
    table = choose.choice([places.dram, places.vmem])
    tensor = _pick(choose, [t for t in table if t.content is None])
    if tensor is None:
        return None
    table[tensor] += choose.choice([1024, PAGE, -1024]) if table[tensor] >= PAGE else PAGE
    return tensor.name


# --- code and tables ----------------------------------------------------------------------


def _change(model: AtlasModel, place: tuple[int, int], new: Instruction) -> None:
    """Put an instruction in the place (segment, index) of another."""
    segment, index = place
    program = model.artifact.segments[segment]
    rows = list(program)
    rows[index] = new
    other = type(program).from_instructions(rows, program.source)
    other.lines, other.data, other.labels = program.lines, program.data, program.labels
    model.artifact.segments[segment] = other


def _instructions(model: AtlasModel, names: tuple[str, ...]) -> list[tuple[int, int]]:
    wanted = [BY_MNEMONIC[name].index for name in names]
    return [
        (number, int(index))
        for number, program in enumerate(model.artifact.segments)
        for index in np.flatnonzero(np.isin(program.opcodes, wanted))
    ]


def _idle() -> Instruction:
    return Instruction.of("delay", 0)


@kind("model")
def a_pointer_step_left_out(choose: random.Random, model: AtlasModel) -> Chosen:
    found = [
        (s, k)
        for s, k in _instructions(model, ("addi", "add", "sub"))
        if model.artifact.segments[s][k].operands[0] == model.artifact.segments[s][k].operands[1]
    ]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    text = str(model.artifact.segments[chosen[0]][chosen[1]])
    _change(model, chosen, _idle())
    return f"{text} at {chosen}"


@kind("model")
def an_address_off_by_one_row(choose: random.Random, model: AtlasModel) -> Chosen:
    found = [
        (s, k)
        for s, k in _instructions(model, ("addi",))
        if model.artifact.segments[s][k].operands[0]
        and model.artifact.segments[s][k].operands[2] % 32 == 0
    ]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    old = model.artifact.segments[chosen[0]][chosen[1]]
    target, first, number = old.operands
    _change(model, chosen, Instruction(old.opcode, (target, first, number + 32)))
    return f"{old} at {chosen}"


@kind("model")
def a_wait_left_out(choose: random.Random, model: AtlasModel) -> Chosen:
    chosen = _pick(choose, _instructions(model, ("dma.wait",)))
    if chosen is None:
        return None
    _change(model, chosen, _idle())
    return f"at {chosen}"


@kind("model")
def a_delay_cut_short(choose: random.Random, model: AtlasModel) -> Chosen:
    found = [
        (s, k)
        for s, k in _instructions(model, ("delay",))
        if model.artifact.segments[s][k].operands[0] > 1
    ]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    ticks = model.artifact.segments[chosen[0]][chosen[1]].operands[0]
    _change(model, chosen, Instruction.of("delay", ticks // 2))
    return f"{ticks} at {chosen}"


@kind("model")
def a_tensor_register_mistaken(choose: random.Random, model: AtlasModel) -> Chosen:
    found = [
        (s, k, place)
        for s, k in _instructions(model, tuple(BY_MNEMONIC))
        for place, operand in enumerate(model.artifact.segments[s][k].opcode.operands)
        if operand.kind.value == "m"
    ]
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    segment, index, place = chosen
    old = model.artifact.segments[segment][index]
    operands = list(old.operands)
    operands[place] = (operands[place] + choose.choice([2, 4, 8])) % 64
    _change(model, (segment, index), Instruction(old.opcode, tuple(operands)))
    return f"{old} at {segment, index}"


@kind("model")
def a_weight_bit_flipped(choose: random.Random, model: AtlasModel) -> Chosen:
    name = _pick(choose, sorted(model.artifact.weights))
    if name is None:
        return None
    raw = model.artifact.weights[name].copy()
    raw[choose.randrange(raw.size)] ^= 1 << choose.randrange(8)
    model.artifact.weights[name] = raw
    return name


@kind("model")
def an_output_port_on_another_region(choose: random.Random, model: AtlasModel) -> Chosen:
    found = []
    for name in model.outputs:
        port = model.ports[name]
        for region in model.artifact.regions.values():
            if port.tensor is None or region.name == port.tensor or region.count > 1:
                continue
            if region.layout == model.artifact.regions[port.tensor].layout:
                found.append((name, region.name))
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    name, region = chosen
    entries = model.artifact.entries
    for key, entry in entries.items():
        outputs = (
            region if place == model.ports[name].tensor else place for place in entry.outputs
        )
        entries[key] = replace(entry, outputs=tuple(outputs))
    model.ports[name] = replace(model.ports[name], tensor=region)
    return f"{name} in {region}"


# --- compiling with a mistake -------------------------------------------------------------


@dataclass
class Mistake:
    """What was broken, once it was.

    refused: what a check inside the compiler said that was asked and not obeyed.
    """

    text: str | None = None
    refused: list[str] = field(default_factory=list)


@contextmanager
def broken(kind: Kind, seed: int) -> Iterator[Mistake]:
    """The compiler with one mistake in it; those of the model are `break_model`'s."""
    mistake = Mistake()

    def note(text: Chosen) -> None:
        mistake.text = text if text is not None else mistake.text

    with ExitStack() as stack:
        if kind.stage == "rule":
            for name, function in kind.apply(random.Random(seed)).items():
                stack.enter_context(mock.patch.object(layer_loops, name, function))
            note(kind.name)
        elif kind.stage == "fold":
            fold = Parts.fold

            def folding(parts: Parts, wanted: bool, short: bool, small: int) -> Folded:
                folded = fold(parts, wanted, short, small)
                note(kind.apply(random.Random(seed), folded, parts))
                return folded

            stack.enter_context(mock.patch.object(Parts, "fold", folding))
        elif kind.stage == "lives":
            live_ranges = buffer_assignment.live_ranges

            def living(calls: Any, layer_loops: Any) -> Any:
                lives = live_ranges(calls, layer_loops)
                note(kind.apply(random.Random(seed), lives))
                return lives

            stack.enter_context(mock.patch.object(buffer_assignment, "live_ranges", living))
        elif kind.stage == "places":
            place = buffer_assignment.place

            def placing(calls: Any, *rest: Any) -> BufferAssignment:
                places = place(calls, *rest)
                note(kind.apply(random.Random(seed), places, calls))
                return places

            stack.enter_context(mock.patch.object(fitting, "place", placing))
        elif kind.stage == "loop":
            kind.apply(random.Random(seed), stack, mistake)
        yield mistake


@dataclass(frozen=True)
class Broken:
    """A model compiled with a mistake, and what the compiler's own checks said of it."""

    model: AtlasModel
    refused: tuple[str, ...] = ()


OPTIONS = CompileOptions(host=("hosted",), layer_loops=True)


def compiled(model: Imported) -> AtlasModel:
    """The model as it should be."""
    return compiler.compile_model(model, load_profile("atlas-v1"), OPTIONS)


def mistaken(model: Imported, kind: Kind, seed: int) -> Broken | None:
    """The model, compiled with a mistake; None where there was nothing to break."""
    # What the compiler would refuse is looked at all the same.
    with broken(kind, seed) as mistake, mock.patch.object(compiler, "require"):
        result = compiled(model)
    return Broken(result, tuple(mistake.refused)) if mistake.text is not None else None


def changed(right: AtlasModel, kind: Kind, seed: int) -> Broken | None:
    """A copy of a compiled model with a mistake of the stage "model"."""
    made = right.artifact
    copy = replace(
        right,
        artifact=replace(
            made,
            segments=list(made.segments),
            regions=dict(made.regions),
            steps=list(made.steps),
            entries=dict(made.entries),
            weights=dict(made.weights),
        ),
        ports=dict(right.ports),
        parts=list(right.parts),
        host_weights=dict(right.host_weights),
    )
    return Broken(copy) if kind.apply(random.Random(seed), copy) is not None else None
