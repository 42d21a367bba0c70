"""The native inner loops of the scheduler do what their Python versions do."""

from __future__ import annotations

import random

import pytest

from tilewright.targets.vpu import address_edges as edges
from tilewright.targets.vpu.barriers import assign
from tilewright.targets.vpu.barriers.signals import Limits
from tilewright.targets.vpu.machine import Storage
from tilewright.targets.vpu.task_list import Range

pytest.importorskip("tilewright.targets.vpu._vpu")


def random_range(generator: random.Random) -> Range:
    count = generator.randint(1, 4)
    stride = generator.randint(1, 30) if count > 1 else 0
    size = generator.randint(1, 20)
    return Range(generator.choice("ab"), generator.randint(0, 60), size, count, stride)


def test_address_edges() -> None:
    """Any ranges, overlapping runs of one range included."""
    generator = random.Random(5)
    for _ in range(200):
        accesses = [
            (
                [random_range(generator) for _ in range(generator.randint(0, 3))],
                [random_range(generator) for _ in range(generator.randint(0, 2))],
            )
            for _ in range(generator.randint(1, 40))
        ]
        assert edges.address_edges(accesses) == edges.plain_address_edges(accesses)


def test_large_addresses_are_left_to_python() -> None:
    """A file may say anything; what does not fit into 64 bits is no crash."""
    far = Range("ddr", 1 << 90, 64)
    assert edges.address_edges([([], [far]), ([far], [])]) == [[], [(0, "RAW")]]


def test_barriers() -> None:
    """The same barriers, ids and edges, or the same refusal, for all kinds of limits."""
    generator = random.Random(6)
    refused = changed = 0
    for _ in range(300):
        queues, count = generator.randint(1, 5), generator.randint(1, 60)
        starts = sorted(generator.randint(0, 200) for _ in range(count))
        entries = assign.Entries(
            queues=[
                tuple(sorted(generator.sample(range(queues), min(queues, pick))))
                for pick in generator.choices((1, 2), (9, 1), k=count)
            ],
            engines_behind=generator.choices((1, 2), (2, 1), k=queues),
            slots=generator.choices((1, 2), (3, 1), k=count),
            engines=generator.choices(("dma", "dpu", "shave"), k=count),
            starts=starts,
            ends=[start + generator.randint(1, 30) for start in starts],
        )
        wanted = [
            generator.sample(range(entry), min(entry, generator.randint(0, 3)))
            for entry in range(count)
        ]
        limits = Limits(generator.choice((2, 8, 32)), generator.choice((None, Storage(2, 4, 3))))
        pool = generator.choice((1, 2, 3, 4, 10))
        fast = assign.by_edges(entries, wanted, pool, limits)
        plain = assign.plain_by_edges(entries, wanted, pool, limits)
        refused += plain is None
        if plain is None or fast is None:
            assert fast is plain
            continue
        changed += plain.changed
        assert fast == plain
    assert refused > 20 and changed > 20
