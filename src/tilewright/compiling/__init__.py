"""`tw.compile`: from any model to a program to call; the `tilewright compile` command is the same.

    program = tw.compile("block.onnx")
    program = tw.compile(torch_module, (x,))
    y = program(x)

Error codes: TW0043 something that is no model, TW0044 example inputs that are missing or too many,
TW0045 a layer that the model does not have, TW0046 inputs or outputs larger than the machine,
TW0068 ranges to choose where the machine takes none from calibration, TW0070 an argument of the
wrong kind.
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.compiling.sources import (
    Shapes,
    as_imported,
    is_table_of_weights,
    samples_for,
    sizes_of_examples,
    sorted_by_jax,
)
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.work_estimate import share_of
from tilewright.errors import Location, TilewrightError, within_memory
from tilewright.frontend.imported import Imported
from tilewright.frontend.samples import Arrays, with_state
from tilewright.garbage import rare_cycle_collection
from tilewright.model.block_weights import with_decoded_blocks
from tilewright.model.calibrate import example_inputs
from tilewright.model.digest import model_hash
from tilewright.model.microscale import microscaled
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.sample_values import seen_in
from tilewright.model.simplify import simplify
from tilewright.program import Program
from tilewright.reference.dtypes import numpy_type
from tilewright.runtime import arguments
from tilewright.targets import registry
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.target import Target


@rare_cycle_collection()
def compile(
    model: Any,
    inputs: Any = None,
    target: Any = "atlas-v1",
    calibrate: Any = None,
    *,
    fuse: bool = True,
    host: str | Sequence[str] = (),
    no_host: bool = False,
    keep: str | Sequence[str] = (),
    scales: str = "channel",
    ranges: str = "max",
    smooth: float | None = None,
    weight_format: str | None = None,
    seed: int = 0,
    accuracy: bool | float = False,
    quantize: str | None = None,
    shapes: Shapes | None = None,
    weights: Any = None,
    state: Mapping[str, Sequence[str]] | None = None,
    batch: Sequence[int] | None = None,
    progress: Progress = lambda phase, detail: None,
) -> Any:
    """The `Program` of a model, to call with arrays; the `EntryPoints` of a table of models.

    model: a torch module or a method of one, a torch.export program, an ONNX model, a jax function,
        a function of tw.model's, an imported model, the name of a file or package.module:factory.
    inputs: example inputs, which torch modules and functions need: a tuple, or a table by name.
    target: a machine by name, the file of one of your own, or a machine profile.
    calibrate: inputs to take the ranges of fp8 values from: a sample, a list of samples, or files
        of them; by default the example inputs, else random numbers of `seed`.
    fuse: keep results in VMEM between kernels and chains of operations in one kernel.
    host: layers the host computes. no_host: it is an error if anything needs the host.
    keep: layers whose products are as precise as bf16, at two to three times the work.
    scales: of fp8 weights, one per "channel" (column) or one per "tensor".
    ranges: what codes cover of the values that calibration saw: "max" all of them, "percentile" or
        "percentile:99.9" what is not beyond that, "mse" what gives the least squared error.
    smooth: how much of the range of activations moves into the weights that multiply them, channel
        by channel, by powers of two: the same function, with large channels easier to quantise.
    weight_format: numbers that weights of products are rounded to, in blocks of 32 with a scale each:
        "mxfp8", "mxfp8-e5m2", "mxfp6", "mxfp6-e3m2", "mxfp4" or "mxint8"; None: as they are.
    accuracy: note how far every layer is from float32, on the first calibration sample. A number such
        as 0.995: keep the cheapest layers with which outputs have this cosine to float32 on all
        samples, each entry point for itself.
    quantize: the number format of products, such as "int8" on Coral; None: the machine's own.
    shapes: sizes of symbolic dimensions of ONNX models.
    weights: the tree of arrays that a jax function takes as its first argument.
    state: memory that entry points share, by name: a list of ports such as "prefix.keys"; outputs
        write it, inputs read it.
    batch: sizes to compile the model for, one entry point each; a call takes any number of rows.

    A table of models by name makes one program with an entry point for each; inputs and samples
    are tables by the same names then.
    """
    options = CompileOptions(
        fuse=arguments.flag("fuse", fuse),
        host=arguments.names("host", host),
        no_host=arguments.flag("no_host", no_host),
        keep=arguments.names("keep", keep),
        scales=arguments.text("scales", scales),
        seed=arguments.whole("seed", seed),
        accuracy=accuracy is True,
        quantize=None if quantize is None else arguments.text("quantize", quantize),
        ranges=arguments.text("ranges", ranges),
        smooth=None if smooth is None else arguments.number("smooth", smooth),
        weights=None if weight_format is None else arguments.text("weight_format", weight_format),
    )
    both = {*options.host} & {*options.keep}
    if both:
        raise TilewrightError(
            "TW0045",
            f"layer {min(both)!r} cannot be both kept precise by the machine and computed by the host",
            hint="leave it out of keep or of host; the host computes in float32",
        )
    goal = None if isinstance(accuracy, bool) else arguments.number("accuracy", accuracy)
    arguments.table("shapes", shapes)
    arguments.table("state", state)
    if not callable(progress):
        raise arguments.wrong("progress", "a function of a phase and a detail", progress)
    if goal is not None and batch is not None:
        raise TilewrightError("TW0066", "a goal of accuracy is that of one batch size")
    if batch is not None:
        if isinstance(model, Mapping) or state:
            raise TilewrightError("TW0049", "batch sizes are those of one model without state")
        from tilewright.compiling.batches import compile_batches
        from tilewright.entry_points import EntryPoints

        made, originals = compile_batches(
            model, batch, inputs, target, calibrate, options, shapes, weights, progress
        )
        return EntryPoints(made, originals=originals)
    if isinstance(model, Mapping) and not is_table_of_weights(model):
        from tilewright.compiling.entries import compile_entries
        from tilewright.entry_points import EntryPoints

        made, originals = compile_entries(
            model, inputs, target, calibrate, state, options, shapes, weights, progress=progress,
            goal=goal,
        )  # fmt: skip
        return EntryPoints(made, originals=originals)
    if state:
        raise TilewrightError(
            "TW0048", "state is shared by entry points", hint="compile a table of models by name"
        )
    began = time.perf_counter()
    progress("import", "")
    shapes = shapes or sizes_of_examples(model, inputs)
    imported = as_imported(model, inputs, shapes, weights)
    seconds = time.perf_counter() - began
    samples = samples_for(imported, calibrate, inputs, sorted_by_jax(model, inputs))
    compiled = compile_imported(imported, target, options, samples, progress, shapes, goal)
    compiled.timing = {"import": seconds, **compiled.timing}
    return Program(compiled, original=imported)


@rare_cycle_collection()
def compile_imported(
    imported: Imported,
    target: Any = "atlas-v1",
    options: CompileOptions | None = None,
    samples: Sequence[Arrays] = (),
    progress: Progress = lambda phase, detail: None,
    shapes: Shapes | None = None,
    goal: float | None = None,
) -> CompiledModel[Any]:
    """The compiled form of an imported model, with where it came from and the host's share.

    goal: the cosine to float32 that outputs have to have (see `steering`).
    """
    machine = registry.find(target)
    if goal is not None:
        from tilewright.compiling.steering import steered

        if not getattr(machine, "keeps_layers", False):
            raise TilewrightError(
                "TW0066", f"{machine.name} cannot keep some layers more precise than others"
            )
        options, model = options or CompileOptions(), distinct(imported)
        tried = with_state(model, samples) or [example_inputs(model, options.seed)]
        return steered(
            model, options, tried, goal,
            lambda chosen: compile_imported(model, machine, chosen, samples, progress, shapes),
            sorted(set(layer_names(model))), progress,
        )  # fmt: skip
    options = options or CompileOptions()
    _check_format(machine, options.quantize)
    _check_ranges(machine, options)
    _check_layers(imported, (*options.host, *options.keep))
    check_sizes(imported, machine, options.quantize)
    samples = with_state(imported, samples)
    imported = distinct(imported)
    digest = None
    decoded = with_decoded_blocks(imported)
    if decoded is not imported:
        digest, imported = model_hash(simplify(imported)), decoded
    rounding = None
    if options.weights is not None:
        progress("weights", options.weights)
        rounding = microscaled(imported, options.weights, options.keep)
        imported = rounding.model
    if not getattr(machine, "reads_weights_late", False):
        there = {name: np.asarray(array) for name, array in imported.weights.items()}
        imported = replace(imported, weights=there)
    with within_memory("compiling the model", Location(imported.source)):
        compiled = machine.compile(imported, options, samples, progress)
    provenance = compiled.provenance
    if rounding is not None:
        provenance["weights"] = rounding.to_json()
        digest = digest or rounding.digest
    if digest is not None:  # of what was given
        provenance["model_hash"] = digest
    noted = {name: meaning.to_json() for name, meaning in seen_in(samples).items()}
    provenance["samples"] = {**noted, **provenance.get("samples", {})}
    provenance["calibration"] = (
        f"{len(samples)} samples" if samples else f"random, seed {options.seed}"
    )
    share = provenance.pop("host_share", None)  # some machines know it already
    provenance["host_share"] = host_share(compiled, imported) if share is None else share
    if shapes:
        provenance["shapes"] = {
            name: size if isinstance(size, int) else list(size) for name, size in shapes.items()
        }
    return compiled


def _check_format(target: Target, quantize: str | None) -> None:
    """Number formats are the machine's own; those that quantise otherwise say so."""
    known = getattr(target, "number_formats", ("fp8",))
    if quantize is not None and quantize not in known:
        raise TilewrightError(
            "TW0063",
            f"{target.name} does not quantise to {quantize}",
            hint=f"it has {', '.join(known)}",
        )


