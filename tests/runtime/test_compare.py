"""Comparison of arrays: exact and with tolerances."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.io.tensor_files import ELEMENT_TYPES
from tilewright.reference.tolerance import Tolerance, compare


@pytest.mark.parametrize("name", list(ELEMENT_TYPES))
def test_every_type_equal_and_different(name: str) -> None:
    a = np.arange(6).reshape(2, 3).astype(ELEMENT_TYPES[name])
    b = a.copy()
    assert compare(a, b, None).holds and compare(a, b, Tolerance(0, 0)).holds
    b[1, 2] = 8
    for tolerance in (None, Tolerance(0, 0), Tolerance(0, 2.5)):
        outcome = compare(a, b, tolerance)
        assert (outcome.holds, outcome.different) == (False, 1)
        assert outcome.worst is not None
        assert (outcome.worst.index, outcome.worst.flat) == ((1, 2), 5)
        assert (outcome.worst.expected, outcome.worst.actual, outcome.worst.error) == (5, 8, 3)
    for tolerance in (Tolerance(0, 3), Tolerance(0.6, 0)):
        outcome = compare(a, b, tolerance)
        assert outcome.holds and outcome.worst is not None and outcome.worst.error == 3


def test_nan_and_infinity() -> None:
    nan, inf = np.nan, np.inf
    quiet = np.array([nan, inf, -inf, 1.0], np.float32)
    other = quiet.copy()
    other.view(np.uint32)[0] = 0xFFC00001  # another NaN
    for tolerance in (None, Tolerance(0.1, 0.1)):
        assert compare(quiet, other, tolerance).holds
        for index, value in ((0, 1.0), (1, -inf), (1, 3e38), (2, nan), (3, nan), (3, inf)):
            wrong = quiet.copy()
            wrong[index] = value
            outcome = compare(quiet, wrong, tolerance)
            assert outcome.different == 1
            assert outcome.worst is not None
            assert (outcome.worst.flat, outcome.worst.error) == (index, inf)


def test_zero_signs_differ_only_bit_by_bit() -> None:
    a = np.array([0.0, 1.0]).astype(ml_dtypes.bfloat16)
    b = np.array([-0.0, 1.0]).astype(ml_dtypes.bfloat16)
    outcome = compare(a, b, None)
    assert outcome.different == 1 and outcome.worst is not None and outcome.worst.error == 0
    assert compare(a, b, Tolerance(0, 0)).holds


def test_chunks_agree_with_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.reference import tolerance as module

    random = np.random.default_rng(1)
    a = random.standard_normal((7, 11)).astype(np.float32)
    b = a + (random.random((7, 11)) < 0.2) * random.standard_normal((7, 11)).astype(np.float32)
    b = b.astype(np.float32)
    whole = [compare(a, b, t) for t in (None, Tolerance(0.1, 0.1))]
    monkeypatch.setattr(module, "_CHUNK", 5)
    assert [compare(a, b, t) for t in (None, Tolerance(0.1, 0.1))] == whole


def test_empty() -> None:
    outcome = compare(np.zeros((0, 3), np.float32), np.zeros(0, np.float32), None)
    assert outcome.holds and outcome.elements == 0 and outcome.worst is None
