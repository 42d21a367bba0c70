"""The library as a kernel manifest, and programs put together from manifests.

A manifest entry has what `kernels.manifest` reads (symbol, tile shape, layouts, instructions,
patch points, cycles) and a full descriptor: operands with layout and patch points, VMEM it uses,
registers it changes, state it needs and leaves, a hash of the code, and its reference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.kernels.measure import execute
from tilewright.targets.atlas.kernels.registry import ENTRIES, Entry
from tilewright.targets.atlas.manifest.relocate import Movable, Region, movable
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.atlas.text_isa import find_row, operands_of_record, record_of, spelling
from tilewright.transforms.kernel_manifest import Kernel, Manifest, NativeInstruction

# Kernels whose launch symbol has another name.
SYMBOLS = {name: f"elementwise_{name}" for name in ("cos", "exp", "tanh", "sigmoid", "relu")}
SYMBOLS["attention_tile"] = "attention"
ALIGNMENT = 32
_NOT_MOVABLE = ("TW1330", "TW1331")


def export_manifest(profile: str = "atlas-v0", names: Sequence[str] = ()) -> dict[str, Any]:
    """The manifest of the library at its default sizes, as a JSON object.

    Without names, kernels that cannot be moved (those with loops) and those that are made for one
    size (images) are left out. By name, such a kernel is an error.
    """
    kernels = {}
    for name in names or [n for n, which in ENTRIES.items() if not which.made]:
        if ENTRIES[name].made:
            raise TilewrightError(
                "TW1338",
                f"{name} is made for whole images or heads of one size and is no kernel of a tile",
                hint="compile it for its size, and run the program",
            )
        try:
            kernels[name] = export_kernel(ENTRIES[name], profile)
        except TilewrightError as error:
            if names or error.code not in _NOT_MOVABLE:
                raise
    return {
        "schema_version": 1,
        "profile": load_profile(profile).name,
        "total_solved": len(kernels),
        "kernels": kernels,
    }


def export_kernel(which: Entry, profile: str) -> dict[str, Any]:
    """One manifest entry, measured as exported."""
    compiled = which.build(profile)
    constants = [(f"constants_{k}", *entry) for k, entry in enumerate(compiled.data)]
    regions = [
        Region(name, name in compiled.outputs, compiled.bases[name], layout.bytes)
        for name, layout in compiled.layouts.items()
    ]
    regions += [Region(name, False, address, len(raw)) for name, address, raw in constants]
    moved = movable(compiled.program, regions)
    program = Program.from_instructions(moved.instructions, which.name)
    compiled.program = program
    run = execute(which, compiled, which.sample())
    place = Location(which.name)
    records = [
        {"mnemonic": spelling(row.opcode), "args": record_of(row.opcode, row.operands, place)}
        for row in moved.instructions
    ]
    return {
        "symbol_prefix": f"npu_uk_{SYMBOLS.get(which.name, which.name)}",
        "tile_shape": [32, 32],
        "input_layout": _common([_layout_name(which, name) for name in which.inputs]),
        "output_layout": _common([_layout_name(which, name) for name in compiled.outputs]),
        "cycles": run.cycles,
        "num_instructions": len(records),
        "instructions": records,
        "patch_points": _patch_points(
            [*which.inputs, *(name for name, *_ in constants)], compiled.outputs, moved
        ),
        "operator": which.operator,
        "doc": which.doc,
        "operands": [
            *(_operand(which, compiled, name) for name in which.kernel.specs),
            *(_constants(name, raw) for name, _, raw in constants),
        ],
        "vmem_bytes": _vmem_bytes(moved),
        "clobbers": _clobbers(moved.instructions, compiled.profile),
        "state": _state(which),
        "starts_with": "idle units and channels, dma.base 0",
        "hash": hashlib.sha256(json.dumps(records).encode()).hexdigest(),
        "reference": f"tilewright.targets.atlas.kernels:{which.name}",
    }


def _patch_points(inputs: list[str], outputs: list[str], moved: Movable) -> list[dict[str, Any]]:
    """Roles are numbered by distinct address in order of first use, as readers expect."""
    numbers: dict[tuple[str, int], str] = {}
    counts = {False: 0, True: 0}
    rows = []
    for point in moved.points:
        key = (point.region.name, point.offset)
        if key not in numbers:
            kind = "dram_out" if point.region.output else "dram_in"
            numbers[key] = f"{kind}_{counts[point.region.output]}"
            counts[point.region.output] += 1
        names = outputs if point.region.output else inputs
        rows.append(
            {
                "role": numbers[key],
                "register": point.register,
                "original_value": point.value,
                "instructions": list(point.instructions),
                "operand": names.index(point.region.name),
                "offset": point.offset,
                "name": point.region.name,
            }
        )
    return rows


def _layout_name(which: Entry, name: str) -> str:
    spec = which.kernel.specs[name]
    if spec.order == "accumulator":
        return "accumulator"
    if spec.order == "halves":
        return "bf16_broadcast_half"
    if len(spec.sizes) == 1:
        return "bf16_row"
    return "fp8_tile" if spec.dtype == "fp8" else "bf16_split_halves"


def _common(names: list[str]) -> str:
    """One name for all operands in memory, `mixed` where they differ."""
    distinct = list(dict.fromkeys(name for name in names if name != "accumulator"))
    if not distinct:
        return "none"
    if len(distinct) > 1:
        return "mixed"
    pair = distinct[0] == "bf16_split_halves" and len(names) == 2
    return "bf16_split_halves_pair" if pair else distinct[0]


def _operand(which: Entry, compiled: Any, name: str) -> dict[str, Any]:
    spec = which.kernel.specs[name]
    layout = compiled.layouts.get(name)
    return {
        "name": name,
        "direction": "out" if name in compiled.outputs else "in",
        "shape": list(which.shapes()[name]),
        "dtype": spec.dtype,
        "layout": _layout_name(which, name),
        "order": spec.order,
        "bytes": layout.bytes if layout else 2048,
        "alignment": ALIGNMENT,
        "space": "dram" if layout else "mxu0.acc0",
    }


def _constants(name: str, raw: bytes) -> dict[str, Any]:
    """Bytes the caller places in DRAM: masks, and numbers no instruction makes."""
    return {
        "name": name,
        "direction": "in",
        "shape": [len(raw)],
        "dtype": "u8",
        "layout": "constants",
        "order": "bytes",
        "bytes": len(raw),
        "alignment": ALIGNMENT,
        "space": "dram",
        "data": raw.hex(),
    }


def _vmem_bytes(moved: Movable) -> int:
    """VMEM the kernel uses, from address 0 on."""
    x, top = [0] * 32, 0
    for row in moved.instructions:
        name, operands = row.opcode.mnemonic, row.operands
        if row.opcode.memory == "dma load":
            top = max(top, x[operands[0]] + x[operands[2]])
        elif row.opcode.memory == "dma store":
            top = max(top, x[operands[1]] + x[operands[2]])
        elif row.opcode.memory:
            top = max(top, x[operands[2]] + 32 * operands[1] + 1024)
        elif name == "lui":
            x[operands[0]] = operands[1] << 12
        elif name == "addi":
            x[operands[0]] = x[operands[1]] + operands[2]
    return top


def _clobbers(rows: list[Instruction], profile: Profile) -> dict[str, list[Any]]:
    """Registers and channels the kernel changes."""
    found: dict[str, set[Any]] = {"x": set(), "e": set(), "m": set(), "w": set(), "acc": set()}
    channels: set[int] = set()
    for row in rows:
        for operand, value in zip(row.opcode.operands, row.operands, strict=True):
            if operand.key == "channel":
                channels.add(value)
            elif operand.writes and operand.kind is Kind.M:
                found["m"].update(range(value, value + profile.span(operand)))
            elif operand.writes and operand.kind in (Kind.W, Kind.ACC):
                found[operand.kind.value].add(f"mxu{row.opcode.mxu}.{operand.kind.value}{value}")
            elif operand.writes and value:
                found[operand.kind.value].add(value)
            elif operand.writes and operand.kind is Kind.E:
                found["e"].add(value)
    return {**{key: sorted(values) for key, values in found.items()}, "channels": sorted(channels)}


def _state(which: Entry) -> dict[str, list[str]]:
    """Accumulators that must hold something before, and that hold the result after."""
    specs, outputs = which.kernel.specs, which.kernel.outputs
    kept = [name for name, spec in specs.items() if spec.order == "accumulator"]
    return {
        "needs": ["mxu0.acc0" for name in kept if name not in outputs],
        "leaves": ["mxu0.acc0" for name in kept if name in outputs],
    }


# --- programs from manifests ------------------------------------------------------------------


def stitch(manifest: Manifest, calls: Sequence[tuple[str, Mapping[str, int]]]) -> Program:
    """One program that runs kernels one after the other.

    A call names a kernel and where its operands lie: by role (`dram_in_0`), or by the operand's
    own name where the manifest has names.
    """
    rows: list[NativeInstruction] = []
    for name, places in calls:
        if name not in manifest.kernels:
            raise TilewrightError(
                "TW1335", f"the manifest has no kernel {name}", Location(manifest.source)
            )
        kernel = manifest.kernels[name]
        rows += kernel.relocated(_roles(kernel, places))
    return program_of(rows, manifest.source)


def _roles(kernel: Kernel, places: Mapping[str, int]) -> dict[str, int]:
    """The address of every role from the addresses of operands or roles."""
    known = {point.role for point in kernel.patch_points}
    names = {point.name for point in kernel.patch_points if point.name}
    for place in places:
        if place not in known | names:
            raise TilewrightError(
                "TW1336",
                f"kernel {kernel.name} has no operand {place}",
                hint=f"it has {', '.join(sorted(names or known))}",
            )
    roles = {}
    for point in kernel.patch_points:
        if point.role in places:
            roles[point.role] = places[point.role]
        elif point.name in places:
            roles[point.role] = places[point.name] + point.offset
    return roles


def program_of(rows: Sequence[NativeInstruction], source: str = "<manifest>") -> Program:
    """The program of manifest instructions."""
    instructions = []
    for index, row in enumerate(rows):
        place = Location(source, index + 1)
        opcode, channel = find_row(row.mnemonic, place)
        operands = operands_of_record(opcode, channel, dict(row.args), place)
        instructions.append(Instruction(opcode, tuple(operands[: len(opcode.operands)])))
    return Program.from_instructions(instructions, source)