def _check_ranges(target: Target, options: CompileOptions) -> None:
    """Ranges are chosen where a machine makes codes of values with scales from calibration."""
    if options.ranges == "max":
        return
    formats = getattr(target, "calibrated_formats", ())
    if options.quantize not in formats:
        usable = [name for name in formats if name]
        raise TilewrightError(
            "TW0068",
            f"{target.name} takes no ranges from calibration here: there is none to choose by "
            f"{options.ranges}",
            hint=f"use it with --quantize {usable[-1]}" if usable else "leave --ranges away",
        )


def check_sizes(imported: Imported, target: Target, quantize: str | None = None) -> None:
    """Inputs and outputs that the machine's memory cannot hold are no work for it.

    A machine that holds them in another format, or in several memories, says itself what fits.
    """
    own = getattr(target, "check_sizes", None)
    if own is not None:
        own(imported, quantize)
        return
    largest = max(memory.bytes for memory in target.describe().memories)
    for spec in (*imported.inputs, *imported.outputs):
        size = math.prod(spec.shape) * numpy_type(spec.dtype).itemsize
        if size > largest:
            raise TilewrightError(
                "TW0046",
                f"{spec} takes {size:,} bytes, {target.name} has {largest:,}",
                Location(imported.source),
                "give a smaller size or batch",
            )


