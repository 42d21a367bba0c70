"""The machine as data: tiles, memories, engines, barriers and the numbers behind its costs.

A machine is a preset, or a preset with single values replaced (in a graph, a task list or a file
of its own). Everything else in this folder asks a `Machine` and knows no preset by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.io.json_tables import load_document

DDR_BYTES = 8 << 30
LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class Rates:
    """Clocks, widths and latencies: what the cost functions compute with."""

    dpu_mhz: int
    cmx_mhz: int
    macs: int  # int8 multiply-adds per DPU cycle and tile
    lanes: int  # of post-processing
    cmx_word: int  # bytes
    cmx_ports: int  # read ports of a DPU
    dram_mbps: int
    dma_bytes: int  # per CMX clock
    dram_ns: int
    cmx_latency: int  # CMX clocks
    floored_dram: bool = True  # whether DRAM moves whole bytes per CMX clock
    cmx_copy_bytes: int = 0  # of a transfer inside CMX, where it differs from dma_bytes

    @property
    def clock_ratio(self) -> Fraction:
        """DPU cycles per CMX clock."""
        return Fraction(self.dpu_mhz, self.cmx_mhz)


@dataclass(frozen=True, slots=True)
class Storage:
    """Task descriptors a tile can hold, by kind."""

    dma: int
    dpu: int
    shave: int

    def consecutive(self, engine: str) -> int:
        """How many consecutive tasks of an engine may post one barrier."""
        return int(getattr(self, engine)) // 2 + 1


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine; DPUs and SHAVEs count per tile."""

    preset: str
    tiles: int
    cmx_bytes: int
    align: int
    dma_ports: int
    dma_agents: int
    dpus: int
    shaves: int
    barriers: int
    slots: int
    storage: Storage | None
    issue_latency: int
    barrier_latency: int
    rates: Rates

    @property
    def side_slots(self) -> int:
        """Slots that the producers, or the consumers, of one barrier may use."""
        return max(1, self.slots // 2)

    def space(self, tile: int) -> str:
        """The name of a tile's CMX in task lists."""
        return "cmx" if self.tiles == 1 else f"cmx{tile}"

    def queues(self) -> list[str]:
        """All queues, in the order in which task lists hold them."""
        names = []
        for port in range(self.dma_ports):
            names.append(f"dma{port}")
            if self.dma_agents > 1:
                names.append(f"dma{port}.cmx")
        for tile in range(self.tiles):
            names += [dpu_queue(tile, unit) for unit in range(self.dpus)]
        return names + [f"shave{tile}" for tile in range(self.tiles)]

    def to_json(self) -> dict[str, Any]:
        """The preset and what differs from it."""
        base = PRESETS[self.preset]
        differing: dict[str, Any] = {"preset": self.preset}
        for key in KEYS:
            value = getattr(self, key)
            if value != getattr(base, key):
                differing[key] = _storage_json(value) if key == "storage" else value
        for item in fields(Rates):
            value = getattr(self.rates, item.name)
            if value != getattr(base.rates, item.name):
                differing[item.name] = value
        return differing

    def digest(self) -> str:
        """A short name of all values, to tell machines apart."""
        values = {key: getattr(self, key) for key in KEYS}
        values["storage"] = _storage_json(self.storage)
        rates = {item.name: getattr(self.rates, item.name) for item in fields(Rates)}
        text = json.dumps([values, rates], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def dpu_queue(tile: int, unit: int) -> str:
    return f"dpu{tile}.{unit}" if unit else f"dpu{tile}"


KEYS = (
    "tiles", "cmx_bytes", "align", "dma_ports", "dma_agents", "dpus", "shaves", "barriers", "slots",
    "storage", "issue_latency", "barrier_latency",
)  # fmt: skip
_MAY_BE_ZERO = {"issue_latency", "barrier_latency"}
_LIMITS = {"tiles": 64, "cmx_bytes": 1 << 40, "align": 1 << 24, "dma_ports": 64, "dma_agents": 2,
           "dpus": 64, "shaves": 64, "barriers": 1 << 16, "slots": 1 << 16,
           "issue_latency": 1 << 32, "barrier_latency": 1 << 32}  # fmt: skip

_VPU40 = Machine(
    preset="vpu40", tiles=6, cmx_bytes=1440 * 1024, align=64, dma_ports=2, dma_agents=2, dpus=1,
    shaves=2, barriers=96, slots=64, storage=Storage(dma=80, dpu=64, shave=64), issue_latency=0,
    barrier_latency=0,
    rates=Rates(dpu_mhz=1700, cmx_mhz=971, macs=2048, lanes=64, cmx_word=32, cmx_ports=8,
                dram_mbps=136000, dma_bytes=64, dram_ns=300, cmx_latency=32),
)  # fmt: skip

PRESETS: dict[str, Machine] = {
    "vpu37": Machine(
        preset="vpu37", tiles=2, cmx_bytes=1936 * 1024, align=64, dma_ports=2, dma_agents=1, dpus=1,
        shaves=2, barriers=64, slots=256, storage=Storage(dma=256, dpu=32, shave=32),
        issue_latency=0, barrier_latency=0,
        rates=Rates(dpu_mhz=1300, cmx_mhz=975, macs=2048, lanes=64, cmx_word=16, cmx_ports=8,
                    dram_mbps=27000, dma_bytes=32, dram_ns=956, cmx_latency=16, floored_dram=False,
                    cmx_copy_bytes=16),
    ),
    "vpu40": _VPU40,
    "vpu50": replace(
        _VPU40, preset="vpu50", tiles=3, cmx_bytes=1439 * 1024, barriers=48,
        rates=replace(_VPU40.rates, dpu_mhz=1950, cmx_mhz=1114, macs=4096, lanes=32),
    ),
    "tiny": Machine(
        preset="tiny", tiles=1, cmx_bytes=262144, align=64, dma_ports=2, dma_agents=1, dpus=1,
        shaves=1, barriers=16, slots=64, storage=None, issue_latency=0, barrier_latency=0,
        rates=Rates(dpu_mhz=1000, cmx_mhz=1000, macs=256, lanes=16, cmx_word=16, cmx_ports=4,
                    dram_mbps=16000, dma_bytes=16, dram_ns=100, cmx_latency=16),
    ),
}  # fmt: skip


def preset(name: str) -> Machine:
    """A machine by the name of its preset."""
    if name not in PRESETS:
        raise TilewrightError(
            "TW7001",
            f"there is no VPU preset called {name!r}",
            hint=f"presets are {', '.join(PRESETS)}",
        )
    return PRESETS[name]


def machine_from(value: Any, rates_too: bool = False) -> Machine:
    """A machine from JSON: the name of a preset, or an object with `preset` and what differs."""
    if isinstance(value, str):
        return preset(value)
    if not isinstance(value, Mapping):
        raise TilewrightError("TW7002", "the target has to be a preset's name or an object")
    if not isinstance(value.get("preset"), str):
        raise TilewrightError(
            "TW7002", "the target does not name its preset", hint='write {"preset": "tiny", ...}'
        )
    machine = preset(value["preset"])
    rate_names = {item.name for item in fields(Rates)} if rates_too else set()
    changes: dict[str, Any] = {}
    rates: dict[str, Any] = {}
    for key, entry in value.items():
        if key == "preset":
            continue
        if key == "storage":
            changes[key] = _storage(entry)
        elif key in KEYS:
            changes[key] = _number(key, entry, 0 if key in _MAY_BE_ZERO else 1, _LIMITS[key])
        elif key == "floored_dram" and key in rate_names:
            rates[key] = bool(entry)
        elif key in rate_names:
            rates[key] = _number(key, entry, 0 if key == "cmx_copy_bytes" else 1, 1 << 40)
        else:
            raise TilewrightError(
                "TW7002",
                f"the target has an unknown key {key!r}",
                hint=f"known keys are preset, {', '.join(KEYS)}",
            )
    machine = replace(machine, **changes, rates=replace(machine.rates, **rates))
    if machine.align & (machine.align - 1):
        raise TilewrightError("TW7003", f"an alignment of {machine.align} is no power of two")
    return machine


def with_values(machine: Machine, **values: int | None) -> Machine:
    """The machine with single values replaced; None leaves a value as it is."""
    given = {key: value for key, value in values.items() if value is not None}
    return replace(
        machine,
        **{
            key: _number(key, value, 0 if key in _MAY_BE_ZERO else 1, _LIMITS[key])
            for key, value in given.items()
        },
    )


def read_machine(name: str) -> Machine:
    """A preset by name, or a machine from a JSON file with `preset` and what differs."""
    if name in PRESETS or not name.endswith(".json"):
        return preset(name)
    document = load_document(decode_text(read_bytes(name, LARGEST_FILE), name), name)
    try:
        return machine_from(document, rates_too=True)
    except TilewrightError as error:
        raise error.at(Location(str(Path(name)))) from None


def _number(key: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        hint = None
        if key == "barriers" and value == 0:
            hint = "tasks that depend on each other need barriers; give the machine at least 2"
        raise TilewrightError(
            "TW7003",
            f"{key} has to be a whole number from {least} to {most}, not {value!r}",
            hint=hint,
        )
    return value


def _storage(value: Any) -> Storage | None:
    if value is None or value == 0:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        size = _number("storage", value, 1, 1 << 20)
        return Storage(size, size, size)
    if not isinstance(value, Mapping) or set(value) != {"dma", "dpu", "shave"}:
        raise TilewrightError(
            "TW7003", 'storage has to be null, a number, or {"dma": N, "dpu": N, "shave": N}'
        )
    return Storage(**{key: _number(f"storage.{key}", n, 1, 1 << 20) for key, n in value.items()})


def _storage_json(storage: Storage | None) -> Any:
    if storage is None:
        return None
    return {"dma": storage.dma, "dpu": storage.dpu, "shave": storage.shave}
