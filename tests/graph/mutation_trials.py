"""One mistake of the compiler, and whether anybody notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mutations
import mutations_host  # noqa: F401  (its kinds)
import mutations_loops  # noqa: F401
import mutations_prefetch  # noqa: F401
import numpy as np
from tower_models import built

from hand_made import AtlasModel
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.checking import check

PATIENCE = 20  # times the cycles of the right program


@dataclass(frozen=True)
class Outcome:
    """verdict: "found", "missed", "no program" (the compiler stops), "no effect" or "nothing to
    break"."""

    verdict: str
    text: str = ""


@dataclass(frozen=True)
class Right:
    """The model without a mistake: what it gives, and how long it takes."""

    model: AtlasModel
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    cycles: int


@cache
def right(make: Callable[[ModelBuilder], None]) -> Right:
    model = mutations.compiled(built(make))
    inputs = example_inputs(model, "random", 3)
    session = Session(model)
    return Right(model, inputs, session.run(inputs), session.cycles)


def trial(make: Callable[[ModelBuilder], None], kind: mutations.Kind, seed: int) -> Outcome:
    """Compile a model with a mistake in the compiler, and look at what comes out."""
    try:
        if kind.stage == "model":
            broken = mutations.changed(right(make).model, kind, seed)
        else:
            broken = mutations.mistaken(built(make), kind, seed)
    except (TilewrightError, AssertionError, KeyError, IndexError, ValueError) as error:
        return Outcome("no program", str(error))
    if broken is None:
        return Outcome("nothing to break")
    if not _changes(broken.model, right(make)):
        return Outcome("no effect")
    if broken.refused:
        return Outcome("found", f"compiler: {broken.refused[0]}")
    found = _finding(broken.model, right(make))
    return Outcome("missed", kind.name) if found is None else Outcome("found", found)


def _changes(model: AtlasModel, expected: Right) -> bool:
    """Whether a run gives another bit, faults or does not end."""
    try:
        session = Session(model, max_cycles=PATIENCE * expected.cycles)
        outputs = session.run(expected.inputs)
    except TilewrightError:
        return True
    return any(
        outputs[name].tobytes() != array.tobytes() for name, array in expected.outputs.items()
    )


def _finding(model: AtlasModel, expected: Right) -> str | None:
    """Who finds what."""
    findings = check(model)
    if findings:
        return f"check: {findings[0].message}"
    try:
        result = verify(model, max_cycles=PATIENCE * expected.cycles)
    except TilewrightError as error:
        return f"verify: {error.message}"
    return None if result.ok else f"verify: {result.text()}"