def distinct(imported: Imported) -> Imported:
    """The model with outputs whose names nothing else has: an input and an output may share one."""
    taken = {spec.name for spec in imported.inputs}
    outputs, state = [], dict(imported.state)
    for spec in imported.outputs:
        name = spec.name
        while name in taken:
            name += ".out"
        taken.add(name)
        outputs.append(replace(spec, name=name))
        state = {key: name if value == spec.name else value for key, value in state.items()}
    return replace(imported, outputs=tuple(outputs), state=state)


def host_share(compiled: CompiledModel[Any], imported: Imported) -> float:
    """The part of the model's arithmetic that the host does, from 0 to 1."""
    if not compiled.host_module:
        return 0.0
    simple = compiled.phases.get("simplified")
    whole = parse_text(simple, "<model>") if simple else imported.module
    return share_of(parse_text(compiled.host_module, "<host>"), whole)


def _check_layers(imported: Imported, names: Sequence[str]) -> None:
    """Every layer that is asked for exists."""
    if not names:
        return
    layers = sorted(set(layer_names(imported)))
    for name in names:
        if not any(layer == name or layer.startswith(name + ".") for layer in layers):
            near = difflib.get_close_matches(name, layers, 3) or layers[:3]
            hint = f"layers are {', '.join(near)}" if near else "the model names no layers"
            raise TilewrightError(
                "TW0045", f"the model has no layer {name!r}", Location(imported.source), hint
            )


def layer_names(imported: Imported) -> Iterator[str]:
    """The names the model gives its operations."""
    for op in imported.module.walk():
        name = op.attributes.get("tw.layer")
        if name is not None:
            yield getattr(name, "data", "")
