"""Running and verifying a compiled model to fill its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.io.file_access import write_atomically
from tilewright.report.collect_report import collect
from tilewright.report.model_page import model_page
from tilewright.report.model_report import (
    AccuracyFigures,
    CallFigures,
    Errors,
    LayerErrors,
    ReportData,
    RunFigures,
)
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.session import Session
from tilewright.runtime.values import named_inputs
from tilewright.runtime.verification import Accuracy, LayerCheck, Verification
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import Profiled, Progress, Sampled
from tilewright.targets.compiled_model import CompiledModel

Watch = Callable[[str], AbstractContextManager[Progress | None]]
_STATUS = {"inherits": "no, as its inputs", "unread": ""}


def report_data(
    model: CompiledModel[Any],
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    run: bool = True,
    verified: bool = True,
    original: Any = None,
    machine: str | None = None,
    progress: Watch = lambda verb: nullcontext(),
) -> ReportData:
    """The report of a model, run on these inputs (random ones of `seed` where none are given).

    Without `run` only what the compiler knows is in it. `original` is what was compiled, for
    errors against float32; `progress` gives for "running" and "verifying" something that is told
    how far it is. A model whose values cannot be checked still gets its report, which
    says why.
    """
    if not run:
        return collect(model, not_verified="it was not run")
    with progress("running") as told:
        figures = measure(model, inputs, seed, machine, told)
    if not verified:
        return collect(model, figures)
    try:
        with progress("verifying") as told:
            found = verify(
                model,
                inputs,
                seed,
                per_layer=True,
                original=original,
                machine=machine,
                progress=told,
            )
    except TilewrightError as error:
        return collect(model, figures, not_verified=error.message)
    return collect(model, figures, accuracy_figures(found))


def write_report(model: CompiledModel[Any], path: str, **options: Any) -> ReportData:
    """Write the page of a model; options are those of `report_data`, which is returned."""
    data = report_data(model, **options)
    write_atomically(path, model_page(data).encode("utf-8"))
    return data


def measure(
    model: CompiledModel[Any],
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    machine: str | None = None,
    progress: Progress | None = None,
) -> RunFigures:
    """When each step ran, what the units did, and how busy they were over time."""
    session = Session(model, machine, progress=progress, sampled=True)
    given = dict(inputs or {})
    values: dict[str, np.ndarray] = {**example_inputs(model, "random", seed), **given}
    session.compute(session.complete(named_inputs(model, values)))
    statistics, device = session.statistics, session.device()
    calls = [
        CallFigures(
            call.step,
            call.iteration,
            call.start,
            call.end,
            dict(call.busy),
            call.loaded,
            call.stored,
        )
        for call in session.step_cycles
    ]
    return RunFigures(
        cycles=session.cycles,
        calls=calls,
        busy=dict(statistics.busy),
        loaded=statistics.loaded,
        stored=statistics.stored,
        instructions=statistics.instructions,
        lost=dict(statistics.lost),
        activity=device.activity() if isinstance(device, Sampled) else None,
        inputs=_inputs_text(model, given, seed),
        profiles=dict(device.profiles()) if isinstance(device, Profiled) else {},
    )


def _inputs_text(model: CompiledModel[Any], given: Mapping[str, Any], seed: int) -> str:
    drawn = [name for name in model.inputs if name not in given and name not in model.state]
    parts = [f"{', '.join(given)} given"] if given else []
    parts += [f"random, seed {seed}"] if drawn else []
    return "; ".join(parts)


def accuracy_figures(found: Verification) -> AccuracyFigures:
    """What a verification found, as the report keeps it."""
    results = Counter(layer.call for layer in found.layers)
    difference = ""
    if found.first is not None:
        difference = f"{found.first.name} ({found.first.kernel}): {found.first.difference}"
    elif not found.ok:
        difference = next(
            (f"output {o.name}: {o.difference}" for o in found.outputs if o.difference), ""
        )
    return AccuracyFigures(
        exact=found.ok,
        outputs=[_errors(o.name, o.difference is None, o.accuracy) for o in found.outputs],
        layers=[_layer(layer, results[layer.call] > 1) for layer in found.layers],
        against=f"{found.original} in float32" if found.original else "",
        difference=difference,
        notes=list(found.notes),
    )


def _errors(name: str, exact: bool | None, accuracy: Accuracy | None) -> Errors:
    if accuracy is None:
        return Errors(name, exact)
    return Errors(name, exact, accuracy.max_absolute, accuracy.relative, accuracy.cosine)


def _layer(layer: LayerCheck, several: bool) -> LayerErrors:
    """`several` results of one step are told apart by where they are kept."""
    exact = {"equal": True, "unread": None}.get(layer.status, False)
    name = f"{layer.name} ({layer.region})" if several else layer.name
    return LayerErrors(
        _errors(name, exact, layer.accuracy),
        layer.step,
        layer.turn,
        status=_STATUS.get(layer.status, ""),
    )
