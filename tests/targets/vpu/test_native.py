"""The native inner loops of the scheduler do what their Python versions do."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.targets.vpu import address_edges as edges
from tilewright.targets.vpu.barriers import assign
from tilewright.targets.vpu.barriers.signals import Limits
from tilewright.targets.vpu.machine import Storage
from tilewright.targets.vpu.operations import numbers
from tilewright.targets.vpu.scheduling import tile_memory
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


@pytest.mark.parametrize("fit", ["earliest", "best", "first"])
def test_tile_memory(fit: str) -> None:
    """Buffers come, go, hand over and push each other out; both memories say the same."""
    generator = random.Random(7)
    for _ in range(40):
        fast, plain = tile_memory.native.TileMemory(4096), tile_memory.PlainTileMemory(4096)
        alive: dict[int, tuple[int, int]] = {}
        leaves = {n: (generator.randint(0, 90), generator.random()) for n in range(80)}
        for owner in range(80):
            size, align = generator.randint(1, 900), generator.choice((1, 16, 64))
            downwards = generator.random() < 0.5
            stays = {n for n in alive if generator.random() < 0.3}
            for victim in (None, lambda n, s=stays, found=leaves: None if n in s else found[n]):
                found = [
                    memory.find(size, align, owner, fit, downwards, victim)
                    for memory in (fast, plain)
                ]
                seen = [w and (w.address, w.available, tuple(w.victims), w.cost) for w in found]
                assert seen[0] == seen[1]
                if found[1] is not None:
                    break
            window = found[1]
            if window is None:
                continue
            for other in window.victims:
                for memory in (fast, plain):
                    memory.release(alive[other][0], owner, owner - 5)
                del alive[other]
            for memory in (fast, plain):
                memory.take(owner, window.address, size)
            alive[owner] = (window.address, size)
            if generator.random() < 0.3:
                source = generator.choice(list(alive))
                address, size = alive.pop(source)
                alive[1000 + owner] = (address, (size + 1) // 2)
                leaves[1000 + owner] = (owner, 0.5)
                for memory in (fast, plain):
                    memory.hand_over(address, 1000 + owner, (size + 1) // 2, 1 << 60)
                    memory.settle(1 << 60, owner)
            assert fast.gaps() == plain.gaps() and fast.free_bytes == plain.free_bytes
            assert fast.largest_free() == plain.largest_free()


@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 300, 33), (40, 5, 700), (3, 131_071, 2)])
def test_products(shape: tuple[int, int, int]) -> None:
    """Exact sums of i8 at their limits; f16 sums in order, with infinities and numbers that vanish."""
    rows, inner, columns = shape
    rng = np.random.default_rng(rows)
    first, second = (rng.integers(-128, 128, (n, inner), dtype=np.int8) for n in (rows, columns))
    first[0], second[0] = -128, -128
    wanted = first.astype(np.int64) @ second.astype(np.int64).T
    assert np.array_equal(numbers.exact_products(first, second), wanted)
    assert np.array_equal(numbers.plain_exact_products(first, second), wanted)
    inner = min(inner, 400)
    left, right = (
        (rng.standard_normal((n, inner)) * 10.0 ** rng.integers(-7, 5, (n, inner))).astype(
            np.float16
        )
        for n in (rows, columns)
    )
    start = rng.standard_normal((rows, columns)).astype(np.float32)
    found, plain = start.copy(), start.copy()
    numbers.add_products(found, left, right)
    numbers.plain_add_products(plain, left.astype(np.float32), right.astype(np.float32))
    assert np.array_equal(found, plain, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(plain)) or np.isnan(plain).any()


def test_products_that_do_not_fit_are_refused() -> None:
    from tilewright.targets.vpu import _vpu  # pyright: ignore

    left, right = np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32)
    with pytest.raises(ValueError, match="do not fit"):
        _vpu.ordered_products(left, right, np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match="i32"):
        long = np.zeros((1, 131_072), np.int8)
        _vpu.whole_products(long, long, np.zeros((1, 1), np.int32))
