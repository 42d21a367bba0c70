"""Arrays in files: `.npy`, one tensor of a `.safetensors` file, or raw bytes.

A file is named as `weights.npy`, `model.safetensors#layer.weight` or `image.bin`. `.npy` cannot
say bf16 or fp8: numpy stores them as two- or one-byte void, which is read as bf16 or fp8 E4M3.
Raw bytes and integer `.npy` files can be given an element type: `image.bin#bf16`.
"""

from __future__ import annotations

import io
import json
import math
import os
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import write_atomically

ELEMENT_TYPES: dict[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8": np.dtype(ml_dtypes.float8_e4m3fn),
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
    **{f"i{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"u{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
}

_SAFETENSORS = {
    "BOOL": "u8",
    "U8": "u8",
    "I8": "i8",
    "F8_E4M3": "fp8",
    "F8_E5M2": "u8",
    "F8_E8M0": "u8",
    "BF16": "bf16",
    "F16": "f16",
    "U16": "u16",
    "I16": "i16",
    "F32": "f32",
    "U32": "u32",
    "I32": "i32",
    "F64": "f64",
    "U64": "u64",
    "I64": "i64",
}
SAFETENSORS_TYPES: dict[np.dtype[Any], str] = {
    np.dtype(kind): name
    for kind, name in (
        (np.bool_, "BOOL"), (np.uint8, "U8"), (np.int8, "I8"), (np.uint16, "U16"),
        (np.int16, "I16"), (np.uint32, "U32"), (np.int32, "I32"), (np.uint64, "U64"),
        (np.int64, "I64"), (np.float16, "F16"), (np.float32, "F32"), (np.float64, "F64"),
        (ml_dtypes.bfloat16, "BF16"), (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"), (ml_dtypes.float8_e8m0fnu, "F8_E8M0"),
    )
}  # fmt: skip
MAX_RANK = 64  # of numpy's arrays
_HEADER_LIMIT = 100 << 20
_CONTAINERS = (".npz", ".pt", ".pth", ".pkl", ".zip")  # not what is meant by raw bytes


@dataclass(frozen=True)
class Tensor:
    """An array as a file holds it; `typed` is false for raw bytes."""

    name: str  # as the user wrote it
    array: np.ndarray
    typed: bool

    @property
    def size(self) -> int:
        return self.array.nbytes

    @property
    def element(self) -> str:
        """Name of the element type, such as bf16."""
        return element_name(self.array.dtype)

    def raw(self, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes start…stop of the array in row-major order."""
        flat = self.array.reshape(-1)
        width = self.array.dtype.itemsize
        if start % width or (stop or 0) % width:
            return flat.tobytes()[start:stop]
        return flat[start // width : None if stop is None else stop // width].tobytes()


def element_name(dtype: np.dtype[Any]) -> str:
    return next((name for name, known in ELEMENT_TYPES.items() if known == dtype), str(dtype))


def read_tensor(name: str) -> Tensor:
    """The array that `PATH`, `PATH.safetensors#tensor` or `PATH#type` names."""
    path, part = _split(name)
    if not os.path.exists(path):
        raise TilewrightError("TW0020", f"there is no file {str(path)!r}", hint=_hint(path))
    if not os.path.isfile(path):
        raise TilewrightError("TW0021", f"{str(path)!r} is not a file")
    if path.suffix in _CONTAINERS:
        raise TilewrightError(
            "TW0028",
            f"files ending in {path.suffix} are not read as arrays",
            Location(str(path)),
            hint="save the array as .npy or .safetensors; for its raw bytes rename the file",
        )
    try:
        if path.suffix == ".safetensors":
            return Tensor(name, _safetensors(path, part), True)
        if path.suffix == ".npy":
            return Tensor(name, _as_type(_npy(path), part, path), True)
        size = path.stat().st_size
        raw = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
        return Tensor(name, _as_type(raw, part, path), part is not None)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TilewrightError("TW0022", f"cannot read: {reason}", Location(str(path))) from None


def write_tensor(name: str, data: bytes) -> None:
    """Write bytes to `PATH` as they are, or as an array to `PATH.npy`, `PATH.npy#type`."""
    path, part = _split(name)
    if path.suffix == ".npy":
        buffer = io.BytesIO()
        array = _as_type(np.frombuffer(data, np.uint8), part, path)
        np.save(buffer, array, allow_pickle=False)
        data = buffer.getvalue()
    write_atomically(str(path), data)


def check_writable(name: str, count: int) -> None:
    """Refuse an output file that cannot hold `count` bytes, before any work is done."""
    path, part = _split(name)
    if part is not None and part not in ELEMENT_TYPES:
        raise _unknown_type(part, path)
    if part is not None and count % ELEMENT_TYPES[part].itemsize:
        raise _no_whole_number(count, part, path)
    if path.suffix == ".safetensors":
        raise TilewrightError(
            "TW0024",
            "memory cannot be written to a .safetensors file",
            Location(str(path)),
            hint="name a .npy file or any other suffix for raw bytes",
        )
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        what = (
            "it is a folder" if os.path.isdir(path) else f"there is no folder {str(path.parent)!r}"
        )
        raise TilewrightError("TW0023", f"cannot write: {what}", Location(str(path)))


def _split(name: str) -> tuple[Path, str | None]:
    """Path and the part behind `#`; a file whose own name holds a `#` is found as it is."""
    if "\0" in name:
        raise TilewrightError("TW0020", "a file name cannot hold a zero byte")
    head, mark, tail = name.partition(".safetensors#")
    if mark:
        return Path(head + ".safetensors"), tail
    head, mark, tail = name.rpartition("#")
    if not mark or os.path.exists(name):
        return Path(name), None
    return Path(head), tail


def _hint(path: Path) -> str | None:
    if not os.path.isdir(path.parent):
        return f"there is no folder {str(path.parent)!r} either"
    near = sorted(p.name for p in path.parent.glob(f"{path.stem[:3].replace('[', '')}*"))[:3]
    return f"the folder has {', '.join(near)}" if near else None


def element_type(name: str) -> np.dtype[Any]:
    """The numpy type of a name such as bf16."""
    if name not in ELEMENT_TYPES:
        raise _unknown_type(name)
    return ELEMENT_TYPES[name]


def _unknown_type(part: str, path: Path | None = None) -> TilewrightError:
    return TilewrightError(
        "TW0025",
        f"unknown element type {part!r}",
        Location(str(path)) if path else None,
        hint=f"types are {', '.join(ELEMENT_TYPES)}",
    )


def _no_whole_number(count: int, part: str, path: Path) -> TilewrightError:
    size = ELEMENT_TYPES[part].itemsize
    return TilewrightError(
        "TW0026",
        f"{count} bytes are no whole number of {part} elements",
        Location(str(path)),
        hint=f"one element has {size} bytes",
    )


def _as_type(array: np.ndarray, part: str | None, path: Path) -> np.ndarray:
    """The same bytes seen as another element type."""
    if part is None:
        return array
    if part not in ELEMENT_TYPES:
        raise _unknown_type(part, path)
    wanted = ELEMENT_TYPES[part]
    if array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    if array.nbytes % wanted.itemsize:
        raise _no_whole_number(array.nbytes, part, path)
    return np.ascontiguousarray(array).reshape(-1).view(wanted)


# numpy reads the header of a file as Python, with every way in which that can fail.
_NPY_DAMAGE = (
    ValueError, EOFError, SyntaxError, TypeError, MemoryError, OverflowError, RecursionError,
    AttributeError, KeyError, IndexError, tokenize.TokenError,
)  # fmt: skip


def _npy(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _NPY_DAMAGE as error:
        text = str(error).split("\n")[0]
        if "Object arrays" in text or "pickle" in text.lower() or "Python objects" in text:
            text = "it holds Python objects or is no .npy file; only plain arrays are read"
        raise TilewrightError(
            "TW0027",
            f"the file is not a readable .npy array: {text}",
            Location(str(path)),
            hint="write it with numpy.save(path, array) from an array of numbers",
        ) from None
    if not isinstance(array, np.ndarray):
        raise TilewrightError("TW0027", "the file holds several arrays", Location(str(path)))
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize in (1, 2):
        return np.asarray(array).view(ELEMENT_TYPES["fp8" if array.dtype.itemsize == 1 else "bf16"])
    if array.dtype.kind == "b":
        return np.asarray(array).view(np.uint8)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TilewrightError(
            "TW0030",
            f"elements of type {array.dtype} cannot be placed in memory",
            Location(str(path)),
            hint="use floating point or integers of up to eight bytes",
        )
    little = array.dtype.newbyteorder("<")
    return array if array.dtype == little else array.astype(little)


def _safetensors(path: Path, part: str | None) -> np.ndarray:
    """One tensor, mapped, not read."""

    def bad(reason: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError("TW0029", reason, Location(str(path)), hint)

    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, _HEADER_LIMIT):
            raise bad("the file is not safetensors, or it is cut short")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise bad("the safetensors header is not readable") from None
    if not isinstance(header, dict):
        raise bad("the safetensors header is not a table of tensors")
    header.pop("__metadata__", None)
    if not part or part not in header:
        shown = ", ".join(sorted(header)[:8]) + (", …" if len(header) > 8 else "")
        reason = f"the file has no tensor {part!r}" if part else "name one tensor of the file"
        raise bad(reason, f"write {path.name}#NAME; the file has {shown or 'no tensors'}")
    entry = header[part]
    try:
        kind, shape = entry["dtype"], entry["shape"]
        first, last = entry["data_offsets"]
        whole = [first, last, *shape]
        if any(type(n) is not int or not 0 <= n < 1 << 63 for n in whole):
            raise ValueError
        if (
            not isinstance(kind, str)
            or not isinstance(shape, list)
            or len(shape) > MAX_RANK
            or math.prod(n or 1 for n in shape) >= 1 << 60
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise bad(f"the header entry of {part!r} is malformed") from None
    if kind not in _SAFETENSORS:
        known = ", ".join(_SAFETENSORS)
        raise bad(f"tensor {part!r} has elements of type {kind}", f"types read are {known}")
    dtype = ELEMENT_TYPES[_SAFETENSORS[kind]]
    if last - first != math.prod(shape) * dtype.itemsize:
        raise bad(f"tensor {part!r} has {last - first} bytes, its shape needs another number")
    if 8 + length + last > size:
        raise bad(f"the file is cut short: {part!r} ends at byte {8 + length + last} of {size}")
    if last == first:
        return np.zeros(shape, dtype)
    raw = np.memmap(path, np.uint8, "r", 8 + length + first, (last - first,))
    return raw.view(dtype).reshape(shape)
