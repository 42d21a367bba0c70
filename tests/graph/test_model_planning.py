"""Live ranges, residency, layer folding and linking on programs small enough to work out by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.model import residency
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment, live_ranges, place
from tilewright.targets.atlas.model.calls import Call, Tensor
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.kernel_code import KernelCode
from tilewright.targets.atlas.model.launches import Launch, LayerLoop, StoredTensor
from tilewright.targets.atlas.model.layer_loops import Folded, fold_layers
from tilewright.targets.atlas.model.link import Linked, link
from tilewright.targets.atlas.model.residency import (
    Candidate,
    Demands,
    base_room,
    choose,
    staged_bytes,
)
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.tile.layouts import Layout

V1 = load_profile("atlas-v1")
KIB = 1024


def tensor(name: str, kind: str = "activation", rows: int = 32) -> StoredTensor:
    """A tensor of 2 KiB for every 32 rows."""
    return StoredTensor(name, Layout((rows, 32), "bf16"), kind)  # type: ignore[arg-type]


def pointwise(x: StoredTensor, out: StoredTensor, name: str = "") -> Launch:
    return Launch(name or out.name, "pointwise", {"x": x}, out)


def chain(*tensors: StoredTensor) -> list[Launch]:
    return [pointwise(a, b) for a, b in pairwise(tensors)]


# --- live ranges ------------------------------------------------------------------------------


def test_live_from_the_write_to_the_last_read() -> None:
    x, a, b, y = tensor("x", "input"), tensor("a"), tensor("b"), tensor("y", "output")
    calls = [pointwise(x, a), pointwise(a, b), Launch("y", "pointwise", {"x": b, "z": a}, y)]
    found = {t.name: (r.first, r.last, r.reads) for t, r in live_ranges(calls, []).items()}
    assert found == {"x": (0, 0, 1), "a": (0, 2, 2), "b": (1, 2, 1), "y": (2, 2, 0)}


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    x, a, y = tensor("x", "input"), tensor("a"), tensor("y", "output")
    late = tensor("late", "input")
    calls = [pointwise(x, y), pointwise(x, a), pointwise(late, a)]
    found = live_ranges(calls, [])
    assert (found[late].first, found[y].last) == (0, 2)


def test_what_crosses_a_layer_loop_lives_through_all_of_it() -> None:
    x, h, a, b = tensor("x", "input"), tensor("h"), tensor("a"), tensor("b")
    # h is carried: each iteration reads it first and writes it last; a is made and used inside.
    calls = [pointwise(x, h), pointwise(h, a), pointwise(a, b), pointwise(b, h)]
    inside = live_ranges(calls, [LayerLoop(4, 1, 4)])
    assert (inside[h].first, inside[h].last) == (0, 3)
    assert (inside[a].first, inside[a].last) == (1, 2)
    without = live_ranges(calls[1:], [])
    assert (without[b].first, without[b].last) == (1, 2)


# --- residency --------------------------------------------------------------------------------


def across(*kept: StoredTensor) -> tuple[list[Launch], dict[StoredTensor, Candidate]]:
    """Tensors that are made by the first call and read by the last; one call lies between."""
    x, a, b, y = tensor("x", "input"), tensor("a"), tensor("b"), tensor("y", "output")
    operands = {f"x{k}": t for k, t in enumerate(kept)}
    calls = [pointwise(x, a), pointwise(a, b), Launch("use", "pointwise", operands, y)]
    return calls, {t: Candidate(0, ((2, 2),)) for t in kept}


def test_the_tensor_that_saves_most_stays() -> None:
    small, large = tensor("small", rows=32), tensor("large", rows=64)  # 2 and 4 KiB
    calls, candidates = across(small, large)
    between = base_room(calls[1], V1) + sum(
        staged_bytes(calls[1], p, t) for p, t in calls[1].tensors.items()
    )

    def kept(spare: int) -> set[StoredTensor]:
        # Only the call between decides: the others have the room of what they would stage.
        demands = Demands(more={1: V1.vmem_bytes - between - spare})
        return {s.tensor for s in choose(calls, candidates, V1.vmem_bytes, demands, V1)}

    assert kept(6 * KIB) == {small, large}
    assert kept(5 * KIB) == {large}
    assert kept(3 * KIB) == {small}
    assert kept(1 * KIB) == set()


def test_a_stay_covers_its_readers() -> None:
    kept = tensor("kept")
    calls, candidates = across(kept)
    (stay,) = choose(calls, candidates, V1.vmem_bytes, Demands(), V1)
    assert (stay.first, stay.until, stay.whole) == (0, 2, True)
    assert not choose(calls, candidates, V1.vmem_bytes, Demands(alone={1}), V1)


def test_where_everything_has_room_nobody_asks_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest stays are what the solver would find, or the solver is asked."""
    random, asked = np.random.default_rng(3), 0
    for _ in range(24):
        kept = [tensor(f"t{k}", rows=32 * int(random.integers(1, 5))) for k in range(4)]
        calls, candidates = across(*kept)
        candidates = {
            t: Candidate(0, ((1, 1), (2, int(random.integers(1, 16))))[random.integers(0, 2) :])
            for t in kept
        }
        staged = sum(staged_bytes(calls[1], p, t) for p, t in calls[1].tensors.items())
        spare = base_room(calls[1], V1) + staged + int(random.integers(0, 40)) * KIB
        alone = {2} if random.random() < 0.2 else set[int]()
        demands = Demands(more={1: V1.vmem_bytes - spare}, alone=alone)
        given = (calls, candidates, V1.vmem_bytes, demands, V1)
        choice = residency._Choice.of(*given)
        found, best = choice.everything(), choice.best()
        assert found is None or found == best
        asked += found is None
    assert 3 < asked < 21
    monkeypatch.setattr(residency._Choice, "best", lambda self: pytest.fail("asked"))
    calls, candidates = across(tensor("kept"))
    assert len(choose(calls, candidates, V1.vmem_bytes, Demands(), V1)) == 1


