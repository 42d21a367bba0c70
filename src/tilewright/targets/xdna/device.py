"""The array as data: tiles, memories, DMA engines, MAC blocks, core pipeline, DRAM, controller.

A device is a TOML (or JSON) file. `base` names the device it differs from, so a board or a column
subset is a few lines. Nothing about a machine is written anywhere else.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
import types
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes

_FOLDER = Path(__file__).parent / "devices"
_LIMIT = 1 << 20
_MOST = 1 << 30  # of anything that is counted
SHIM_ROW, MEMORY_ROW, FIRST_CORE_ROW = 0, 1, 2


@dataclass(frozen=True)
class TileKind:
    """Resources of one kind of tile and the widths of its descriptor fields."""

    name: str
    memory_bytes: int
    program_bytes: int
    banks: int
    s2mm: int
    mm2s: int
    descriptors: int
    parity: bool  # whether even and odd channels own one half of the descriptors each
    locks: int
    dimensions: int  # of a descriptor, without the iteration
    wrap_bits: int
    step_bits: int
    iteration_bits: int
    length_bits: int
    ports: dict[str, tuple[int, int]]  # side -> master and slave ports of the stream switch
    neighbour_channels: int = 0

    def channels(self, direction: str) -> int:
        return self.s2mm if direction == "S2MM" else self.mm2s


@dataclass(frozen=True)
class MacMode:
    """One multiply: an r x s block times an s x t block."""

    shape: tuple[int, int, int]
    interval: int  # cycles it holds the vec slot


@dataclass(frozen=True)
class CorePipeline:
    load_latency: int
    multiply_latency: int
    accumulate_latency: int
    convert_latency: int
    move_latency: int
    unpack_latency: int
    vector_registers: int
    accumulators: int
    access_bytes: int
    c_access_bytes: int
    bundle_bytes: int
    zero_bytes: int


@dataclass(frozen=True)
class Dram:
    """Bandwidth as a function of the contiguous run of a descriptor."""

    platform: str
    bandwidth: float
    strided_slope: float
    adjacent_base: float
    adjacent_slope: float

    def rate(self, run_bytes: int, adjacent: bool) -> float:
        """Bytes per second for runs of this length; adjacent: neighbouring channels read on."""
        if adjacent:
            return min(self.bandwidth, self.adjacent_base + self.adjacent_slope * run_bytes)
        return min(self.bandwidth, self.strided_slope * run_bytes)


@dataclass(frozen=True)
class Controller:
    push_seconds: float
    token_seconds: float


@dataclass(frozen=True)
class Stack:
    stock: int
    other: int


@dataclass(frozen=True)
class ArrayDevice:
    """A device, or a subset of its columns."""

    name: str
    dialect_name: str  # what the aie dialects call the array
    columns: int
    core_rows: int
    clock_hz: float
    stream_bytes: int
    shim_stream_bytes: int
    queue_running: int
    queue_pending: int
    max_repeat: int
    alignment: int
    packet_ids: int
    max_run_elements: int
    tile: dict[str, TileKind]
    mac: dict[str, MacMode]
    core: CorePipeline
    dram: Dram
    controller: Controller
    stack: Stack

    def kind(self, row: int) -> TileKind:
        """What a tile of this row is."""
        if row == SHIM_ROW:
            return self.tile["shim"]
        return self.tile["memory" if row == MEMORY_ROW else "core"]

    @property
    def outstanding(self) -> int:
        """Tasks a DMA channel can hold, running and waiting."""
        return self.queue_running + self.queue_pending

    def with_bandwidth(self, bytes_per_second: float) -> ArrayDevice:
        if not bytes_per_second > 0:
            raise TilewrightError(
                "TW8002", f"a bandwidth of {bytes_per_second / 1e9:g} GB/s moves nothing"
            )
        dram = dataclasses.replace(self.dram, bandwidth=bytes_per_second)
        return dataclasses.replace(self, dram=dram)


def device_names() -> list[str]:
    """Built-in devices with their column subsets."""
    names = []
    for file in sorted(_FOLDER.glob("*.toml")):
        names.append(file.stem)
        if file.stem in ("npu1", "npu2"):
            names += [f"{file.stem}_{n}col" for n in range(1, load_device(file.stem).columns)]
    return names


def built_in(name: str, place: Location) -> ArrayDevice:
    """A built-in device; a design text cannot make us read files."""
    if name not in device_names():
        raise TilewrightError(
            "TW8001", f"there is no device {name!r}", place,
            f"built in: {', '.join(device_names())}; the file of another one: --device FILE",
        )  # fmt: skip
    return load_device(name)


def load_device(name: str) -> ArrayDevice:
    """A built-in device (`npu2`, `npu1_2col`) or the device a file describes, as it is now."""
    if re.fullmatch(r"\w+", name):
        return _known(name)
    return device_of(_values(name, ()), Location(name))


@cache
def _known(name: str) -> ArrayDevice:
    subset = re.fullmatch(r"(npu[12])_([1-9])col", name)
    if subset is not None:
        whole = load_device(subset[1])
        columns = int(subset[2])
        if columns < whole.columns:
            return dataclasses.replace(whole, name=name, dialect_name=name, columns=columns)
    return device_of(_values(name, ()), Location(name))


def device_of(values: dict[str, Any], place: Location) -> ArrayDevice:
    """The device a complete table describes."""
    try:
        device = _build(ArrayDevice, values, "")
    except (TypeError, ValueError, OverflowError) as error:
        raise TilewrightError("TW8001", f"the device file is wrong: {error}"[:200], place) from None
    _validate(device, place)
    return device


def _values(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The table of a device with the tables of its bases under it."""
    subset = re.fullmatch(r"(npu[12])_[1-9]col", name)
    if subset is not None and name in device_names():
        return device_table(load_device(name))
    path = _FOLDER / f"{name}.toml"
    if not re.fullmatch(r"\w+", name) or not os.path.exists(path):
        path = Path(name)
        if not path.suffix and not os.path.exists(path):
            raise TilewrightError(
                "TW8001",
                f"there is no device {name!r}",
                hint="built in: " + ", ".join(device_names()) + "; or name a TOML or JSON file",
            )
    if name in seen:
        raise TilewrightError("TW8001", f"device {name!r} is based on itself", Location(str(path)))
    text = decode_text(read_bytes(str(path), _LIMIT), str(path))
    form = "JSON" if path.suffix == ".json" else "TOML"
    try:
        values = json.loads(text) if form == "JSON" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TilewrightError("TW8001", f"not {form}: {error}", Location(str(path))) from None
    if not isinstance(values, dict):
        raise TilewrightError("TW8001", "the device file is no table", Location(str(path)))
    values.pop("family", None)  # for whoever chooses among the machines
    base = values.pop("base", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise TilewrightError("TW8001", "base is not the name of a device", Location(str(path)))
    return _merged(_values(base, (*seen, name)), values)


def device_table(device: ArrayDevice) -> dict[str, Any]:
    """A device as the table that describes it."""
    return dataclasses.asdict(device)


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) else value
    return result


