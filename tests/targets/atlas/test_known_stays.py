"""Answers of the solver about what stays in VMEM, kept: only for the same question, and checked."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.io.content_cache import ContentCache, caching
from tilewright.targets.atlas.model import kernel_code, known_stays, residency
from tilewright.targets.atlas.model.known_stays import Limit, Question, answered

QUESTION = Question(
    groups=(0, 0, 1, 2),
    gains=(4, 7, 5, 3),
    limits=(Limit(9, ((0, 3), (1, 6), (2, 4)), ()), Limit(5, ((2, 4), (3, 3)), (3,))),
    settings={"num_workers": 1, "random_seed": 0, "max_deterministic_time": 4.0},
)
CHANGED: dict[str, Question] = {
    "groups": replace(QUESTION, groups=(0, 1, 1, 2)),
    "gains": replace(QUESTION, gains=(4, 7, 5, 2)),
    "order of gains": replace(QUESTION, gains=(7, 4, 5, 3)),
    "room": replace(QUESTION, limits=(replace(QUESTION.limits[0], room=8), QUESTION.limits[1])),
    "term": replace(
        QUESTION, limits=(replace(QUESTION.limits[0], terms=((0, 3), (1, 5), (2, 4))),) * 2
    ),
    "choice of a term": replace(
        QUESTION,
        limits=(replace(QUESTION.limits[0], terms=((0, 3), (1, 6), (3, 4))), QUESTION.limits[1]),
    ),
    "refused": replace(QUESTION, limits=(QUESTION.limits[0], replace(QUESTION.limits[1], refused=()))),
    "one limit less": replace(QUESTION, limits=QUESTION.limits[:1]),
    "order of limits": replace(QUESTION, limits=QUESTION.limits[::-1]),
    **{
        name: replace(QUESTION, settings={**QUESTION.settings, name: 7})
        for name in QUESTION.settings
    },
}  # fmt: skip


def never(question: Question) -> list[int]:
    raise AssertionError("this was known")


def test_every_part_of_a_question_is_in_the_key() -> None:
    assert QUESTION.key() == replace(QUESTION).key() is not None
    keys = {name: question.key() for name, question in CHANGED.items()}
    assert None not in keys.values() and QUESTION.key() not in keys.values()
    assert {field.name for field in fields(Question)} <= json.loads(QUESTION.key() or b"").keys()


def test_versions_and_sources_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = QUESTION.key()
    with monkeypatch.context() as patch:
        patch.setattr(known_stays, "generator_digest", lambda: "another package")
        assert QUESTION.key() not in (usual, None)
        patch.setattr(known_stays, "generator_digest", lambda: None)
        assert QUESTION.key() is None
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: f"another {name}")
        assert QUESTION.key() not in (usual, None)
    newest = max(path.stat().st_mtime_ns for path in kernel_code._files())
    with monkeypatch.context() as patch:
        kernel_code._newest.cache_clear()
        patch.setattr(tilewright, "LOADED_AT", newest - 1)
        assert QUESTION.key() is None


def test_only_the_same_question_has_a_known_answer(tmp_path: Path) -> None:
    with caching(tmp_path):
        assert answered(QUESTION, lambda _: [1]) == [1]
        assert answered(QUESTION, never) == [1]
        for question in CHANGED.values():
            with pytest.raises(AssertionError, match="was known"):
                answered(question, never)
    with caching("off"):
        assert answered(QUESTION, lambda _: [0, 2]) == [0, 2]


@pytest.mark.parametrize(
    "answer",
    ["[0, 1]", "[1, 2]", "[3]", "[4]", "[-1]", "[true]", "[1.0]", "[2, 2]", "{}", "1", "null", "x", ""],
)  # fmt: skip
def test_answers_that_disobey_are_found_again(answer: str, tmp_path: Path) -> None:
    """Two of a group, too much at once, refused, and what is no choice at all."""
    ContentCache(tmp_path).put(QUESTION.key() or b"", answer.encode())
    with caching(tmp_path):
        assert answered(QUESTION, lambda _: [0]) == [0]
        assert answered(QUESTION, never) == [0]


def test_the_solver_obeys_and_is_the_best() -> None:
    random = np.random.default_rng(2)
    for _ in range(12):
        groups = sorted(random.integers(0, 4, 7).tolist())
        gains = random.integers(1, 9, 7).tolist()
        terms = [(k, int(n)) for k, n in enumerate(random.integers(1, 6, 7))]
        limits = (Limit(9, terms, ()), Limit(6, terms[2:], (int(random.integers(7)),)))
        question = Question(groups, gains, limits, QUESTION.settings)
        found = residency._solved(question)
        assert question.allows(found)

        def gain(chosen: Sequence[int], gains: Any = gains) -> int:
            return sum(gains[k] for k in chosen)

        every = ([k for k in range(7) if mask >> k & 1] for mask in range(1 << 7))
        assert gain(found) == max(gain(one) for one in every if question.allows(one))
