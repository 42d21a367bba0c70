"""What the solver chose for a question it was asked before, from the cache on disk.

Loading the solver takes longer than compiling a model whose kernels are known. Its answer depends on
the numbers it is given, on its version and on the limits it is run with; a question is all of that in
plain text. An answer is used only if it obeys the question: one of each group, room everywhere.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tilewright.io import content_cache
from tilewright.targets.atlas.model.kernel_code import generator_digest, sources_changed

FORMAT = 1  # of questions and answers
SOLVER = "ortools"


@dataclass(frozen=True)
class Limit:
    """How much room there is, what choices take of it (or leave), and those that are not to be taken."""

    room: int
    terms: Sequence[tuple[int, int]]
    refused: Sequence[int]


@dataclass(frozen=True)
class Question:
    """Which of some choices, by number, gain most together.

    groups: of each choice; at most one of a group is taken. settings: of the solver.
    """

    groups: Sequence[int]
    gains: Sequence[int]
    limits: Sequence[Limit]
    settings: Mapping[str, float]

    def key(self) -> bytes | None:
        """All that the answer depends on; none if some of it is not known."""
        generator = generator_digest()
        if generator is None or sources_changed():
            return None
        try:
            version = importlib.metadata.version(SOLVER)
        except importlib.metadata.PackageNotFoundError:
            return None
        table = {
            "stays": FORMAT, "generator": generator, "solver": version,
            "groups": self.groups, "gains": self.gains, "settings": dict(self.settings),
            "limits": [[limit.room, limit.terms, limit.refused] for limit in self.limits],
        }  # fmt: skip
        return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()

    def allows(self, chosen: object) -> TypeGuard[list[int]]:
        """Whether something is an answer that obeys the limits."""
        if not isinstance(chosen, list) or not all(type(k) is int for k in chosen):
            return False
        known: set[int] = set(chosen)
        if len(known) < len(chosen) or not all(0 <= k < len(self.groups) for k in chosen):
            return False
        groups = [self.groups[k] for k in chosen]
        return len(set(groups)) == len(groups) and all(
            known.isdisjoint(limit.refused)
            and sum(taken for k, taken in limit.terms if k in known) <= limit.room
            for limit in self.limits
        )


def answered(question: Question, solve: Callable[[Question], list[int]]) -> list[int]:
    """The choices that gain most: known, or found and kept."""
    store = content_cache.current()
    key = None if store is None else question.key()
    if store is None or key is None:
        return solve(question)
    raw = store.get(key)
    if raw is not None:
        try:
            chosen = json.loads(raw)
        except ValueError:
            chosen = None
        if question.allows(chosen):
            return chosen
    found = solve(question)
    store.put(key, json.dumps(found).encode())
    return found
