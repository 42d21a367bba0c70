"""Instances as CSV, and the generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import TilewrightError
from tilewright.planning.bounds import peak_live
from tilewright.planning.buffers import Buffer
from tilewright.planning.generate import (
    DEVELOP_SEEDS,
    FAMILIES,
    JUDGE_SEEDS,
    Family,
    cut_rectangle,
    families,
    relative,
    suite,
)
from tilewright.planning.generate_programs import PROGRAMS
from tilewright.planning.minimalloc_csv import parse_instance, read_instance, write_instance
from tilewright.planning.verify import violations


def test_round_trip(tmp_path: Path):
    buffers, offsets = cut_rectangle(12, 1 << 14, 10, 5)
    path = tmp_path / "X.16384.csv"
    path.write_text(write_instance(buffers))
    assert read_instance(path) == (buffers, 16384)
    fixed = parse_instance(write_instance(buffers, offsets))
    assert {b.name: b.offset for b in fixed} == offsets


def test_alignment_column():
    assert parse_instance("id,lower,upper,size,alignment\nq,0,2,7,4\n") == [
        Buffer("q", 7, 0, 2, alignment=4)
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("id,lower,upper\n", "f.csv:1"),
        ("id,lower,upper,size\na,0,2,x\n", "f.csv:2"),
        ("id,lower,upper,size\na,0,2\n", "f.csv:2"),
        ("", "f.csv:1"),
    ],
)
def test_bad_files(text: str, place: str):
    with pytest.raises(TilewrightError) as error:
        parse_instance(text, "f.csv")
    assert error.value.code == "TW1409"
    assert str(error.value.location) == place


def test_missing_file(tmp_path: Path):
    with pytest.raises(TilewrightError):
        read_instance(tmp_path / "none.csv")


def test_the_suite_is_the_same_every_time():
    assert suite() == suite()
    for buffers, capacity in suite().values():
        assert sum(b.size * (b.upper - b.lower) for b in buffers) == capacity * max(
            b.upper for b in buffers
        )


def test_known_plans_are_right():
    for seed in range(5):
        buffers, offsets = cut_rectangle(50, 1 << 18, 40, seed)
        assert len(buffers) == 50
        assert violations(buffers, offsets, {"memory": 1 << 18}) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_has_known_plans(family: Family):
    for seed in (1, 1001):
        buffers, offsets = family.make(seed)
        assert abs(len(buffers) - family.count) <= 10
        assert violations(buffers, offsets, {"memory": 1 << 20}) == []
        steps = max(b.upper for b in buffers)
        filled = sum(b.size * (b.upper - b.lower) for b in buffers) / (steps << 20)
        assert filled == pytest.approx(1 - family.free, abs=0.002 if family.free else 0)
        assert (buffers, offsets) == family.make(seed)
        assert buffers != family.make(seed + 1)[0]


def test_instances_that_judge_are_not_those_to_develop_on():
    assert not set(DEVELOP_SEEDS) & set(JUDGE_SEEDS)
    assert len(families(range(3))) == 3 * (len(FAMILIES) + len(PROGRAMS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_known_plans(name: str):
    for seed in (1, 1001):
        buffers, offsets = PROGRAMS[name].make(seed)
        assert 0 <= len(buffers) - PROGRAMS[name].count <= 40
        assert violations(buffers, offsets, {"memory": 1 << 20}) == []
        # Some step needs nearly all the memory the program is meant to fill.
        assert peak_live(buffers).live_bytes >= 0.99 * PROGRAMS[name].most * (1 << 20)
        assert (buffers, offsets) == PROGRAMS[name].make(seed)


def test_relatives_fit_where_the_instance_fits():
    buffers, offsets = cut_rectangle(60, 1 << 18, 40, 3)
    for seed in range(20):
        found = relative(buffers, seed)
        assert found != buffers and len({b.name for b in found}) == len(found)
        places = {b.name: offsets[b.name.rstrip("'")] for b in found}
        assert violations(found, places, {"memory": 1 << 18}) == []