def test_what_iterations_leave_to_each_other_stays_through_the_loop() -> None:
    x, h, a, b = tensor("x", "input"), tensor("h"), tensor("a"), tensor("b")
    table, y = tensor("table"), tensor("y", "output")
    both = Launch("a", "pointwise", {"x": h, "t": table}, a)
    calls = [pointwise(x, table), pointwise(x, h), both, pointwise(a, b), pointwise(b, h)]
    calls.append(pointwise(h, y))
    places = place(calls, [LayerLoop(4, 2, 5)], V1)
    stays = {t.name: (s.first, s.until, s.whole) for t, s in places.stays.items()}
    # The table is read in every iteration, so nothing may take its place behind its only reader.
    assert stays == {"table": (0, 4, True), "h": (1, 5, True), "a": (2, 3, True), "b": (3, 4, True)}
    used = [(places.vmem[t], places.vmem[t] + t.layout.bytes) for t in (table, h)]
    for other in (a, b):
        start = places.vmem[other]
        assert all(start >= end or start + other.layout.bytes <= low for low, end in used)


def test_what_a_call_of_the_loop_changes_in_place_does_not_stay() -> None:
    x, h, y = tensor("x", "input"), tensor("h"), tensor("y", "output")
    calls = [pointwise(x, h), pointwise(h, h), pointwise(h, y)]
    assert not place(calls, [LayerLoop(4, 1, 2)], V1).stays


def test_tensors_that_live_together_have_places_apart() -> None:
    x, y = tensor("x", "input"), tensor("y", "output")
    between = [tensor(f"t{k}") for k in range(4)]
    calls = chain(x, *between, y)
    places = place(calls, [], V1)
    spans = [
        (places.vmem[t], places.vmem[t] + t.layout.bytes, places.stays[t]) for t in places.vmem
    ]
    for k, (low, high, stay) in enumerate(spans):
        for other_low, other_high, other in spans[:k]:
            if stay.first <= other.until and other.first <= stay.until:
                assert high <= other_low or other_high <= low
    for call, area in enumerate(places.areas):
        for low, high, stay in spans:
            if stay.first <= call <= stay.until:
                assert high <= area.start or area.end <= low


