"""Several models as one program: entry points that share weights and memory.

    program = tw.compile(
        {"prefix": policy.prefix, "denoise": policy.denoise},
        {"prefix": (tokens,), "denoise": (noise, keys)},
        state={"keys": ["prefix.output", "denoise.keys"]},
    )

A state is a list of ports, `entry.port`: outputs write it, inputs read it. Ranges of a reader's
values come from what its writers give for their own samples, so that both sides agree on them.

Error codes: TW0047 entry points or samples with unusable names, TW0048 a state that cannot be.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.compiling import compile_imported, distinct, layer_names
from tilewright.compiling.sources import as_imported, is_function, samples_for, sorted_by_jax
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.frontend.samples import Arrays, with_state
from tilewright.garbage import rare_cycle_collection
from tilewright.io.deferred import let_go_of_pages, parked
from tilewright.model.calibrate import example_inputs, main_name
from tilewright.model.digest import remembered_digests
from tilewright.model.options import CompileOptions, Progress
from tilewright.reference.executor import Executor
from tilewright.targets.checking import ENTRY_NAME, require_entries
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel, State

Declared = Mapping[str, Sequence[str]]
CALLS = 3  # that an entry point with its own state is followed for, to take ranges from
SMALL = 4_000_000  # weights, up to which that takes no time
PARKED = 256 << 20  # bytes of weights of an entry point from which on they wait in a file
PARKED_ALONE = 1 << 20  # and of one of them
Floats = dict[str, list[dict[str, np.ndarray]]]  # outputs of entry points on their samples


@rare_cycle_collection()
@remembered_digests()
def compile_entries(
    models: Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    target: Any = "atlas-v1",
    calibrate: Mapping[str, Any] | None = None,
    state: Declared | None = None,
    options: CompileOptions | None = None,
    shapes: Any = None,
    weights: Any = None,
    name: str | None = None,
    progress: Progress = lambda phase, detail: None,
    goal: float | None = None,
) -> tuple[CompiledEntries, dict[str, Imported]]:
    """The entry points, and what they were made of.

    models, inputs, calibrate: by entry point; samples may be a function of the outputs that entry
    points before have in float on theirs. state: by its name, ports as `entry.port`. weights:
    the tree of arrays that jax functions take as their first argument, one for all. shapes: sizes
    of symbolic dimensions, for all. goal: the cosine to float32 that the outputs of every entry point
    have to have on its samples (see `steering`).
    """
    _check_names(models, inputs, "inputs")
    _check_names(models, calibrate, "samples")
    options = options or CompileOptions()
    imported = {}
    for entry, model in models.items():
        progress("import", entry)
        given = (inputs or {}).get(entry)
        own = weights if is_function(model) else None
        imported[entry] = distinct(as_imported(model, given, shapes, own))
    declared = resolve(imported, state or {})
    _check_memory(imported, declared)
    for entry, model in imported.items():
        mine = {found.readers[entry] for found in declared.values() if entry in found.readers}
        imported[entry] = replace(model, resident=model.resident | mine)
    layers = _layers_of(imported, options)
    made, program = {}, CompiledEntries(name or "+".join(models), {}, declared)
    known: dict[str, list[np.ndarray]] = {}  # state as float32 has it, sample by sample
    floats: Floats = {}
    for entry, model in imported.items():
        given = (calibrate or {}).get(entry)
        samples = samples_for(
            model,
            given(floats) if callable(given) else given,
            (inputs or {}).get(entry),
            sorted_by_jax(models[entry], (inputs or {}).get(entry)),
        )
        if entry not in (calibrate or {}):
            samples = _with_known(model, program.read_by(entry), samples, known, options.seed)
            own = {**model.state, **_own_state(program, entry)}
            samples = _carried_on(model, own, samples)
        _note(model, _for_later(program, list(imported), entry), samples, known, options.seed)

        def told(phase: str, detail: str, entry: str = entry) -> None:
            progress(phase, f"{entry}: {detail}" if detail else entry)

        try:
            made[entry] = compile_imported(
                model, target, layers[entry], samples, told, shapes, goal
            )
        except TilewrightError as error:
            if goal is not None:  # each has its own
                error.message = f"entry point {entry}: {error.message}"
            raise
        _share_weights(made[entry], [made[other] for other in made if other != entry])
        floats[entry] = made[entry].floats
    for entry, compiled in made.items():
        for port in program.read_by(entry):
            state_name = program.read_by(entry)[port]
            compiled.state[port] = declared[state_name].writers.get(entry, port)
    program.entries = made
    require_entries(program)
    return program, imported


def _check_memory(imported: Mapping[str, Imported], declared: Mapping[str, State]) -> None:
    """Refuse entry points of one module that would each see their own copy of memory it changes."""
    for entry, model in imported.items():
        for name in model.state:
            for other, reader in imported.items():
                if other == entry or not _same_memory(model, reader, name):
                    continue
                if name not in reader.state:
                    raise TilewrightError(
                        "TW0048",
                        f"{entry} changes {name}, which {other} reads as one of its weights: it would "
                        "never see the change",
                        hint=f"give {name} to both as an input, return it from {entry}, and declare "
                        "these ports to be one state (state=…)",
                    )
                shared = [s.readers for s in declared.values() if s.readers.get(entry) == name]
                if not any(readers.get(other) == name for readers in shared):
                    ports = [
                        f"{e}.{port}" for e in (entry, other) for port in (name, f"{name}.next")
                    ]
                    raise TilewrightError(
                        "TW0048",
                        f"{entry} and {other} both change {name}, and each would have its own",
                        hint=f'declare state={{"{name}": {ports}}}'.replace("'", '"'),
                    )


def _same_memory(model: Imported, other: Imported, name: str) -> bool:
    """Whether a weight of both is one tensor of one module."""
    arrays = model.weights.get(name), other.weights.get(name)
    return all(a is not None for a in arrays) and bool(np.may_share_memory(*arrays))  # type: ignore[arg-type]


def _share_weights(compiled: CompiledModel[Any], others: Sequence[CompiledModel[Any]]) -> None:
    """Let weights that an entry point before has too, byte for byte, be the same arrays.

    Many of them wait in a mapped file while other entry points are compiled.
    """
    mine: dict[str, Any] = getattr(compiled.artifact, "weights", {})
    for other in others:
        theirs: dict[str, Any] = getattr(other.artifact, "weights", {})
        for name in mine.keys() & theirs.keys():
            if _equal(mine[name], theirs[name]):
                mine[name] = theirs[name]
    large = {
        name: array
        for name, array in mine.items()
        if isinstance(array, np.ndarray) and not isinstance(array, np.memmap)
        if array.nbytes >= PARKED_ALONE
    }
    if sum(array.nbytes for array in large.values()) >= PARKED:
        mine |= parked(large)


def _equal(one: Any, two: Any) -> bool:
    """Whether two are arrays of the same bytes, compared some at a time."""
    if not isinstance(one, np.ndarray) or not isinstance(two, np.ndarray):
        return False
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    first, second = (x.reshape(-1).view(np.uint8) for x in (one, two))
    step = 1 << 24
    same = all(
        np.array_equal(first[at : at + step], second[at : at + step])
        for at in range(0, len(first), step)
    )
    let_go_of_pages(two)
    return same


def _check_names(models: Mapping[str, Any], given: Any, what: str) -> None:
    for name in models:
        if not isinstance(name, str) or not ENTRY_NAME.fullmatch(name):
            raise TilewrightError(
                "TW0047",
                f"{name!r} is no name of an entry point",
                hint="names are letters, digits and _, beginning with a letter",
            )
    if not models:
        raise TilewrightError("TW0047", "there are no entry points to compile")
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TilewrightError(
            "TW0047",
            f"{what} of several entry points are given by their names",
            hint=f"{{{next(iter(models))!r}: ...}}",
        )
    for name in given:
        if name not in models:
            raise TilewrightError(
                "TW0047",
                f"{what} are given for {name!r}, which is no entry point",
                hint=f"entry points are {', '.join(models)}",
            )


# --- state ------------------------------------------------------------------------------


def resolve(models: Mapping[str, Imported], declared: Declared) -> dict[str, State]:
    """What reads and what writes every state, by the ports that are named."""
    found = {}
    for name, places in declared.items():
        if isinstance(places, str):
            raise TilewrightError(
                "TW0048", f"the state {name} is given as one text", hint="give a list of ports"
            )
        state, specs = State({}, {}), []
        for place in places:
            entry, spec, reads = _port(models, name, place)
            side = state.readers if reads else state.writers
            if entry in side:
                raise TilewrightError(
                    "TW0048", f"{entry} {'reads' if reads else 'writes'} the state {name} twice"
                )
            side[entry] = spec.name
            specs.append((place, spec))
        for place, spec in specs:
            first, one = specs[0]
            if (spec.shape, spec.dtype) != (one.shape, one.dtype):
                raise TilewrightError(
                    "TW0048",
                    f"the state {name} is {one} in {first}, and {spec} in {place}",
                    hint="all its ports have one shape and type",
                )
        for side, verb in ((state.readers, "reads"), (state.writers, "writes")):
            if not side:
                raise TilewrightError("TW0048", f"nothing {verb} the state {name}")
        found[name] = state
    return found


def _port(models: Mapping[str, Imported], state: str, place: str) -> tuple[str, TensorSpec, bool]:
    """The entry point and port of `entry.port`, and whether it is an input."""
    entry, _, port = place.partition(".")
    if entry not in models:
        raise TilewrightError(
            "TW0048",
            f"the state {state} names {place!r}, there is no entry point {entry!r}",
            hint=f"entry points are {', '.join(models)}",
        )
    model = models[entry]
    for spec in model.inputs:
        if spec.name == port:
            return entry, spec, True
    for spec in model.outputs:
        if spec.name == port:
            return entry, spec, False
    names = [spec.name for spec in (*model.inputs, *model.outputs)]
    near = difflib.get_close_matches(port, names, 3) or names
    raise TilewrightError(
        "TW0048",
        f"the state {state} names {place!r}, {entry} has no such input or output",
        hint=f"it has {', '.join(near[:8])}",
    )


# --- samples ----------------------------------------------------------------------------


def _with_known(
    model: Imported,
    reads: Mapping[str, str],
    samples: list[Arrays],
    known: Mapping[str, list[np.ndarray]],
    seed: int,
) -> list[Arrays]:
    """Samples with the state that entry points before this one write."""
    mine = {port: known[name] for port, name in reads.items() if name in known}
    if not mine:
        return samples
    samples = samples or [example_inputs(model, seed)]
    return [
        {**sample, **{port: values[number % len(values)] for port, values in mine.items()}}
        for number, sample in enumerate(samples)
    ]


def _own_state(program: CompiledEntries, entry: str) -> dict[str, str]:
    """State that an entry point both reads and writes: the input, and the output for the next call."""
    writes = {state: port for port, state in program.written_by(entry).items()}
    reads = program.read_by(entry).items()
    return {port: writes[state] for port, state in reads if state in writes}


def _carried_on(model: Imported, own: Mapping[str, str], samples: list[Arrays]) -> list[Arrays]:
    """Samples, and what the entry point meets in the calls after them: its state may grow."""
    small = sum(np.size(weight) for weight in model.weights.values()) < SMALL
    if not own or not small:
        return samples
    executor, names = Executor(model.module, model.weights), [s.name for s in model.outputs]
    found = list(samples)
    for current in with_state(model, samples):
        for _ in range(CALLS):
            given = [np.asarray(current[spec.name]) for spec in model.inputs]
            results = dict(zip(names, executor.run(given, main_name(model)), strict=True))
            current = {**current, **{port: results[output] for port, output in own.items()}}
            found.append(current)
    return found


def _for_later(program: CompiledEntries, order: Sequence[str], entry: str) -> dict[str, str]:
    """Outputs of an entry point that are state for those compiled after it."""
    after = order[order.index(entry) + 1 :]
    wanted = {name for other in after for name in program.read_by(other).values()}
    return {port: name for port, name in program.written_by(entry).items() if name in wanted}


def _note(
    model: Imported,
    writes: Mapping[str, str],
    samples: list[Arrays],
    known: dict[str, list[np.ndarray]],
    seed: int,
) -> None:
    """Compute in float32 what an entry point writes, for the calibration of those after it."""
    if not writes:
        return
    executor, names = Executor(model.module, model.weights), [s.name for s in model.outputs]
    fresh: dict[str, list[np.ndarray]] = {name: [] for name in writes.values()}
    for sample in with_state(model, samples or [example_inputs(model, seed)]):
        given = [np.asarray(sample[spec.name]) for spec in model.inputs]
        results = dict(zip(names, executor.run(given, main_name(model)), strict=True))
        for port, name in writes.items():
            fresh[name].append(results[port])
    for name, values in fresh.items():
        known.setdefault(name, values)


# --- options ----------------------------------------------------------------------------


def _layers_of(
    models: Mapping[str, Imported], options: CompileOptions
) -> dict[str, CompileOptions]:
    """The options of every entry point: layers that are asked for are those of the ones that have them."""
    if not options.host and not options.keep:
        return dict.fromkeys(models, options)
    known = {entry: set(layer_names(model)) for entry, model in models.items()}

    def has(entry: str, name: str) -> bool:
        return any(layer == name or layer.startswith(name + ".") for layer in known[entry])

    for name in (*options.host, *options.keep):
        if not any(has(entry, name) for entry in models):
            everything = sorted(set().union(*known.values()))
            near = difflib.get_close_matches(name, everything, 3) or everything[:3]
            raise TilewrightError(
                "TW0045", f"no entry point has a layer {name!r}", hint=f"such as {', '.join(near)}"
            )
    return {
        entry: replace(
            options,
            host=tuple(n for n in options.host if has(entry, n)),
            keep=tuple(n for n in options.keep if has(entry, n)),
        )
        for entry in models
    }
