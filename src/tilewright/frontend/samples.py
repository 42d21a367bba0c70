"""Samples to calibrate with: inputs of a model from files, from a caller, or drawn from a seed.

A file holds one sample, an array for every input by name. Arrays with one dimension more than the
input hold one sample each along the first. A folder holds such files, read in order of their names.

Error codes: TW0040 something that is no file or folder of samples, TW0041 arrays that cannot be
read, TW0042 arrays that do not fit the model.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.io.tensor_blob import read_tensors

Arrays = dict[str, np.ndarray]
SUFFIXES = (".npz", ".safetensors")


class Following(Mapping[str, np.ndarray]):
    """A sample made of what the model gives for the one before, when somebody asks for it.

    names: of its arrays. make: the arrays, from the outputs for the sample before where they are known;
    for None it finds them itself, which takes a run of the model.
    """

    def __init__(self, names: Sequence[str], make: Callable[[Arrays | None], Arrays]) -> None:
        self._names, self._make = tuple(names), make
        self._made: Arrays | None = None

    def behind(self, results: Arrays | None) -> Arrays:
        """The arrays; results: outputs for the sample before. The first time decides."""
        if self._made is None:
            self._made = self._make(results)
            assert tuple(self._made) == self._names
        return self._made

    def __getitem__(self, name: str) -> np.ndarray:
        return self.behind(None)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_VOID = {1: ml_dtypes.float8_e4m3fn, 2: ml_dtypes.bfloat16}  # what numpy cannot name in a file


def read_samples(model: Imported, paths: Sequence[str | Path]) -> list[Arrays]:
    """All samples in files and folders, checked against the model's inputs."""
    samples: list[Arrays] = []
    for path in paths:
        for file in sample_files(Path(path)):
            samples += samples_of(model, read_arrays(file), Location(str(file)))
    return samples


def sample_files(path: Path) -> list[Path]:
    """A file of samples, or all that a folder has."""
    if os.path.isdir(path):
        found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not found:
            raise TilewrightError(
                "TW0040",
                f"the folder {str(path)!r} has no samples",
                hint="put .npz or .safetensors files in it, one sample each",
            )
        return found
    if not os.path.exists(path):
        raise TilewrightError("TW0040", f"there is no file {str(path)!r} to calibrate with")
    if path.suffix not in SUFFIXES:
        raise TilewrightError(
            "TW0040",
            f"files ending in {path.suffix or 'nothing'} are not read as samples",
            Location(str(path)),
            "save an array for every input: numpy.savez, or safetensors; or name a folder of those",
        )
    return [path]


def read_arrays(path: Path) -> Arrays:
    """All arrays of a file by name."""
    place = Location(os.fspath(path))
    try:
        if path.suffix == ".safetensors":
            return read_tensors(np.memmap(path, np.uint8, "r"), "the samples", place)
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TilewrightError("TW0041", f"the samples cannot be read: {reason}", place) from None


def samples_of(
    model: Imported, arrays: Mapping[str, Any], place: Location | None = None
) -> list[Arrays]:
    """The sample, or the stack of samples, that the arrays are; in the types of the inputs."""
    own = [spec for spec in model.inputs if spec.name not in model.state]
    known = {spec.name for spec in model.inputs}
    stranger = next((name for name in arrays if name not in known), None)
    hint = f"the model takes {', '.join(map(str, own)) or 'nothing'}"
    if stranger is not None:
        raise TilewrightError("TW0042", f"the model has no input {stranger!r}", place, hint)
    missing = next((spec for spec in own if spec.name not in arrays), None)
    if missing is not None:
        raise TilewrightError("TW0042", f"the sample lacks the input {missing}", place, hint)
    found = {name: _named_type(np.asarray(array)) for name, array in arrays.items()}
    specs = [spec for spec in model.inputs if spec.name in found]
    counts = {
        found[spec.name].shape[0]
        for spec in specs
        if found[spec.name].ndim == len(spec.shape) + 1 and found[spec.name].shape[1:] == spec.shape
    }
    if len(counts) == 1 and all(found[s.name].ndim == len(s.shape) + 1 for s in specs):
        (count,) = counts
        rows = [{name: array[k] for name, array in found.items()} for k in range(count)]
    else:
        rows = [found]
    return [{s.name: _fitting(s, row[s.name], place) for s in specs} for row in rows]


def _named_type(array: np.ndarray) -> np.ndarray:
    if array.dtype.type is np.void and array.dtype.itemsize in _VOID:
        return array.view(_VOID[array.dtype.itemsize])
    return array


def _fitting(spec: TensorSpec, array: np.ndarray, place: Location | None) -> np.ndarray:
    from tilewright.reference.dtypes import numpy_type

    if tuple(array.shape) != spec.shape:
        shape = "x".join(map(str, array.shape)) or "a single number"
        raise TilewrightError("TW0042", f"{spec.name} is {shape}, the model takes {spec}", place)
    wanted = numpy_type(spec.dtype)
    if array.dtype.kind in "OSUMmc" or (wanted.kind in "iub" and array.dtype.kind not in "iub"):
        raise TilewrightError(
            "TW0042", f"{spec.name} is {array.dtype}, the model takes {spec}", place
        )
    array = array.astype(wanted)
    if spec.dtype in ("f64", "f32", "f16", "bf16") and np.isnan(array).any():
        raise TilewrightError(
            "TW0042",
            f"{spec.name} holds NaN, from which no range can be taken",
            place,
            "calibrate with numbers such as the model is given later",
        )
    return array


def with_state(model: Imported, samples: Sequence[Arrays]) -> list[Arrays]:
    """The samples with the first values of the model's own memory where they give none."""
    first = {spec.name: _first(model, spec) for spec in model.inputs if spec.name in model.state}
    if not first:
        return list(samples)
    return [{**first, **sample} for sample in samples]


def _first(model: Imported, spec: TensorSpec) -> np.ndarray:
    from tilewright.reference.dtypes import numpy_type

    if spec.name in model.weights:
        return np.asarray(model.weights[spec.name])
    return np.zeros(spec.shape, numpy_type(spec.dtype))