def stored(folded: Folded) -> tuple[list[Launch], list[LayerLoop[StoredTensor]]]:
    """Folded calls as launches."""
    made: dict[Tensor, StoredTensor] = {}

    def of(one: Tensor) -> StoredTensor:
        return made.setdefault(one, StoredTensor(one.name, one.layout, one.kind))

    launches = [
        Launch(c.name, c.kernel, {p: of(t) for p, t in c.operands.items()}, of(c.output))
        for c in folded.calls
    ]
    loops = [
        LayerLoop(
            loop.count, loop.first, loop.end, loop.names,
            {of(t): [of(one) for one in every] for t, every in loop.own.items()},
        )
        for loop in folded.layer_loops
    ]  # fmt: skip
    return launches, loops


def test_a_model_too_large_for_dram_says_what_would_fit() -> None:
    calls, last = layers(8)
    last.kind = "output"
    launches, (loop,) = stored(fold_layers([calls], [last]))
    # A page per iteration of weights, and one per activation.
    room = replace(V1, dram_bytes=6 * 4096)
    with pytest.raises(TilewrightError, match="too many") as caught:
        place(launches, [loop], room, fuse=False)
    found = re.search(r"would fit with (\d+) of the 8 iterations", str(caught.value))
    assert found is not None
    fitting = replace(loop, count=int(found[1]))
    assert place(launches, [fitting], room, fuse=False).dram_end <= room.dram_bytes
    with pytest.raises(TilewrightError):
        more = replace(loop, count=fitting.count + 1)
        place(launches, [more], room, fuse=False)


# --- layer folding ----------------------------------------------------------------------------


def value(name: str, kind: str = "activation") -> Tensor:
    return Tensor(name, Layout((32, 32), "bf16"), kind)  # type: ignore[arg-type]


def layers(count: int) -> tuple[list[Call], Tensor]:
    """Layers of a product and what follows it, with weights of their own; the last result."""
    at = value("x", "input")
    calls = []
    for k in range(count):
        weight, inside, out = value(f"w{k}", "weight"), value(f"p{k}"), value(f"h{k}")
        calls.append(Call(f"layer{k}.product", "linear", {"a": at, "w": weight}, inside))
        calls.append(Call(f"layer{k}.relu", "pointwise", {"x": inside}, out))
        at = out
    return calls, at


def test_identical_layers_become_one_with_stacked_weights() -> None:
    calls, last = layers(3)
    weights = [call.operands["w"] for call in calls[::2]]
    folded = fold_layers([calls], [last])
    (loop,) = folded.layer_loops
    assert loop.count == 3 and loop.end - loop.first == 2
    (stacked,) = loop.own.values()
    assert [t.name for t in stacked] == [w.name for w in weights]
    product, follows = folded.calls[loop.first : loop.end]
    assert product.operands["a"] is follows.output  # what an iteration leaves to the next
    assert follows.operands["x"] is product.output


def test_layers_that_differ_stay_apart() -> None:
    calls, last = layers(3)
    calls[3].options["activation"] = "gelu"
    assert not fold_layers([calls], [last]).layer_loops
    calls, last = layers(3)
    assert not fold_layers([calls], [last], fold=False).layer_loops


def test_a_result_that_is_read_later_is_no_variable_of_the_loop() -> None:
    calls, last = layers(3)
    kept = calls[1].output
    calls.append(Call("sum", "pointwise", {"x": last, "z": kept}, value("y", "output")))
    folded = fold_layers([calls], [calls[-1].output])
    # The first layer's result has to survive, so it is not part of a loop that overwrites it.
    assert all(loop.count < 3 for loop in folded.layer_loops)


def with_ports(count: int) -> tuple[list[Call], list[Tensor]]:
    """Layers that read an input of their own and have a result that leaves the model."""
    at, calls, outputs = value("x", "input"), [], []
    for k in range(count):
        given, kept, out = value(f"i{k}", "input"), value(f"k{k}", "output"), value(f"h{k}")
        calls.append(Call(f"layer{k}.keep", "pointwise", {"x": at, "z": given}, kept))
        calls.append(Call(f"layer{k}.next", "linear", {"a": kept}, out))
        outputs.append(kept)
        at = out
    return calls, [*outputs, at]


