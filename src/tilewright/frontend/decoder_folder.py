"""Decoders in local Hugging Face folders: config.json and safetensors, nothing is downloaded."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.decoder import check_names, tensor, weight_names, weight_shape
from tilewright.frontend.decoder_config import DecoderConfig, read_config
from tilewright.frontend.microscaled_weights import with_decoded
from tilewright.io.deferred import Deferred, as_weight, in_file
from tilewright.io.tensor_blob import read_tensors

_INDEX, _WHOLE = "model.safetensors.index.json", "model.safetensors"
EMBEDDING = "model.embed_tokens.weight"
LARGE = 1 << 16  # elements from which on a tensor is read only when it is needed


def is_decoder_folder(path: str | Path) -> bool:
    """Whether this is a folder with a configuration in it."""
    return os.path.isfile(Path(path) / "config.json")


def read_decoder(folder: str | Path) -> tuple[DecoderConfig, dict[str, np.ndarray]]:
    """Configuration and weights; large ones are read when they are needed, what does not fit is an
    error."""
    config = read_config(folder)
    weights: dict[str, np.ndarray] = {}
    for file in _files(Path(folder)):
        place = Location(str(file))
        try:
            raw = np.memmap(file, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise TilewrightError("TW6401", f"cannot read the weights: {error}", place) from None
        for name, array in with_decoded(read_tensors(raw, "the weights", place), place).items():
            if name in weights:
                raise TilewrightError("TW6403", f"{name} is in two files", place)
            if array.dtype.kind not in "fV":
                raise TilewrightError(
                    "TW6403", f"{name} is {array.dtype}, weights are floats", place
                )
            weights[name] = _read_later(str(file), name, raw, array)
    try:
        check_names(config, weights)
        for name in weight_names(config):
            tensor(weights, name, weight_shape(config, name))
    except TilewrightError as error:
        raise error.at(Location(str(folder))) from None
    return config, weights


def _read_later(file: str, name: str, raw: np.ndarray, array: np.ndarray) -> np.ndarray:
    """A tensor of a mapped file as the network wants it: float32, or bf16 for a table, which is
    only looked up. Large ones stay in the file: pages of a mapping that were looked at would stay in
    memory."""
    wanted = np.dtype(ml_dtypes.bfloat16 if name == EMBEDDING else np.float32)
    finite = partial(_finite, name, Location(file))
    if isinstance(array, Deferred):
        return as_weight(array.converted(wanted).mapped(finite))
    if array.size < LARGE:
        return finite(array.astype(wanted))
    offset = array.ctypes.data - raw.ctypes.data
    later = in_file(file, offset, array.shape, array.dtype, wanted)
    return as_weight(later if name == EMBEDDING else later.mapped(finite))


def _finite(name: str, place: Location, array: np.ndarray) -> np.ndarray:
    """The array, of which every number has to be one; a sum tells fast that nothing is wrong."""
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(float(array.sum()))
    if suspicious and not np.isfinite(array.astype(np.float32)).all():
        raise TilewrightError("TW6403", f"{name} has numbers that are not finite", place)
    return array


def _files(folder: Path) -> list[Path]:
    if os.path.isfile(folder / _WHOLE):
        return [folder / _WHOLE]
    index = folder / _INDEX
    place = Location(str(index))
    if not os.path.isfile(index):
        raise TilewrightError(
            "TW6401",
            f"the folder has neither {_WHOLE} nor {_INDEX}",
            Location(str(folder)),
            "weights are read from safetensors files only",
        )
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TilewrightError("TW6401", "the index of the weights is malformed", place) from None
    missing = sorted(name for name in names if not os.path.isfile(folder / name))
    if missing:
        raise TilewrightError("TW6401", f"the folder lacks {missing[0]}", place)
    return [folder / name for name in sorted(names)]
