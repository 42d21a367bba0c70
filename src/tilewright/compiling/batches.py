"""One model for several batch sizes: an entry point for each, chosen by what a call brings.

    program = tw.compile(module, (x,), batch=[1, 8, 32])
    program(rows)        any number of rows, if rows of a batch do not see each other

The batch is the first dimension of the inputs that have as many rows as the first one (torch and
JAX), or a first dimension without a fixed size (ONNX). All sizes are calibrated on the same rows,
so that a row's result does not depend on the entry point that computes it.

Error codes: TW0049 batch sizes that cannot be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.compiling import compile_imported
from tilewright.compiling.sources import Shapes, as_imported, samples_for, sorted_by_jax
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.frontend.samples import Arrays
from tilewright.garbage import rare_cycle_collection
from tilewright.model.calibrate import example_inputs, main_name
from tilewright.model.options import CompileOptions, Progress
from tilewright.reference.executor import Executor
from tilewright.runtime.batches import entry_name
from tilewright.targets.compiled_model import CompiledEntries

LARGEST = 1 << 16
CLOSE = 1e-5  # of the largest number: how far a row may be off when other rows change


@rare_cycle_collection()
def compile_batches(
    model: Any,
    sizes: Sequence[int],
    inputs: Any = None,
    target: Any = "atlas-v1",
    calibrate: Any = None,
    options: CompileOptions | None = None,
    shapes: Shapes | None = None,
    weights: Any = None,
    progress: Progress = lambda phase, detail: None,
) -> tuple[CompiledEntries, dict[str, Imported]]:
    """An entry point for every size, and what they were made of."""
    wanted, options = _checked(sizes), options or CompileOptions()
    resize, known = _resizing(model, inputs, shapes, weights, max(wanted))
    probe = next((size for size in wanted if size > 1), 2)
    progress("import", f"batches of {', '.join(map(str, wanted))}")
    models = {size: resize(size) for size in sorted({*wanted, known, probe})}
    if len(models) == 1:
        models[probe + 1] = resize(probe + 1)
    if any(one.state for one in models.values()):
        raise TilewrightError(
            "TW0049",
            "a model with memory of its own has one batch size",
            hint="compile it for one size",
        )
    batched = _batched({size: one.inputs for size, one in models.items()})
    results = _batched({size: one.outputs for size, one in models.items()})
    if not batched or None in batched.values():
        odd = next((name for name, kind in batched.items() if kind is None), None)
        raise TilewrightError(
            "TW0049",
            f"the input {odd} changes with the batch, but not in its first dimension alone"
            if odd
            else "no input has a batch as its first dimension",
            hint="compile a table of models, one for every size",
        )
    rows = {name for name, kind in batched.items() if kind}
    separate = all(results.values()) and _rows_are_separate(models[probe], rows, options.seed)
    samples = samples_for(models[known], calibrate, inputs, sorted_by_jax(model, inputs))
    samples = samples or [example_inputs(models[known], options.seed)]
    made = {}
    for size in wanted:

        def told(phase: str, detail: str, size: int = size) -> None:
            progress(phase, f"batch of {size}: {detail}" if detail else f"batch of {size}")

        compiled = compile_imported(
            models[size], target, options, _cut(samples, rows, size), told, shapes
        )
        compiled.provenance["batch"] = {
            "size": size,
            "inputs": sorted(rows),
            "outputs": sorted(name for name, kind in results.items() if kind),
            "separate": separate,
        }
        made[entry_name(size)] = compiled
    program = CompiledEntries(models[known].source, made)
    return program, {entry_name(size): models[size] for size in wanted}


def _checked(sizes: Sequence[int]) -> list[int]:
    """The sizes in ascending order."""
    good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
    if not good or not all(isinstance(n, int) and 1 <= n <= LARGEST for n in sizes):
        raise TilewrightError(
            "TW0049",
            f"{sizes!r} are no batch sizes",
            hint=f"give a list of numbers from 1 to {LARGEST}, such as [1, 8, 32]",
        )
    return sorted(set(sizes))


# --- the same model for another size ----------------------------------------------------


def _resizing(
    model: Any, inputs: Any, shapes: Shapes | None, weights: Any, largest: int
) -> tuple[Callable[[int], Imported], int]:
    """How to import the model for a size, and the size that example inputs have."""
    if inputs is not None:
        first = next(iter(_arrays(inputs)), None)
        if first is None or not len(first.shape):
            raise TilewrightError("TW0049", "the example inputs have no batch")
        known = int(first.shape[0])

        def by_example(size: int) -> Imported:
            return as_imported(model, _resized(inputs, known, size), shapes, weights)

        return by_example, known
    symbols = _symbols(model)
    if not symbols:
        raise TilewrightError(
            "TW0049",
            "the model has one batch size: its inputs are fixed",
            hint="give example inputs of a torch module or jax function, or an ONNX model whose "
            "first dimensions have no fixed size",
        )

    def by_shape(size: int) -> Imported:
        own = {name: size if rest is None else (size, *rest) for name, rest in symbols.items()}
        return as_imported(model, None, {**own, **(shapes or {})}, weights)

    return by_shape, largest


def _arrays(value: Any) -> Any:
    """The arrays of nested example inputs."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif hasattr(value, "shape"):
        yield value


