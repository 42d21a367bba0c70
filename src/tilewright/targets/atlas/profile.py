"""Machine profiles: the numbers and rules in which Atlas machines differ, as data.

`atlas-v0` and `atlas-v1` are the two files in `profiles/`. A file of a user's own names a
`base` and only what differs:

    base = "atlas-v1"
    [timing]
    matmul_mxu0 = ["MXU", 64]
    [dma]
    link_bytes = 8
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.targets.atlas.isa import OPCODES, Kind, Opcode, Operand, Span

_FOLDER = Path(__file__).parent / "profiles"
_UNITS = ("SCALAR", "MXU0", "MXU1", "VPU", "DMA", "LSU")
MAX_TICKS = 1 << 20  # longest latency a profile may name
MAX_VMEM = 1 << 30
MAX_DRAM = 1 << 44
MAX_FILE = 1 << 20

if TYPE_CHECKING:
    from tilewright.targets.atlas.atlas_target import AtlasTarget
    from tilewright.targets.atlas.codegen.tile_machine import AtlasTileMachine


@dataclass(frozen=True, slots=True)
class Timing:
    """Where an instruction runs, how long, and when the unit takes the next one."""

    unit: str
    latency: int
    interval: int


@dataclass(frozen=True, slots=True)
class DmaLaw:
    """How long the DMA engine is busy with a transfer."""

    minimum: int
    link_bytes: int
    link_ticks: int
    command_bytes: int
    vmem_bytes: int
    config: int
    max_bytes: int

    def ticks(self, count: int) -> int:
        """Engine time of a transfer of `count` bytes."""
        link = 0
        if self.link_bytes:
            link = -(-(count + self.command_bytes) // self.link_bytes) * self.link_ticks
        return max(self.minimum, link, -(-count // self.vmem_bytes))


@dataclass(frozen=True, slots=True)
class Accidents:
    """Accidents of the public model, reproduced in compat mode only."""

    link_from_fetch: int
    auipc_from_fetch: int
    branch_from_fetch: bool
    jalr_offset: int
    sra_unbounded: bool
    zero_byte_store_faults: bool
    misaligned_load_faults: bool


@dataclass(frozen=True)
class Profile:
    """One Atlas machine."""

    name: str
    description: str
    units: tuple[str, ...]  # in tick order
    features: frozenset[str]
    pc_step: int
    delay_slots: int
    halts: bool
    busy_unit: str
    conflict: str
    delay_slot_transfer: str
    vmem_bytes: int
    dram_bytes: int
    imem_bytes: int
    tile_registers: int
    fill: str
    pop_fp8: str
    row_sum: str
    column_sum: str
    unit_scale: int
    dma: DmaLaw
    accidents: Accidents
    timing: dict[str, Timing] = field(hash=False)

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each unit within a tick."""
        return {unit: place for place, unit in enumerate(self.units)}

    @cached_property
    def opcodes(self) -> tuple[Opcode, ...]:
        """The rows of the instruction table this machine has."""
        return tuple(row for row in OPCODES if self.has(row))

    def as_target(self) -> AtlasTarget:
        """The machine as a target to compile for."""
        from tilewright.targets.atlas.atlas_target import AtlasTarget

        return AtlasTarget(self)

    def tile_machine(self) -> AtlasTileMachine:
        """The machine as the tile language sees it."""
        from tilewright.targets.atlas.codegen.tile_machine import AtlasTileMachine

        return AtlasTileMachine(self)

    def has(self, opcode: Opcode) -> bool:
        return opcode.feature is None or opcode.feature in self.features

    def span(self, operand: Operand) -> int:
        """How many tensor registers the operand reads or writes."""
        return self._registers(operand.span)

    def footprint(self, operand: Operand) -> int:
        """How many tensor registers the operand holds against other units."""
        return self._registers(operand.footprint or operand.span)

    def _registers(self, span: Span) -> int:
        return 1 if span is Span.ONE else 2 if span is Span.TWO else self.tile_registers

    @cached_property
    def _timing_of(self) -> tuple[Timing, ...]:
        rows = []
        for row in OPCODES:
            if row.timing == "dma_wait":
                rows.append(Timing("DECODE", 0, 0))
            elif row.timing == "dma_config":
                rows.append(Timing("DMA", self.dma.config, self.dma.config))
            elif row.timing == "dma_transfer":
                rows.append(Timing("DMA", 0, 0))
            else:
                entry = self.timing[row.timing]
                unit = f"MXU{row.mxu}" if entry.unit == "MXU" else entry.unit
                rows.append(Timing(unit, entry.latency, entry.interval))
        return tuple(rows)

    def timing_of(self, opcode: Opcode) -> Timing:
        """Unit, latency and interval; DMA transfers get their time from `dma.ticks`."""
        return self._timing_of[opcode.index]

    @cached_property
    def _accesses_of(self) -> tuple[tuple[tuple[int, bool, bool], ...], ...]:
        return tuple(
            tuple(
                (self.footprint(o) if o.kind is Kind.M else 1, o.reads, o.writes)
                for o in row.operands
            )
            for row in OPCODES
        )

    def accesses_of(self, opcode: Opcode) -> tuple[tuple[int, bool, bool], ...]:
        """(registers it holds, whether it reads, writes them) of every operand."""
        return self._accesses_of[opcode.index]


