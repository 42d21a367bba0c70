"""Copies to VMEM beside the loop that follows them: which ones, and that nothing waits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.targets.atlas.codegen.copies_beside import Copy, set_aside, with_calm_reads
from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Affine,
    For,
    Read,
    Statement,
    Value,
    Variable,
    Write,
)

TILE = 1024


def copying(source: Affine, target: int, count: int = 6, step: int = TILE) -> For:
    """A loop that copies tiles: two in each iteration."""
    variable, body = Variable(count // 2), []
    for k in range(2):
        tile = Value("fp8")
        terms = ((variable, 2 * step),)
        read = Affine(source.constant + k * step, (*source.terms, *terms))
        body.append(Read(tile, read, TILE))
        body.append(
            Write(tile, Affine(target + k * TILE, ((variable, 2 * TILE),)), TILE, on_chip=True)
        )
    return For(variable, body)


def working(*accesses: Read | Write) -> For:
    return For(Variable(4), list(accesses))


ELSEWHERE = Read(Value("fp8"), Affine(1 << 20), TILE)


def test_copy_is_set_aside():
    rounds = Affine(4096, ((LAYER, 1),))
    copy, work = copying(rounds, 8192), working(ELSEWHERE)
    rest, beside = set_aside([copy, work])
    assert rest == [work]
    assert beside == {work.variable: [Copy(rounds, 8192, 6 * TILE)]}


@pytest.mark.parametrize(
    "touching",
    [
        Read(Value("fp8"), Affine(8192 + 5 * TILE), TILE, on_chip=True),
        Write(Value("fp8"), Affine(8192, ((Variable(2), 64),)), TILE, on_chip=True),
        Write(Value("fp8"), Affine(4096 + TILE), TILE),  # at its source
    ],
)
def test_copy_stays_before_a_loop_that_touches_it(touching):
    rows = [copying(Affine(4096), 8192), working(ELSEWHERE, touching)]
    assert set_aside(rows) == (rows, {})


def test_a_copy_for_later_is_not_made_first():
    """Beside a loop that will be written out nothing is copied over what is still needed."""
    before = working(Read(Value("fp8"), Affine(8192), TILE, on_chip=True, changing=3))
    copy, after = copying(Affine(4096), 8192), working(ELSEWHERE)
    after.unroll = True
    rows: list[Statement] = [before, copy, after]
    assert set_aside(rows) == (rows, {})
    after.unroll = False
    assert set_aside(rows) == (
        [before, after],
        {after.variable: [Copy(Affine(4096), 8192, 6 * TILE)]},
    )


def test_other_loops_stay():
    """Tiles in another order, of which only parts are moved, or with nothing behind them."""
    scattered, plain = copying(Affine(4096), 8192, step=2 * TILE), copying(Affine(4096), 8192)
    partial = For(plain.variable, [replace(plain.body[0], pieces=((0, 32),)), *plain.body[1:]])
    for rows in ([scattered, working(ELSEWHERE)], [partial, working(ELSEWHERE)], [plain]):
        assert set_aside(rows) == (rows, {})


def test_reads_of_what_nothing_writes_are_calm():
    read = Read(Value("fp8"), Affine(8192), TILE, on_chip=True, changing=3)
    assert with_calm_reads([read]) == [replace(read, changing=0)]
    write = Write(Value("fp8"), Affine(8192 + TILE // 2), TILE, on_chip=True, changing=3)
    assert with_calm_reads([write, read]) == [write, read]
