"""The instruction table told to people and tools: entries, profile parameters, differences."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL
from tilewright.targets.atlas.assembly.statements import MNEMONICS
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.encoding import LAYOUTS, encode, operand_range
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode, Operand
from tilewright.targets.atlas.profile import TABLES, Profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.atlas.text_isa import print_text_isa

# Title and file name of each group, in reading order.
GROUPS: dict[str, str] = {
    "scalar": "Scalar instructions",
    "control": "Control transfer",
    "memory": "Loads and stores",
    "matrix": "Matrix units",
    "vector": "Vector unit",
    "dma": "DMA",
}


def group_of(row: Opcode) -> str:
    """Which page an instruction is on."""
    if row.has_channel:
        return "dma"
    if row.memory:
        return "memory"
    if row.mxu is not None:
        return "matrix"
    if row.record == "vector":
        return "vector"
    return "control" if row.is_transfer or row.mnemonic in ("ecall", "ebreak") else "scalar"


def find_rows(names: tuple[str, ...]) -> list[Opcode]:
    """The rows some names mean: a mnemonic, one with a channel, or a beginning like `vmat`."""
    found: dict[str, Opcode] = {}
    for name in names:
        key = name.lower().replace(".ch<n>", "").replace(".ch<k>", "")
        if key in MNEMONICS:
            rows = [MNEMONICS[key][0]]
        elif key in BY_MNEMONIC:
            rows = [BY_MNEMONIC[key]]
        elif key in PSEUDO:
            rows = [PSEUDO[key].opcode]
        elif key in SPECIAL:
            rows = [BY_MNEMONIC[m] for m in (("jalr",) if key == "ret" else ("addi", "lui"))]
        else:
            rows = [row for row in OPCODES if row.mnemonic.startswith(key)]
        if not rows:
            close = get_close_matches(key[:40], [*BY_MNEMONIC, *PSEUDO, *SPECIAL], 1)
            raise TilewrightError(
                "TW1001",
                f"there is no instruction {name[:40]!r}",
                hint=f"did you mean {close[0]}?" if close else "tilewright isa lists them all",
            )
        found.update((row.mnemonic, row) for row in rows)
    return list(found.values())


def example(row: Opcode) -> Instruction:
    """An instruction with typical operands."""
    registers = {Kind.X: 5, Kind.E: 3, Kind.M: 8, Kind.W: 0, Kind.ACC: 0}
    numbers = {"branch13": -8, "jump21": 2048, "pattern16": 0x3F80, "integer16": 3, "csr12": 0xC00,
               "imm20": 0x12345, "imm12": -2, "row12": 32, "delay12": 64, "channel3": 2,
               "shamt5": 9, "uimm5": 3}  # fmt: skip
    values = []
    for operand in row.operands:
        if operand.immediate is not None:
            values.append(numbers[operand.immediate.name])
        else:
            values.append(registers[operand.kind])
            registers[operand.kind] += 2 if operand.kind is Kind.M else 1
    if row.mnemonic == "seli":
        values[1] = 1
    return Instruction(row, tuple(values))


def describe(row: Opcode, profile: Profile) -> dict[str, Any]:
    """Everything the table and a profile say about an instruction."""
    timing = profile.timing_of(row)
    sample = Program.from_instructions([example(row)])
    latency: int | None = timing.latency
    if row.timing == "dma_transfer":
        latency = None  # depends on the number of bytes
    return {
        "mnemonic": row.mnemonic + (".ch<K>" if row.has_channel else ""),
        "syntax": row.syntax,
        "meaning": row.meaning,
        "group": group_of(row),
        "available": profile.has(row),
        "unit": timing.unit,
        "latency": latency,
        "interval": timing.interval if latency is not None else None,
        "format": row.format,
        "fixed": dict(row.fixed),
        "operands": [describe_operand(operand, profile) for operand in row.operands],
        "record": row.record,
        "example": {
            "assembly": disassemble(sample).strip(),
            "text": print_text_isa(sample).strip(),
            "word": f"{int(encode(sample)[0]):#010x}",
        },
    }


def describe_operand(operand: Operand, profile: Profile) -> dict[str, Any]:
    low, high, step = operand_range(operand)
    result: dict[str, Any] = {
        "key": operand.key,
        "kind": operand.kind.value,
        "field": operand.field,
        "access": operand.access or None,
        "minimum": low,
        "maximum": high,
    }
    if step > 1:
        result["multiple_of"] = step
    if operand.kind is Kind.M:
        result["registers"] = profile.span(operand)
    return result


def encoding_picture(row: Opcode) -> str:
    """The word as 32 characters: 0 and 1 fixed, letters operands, `-` reserved zero."""
    layout = LAYOUTS[row.index]
    picture = []
    for bit in range(31, -1, -1):
        if layout.mask >> bit & 1:
            picture.append(str(layout.match >> bit & 1))
            continue
        letter = "-"
        for operand, places in zip(row.operands, layout.operands, strict=True):
            if any(place <= bit < place + width for _, width, place in places):
                letter = operand_letter(operand)
        picture.append(letter)
    return "".join(picture)


def operand_letter(operand: Operand) -> str:
    """d destination, a and b sources, e scale, i number, c channel."""
    if operand.key == "channel":
        return "c"
    if operand.immediate is not None:
        return "a" if operand.key == "rs1" else "i"
    return {"rd": "d", "vd": "d", "rs1": "a", "vs1": "a", "rs2": "b", "vs2": "b", "es1": "e"}[
        operand.key
    ]


# --- profiles -------------------------------------------------------------------------


# What the parameters of a profile mean, by the name they have in its file.
PARAMETER_MEANING = {
    "units": "the units, in the order in which they act within a tick",
    "features": "groups of instructions the machine has",
    "pipeline.pc_step": "how far pc moves per instruction: 4 counts bytes, 1 counts instructions",
    "pipeline.delay_slots": "instructions behind a control transfer that are still executed",
    "pipeline.halts": "whether ecall and ebreak stop the machine",
    "hazards.busy_unit": "an instruction for a busy unit: fault, or stall",
    "hazards.conflict": "registers or VMEM that an operation in flight holds: fault, stall, or "
    "ignore",
    "hazards.delay_slot_transfer": "a control transfer in a delay slot: fault, or accept",
    "memory.vmem_bytes": "size of VMEM",
    "memory.dram_bytes": "size of DRAM",
    "memory.imem_bytes": "size of instruction memory; lint warns about larger programs",
    "numbers.tile_registers": "registers of a bf16 vector operand: 2 is 32x32, 1 is 32x16",
    "numbers.fill": "immediate of vli.all: bits of a bf16, or an integer",
    "numbers.pop_fp8": "vmatpop.fp8: divide by the scale register and truncate, or cast",
    "numbers.row_sum": "order in which vredsum.row adds",
    "numbers.column_sum": "order in which vredsum adds",
    "numbers.unit_scale": "value of a scale register that means 1",
    "dma.minimum": "least ticks of a transfer",
    "dma.link_bytes": "bytes per beat of the link; 0: the link never limits",
    "dma.link_ticks": "ticks per beat",
    "dma.command_bytes": "bytes the link carries in front of every transfer",
    "dma.vmem_bytes": "bytes per tick on the side of VMEM",
    "dma.config": "ticks of dma.config",
    "dma.max_bytes": "longest transfer; 0: no limit",
    "compat.link_from_fetch": "link of jal and jalr, relative to the fetch address",
    "compat.auipc_from_fetch": "result of auipc, relative to the fetch address",
    "compat.branch_from_fetch": "whether branch targets count from the fetch address",
    "compat.jalr_offset": "added to the target of jalr",
    "compat.sra_unbounded": "whether sra and srai shift numbers wider than 32 bits",
    "compat.zero_byte_store_faults": "whether dma.store of 0 bytes faults",
    "compat.misaligned_load_faults": "whether lh, lhu and lw fault at addresses that are no multiple of their size",
    "timing.scalar": "scalar arithmetic",
    "timing.branch": "branches and jumps",
    "timing.delay": "delay, apart from its count",
    "timing.scalar_load": "lb lh lw lbu lhu seld",
    "timing.scalar_store": "sb sh sw",
    "timing.tensor_load": "vload",
    "timing.tensor_store": "vstore",
    "timing.push": "vmatpush.weight, vmatpush.acc.fp8",
    "timing.push_wide": "vmatpush.acc.bf16",
    "timing.pop": "vmatpop.fp8",
    "timing.pop_wide": "vmatpop.bf16",
    "timing.matmul_mxu0": "vmatmul and vmatmul.acc on MXU0",
    "timing.matmul_mxu1": "vmatmul and vmatmul.acc on MXU1",
    "timing.vector": "vector operations not named below",
    "timing.reduce_columns": "vredsum vredmin vredmax",
    "timing.sum_rows": "vredsum.row",
    "timing.extreme_rows": "vredmin.row vredmax.row",
    "timing.fill": "vli",
}


def parameters(profile: Profile) -> dict[str, Any]:
    """Every number and choice of a profile, by table and key of a profile file."""
    result: dict[str, Any] = {}
    for entry in fields(profile):
        value = getattr(profile, entry.name)
        if is_dataclass(value):
            table = "compat" if entry.name == "accidents" else entry.name
            for part in fields(value):
                result[f"{table}.{part.name}"] = getattr(value, part.name)
        elif entry.name == "timing":
            for key, timing in value.items():
                text = f"{timing.unit} {timing.latency}"
                if timing.interval != timing.latency:
                    text += f", next after {timing.interval}"
                result[f"timing.{key}"] = text
        elif entry.name == "features":
            result["features"] = sorted(value)
        elif entry.name == "units":
            result["units"] = list(value)
        else:
            table = TABLES.get(entry.name)
            result[f"{table}.{entry.name}" if table else entry.name] = value
    return result


def compare(first: Profile, second: Profile) -> dict[str, Any]:
    """What differs between two profiles: parameters, and instructions by unit and latency."""
    a, b = parameters(first), parameters(second)
    changed = {key: [a.get(key), b.get(key)] for key in {**a, **b} if a.get(key) != b.get(key)}
    for key in ("name", "description"):
        changed.pop(key, None)
    rows = {}
    for row in OPCODES:
        sides = [_short(row, profile) for profile in (first, second)]
        if sides[0] != sides[1]:
            rows[row.mnemonic] = sides
    return {"profiles": [first.name, second.name], "parameters": changed, "instructions": rows}


def _short(row: Opcode, profile: Profile) -> str:
    if not profile.has(row):
        return "absent"
    timing = profile.timing_of(row)
    if row.timing == "dma_transfer":
        return f"{timing.unit}, 1024 bytes {profile.dma.ticks(1024)}"
    text = timing.unit if row.timing == "dma_wait" else f"{timing.unit} {timing.latency}"
    spans = [str(profile.span(o)) for o in row.operands if o.kind is Kind.M]
    return f"{text}, registers {'/'.join(spans)}" if spans else text
