"""Tiles end up in registers or in VMEM as there is room, and every use finds its tile."""

from __future__ import annotations

from tilewright.targets.atlas.codegen.nest import (
    Affine,
    Carried,
    Compute,
    For,
    Read,
    Reload,
    Spill,
    Statement,
    Value,
    Variable,
    Write,
    unrolled,
)
from tilewright.targets.atlas.codegen.spilling import lasting_slots, with_spills


def body(t, *tiles):
    return tiles


def read(place: int) -> Read:
    return Read(Value(), Affine(2048 * place), 2048)


def compute(*inputs: Value) -> Compute:
    return Compute(body, inputs, (Value(),))


def run(rows: list[Statement], registers: dict, slots: dict, written: list) -> None:
    """Run placed statements on names instead of numbers."""
    for s in rows:
        if isinstance(s, Read):
            registers[s.result] = f"dram{s.offset.constant // 2048}"
        elif isinstance(s, Reload):
            registers[s.result] = slots[s.slot]
        elif isinstance(s, Spill):
            slots[s.slot] = registers[s.value]
        elif isinstance(s, Compute):
            text = ",".join(registers[v] for v in s.inputs)
            registers[s.results[0]] = f"({text})"
        elif isinstance(s, Write):
            written.append(registers[s.value])
        else:
            for _ in range(s.variable.trips):
                run(s.body, {}, slots, written)


def outcome(rows: list[Statement], room: int = 36) -> list[str]:
    written: list[str] = []
    run(with_spills(rows, room), {}, {}, written)
    return written


def test_few_tiles_stay_in_registers() -> None:
    a, b = read(0), read(1)
    total = compute(a.result, b.result)
    rows: list[Statement] = [a, b, total, Write(total.results[0], Affine(), 2048)]
    placed = with_spills(rows)
    assert not any(isinstance(s, Spill | Reload) for s in placed)
    assert outcome(rows) == ["(dram0,dram1)"]


def test_what_is_needed_last_waits_in_vmem() -> None:
    """Ten computed tiles, used in order: with room for four, six of them wait."""
    reads = [read(k) for k in range(10)]
    made = [compute(r.result) for r in reads]
    writes = [Write(m.results[0], Affine(), 2048) for m in made]
    rows: list[Statement] = [*reads, *made, *writes]
    placed = with_spills(rows, room=8)
    assert sum(isinstance(s, Spill) for s in placed) == 6
    assert outcome(rows, room=8) == [f"(dram{k})" for k in range(10)]
    assert not lasting_slots(placed)


def test_computed_tiles_that_wait_long_leave_registers() -> None:
    """Ten tiles are made, then used in order after much else: a few may wait in registers."""
    reads = [read(k) for k in range(10)]
    made = [compute(r.result) for r in reads]
    between = [compute(reads[0].result) for _ in range(40)]
    writes = [Write(m.results[0], Affine(), 2048) for m in (*made, between[-1])]
    rows: list[Statement] = [*reads, *made, *between, *writes]
    for waiting, spilled in ((28, 0), (8, 6), (0, 10)):
        placed = with_spills(rows, waiting=waiting)
        assert sum(isinstance(s, Spill) for s in placed) == spilled
        written: list[str] = []
        run(placed, {}, {}, written)
        assert written == outcome(rows)


def test_tiles_from_dram_are_read_again() -> None:
    """Room is made by forgetting what memory has anyway."""
    first = read(0)
    others = [read(k) for k in range(1, 9)]
    made = [compute(r.result) for r in others]
    last = compute(first.result, *(m.results[0] for m in made[:2]))
    early = compute(first.result)
    rows: list[Statement] = [first, early, *others, *made, last]
    rows += [Write(v.results[0], Affine(), 2048) for v in (early, last)]
    placed = with_spills(rows, room=6)
    assert sum(isinstance(s, Read) and s.offset.constant == 0 for s in placed) == 2
    assert outcome(rows, room=6) == ["(dram0)", "(dram0,(dram1),(dram2))"]


def test_tiles_of_other_pieces_come_from_memory() -> None:
    """A loop fetches what was made before it, and what follows the loop does too."""
    source = read(0)
    made = compute(source.result)
    inside = compute(made.results[0], source.result)
    loop = For(Variable(2), [inside, Write(inside.results[0], Affine(), 2048)], False)
    rows: list[Statement] = [source, made, loop, Write(made.results[0], Affine(), 2048)]
    assert outcome(rows) == ["((dram0),dram0)"] * 2 + ["(dram0)"]
    assert len(lasting_slots(with_spills(rows))) == 1


def _carrying(trips: int, unroll: bool) -> list[Statement]:
    """x = read 0, y = read 1; three times: x, y = (y), (x, y); write x."""
    x, y = read(0), read(1)
    in_x, in_y, out_x, out_y = (Value() for _ in range(4))
    next_x, next_y = compute(in_y), compute(in_x, in_y)
    carried = (
        Carried(x.result, in_x, next_x.results[0], out_x),
        Carried(y.result, in_y, next_y.results[0], out_y),
    )
    loop = For(Variable(trips), [next_x, next_y], unroll, carried)
    return [x, y, loop, Write(out_x, Affine(), 2048), Write(out_y, Affine(), 2048)]


def test_carried_tiles() -> None:
    expected = {1: ["(dram1)", "(dram0,dram1)"], 2: ["((dram0,dram1))", "((dram1),(dram0,dram1))"]}
    for trips, wanted in expected.items():
        assert outcome(_carrying(trips, unroll=False)) == wanted
        written_out = unrolled(_carrying(trips, unroll=True))
        assert not any(isinstance(s, For) for s in written_out)
        assert outcome(written_out) == wanted


def test_carried_tiles_that_swap() -> None:
    """Values that change places are all fetched before any is stored."""
    x, y = read(0), read(1)
    in_x, in_y, out_x, out_y = (Value() for _ in range(4))
    carried = (Carried(x.result, in_x, in_y, out_x), Carried(y.result, in_y, in_x, out_y))
    loop = For(Variable(3), [], False, carried)
    rows: list[Statement] = [x, y, loop]
    rows += [Write(v, Affine(), 2048) for v in (out_x, out_y)]
    assert outcome(rows) == ["dram1", "dram0"]
