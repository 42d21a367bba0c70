"""Access patterns and descriptors: algebra, proofs, limits and register words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.descriptors import (
    Descriptor,
    LockUse,
    decode,
    encode,
    illegal,
    legalise,
    legalise_one,
)
from tilewright.targets.xdna.device import load_device
from tilewright.targets.xdna.patterns import Pattern, row_major, step_tiles

NPU2 = load_device("npu2")
CORE, MEMORY, SHIM = (NPU2.tile[name] for name in ("core", "memory", "shim"))

loops = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 4, 7, 8]), st.sampled_from([0, 1, 2, 3, 4, 8, 16, 24, 64])),
    min_size=1,
    max_size=5,
)


def pattern_of(found: list[tuple[int, int]], offset: int = 0) -> Pattern:
    return Pattern(tuple(n for n, _ in found), tuple(s for _, s in found), offset)


@given(loops, st.sampled_from([0, 4, 12]))
def test_canonical_form_walks_the_same(found: list[tuple[int, int]], offset: int) -> None:
    pattern = pattern_of(found, offset)
    assert (pattern.canonical().walk() == pattern.walk()).all()
    assert pattern.canonical().canonical() == pattern.canonical()


@given(loops)
def test_injectivity_is_decided_exactly(found: list[tuple[int, int]]) -> None:
    pattern = pattern_of(found)
    walk = pattern.walk()
    assert pattern.injective == (np.unique(walk).size == walk.size)


@given(st.permutations([0, 1, 2, 3]), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_a_permutation_composed_with_its_inverse_is_in_order(order: list, sizes: list) -> None:
    rows = row_major(*sizes)
    pattern = Pattern(tuple(rows.sizes[i] for i in order), tuple(rows.strides[i] for i in order))
    assert pattern.covers(pattern.count, exactly=True)
    walk = pattern.walk()
    assert (walk[pattern.inverse().walk()] == np.arange(walk.size)).all()
    assert (pattern.compose(pattern.inverse()).walk() == np.arange(walk.size)).all()


@given(loops, loops)
def test_composition_is_indexing_or_refused(one: list, other: list) -> None:
    pattern, order = pattern_of(one), pattern_of(other)
    try:
        composed = pattern.compose(order)
    except TilewrightError:
        return
    assert (composed.walk() == pattern.walk()[order.walk()]).all()


def test_large_proofs_do_not_enumerate() -> None:
    rows = 1 << 20
    left = Pattern((rows, 64), (4096, 1), 0)
    assert left.injective
    assert Pattern((1 << 16, 1 << 16), (1 << 16, 1)).covers(1 << 32, exactly=True)


def test_tilers_cover_a_matrix_once() -> None:
    for patterns in (
        step_tiles((8, 12), (2, 3), (2, 2), (1, 1)),
        step_tiles((8, 12), (2, 3), (1, 2), (2, 2)),
    ):
        walked = np.concatenate([p.walk() for p in patterns])
        assert sorted(walked) == list(range(96))
    # A row of eight tiles, every second one: tiles 0 2 4 6, then 1 3 5 7.
    even, odd = step_tiles((1, 8), (1, 1), (1, 4), (1, 2))
    assert list(even.walk()) == [0, 2, 4, 6] and list(odd.walk()) == [1, 3, 5, 7]
    with pytest.raises(TilewrightError, match="whole groups"):
        step_tiles((9, 12), (2, 3), (1, 1), (1, 1))


@given(
    loops, st.sampled_from([1, 2, 4]), st.sampled_from(["core", "memory", "shim"]), st.booleans()
)
def test_legal_descriptors_walk_the_pattern(
    found: list, element: int, kind: str, iteration: bool
) -> None:
    pattern, tile = pattern_of(found, 4), NPU2.tile[kind]
    try:
        made = legalise(pattern, element, tile, iteration)
    except TilewrightError:
        return
    words = np.concatenate([d.pattern().walk() for d in made])
    wanted = (pattern.walk()[:, None] * element + np.arange(element)).reshape(-1)
    assert ((words[:, None] * 4 + np.arange(4)).reshape(-1) == wanted).all()
    for descriptor in made:
        assert illegal(descriptor, tile) is None
        repeat = descriptor.iterations if descriptor.iteration_stride == 0 else 1
        again = decode(encode(descriptor, tile), tile, repeat)
        assert again.pattern().canonical() == descriptor.pattern().canonical()


def test_words_keep_locks_and_chains() -> None:
    descriptor = Descriptor(5, 64, (4, 8), (1, 16, 256), 3, 1024, LockUse(3, 1), LockUse(2, 1), 7)
    for tile in (CORE, MEMORY, SHIM):
        assert decode(encode(descriptor, tile), tile) == descriptor


@pytest.mark.parametrize(
    ("tile", "pattern", "descriptors"),
    [
        (SHIM, Pattern((64, 2, 16), (1000, 100, 1)), 1),  # iteration of 64
        (SHIM, Pattern((2, 16), (1 << 20, 1)), 1),  # step of 2^20 words
        (SHIM, Pattern((2, 16), ((1 << 20) + 1, 1)), 2),
        (SHIM, Pattern((2, 1023, 1), (4096, 4, 1)), 1),  # wrap
        (CORE, Pattern((2, 255, 1), (1020, 4, 1)), 1),
        (SHIM, Pattern((1 << 20,), (1,)), 1),  # contiguous: only the length counts
        (CORE, Pattern(((1 << 14) - 1,), (1,)), 1),
        (CORE, Pattern((1 << 14,), (1,)), 2),
    ],
)
def test_field_limits(tile, pattern: Pattern, descriptors: int) -> None:
    """Element size 4, so that sizes are words."""
    assert len(legalise(pattern, 4, tile)) == descriptors


def test_iteration_of_65_needs_a_dimension_or_more_descriptors() -> None:
    deep = Pattern((65, 3, 5, 16), (1 << 19, 10000, 100, 1))
    assert len(legalise(deep, 4, SHIM)) == 65
    assert len(legalise(Pattern((64, 3, 5, 16), (1 << 19, 10000, 100, 1)), 4, SHIM)) == 1


@pytest.mark.parametrize(("size", "element"), [(2, 1), (3, 1), (1, 2), (3, 2)])
def test_runs_shorter_than_a_word_are_refused(size: int, element: int) -> None:
    with pytest.raises(TilewrightError, match="granule of 4") as error:
        legalise(Pattern((8, size), (16, 1)), element, MEMORY)
    assert error.value.hint


def test_odd_strides_and_offsets_are_refused_with_the_nearest_legal() -> None:
    with pytest.raises(TilewrightError, match="stride of 30 elements") as error:
        legalise(Pattern((8, 8), (30, 1)), 1, MEMORY)
    assert "nearest legal stride" in (error.value.hint or "")
    with pytest.raises(TilewrightError, match="begins at byte 2"):
        legalise(Pattern((8, 8), (32, 1), 2), 1, MEMORY)


def test_no_off_by_one_in_steps() -> None:
    assert illegal(Descriptor(0, 4, (2,), (1, 1 << 17)), MEMORY) is None
    assert "step field" in str(illegal(Descriptor(0, 4, (2,), (1, (1 << 17) + 1)), MEMORY))
    assert illegal(Descriptor(0, 4, (), (), 64, 0), SHIM) is None
    assert "iteration" in str(illegal(Descriptor(0, 4, (), (), 65, 0), SHIM))
    assert "0" in str(illegal(Descriptor(0, 4, (2,), (1, 0)), SHIM))


def test_a_walk_that_has_to_be_one_descriptor_says_why_not() -> None:
    with pytest.raises(TilewrightError, match="needs 6 descriptors") as error:
        legalise_one(Pattern((2, 3, 5, 7, 16), (1 << 19, 10000, 1000, 100, 1)), 4, SHIM)
    assert "3 dimensions" in (error.value.hint or "")