_Data = TypeVar("_Data")


def _build(kind: type[_Data], values: Any, where: str) -> _Data:
    """A dataclass from a table; unknown and missing keys and wrong types are named."""
    if not isinstance(values, dict):
        raise TypeError(f"{where or 'the file'} is not a table")
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    for key in values:
        if key not in fields:
            raise TypeError(f"unknown key {where}{key}")
    made: dict[str, Any] = {}
    for name, field in fields.items():
        if name in values:
            made[name] = _convert(hints[name], values[name], f"{where}{name}")
        elif field.default is dataclasses.MISSING:
            raise TypeError(f"{where}{name} is missing")
    return kind(**made)


def _convert(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, types.GenericAlias):
        origin, arguments = kind.__origin__, kind.__args__
        if origin is dict:
            if not isinstance(value, dict):
                raise TypeError(f"{where} is not a table")
            named = {
                key: {"name": key, **item} if arguments[1] is TileKind else item
                for key, item in value.items()
                if isinstance(item, dict) or arguments[1] is not TileKind
            }
            return {k: _convert(arguments[1], v, f"{where}.{k}") for k, v in named.items()}
        if not isinstance(value, list | tuple) or len(value) != len(arguments):
            raise TypeError(f"{where} needs {len(arguments)} numbers")
        return tuple(_convert(a, v, where) for a, v in zip(arguments, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, f"{where}.")  # pyright: ignore[reportArgumentType]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{where} is {value!r}, which is not {kind.__name__}")
    return value


def _validate(device: ArrayDevice, place: Location) -> None:
    """Numbers that would make nonsense of everything after them."""

    def wrong(sentence: str) -> TilewrightError:
        return TilewrightError("TW8001", f"the device file is wrong: {sentence}", place)

    for name in (device.name, device.dialect_name):
        if not re.fullmatch(r"[\w.+-]{1,80}", name, re.ASCII):
            raise wrong(f"{name[:80]!r} is no name: letters, digits, and . _ + -")
    for kind in ("core", "memory", "shim"):
        if kind not in device.tile:
            raise wrong(f"tile.{kind} is missing")
        tile = device.tile[kind]
        for name in ("wrap_bits", "step_bits", "iteration_bits", "length_bits", "dimensions"):
            if not 1 <= getattr(tile, name) <= 32:
                raise wrong(f"tile.{kind}.{name} is not in 1..32")
        for field in dataclasses.fields(tile):
            value = getattr(tile, field.name)
            if isinstance(value, int) and not 0 <= value <= _MOST:
                raise wrong(f"tile.{kind}.{field.name} is not in 0..{_MOST}")
    for name in ("columns", "core_rows", "clock_hz", "stream_bytes", "shim_stream_bytes"):
        if not getattr(device, name) > 0:
            raise wrong(f"{name} is not positive")
    if device.columns > 64 or device.core_rows > 16:
        raise wrong("the array has more than 64 columns or 16 core rows")
    for field in dataclasses.fields(device.core):
        least, most = (0, 1024) if field.name.endswith("latency") else (1, _MOST)
        if not least <= getattr(device.core, field.name) <= most:
            raise wrong(f"core.{field.name} is not in {least}..{most}")
    for name, mode in device.mac.items():
        if min(mode.shape) < 1 or mode.interval < 1:
            raise wrong(f"mac.{name} is not positive")
    if not device.dram.bandwidth > 0 or not device.dram.strided_slope > 0:
        raise wrong("dram.bandwidth and dram.strided_slope have to be positive")
    if device.dram.adjacent_base < 0 or device.dram.adjacent_slope < 0:
        raise wrong("dram.adjacent_base and dram.adjacent_slope cannot be negative")
    if not device.dram.adjacent_base + device.dram.adjacent_slope > 0:
        raise wrong("the law for adjacent runs moves nothing")