# --- reading profile files ------------------------------------------------------------

_NUMBER = {
    "pipeline": {"pc_step": (1, 4), "delay_slots": (1, 8)},
    "memory": {
        "vmem_bytes": (1024, MAX_VMEM),
        "dram_bytes": (1024, MAX_DRAM),
        "imem_bytes": (4, 1 << 32),
    },
    # Machines multiply and divide by the number itself, so only 1 can mean 1.
    "numbers": {"tile_registers": (1, 2), "unit_scale": (1, 1)},
    "dma": {
        "minimum": (1, MAX_TICKS),
        "link_bytes": (0, 1 << 20),
        "link_ticks": (0, MAX_TICKS),
        "command_bytes": (0, 1 << 20),
        "vmem_bytes": (1, 1 << 20),
        "config": (1, MAX_TICKS),
        "max_bytes": (0, 1 << 32),
    },
    "compat": {
        "link_from_fetch": (-8, 8),
        "auipc_from_fetch": (-8, 8),
        "jalr_offset": (-8, 8),
    },
}
_SWITCH = {
    "pipeline": ("halts",),
    "compat": (
        "branch_from_fetch",
        "sra_unbounded",
        "zero_byte_store_faults",
        "misaligned_load_faults",
    ),
}
_CHOICE = {
    "hazards": {
        "busy_unit": ("fault", "stall"),
        "conflict": ("fault", "stall", "ignore"),
        "delay_slot_transfer": ("fault", "accept"),
    },
    "numbers": {
        "fill": ("bits", "integer"),
        "pop_fp8": ("divide", "cast"),
        "row_sum": ("four_lanes", "two_lanes"),
        "column_sum": ("two_halves", "four_strides"),
    },
}
# The table of a profile file that holds a field of `Profile`.
TABLES = {
    key: table
    for table in ("pipeline", "hazards", "memory", "numbers")
    for key in (*_NUMBER.get(table, ()), *_CHOICE.get(table, ()), *_SWITCH.get(table, ()))
}
_TIMING_CLASSES = tuple(
    dict.fromkeys(row.timing for row in OPCODES if not row.timing.startswith("dma"))
)
_FEATURES = tuple(dict.fromkeys(row.feature for row in OPCODES if row.feature))


def profile_names() -> list[str]:
    """Names of the built-in profiles."""
    return list(_built_in_names())


@lru_cache(maxsize=1)
def _built_in_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_profile(name_or_path: str) -> Profile:
    """A built-in profile by name, or one of the user's own by the path of its file.

    The same content gives the same object; a file that has changed is read again.
    """
    if name_or_path in profile_names():
        return _built_in(name_or_path)
    data = _layers(name_or_path, {})
    key = (name_or_path, repr(data))
    if key not in _own:
        _own[key] = _build(data, name_or_path)
    return _own[key]


_own: dict[tuple[str, str], Profile] = {}


@lru_cache(maxsize=8)
def _built_in(name: str) -> Profile:
    return _build(_layers(name, {}), name)


def _layers(name_or_path: str, seen: dict[Path, str]) -> dict[str, Any]:
    """The file's tables laid over those of its base."""
    built_in = _FOLDER / f"{name_or_path}.toml"
    if name_or_path in profile_names():
        path = built_in
    else:
        path = Path(name_or_path)
        if path.suffix != ".toml" or not os.path.isfile(path):
            known = ", ".join(profile_names())
            raise TilewrightError(
                "TW1101",
                f"there is no profile {name_or_path!r}",
                hint=f"built-in profiles are {known}; a profile file ends in .toml",
            )
    real = path.resolve()  # one file may be spelled in many ways
    if real in seen:
        chain = " -> ".join([*seen.values(), name_or_path])
        raise TilewrightError("TW1102", f"profiles are based on each other: {chain}")
    data = _tables(decode_text(read_bytes(str(path), MAX_FILE), str(path)), str(path))
    data.pop("family", None)  # the registry has looked at it
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise _bad(name_or_path, "base", base, "the name of a profile")
    if base not in profile_names():
        base = str(path.parent / base)
    merged = _layers(base, {**seen, real: name_or_path})
    for key, value in data.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = {**merged[key], **value}
        else:
            merged[key] = value
    return merged


