"""How often Python looks for cycles: put back afterwards, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tilewright.garbage import RARE, no_cycle_collection, rare_cycle_collection


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_rarely_while_a_block_runs() -> None:
    with pytest.raises(ValueError, match="broken"), rare_cycle_collection():
        with rare_cycle_collection():
            assert gc.get_threshold() == RARE
        assert gc.get_threshold() == RARE
        raise ValueError("broken")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 5, 5), (RARE[0] + 1, 3, 3)])
def test_who_wants_fewer_keeps_that(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rare_cycle_collection():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_never_while_a_block_runs() -> None:
    with pytest.raises(ValueError, match="broken"), no_cycle_collection():
        assert not gc.isenabled()
        with no_cycle_collection():
            pass
        assert not gc.isenabled()
        raise ValueError("broken")
    assert gc.isenabled()
