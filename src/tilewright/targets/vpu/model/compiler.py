"""The way of a model: prepared at the waist, read, lowered, scheduled, verified."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.model.formats import CodeRules
from tilewright.model.parts import DEVICE
from tilewright.model.prepare import Machine as Waist
from tilewright.model.prepare import prepare
from tilewright.targets.checking import require
from tilewright.targets.compiled_model import CompiledModel, around
from tilewright.targets.vpu.artifact import VpuProgram
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.lower import Lowered, LoweringOptions, lower
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.model.entry import CompiledEntry, Place
from tilewright.targets.vpu.model.model_artifact import VpuArtifact
from tilewright.targets.vpu.model.reader import Entry, read_function
from tilewright.targets.vpu.model.resident import keep_state, turned_state
from tilewright.targets.vpu.model.supports import formats, supports
from tilewright.targets.vpu.scheduling.schedule import portfolio

_BUDGET = 3000  # tasks that local search may decode: models have many tasks, and little to gain

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported
    from tilewright.model.options import CompileOptions, Progress


def compile_model(
    model: Imported,
    machine: Machine,
    options: CompileOptions,
    samples: Sequence[Mapping[str, np.ndarray]],
    progress: Progress,
) -> CompiledModel[VpuArtifact]:
    """The compiled model of an imported one."""
    waist = Waist(machine.preset, supports, exact_angles=True, formats=formats, rules=CodeRules())
    found = prepare(model, waist, options, samples, progress)
    read, entries = {}, {}
    started = time.perf_counter()
    for function in found.parts.functions(DEVICE):
        entry = read_function(function, dict(found.parts.weights))
        read[entry.name] = entry
    held = sorted({*model.resident, *model.state})
    found = replace(found, parts=keep_state(found.parts, read, held))
    turned = turned_state(read.values())
    for name, entry in read.items():
        progress("schedule", name)
        entries[name] = compile_entry(entry, machine, LoweringOptions(fused=options.fuse))
    compiled = around(VpuArtifact(machine.preset, entries), found)
    for port, encoding in turned.items():
        compiled.ports[port] = replace(compiled.ports[port], encoding=encoding)
    compiled.timing["schedule"] = time.perf_counter() - started
    require(compiled)
    return compiled


def compile_entry(entry: Entry, machine: Machine, options: LoweringOptions) -> CompiledEntry:
    """The task list of one function, verified against its tile graph."""
    lowered = lower(entry.network, machine, options)
    graph = lowered.chip.graph()
    made = portfolio(graph, budget=_BUDGET)
    findings = verify(made.tasks, graph, strict=True)
    if findings:  # a defect of ours, never of the input
        first = findings[0]
        raise TilewrightError("TW7088", f"{entry.name}: {first.property} {first.message}")
    constants = {
        name: np.ascontiguousarray(constant.build()).tobytes()
        for name, constant in lowered.chip.constants.items()
    }
    homes = {}
    for name in (*entry.inputs.values(), *entry.outputs.values()):
        home = lowered.chip.home(name)
        homes[name] = (home.tensor, home.offset, home.pitch)
    return CompiledEntry(
        entry.name,
        lowered.network,
        VpuProgram(made.tasks, lowered.chip.operations(), constants),
        entry.inputs,
        entry.outputs,
        homes,
        _owners(lowered),
        _places(lowered),
        made.bounds.strong,
        entry.state,
    )


def _owners(lowered: Lowered) -> dict[str, int]:
    """Which call a task belongs to."""
    number = {call.result: n for n, call in enumerate(lowered.network.calls)}
    chip = lowered.chip
    owners = {}
    marks = [*chip.steps, ("", len(chip.tasks))]
    for (result, first), (_, stop) in pairwise(marks):
        for task in chip.tasks[first:stop]:
            if result in number:
                owners[task.id] = number[result]
    return owners


def _places(lowered: Lowered) -> dict[str, Place]:
    chip = lowered.chip
    found = {}
    for task in chip.tasks:
        if task.operation is not None and task.writes[0] in chip.targets:
            value, rows, columns = chip.targets[task.writes[0]]
            found[task.id] = Place(value, rows, columns)
    return found
