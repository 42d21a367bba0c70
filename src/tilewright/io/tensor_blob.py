"""Tensors in the safetensors format, to and from bytes in memory or in a mapped file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.pieces import Content
from tilewright.io.tensor_files import SAFETENSORS_TYPES

_TYPES = {name: dtype for dtype, name in SAFETENSORS_TYPES.items()}
_ALIGNMENT = 64
_HEADER_LIMIT = 100 << 20


def tensor_pieces(tensors: Mapping[str, np.ndarray], what: str) -> list[bytes | np.ndarray]:
    """The bytes of a safetensors file, in pieces; widest elements first, then by name."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        array = tensors[name]
        kind = SAFETENSORS_TYPES.get(array.dtype)
        if kind is None or name == "__metadata__":
            raise TilewrightError("TW0014", f"{what} cannot hold {name}, which is {array.dtype}")
        first, end = end, end + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return [len(text).to_bytes(8, "little") + text, *(tensors[name] for name in order)]


def read_tensors(raw: Content, what: str, place: Location) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file given as bytes; they share its memory."""

    def bad(reason: str) -> TilewrightError:
        return TilewrightError("TW3106", f"{what}: {reason}", place)

    length = int.from_bytes(raw[:8].tobytes(), "little")
    if len(raw) < 8 or length > min(len(raw) - 8, _HEADER_LIMIT):
        raise bad("it is not safetensors, or it is cut short")
    try:
        header = json.loads(raw[8 : 8 + length].tobytes(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise bad("the header is not readable") from None
    if not isinstance(header, dict):
        raise bad("the header is not a table of tensors")
    header.pop("__metadata__", None)
    start, count = 8 + length, len(raw) - 8 - length
    found: dict[str, np.ndarray] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        array, first, last = _tensor(name, entry, raw, start, bad)
        spans.append((first, last, name))
        found[name] = array
    end = 0
    for first, last, name in sorted(spans):
        if first != end:
            raise bad(f"the bytes of {name!r} begin at {first}, the tensor before ends at {end}")
        end = last
    if end != count:
        raise bad(f"it has {count} bytes of data, its tensors {end}")
    return found


def _tensor(
    name: str, entry: Any, raw: Content, start: int, bad: Any
) -> tuple[np.ndarray, int, int]:
    try:
        kind, shape = entry["dtype"], entry["shape"]
        first, last = entry["data_offsets"]
        if any(type(n) is not int or n < 0 for n in (first, last, *shape)) or len(shape) > 32:
            raise ValueError
        if not isinstance(shape, list):
            raise ValueError
        dtype = _TYPES[kind]
    except (KeyError, TypeError, ValueError):
        raise bad(f"the entry of {name!r} is malformed") from None
    if not first <= last <= len(raw) - start:
        raise bad(f"the bytes of {name!r} end at {last}, the data at {len(raw) - start}")
    if last - first != math.prod(shape) * dtype.itemsize:
        raise bad(f"{name!r} has {last - first} bytes, its shape needs another number")
    return raw[start + first : start + last].view(dtype).reshape(shape), first, last


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result