def test_inputs_and_outputs_of_layers_are_those_of_iterations() -> None:
    calls, outputs = with_ports(3)
    folded = fold_layers([calls], outputs)
    (loop,) = folded.layer_loops
    assert loop.count == 3
    assert {t.name: [o.name for o in every] for t, every in loop.own.items()} == {
        "i0": ["i0", "i1", "i2"],
        "k0": ["k0", "k1", "k2"],
    }
    assert {t.name for t in folded.apart} == {"i0", "i1", "i2", "k0", "k1", "k2"}


@pytest.mark.parametrize("reader", ["i1", "k1"])
def test_what_somebody_else_reads_does_not_belong_to_an_iteration(reader: str) -> None:
    calls, outputs = with_ports(3)
    read = next(t for call in calls for t in call.tensors.values() if t.name == reader)
    calls.append(Call("more", "pointwise", {"x": read}, value("more", "output")))
    assert not fold_layers([calls], [*outputs, calls[-1].output]).apart


# --- linking ----------------------------------------------------------------------------------


def code(length: int) -> KernelCode:
    rows = [Instruction.of("addi", 1, 0, k % 100) for k in range(length)]
    return KernelCode(Program.from_instructions(rows), "", [], 0)


def linked(made: list[KernelCode], loops: list[LayerLoop], limit: int) -> Linked:
    calls = [pointwise(tensor("a"), tensor("b"), f"call{k}") for k in range(len(made))]
    into = Linked()
    places = BufferAssignment(stride=dict.fromkeys(range(len(loops)), 4096))
    link(calls, made, loops, places, V1, 0, len(made), into, limit)
    return into


def test_calls_follow_each_other_in_one_segment() -> None:
    made = [code(10), code(20)]
    into = linked(made, [], 32768)
    assert into.order == [0] and len(into.segments) == 1
    (first, second) = into.spans
    assert first[:2] == (0, 0) and second[1] == first[2]
    assert into.spans[1][2] == len(into.segments[0])
    have = into.segments[0]
    start = second[1]
    assert [have[start + k].operands for k in range(20)] == [
        row.operands for row in made[1].program
    ]


def test_a_segment_ends_where_instruction_memory_does() -> None:
    made = [code(10), code(20), code(5)]
    settled = [n[2] - n[1] for n in linked(made, [], 32768).spans]
    into = linked(made, [], settled[0] + settled[1])
    assert into.order == [0, 1]
    assert [segment for segment, _, _ in into.spans] == [0, 0, 1]
    assert all(len(s) <= settled[0] + settled[1] for s in into.segments)


def test_a_layer_loop_is_a_loop_or_segments_in_turn() -> None:
    made = [code(10), code(20)]
    loop = LayerLoop(3, 0, 2, own={tensor("w", "weight"): []})
    inside = linked(made, [loop], 32768)
    assert inside.order == [0]
    assert any(row.opcode.is_transfer for row in inside.segments[0])
    settled = [end - start for _, start, end in inside.spans]
    apart = linked(made, [loop], max(settled))
    body = apart.order[1:]
    assert body[: len(body) // 3] * 3 == body  # the order of segments counts the iterations


def test_a_call_longer_than_instruction_memory_is_named() -> None:
    with pytest.raises(TilewrightError, match="call1 takes"):
        linked([code(1), code(500)], [], 300)


def test_tables_of_kernels_that_do_not_fit_dram_are_the_models_matter():
    """Tensors take 32 KiB; what the kernel keeps beside them needs one page more."""
    net = ModelBuilder("tables")
    net.output("y", net.softmax(net.input("x", (3, 40, 50))))
    model, profile = net.build(), load_profile("atlas-v1")
    for pages, sentence in ((7, "4,096 too many"), (8, "softmax needs tables or room of its own")):
        with pytest.raises(TilewrightError) as error:
            compile_model(model, replace(profile, dram_bytes=pages * 4096))
        assert error.value.code == "TW1705" and sentence in error.value.message
        assert error.value.location is None
    assert compile_model(model, replace(profile, dram_bytes=9 * 4096)).artifact.steps
