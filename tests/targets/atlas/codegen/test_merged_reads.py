"""What a piece reads twice is read once, and every use still finds what was there at its time."""

from __future__ import annotations

import random

from tilewright.targets.atlas.codegen.merged_reads import with_merged_reads
from tilewright.targets.atlas.codegen.nest import (
    Affine,
    Carried,
    Compute,
    For,
    Read,
    Statement,
    Value,
    Variable,
    Write,
)

TILE = 1024


def body(t, *tiles):
    return tiles


def run(rows: list[Statement], tiles: dict[Value, str], memory: dict[tuple[int, int], str]) -> int:
    """Run statements on names instead of numbers; how many tiles were read."""
    reads = 0
    for s in rows:
        if isinstance(s, Read):
            reads += 1
            place = (s.changing, s.offset.constant)
            tiles[s.result] = memory.get(place, f"{place}")
        elif isinstance(s, Compute):
            tiles[s.results[0]] = f"({','.join(tiles[v] for v in s.inputs)})"
        elif isinstance(s, Write):
            memory[s.changing, s.offset.constant] = tiles[s.value]
        elif isinstance(s, For):
            held = {c.inside: tiles[c.initial] for c in s.carried}
            for _ in range(s.variable.trips):
                tiles.update(held)
                reads += run(s.body, tiles, memory)
                held = {c.inside: tiles[c.next] for c in s.carried}
            tiles.update({c.result: held[c.inside] for c in s.carried})
    return reads


def drawn(draw: random.Random, known: list[Value], depth: int = 0) -> list[Statement]:
    """Some statements; places of tensor 0 are never written, those of 1 and 2 are."""
    rows: list[Statement] = []
    for _ in range(draw.randint(3, 14)):
        kind = draw.random()
        tensor, place = draw.randint(0, 2), Affine(TILE * draw.randint(0, 2))
        if kind < 0.5 or not known:
            known.append(Value("fp8"))
            rows.append(Read(known[-1], place, TILE, f"line {kind}", changing=tensor))
        elif kind < 0.75:
            inputs = tuple(draw.choice(known) for _ in range(draw.randint(1, 3)))
            known.append(Value("fp8"))
            rows.append(Compute(body, inputs, (known[-1],)))
        elif kind < 0.9 or depth == 2:
            rows.append(Write(draw.choice(known), place, TILE, changing=tensor or 3))
        else:
            inside, result = Value("fp8"), Value("fp8")
            inner = [*known, inside]
            rest = drawn(draw, inner, depth + 1)
            carried = Carried(draw.choice(known), inside, draw.choice(inner), result)
            rows.append(For(Variable(draw.randint(1, 3)), rest, carried=(carried,)))
            known.append(result)
    return rows


def test_random_programs_write_the_same() -> None:
    draw, fewer = random.Random(7), 0
    for _ in range(400):
        rows = drawn(draw, [])
        before: dict[tuple[int, int], str] = {}
        after: dict[tuple[int, int], str] = {}
        reads = run(rows, {}, before)
        merged = run(with_merged_reads(rows), {}, after)
        assert before == after and merged <= reads
        fewer += merged < reads
    assert fewer > 200


def test_what_differs_in_anything_else_stays_apart() -> None:
    first = Read(Value("fp8"), Affine(0), TILE)
    others = [
        Read(Value("fp8"), Affine(0), 2 * TILE),
        Read(Value("fp8"), Affine(0), TILE, on_chip=True),
        Read(Value("fp8"), Affine(0), TILE, row=True),
        Read(Value("bf16"), Affine(0), TILE),
    ]
    rows: list[Statement] = [first, *others]
    assert len(with_merged_reads(rows)) == len(rows)