def _tables(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers too long to convert
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise TilewrightError(
            "TW1103", f"the profile is not readable as TOML: {reason}", Location(source)
        ) from None


def parse_profile(text: str, source: str) -> Profile:
    """The profile of a text that is complete in itself: no base, no other file is read."""
    return _build(_tables(text, source), source)


def _bad(source: str, key: str, value: object, expected: str) -> TilewrightError:
    return TilewrightError("TW1104", f"{key} is {value!r}, must be {expected}", Location(source))


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _check_keys(source: str, where: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise TilewrightError(
                "TW1105",
                f"unknown key {key!r} in {where}",
                Location(source),
                hint=f"known keys are {', '.join(known)}",
            )
    for key in known:
        if key not in given:
            raise TilewrightError(
                "TW1106",
                f"{where} lacks {key!r}",
                Location(source),
                hint='name a base to start from, such as base = "atlas-v1"',
            )


def _build(data: dict[str, Any], source: str) -> Profile:
    tables = ("pipeline", "hazards", "memory", "numbers", "dma", "compat", "timing")
    name = data.pop("name", Path(source).stem)
    if not isinstance(name, str):
        raise _bad(source, "name", name, "a text")
    _check_keys(source, "the profile", data, ("description", "units", "features", *tables))
    for table in tables:
        if not isinstance(data[table], dict):
            raise _bad(source, table, data[table], "a table")
    values: dict[str, Any] = {}
    for table in tables[:-1]:
        numbers, choices = _NUMBER.get(table, {}), _CHOICE.get(table, {})
        known = (*numbers, *choices, *_SWITCH.get(table, ()))
        _check_keys(source, f"[{table}]", data[table], known)
        for key, value in data[table].items():
            if key in numbers:
                low, high = numbers[key]
                if type(value) is not int or not low <= value <= high:
                    expected = f"a number from {low} to {high}" if low < high else str(low)
                    raise _bad(source, f"{table}.{key}", value, expected)
            elif key in choices:
                if value not in choices[key]:
                    raise _bad(source, f"{table}.{key}", value, " or ".join(choices[key]))
            elif type(value) is not bool:
                raise _bad(source, f"{table}.{key}", value, "true or false")
            if table not in ("dma", "compat"):
                values[key] = value
    if values["pc_step"] not in (1, 4):
        raise _bad(source, "pipeline.pc_step", values["pc_step"], "1 (words) or 4 (bytes)")
    if values["vmem_bytes"] % 32 or values["dram_bytes"] % 32:
        raise _bad(source, "memory sizes", "not aligned", "multiples of 32 bytes")
    units, features = data["units"], data["features"]
    if (
        not _is_words(units)
        or units[:1] != ["SCALAR"]
        or len(set(units)) != len(units)
        or not {"SCALAR", "MXU0", "MXU1", "VPU", "DMA"} <= set(units) <= set(_UNITS)
    ):
        raise _bad(source, "units", units, f"an order of {', '.join(_UNITS)}, SCALAR first")
    if not _is_words(features) or not set(features) <= set(_FEATURES):
        raise _bad(source, "features", features, f"a list out of {', '.join(_FEATURES)}")
    return Profile(
        name=name,
        description=str(data["description"]),
        units=tuple(units),
        features=frozenset(features),
        dma=DmaLaw(**data["dma"]),
        accidents=Accidents(**data["compat"]),
        timing=_timing_table(data["timing"], units, source),
        **values,
    )


def _timing_table(table: dict[str, Any], units: list[str], source: str) -> dict[str, Timing]:
    _check_keys(source, "[timing]", table, _TIMING_CLASSES)
    result = {}
    for key, entry in table.items():
        form = '["UNIT", ticks] or ["UNIT", ticks, interval]'
        if not isinstance(entry, list) or len(entry) not in (2, 3):
            raise _bad(source, f"timing.{key}", entry, form)
        unit, latency = entry[0], entry[1]
        interval = entry[2] if len(entry) == 3 else latency
        scalar_only = key in ("scalar", "branch", "delay")
        allowed = ["SCALAR"] if scalar_only else [u for u in units if u not in ("DMA", "SCALAR")]
        if key in ("scalar_load", "scalar_store"):
            allowed.append("SCALAR")
        if key.startswith(("push", "pop", "matmul")):
            allowed.append("MXU")
        if unit not in allowed:
            raise _bad(source, f"timing.{key}", entry, f"on one of {', '.join(allowed)}")
        if any(type(n) is not int or not 1 <= n <= MAX_TICKS for n in (latency, interval)):
            raise _bad(source, f"timing.{key}", entry, f"{form} with ticks from 1 to {MAX_TICKS}")
        if unit == "SCALAR" and (latency, interval) != (1, 1):
            raise _bad(source, f"timing.{key}", entry, "one tick on SCALAR")
        if interval > latency:
            raise _bad(source, f"timing.{key}", entry, "an interval of at most the latency")
        result[key] = Timing(unit, latency, interval)
    return result
