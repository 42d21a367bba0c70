"""The way every machine's models take before the machine's own code: down to the waist.

simplify → smooth (if asked for) → places (who runs what) → quantise (in which numbers) → partition into functions of host
and device → fuse epilogues → fold identical layers. Each step leaves IR that can be printed, parsed and executed; `Prepared.phases` keeps the texts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import Operation
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import check_inputs, example_inputs
from tilewright.model.capture import Graph, Node, capture
from tilewright.model.digest import model_hash
from tilewright.model.fold_layers import fold_layers, same_values
from tilewright.model.formats import CodeRules, Floats, Format, Formats, Product
from tilewright.model.fuse import Fuses, fuse_all
from tilewright.model.meanings import meanings_of
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.partition import main_of, marked, partition
from tilewright.model.parts import DEVICE, Parts
from tilewright.model.places import Supports, named, places
from tilewright.model.quantise import quantise
from tilewright.model.sample_values import Meaning, with_others_like_it
from tilewright.model.simplify import simplify
from tilewright.model.smooth import Smoothed, smooth
from tilewright.reference import dtypes

Arrays = Mapping[str, np.ndarray]
# To take ranges from: so many numbers of inputs, from so many samples at most, where a run of the
# model with fewer weights than SMALL takes no time.
NUMBERS, SAMPLES, SMALL = 2048, 16, 4_000_000


@dataclass(frozen=True)
class Machine:
    """What a machine has to say about models before it sees the encoded program.

    supports: why an operation is not for the machine, None if it is. exact_angles: arguments of
    sin and cos, and positions of lookups, stay with the host, because the machine has fewer than 24 bits.
    formats: the numbers it computes an operation in; without it the model keeps its types.
    rules: how its codes are made. supports_encoded: as `supports`, for the operations that stand
    in place of the model's after quantisation (quantise, rescale, …); without it they are on the
    side of what they belong to. fuses: which steps become epilogues of which kernels, `usual` for
    all that can; without it nothing is fused. layers: identical layers become loops.
    """

    name: str
    supports: Supports
    exact_angles: bool = False
    formats: Formats | None = None
    rules: CodeRules = field(default_factory=CodeRules)
    supports_encoded: Supports | None = None
    fuses: Fuses | None = None
    layers: bool = False


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
    smoothed: Smoothed | None = None  # the model that was encoded, if it is not `model` itself

    def provenance(self) -> dict[str, Any]:
        """The part of a bundle's provenance that does not depend on the machine."""
        return {
            "model": self.model.source,
            "model_hash": model_hash(self.model),
            "samples": {name: meaning.to_json() for name, meaning in self.meanings.items()},
            **({} if self.smoothed is None else {"smoothed": self.smoothed.to_json()}),
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
    with driver.phase("sample"):
        graph = capture(simple)
        meanings = meanings_of(graph)
        given = [check_inputs(simple, sample, "a calibration sample") for sample in samples]
        found = _enough(simple, given, meanings, options.seed, machine.formats is not None)
    read, smoothed = simple, None
    if options.smooth is not None:
        with driver.phase("smooth"):
            smoothed = smooth(simple, found, options.smooth)
            read = smoothed.model
            graph = capture(read)
            driver.note("smoothed", read.module)
    with driver.phase("place"):
        reasons = places(graph, machine.supports, options, machine.exact_angles)
    encoded, hosted = read, {node.op: reason for node, reason in reasons.items()}
    if machine.formats is not None:
        with driver.phase("quantise"):
            result = quantise(
                read,
                graph,
                reasons,
                _kept(machine.formats, options),
                machine.rules,
                found,
                options.scales == "channel",
                same_values(main_of(read.module))
                if machine.layers and options.layer_loops is not False
                else (),
                options.range_rule,
            )
            encoded, hosted = result.model, dict(result.reasons)
            driver.note("quantised", marked(encoded, hosted).module)
    with driver.phase("partition"):
        if machine.supports_encoded is not None:
            _add_reasons(encoded, hosted, machine.supports_encoded)
        parts = partition(marked(encoded, hosted))
        driver.note("partitioned", parts.module)
    if machine.fuses is not None and options.fuse:
        with driver.phase("fuse"):
            fuse_all(parts.functions(DEVICE), machine.fuses)
            driver.note("fused", parts.module)
    if machine.layers and options.layer_loops is not False:
        with driver.phase("fold layers"):
            for function in parts.functions(DEVICE):
                fold_layers(function)
            driver.note("folded", parts.module)
    return Prepared(
        parts,
        simple,
        list(found),
        meanings,
        tuple(text for part in parts.host_parts for text in part.reasons),
        driver.phases,
        driver.timing,
        smoothed,
    )


def _enough(
    model: Imported,
    given: Sequence[Arrays],
    meanings: Mapping[str, Meaning],
    seed: int,
    for_ranges: bool,
) -> list[Arrays]:
    """Inputs to calibrate with: those given, or drawn ones.

    Ranges are those of the numbers seen, so a few numbers alone, given or drawn, are too few: more
    like them are added, as long as the model is small.
    """
    numbers = sum(
        math.prod(spec.shape)
        for spec in model.inputs
        if spec.dtype in dtypes.FLOATS and spec.name not in {*meanings, *model.state}
    )
    small = sum(np.size(weight) for weight in model.weights.values()) < SMALL
    count = min(SAMPLES, -(-NUMBERS // numbers)) if for_ranges and numbers and small else 1
    if len(given) == 1 and count > 1:
        return list(with_others_like_it(given[0], count, seed, meanings, model.state))
    return list(given) or [example_inputs(model, seed + k, meanings) for k in range(count)]


def _kept(formats: Formats, options: CompileOptions) -> Formats:
    """The formats with the products of layers that stay precise in floats."""

    def choose(node: Node, graph: Graph) -> Format:
        form = formats(node, graph)
        if isinstance(form, Product) and named(node.layer, options.keep):
            return Floats(form.floats)
        return form

    return choose


def _add_reasons(model: Imported, hosted: dict[Operation, str], supports: Supports) -> None:
    """Operations of the encoded program that the machine leaves to the host."""
    for node in capture(model).nodes:
        if node.op not in hosted:
            reason = supports(node)
            if reason is not None:
                hosted[node.op] = reason


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
        self.timing[name] = self.timing.get(name, 0.0) + time.perf_counter() - start

    def note(self, name: str, module: Any) -> None:
        self.phases[name] = print_module(module)
