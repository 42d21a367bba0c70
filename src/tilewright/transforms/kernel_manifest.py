"""Kernel manifests: instruction lists with the addresses a compiler fills in.

A manifest is a JSON object with `schema_version` 1 and `kernels`: name -> symbol prefix, tile
shape, layouts, instructions in the text form of the first Atlas machine, and patch points. A
patch point says which register holds the address of `dram_in_K` or `dram_out_K` and which
instructions compute it. Optional fields tie it to a launch: `operand` (which input or output),
`offset` (bytes into it) and `name` (of the operand).

Error codes: TW1320 unreadable manifest, TW1321 a role without an operand, TW1322 a patch that
cannot be applied.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.dialects.kernel_symbols import DTYPE_SUFFIXES
from tilewright.errors import Location, TilewrightError
from tilewright.extensions import MANIFESTS, load
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.io.json_tables import MAX_DOCUMENT, load_document

# Layout name -> (element type, bytes of one operand tile).
LAYOUTS: dict[str, tuple[str, int]] = {
    "fp8_tile": ("f8E4M3FN", 1024),
    "bf16_half": ("bf16", 1024),
    "bf16_split_halves": ("bf16", 2048),
    "bf16_split_halves_pair": ("bf16", 2048),
    "bf16_broadcast_half": ("bf16", 1024),
}

_CONTROL = frozenset(["beq", "bne", "blt", "bge", "bltu", "bgeu", "jal", "jalr"])
_NOT_COMPOSED = frozenset({"ecall", "ebreak"})


@dataclass(frozen=True)
class NativeInstruction:
    """A mnemonic with its fields."""

    mnemonic: str
    args: tuple[tuple[str, int], ...]

    def get(self, key: str) -> int:
        return dict(self.args).get(key, 0)

    def to_json(self) -> dict[str, Any]:
        return {"mnemonic": self.mnemonic, "args": dict(self.args)}


def instruction(mnemonic: str, **args: int) -> NativeInstruction:
    """An instruction; a trailing underscore of a keyword is dropped."""
    return NativeInstruction(mnemonic, tuple((k.rstrip("_"), v) for k, v in args.items()))


@dataclass(frozen=True)
class PatchPoint:
    """Where the address for a role is computed."""

    role: str
    register: int
    original_value: int
    instructions: tuple[int, ...]
    operand: int | None = None
    offset: int = 0
    name: str = ""  # of the operand


@dataclass(frozen=True)
class Kernel:
    """One entry of a manifest."""

    name: str
    symbol_prefix: str
    tile_shape: tuple[int, ...]
    input_layout: str
    output_layout: str
    cycles: int
    instructions: tuple[NativeInstruction, ...]
    patch_points: tuple[PatchPoint, ...]

    def roles(self, kind: str) -> list[PatchPoint]:
        """Patch points of `dram_in` or `dram_out`, in order of their number."""
        points = [p for p in self.patch_points if p.role.rsplit("_", 1)[0] == kind]
        return sorted(points, key=lambda p: int(p.role.rsplit("_", 1)[1]))

    def relocated(self, addresses: Mapping[str, int]) -> list[NativeInstruction]:
        """The instructions with every address role materialised by `lui` and `addi`.

        before: addi rd=1, rs1=0, imm=0          dram_in_0 at 0
        after:  lui rd=1, imm=16; addi rd=1, rs1=1, imm=-64       at 65472

        `ecall` is left out: kernels are joined into one program. A `dma.config` whose channel is
        used again without a wait gets one. A role without an address, an address beyond 32 bits,
        and code that would break when the register changes are errors.
        """
        output: list[list[NativeInstruction]] = [
            [] if i.mnemonic in _NOT_COMPOSED else [i] for i in self.instructions
        ]
        written: dict[int, int] = {}
        for point in self.patch_points:
            if point.role == "transfer_size":
                continue
            if point.role not in addresses:
                raise TilewrightError(
                    "TW1321", f"kernel {self.name} has the address role {point.role} unbound"
                )
            address = addresses[point.role]
            last = max(point.instructions, default=-1)
            self._check_patch(point, last, address)
            if written.setdefault(last, address) != address:
                raise self._unpatchable(point, "two roles share the instruction")
            pair = load_address(point.register, address)
            chain = sorted(point.instructions)
            if len(chain) == 2 and self._is_pair(point.register, chain):
                output[chain[0]], output[chain[1]] = [pair[0]], [pair[1]]
            else:
                if any(i.mnemonic in _CONTROL for i in self.instructions):
                    raise self._unpatchable(point, "branches would no longer meet their targets")
                output[last] = pair
        return _with_waits([i for group in output for i in group])

    def _is_pair(self, register: int, chain: Sequence[int]) -> bool:
        first, second = (self.instructions[i] for i in chain)
        return (first.mnemonic, first.get("rd")) == ("lui", register) and (
            second.mnemonic,
            second.get("rd"),
            second.get("rs1"),
        ) == ("addi", register, register)

    def _unpatchable(self, point: PatchPoint, reason: str) -> TilewrightError:
        return TilewrightError(
            "TW1322",
            f"kernel {self.name} cannot be moved: {point.role} in register x{point.register}, {reason}",
            hint="give the address its own lui and addi in the kernel",
        )

    def _check_patch(self, point: PatchPoint, last: int, address: int) -> None:
        if not 0 <= address < 2**31:
            raise self._unpatchable(point, f"the address {address} does not fit")
        if point.register == 0:
            raise self._unpatchable(point, "x0 is always zero")
        if not 0 <= last < len(self.instructions):
            raise self._unpatchable(point, "no instruction computes it")
        if self.instructions[last].get("rd") != point.register:
            raise self._unpatchable(point, f"instruction {last} does not write it")
        for later in self.instructions[last + 1 :]:
            if later.mnemonic.startswith("v") and later.get("rs1") == point.register:
                raise self._unpatchable(point, "the kernel also uses it as an on-chip address")
            if not later.mnemonic.startswith(("dma", "v")) and later.get("rd") == point.register:
                break


def _with_waits(instructions: list[NativeInstruction]) -> list[NativeInstruction]:
    """Instructions with a wait after each `dma.config` whose channel is used before one.

    before: dma.config.ch<N> channel=0; dma.load.ch<N> channel=0
    after:  dma.config.ch<N> channel=0; dma.wait.ch<N> channel=0; dma.load.ch<N> channel=0
    """
    if any(i.mnemonic in _CONTROL for i in instructions):
        return instructions
    configured: set[int] = set()
    output: list[NativeInstruction] = []
    for i in instructions:
        channel = i.get("channel")
        if i.mnemonic.startswith("dma.") and channel in configured:
            if not i.mnemonic.startswith("dma.wait"):
                output.append(instruction("dma.wait.ch<N>", channel=channel))
            configured.discard(channel)
        if i.mnemonic.startswith("dma.config"):
            configured.add(channel)
        output.append(i)
    output += [instruction("dma.wait.ch<N>", channel=channel) for channel in sorted(configured)]
    return output


def load_address(register: int, address: int) -> list[NativeInstruction]:
    """`lui` and `addi` that put an address into a register, for any 32-bit address."""
    high = (address + 0x800) >> 12
    low = address - (high << 12)
    return [
        instruction("lui", rd=register, imm=high),
        instruction("addi", rd=register, rs1=register, imm=low),
    ]


@dataclass(frozen=True)
class Manifest:
    """Kernels by name; found by the longest symbol prefix."""

    source: str
    kernels: dict[str, Kernel]

    def find(self, symbol: str) -> Kernel | None:
        """The kernel of a launch symbol; what follows its prefix must be element types."""
        best: Kernel | None = None
        for kernel in self.kernels.values():
            prefix = kernel.symbol_prefix
            if not symbol.startswith(prefix):
                continue
            rest = symbol[len(prefix) :]
            if rest and (rest[0] != "_" or not DTYPE_SUFFIXES.issuperset(rest[1:].split("_"))):
                continue
            if best is None or len(prefix) > len(best.symbol_prefix):
                best = kernel
        return best


def load_manifest(source: str) -> Manifest:
    """A manifest by built-in name or from a JSON file, as it is now."""
    if source in MANIFESTS:
        return _built_in(source)
    if not os.path.isfile(source):
        raise TilewrightError(
            "TW1320",
            "cannot read the kernel manifest: there is no such file",
            Location(source),
            f"give a JSON file or one of: {', '.join(MANIFESTS)}",
        )
    text = decode_text(read_bytes(source, MAX_DOCUMENT), source)
    return from_json(load_document(text, source), source)


@cache
def _built_in(source: str) -> Manifest:
    return from_json(load(MANIFESTS[source]).build(), source)


def from_json(data: Any, source: str) -> Manifest:
    """A manifest from its JSON object; every malformed field is one error that names it."""

    def bad(where: str, reason: str) -> TilewrightError:
        return TilewrightError("TW1320", f"kernel manifest, {where}: {reason}", Location(source))

    if not isinstance(data, dict) or data.get("schema_version") != 1:
        raise bad("schema_version", "version 1 is needed")
    kernels: dict[str, Kernel] = {}
    entries = data.get("kernels")
    if not isinstance(entries, dict):
        raise bad("kernels", "an object of kernels is needed")
    for name, entry in entries.items():
        try:
            instructions = tuple(
                NativeInstruction(
                    str(i["mnemonic"]), tuple((str(k), int(v)) for k, v in i["args"].items())
                )
                for i in entry["instructions"]
            )
            points = tuple(
                PatchPoint(
                    str(p["role"]),
                    int(p["register"]),
                    int(p["original_value"]),
                    tuple(int(i) for i in p["instructions"]),
                    None if p.get("operand") is None else int(p["operand"]),
                    int(p.get("offset", 0)),
                    str(p.get("name", "")),
                )
                for p in entry["patch_points"]
            )
            kernels[name] = Kernel(
                name,
                str(entry["symbol_prefix"]),
                tuple(int(n) for n in entry["tile_shape"]),
                str(entry["input_layout"]),
                str(entry["output_layout"]),
                int(entry.get("cycles", 0)),
                instructions,
                points,
            )
            for point in points:
                if not all(0 <= i < len(instructions) for i in point.instructions):
                    raise bad(
                        f"kernel {name}",
                        f"{point.role} is computed by instructions that are not there",
                    )
        except KeyError as error:
            raise bad(f"kernel {name}", f"the field {error} is missing") from None
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise bad(f"kernel {name}", "a field has the wrong type") from None
    return Manifest(source, kernels)
