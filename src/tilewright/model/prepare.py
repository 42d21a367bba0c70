"""The way every machine's models take before the machine's own code: down to the waist.

simplify → places (who runs what) → partition into functions of host and device. Each step leaves
IR that can be printed, parsed and executed; `Prepared.phases` keeps the texts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import check_inputs, example_inputs
from tilewright.model.capture import capture
from tilewright.model.digest import model_hash
from tilewright.model.meanings import meanings_of
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.partition import partition
from tilewright.model.parts import Parts
from tilewright.model.places import Supports, places
from tilewright.model.sample_values import Meaning
from tilewright.model.simplify import simplify

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Machine:
    """What a machine has to say about models before it sees the encoded program.

    supports: why an operation is not for the machine, None if it is. exact_angles: arguments of
    sin and cos stay with the host, because the machine has fewer than 24 bits.
    """

    name: str
    supports: Supports
    exact_angles: bool = False


@dataclass
class Prepared:
    """A model at the waist, with what the compiler learned about it."""

    parts: Parts
    model: Imported  # simplified, in the types it came in: what accuracy is measured against
    samples: list[Arrays]
    meanings: dict[str, Meaning]  # of inputs
    reasons: tuple[str, ...] = ()  # of all operations of the host
    phases: dict[str, str] = field(default_factory=dict)  # name -> text, in order
    timing: dict[str, float] = field(default_factory=dict)

    def provenance(self) -> dict[str, Any]:
        """The part of a bundle's provenance that does not depend on the machine."""
        return {
            "model": self.model.source,
            "model_hash": model_hash(self.model),
            "samples": {name: meaning.to_json() for name, meaning in self.meanings.items()},
        }


def prepare(
    model: Imported,
    machine: Machine,
    options: CompileOptions | None = None,
    samples: Sequence[Arrays] = (),
    progress: Progress = lambda phase, detail: None,
) -> Prepared:
    """A model ready for the machine's own lowering. The given model stays as it is."""
    options = options or CompileOptions()
    driver = _Driver(progress)
    with driver.phase("simplify"):
        driver.note("imported", model.module)
        simple = simplify(model)
        driver.note("simplified", simple.module)
    with driver.phase("partition"):
        graph = capture(simple)
        meanings = meanings_of(graph)
        reasons = places(graph, machine.supports, options, machine.exact_angles)
        given = [check_inputs(simple, sample, "a calibration sample") for sample in samples]
        found = list(given) or [example_inputs(simple, options.seed, meanings)]
        parts = partition(simple, {node.op: reason for node, reason in reasons.items()})
        driver.note("partitioned", parts.module)
    return Prepared(
        parts,
        simple,
        list(found),
        meanings,
        tuple(text for part in parts.host_parts for text in part.reasons),
        driver.phases,
        driver.timing,
    )


@dataclass
class _Driver:
    progress: Progress
    phases: dict[str, str] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.progress(name, "")
        start = time.perf_counter()
        yield
        self.timing[name] = time.perf_counter() - start

    def note(self, name: str, module: Any) -> None:
        self.phases[name] = print_module(module)