def _resized(value: Any, known: int, size: int) -> Any:
    """Example inputs with another number of rows: the first ones, or again from the beginning."""
    if isinstance(value, Mapping):
        return {name: _resized(part, known, size) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_resized(part, known, size) for part in value)
    if not hasattr(value, "shape") or not len(value.shape) or value.shape[0] != known:
        return value
    return value[np.arange(size) % known]


def _symbols(model: Any) -> dict[str, tuple[int, ...] | None]:
    """First dimensions without a size, of an ONNX model."""
    onnx = sys.modules.get("onnx")
    if isinstance(model, str | Path):
        if not str(model).endswith(".onnx"):
            return {}
    elif onnx is None or not isinstance(model, onnx.ModelProto):
        return {}
    from tilewright.frontend.onnx_file import free_batches

    return free_batches(model)


# --- what depends on the batch ----------------------------------------------------------


def _batched(specs: Mapping[int, Sequence[TensorSpec]]) -> dict[str, bool | None]:
    """Whether ports have the batch as their first dimension; None: it changes them otherwise."""
    found: dict[str, bool | None] = {}
    for rows in zip(*specs.values(), strict=True):
        shapes = dict(zip(specs, (spec.shape for spec in rows), strict=True))
        rests = {shape[1:] for shape in shapes.values()}
        if len(set(shapes.values())) == 1:
            found[rows[0].name] = False
        elif len(rests) == 1 and all(shape[:1] == (size,) for size, shape in shapes.items()):
            found[rows[0].name] = True
        else:
            found[rows[0].name] = None
    return found


def _rows_are_separate(model: Imported, rows: set[str], seed: int) -> bool:
    """Whether every row of a result comes from the same row of the inputs alone, by computing in
    float32 with other rows beside it, and with the rows in another order."""
    executor = Executor(model.module, model.weights)

    def run(sample: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return executor.run([np.asarray(sample[s.name]) for s in model.inputs], main_name(model))

    first, other = (example_inputs(model, seed + k) for k in range(2))
    for name in first:
        if name not in rows:
            other[name] = first[name]
    turned = {n: np.roll(a, 1, 0) if n in rows else a for n, a in first.items()}
    for name in rows:
        other[name] = np.concatenate([first[name][:1], other[name][1:]])
    exact, moved, beside = run(first), run(turned), run(other)
    return all(
        _close(np.roll(a, 1, 0), b) and _close(a[:1], c[:1])
        for a, b, c in zip(exact, moved, beside, strict=True)
    )


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind not in "fV":
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    limit = CLOSE * np.abs(a).max(initial=0.0)
    return bool(np.array_equal(np.isfinite(a), np.isfinite(b))) and bool(
        (np.abs(a - b)[np.isfinite(a)] <= limit).all()
    )


def _cut(samples: Sequence[Arrays], rows: set[str], size: int) -> list[Arrays]:
    """All rows of the samples, as samples of another size; the last begins again with the first."""
    found = []
    for sample in samples:
        count = max(len(sample[name]) for name in rows)
        for start in range(0, count, size):
            at = (start + np.arange(size)) % count
            found.append({n: a[at] if n in rows else a for n, a in sample.items()})
    return found
