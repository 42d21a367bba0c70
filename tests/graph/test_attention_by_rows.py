"""Masked attention whose heads follow each other for every block of queries."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.targets.atlas.codegen.nest import Affine, For, Read, Value, Variable
from tilewright.targets.atlas.codegen.prefetch import traffic
from tilewright.targets.atlas.model.heads import Heads


def masked(batch: int, rows: int, width: int, heads: int, groups: int) -> Imported:
    """Attention with a mask for all heads, between products."""
    net = ModelBuilder("masked", seed=2)
    x, mask = net.input("x", (batch, rows, width)), net.input("mask", (batch, rows, rows))
    n = net.rms_norm(x, "norm")
    narrow = width // heads * groups
    q = net.heads(net.linear(n, width, "q"), heads)
    k, v = (net.heads(net.linear(n, narrow, name), groups) for name in "kv")
    y = net.attention(q, k, v, mask=mask)
    net.output("y", x + net.linear(y, width, "out"))
    return net.build()


def options(program: tw.Program) -> list[dict]:
    steps = program.model.artifact.steps
    return [s.options for s in steps if s.kernel.startswith("attention")]


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 100, 192, 3, 1),
        (1, 333, 256, 4, 2),
        (2, 70, 128, 4, 4),
        (1, 200, 576, 9, 3),
        (1, 450, 256, 8, 1),
    ],
)
def test_rows_of_a_mask_pass_by_once(sizes, monkeypatch):
    program = tw.compile(masked(*sizes))
    assert [o["by_rows"] for o in options(program)] == [True]
    assert not any(s.name.endswith("to VMEM") for s in program.model.artifact.steps)
    assert program.verify().ok
    monkeypatch.setattr(Heads, "_by_rows", lambda *_: False)
    other = tw.compile(masked(*sizes))
    assert not any(o.get("by_rows") for o in options(other))
    assert program.cycles < 1.001 * other.cycles


def test_a_few_queries_or_a_group_of_many_tiles_keep_the_mask_on_chip():
    for sizes in ((1, 20, 128, 4, 2), (1, 690, 128, 8, 1)):
        program = tw.compile(masked(*sizes))
        assert not any(o.get("by_rows") for o in options(program))


def test_the_other_profile_is_right_too():
    program = tw.compile(masked(1, 70, 96, 3, 1), target="atlas-v0")
    assert program.verify().ok


def test_what_is_read_several_times_in_one_piece_moves_once():
    loop = Variable(4)
    reads = [Read(Value("bf16"), Affine(at, ((loop, 4096),)), 2048) for at in (0, 0, 2048)]
    assert traffic([For(loop, list(reads))]) == 4 * 2 * 2048
