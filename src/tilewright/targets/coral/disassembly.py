"""Listings of programs, from the simulator's own instruction table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.targets.coral import _coral
from tilewright.targets.coral.elf import Elf
from tilewright.targets.riscv_registers import ABI_NAMES as X

F = (
    [f"ft{k}" for k in range(8)]
    + ["fs0", "fs1"]
    + [f"fa{k}" for k in range(8)]
    + [f"fs{k}" for k in range(2, 12)]
    + [f"ft{k}" for k in range(8, 12)]
)
# In the order of Format in native/coral/instructions.hpp.
FORMATS = [
    "r",
    "i",
    "load",
    "store",
    "branch",
    "upper",
    "jump",
    "shift",
    "unary",
    "csr",
    "csr_immediate",
    "none",
    "float_r",
    "float_r4",
    "float_unary",
    "float_load",
    "float_store",
    "float_compare",
    "float_to_x",
    "x_to_float",
    "vsetvli",
    "vsetivli",
    "vsetvl",
    "vector",
    "vector_memory",
]
CSR_NAMES = {
    0x001: "fflags",
    0x002: "frm",
    0x003: "fcsr",
    0x008: "vstart",
    0x009: "vxsat",
    0x00A: "vxrm",
    0x00F: "vcsr",
    0x300: "mstatus",
    0x301: "misa",
    0x305: "mtvec",
    0x340: "mscratch",
    0x341: "mepc",
    0x342: "mcause",
    0x343: "mtval",
    0xB00: "mcycle",
    0xB02: "minstret",
    0xC20: "vl",
    0xC21: "vtype",
    0xC22: "vlenb",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction of a listing."""

    address: int
    word: int
    text: str
    function: str | None


def _signed(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


def _vtype(value: int) -> str:
    width = f"e{8 << (value >> 3 & 7)}"
    multiplier = ("m1", "m2", "m4", "m8", "m?", "mf8", "mf4", "mf2")[value & 7]
    return f"{width}, {multiplier}, {'ta' if value >> 6 & 1 else 'tu'}, {'ma' if value >> 7 & 1 else 'mu'}"


def _vector(name: str, w: int) -> str:
    vd, vs1, vs2, kind = w >> 7 & 31, w >> 15 & 31, w >> 20 & 31, w >> 12 & 7
    mask = "" if w >> 25 & 1 else ", v0.t"
    second = {
        0: f"v{vs1}",
        1: f"v{vs1}",
        2: f"v{vs1}",
        3: str(_signed(vs1, 5)),
        4: X[vs1],
        5: F[vs1],
        6: X[vs1],
    }[kind]
    suffix = {0: "v", 1: "v", 2: "v", 3: "i", 4: "x", 5: "f", 6: "x"}[kind]
    if name == "vmv.x.s":
        return f"{name} {X[vd]}, v{vs2}"
    if name in ("vcpop.m", "vfirst.m"):
        return f"{name} {X[vd]}, v{vs2}{mask}"
    if name == "vfmv.f.s":
        return f"{name} {F[vd]}, v{vs2}"
    if name in ("vmv.s.x", "vfmv.s.f"):
        return f"{name} v{vd}, {second}"
    if name in ("vmv.v", "vfmv.v"):
        return f"{name}.{suffix} v{vd}, {second}"
    if name.startswith("vmv") and name.endswith("r"):
        return f"{name}.v v{vd}, v{vs2}"
    if name == "vid.v":
        return f"{name} v{vd}{mask}"
    unary = ".vf" in name or (name.endswith((".v", ".w")) and not name.startswith("vw"))
    if unary or name in ("vmsbf.m", "vmsof.m", "vmsif.m", "viota.m"):
        return f"{name} v{vd}, v{vs2}{mask}"
    if name.endswith(".m"):
        return f"{name}m v{vd}, v{vs2}, v{vs1}"
    if name in ("vcompress",):
        return f"{name}.vm v{vd}, v{vs2}, v{vs1}"
    if name.startswith(("vred", "vwred", "vfred")):
        return f"{name}.vs v{vd}, v{vs2}, v{vs1}{mask}"
    lead = "w" if name.startswith("vn") and name not in ("vnmsub", "vnmsac") else "v"
    if name.endswith(".w"):
        name, lead = name[:-2], "w"
    if name in ("vadc", "vsbc", "vmerge", "vfmerge"):
        return f"{name}.{lead}{suffix}m v{vd}, v{vs2}, {second}, v0"
    if "macc" in name or "msac" in name or "madd" in name or "msub" in name:
        return f"{name}.{lead}{suffix} v{vd}, {second}, v{vs2}{mask}"
    return f"{name}.{lead}{suffix} v{vd}, v{vs2}, {second}{mask}"


def _vector_memory(name: str, w: int) -> str:
    vd, rs1, rs2, fields = w >> 7 & 31, w >> 15 & 31, w >> 20 & 31, (w >> 29) + 1
    mask = "" if w >> 25 & 1 else ", v0.t"
    if name.startswith(("vl1r", "vs1r")):
        return f"{name.replace('1r', f'{fields}r', 1)}.v v{vd}, ({X[rs1]})"
    if fields > 1:
        name = (
            name.replace("e", f"seg{fields}e", 1)
            if not name.startswith(("vlse", "vsse"))
            else (name.replace("se", f"sseg{fields}e", 1))
        )
    extra = f", {X[rs2]}" if "vlse" in name or "vsse" in name or "sseg" in name else ""
    if "xei" in name or "xseg" in name:
        extra = f", v{rs2}"
    return f"{name}.v v{vd}, ({X[rs1]}){extra}{mask}"


def instruction_text(
    word: int, address: int = 0, labels: Callable[[int], str | None] | None = None
) -> str:
    """One instruction as an assembler writes it."""
    row = _coral.decode(word)
    if row is None:
        return f".word {word:#010x}"
    name, form = row[0], FORMATS[row[1]]
    rd, rs1, rs2, rs3 = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31, word >> 27
    immediate = _signed(word >> 20, 12)
    stored = _signed((word >> 25) << 5 | word >> 7 & 31, 12)

    def place(offset: int) -> str:
        target = address + offset & 0xFFFFFFFF
        label = labels(target) if labels else None
        return f"{target:#x}" + (f" <{label}>" if label else "")

    def jump() -> str:
        value = (
            (word >> 31) << 20
            | (word >> 12 & 255) << 12
            | (word >> 20 & 1) << 11
            | (word >> 21 & 1023) << 1
        )
        return place(_signed(value, 21))

    def branch() -> str:
        value = (
            (word >> 31) << 12
            | (word >> 7 & 1) << 11
            | (word >> 25 & 63) << 5
            | (word >> 8 & 15) << 1
        )
        return place(_signed(value, 13))

    csr = CSR_NAMES.get(word >> 20, f"{word >> 20:#x}")
    texts: Mapping[str, Callable[[], str]] = {
        "r": lambda: f"{X[rd]}, {X[rs1]}, {X[rs2]}",
        "i": lambda: f"{X[rd]}, {X[rs1]}, {immediate}",
        "load": lambda: f"{X[rd]}, {immediate}({X[rs1]})",
        "store": lambda: f"{X[rs2]}, {stored}({X[rs1]})",
        "branch": lambda: f"{X[rs1]}, {X[rs2]}, {branch()}",
        "upper": lambda: f"{X[rd]}, {word >> 12:#x}",
        "jump": lambda: f"{X[rd]}, {jump()}",
        "shift": lambda: f"{X[rd]}, {X[rs1]}, {rs2}",
        "unary": lambda: f"{X[rd]}, {X[rs1]}",
        "csr": lambda: f"{X[rd]}, {csr}, {X[rs1]}",
        "csr_immediate": lambda: f"{X[rd]}, {csr}, {rs1}",
        "none": lambda: "",
        "float_r": lambda: f"{F[rd]}, {F[rs1]}, {F[rs2]}",
        "float_r4": lambda: f"{F[rd]}, {F[rs1]}, {F[rs2]}, {F[rs3]}",
        "float_unary": lambda: f"{F[rd]}, {F[rs1]}",
        "float_load": lambda: f"{F[rd]}, {immediate}({X[rs1]})",
        "float_store": lambda: f"{F[rs2]}, {stored}({X[rs1]})",
        "float_compare": lambda: f"{X[rd]}, {F[rs1]}, {F[rs2]}",
        "float_to_x": lambda: f"{X[rd]}, {F[rs1]}",
        "x_to_float": lambda: f"{F[rd]}, {X[rs1]}",
        "vsetvli": lambda: f"{X[rd]}, {X[rs1]}, {_vtype(word >> 20 & 0x7FF)}",
        "vsetivli": lambda: f"{X[rd]}, {rs1}, {_vtype(word >> 20 & 0x3FF)}",
        "vsetvl": lambda: f"{X[rd]}, {X[rs1]}, {X[rs2]}",
    }
    if form == "vector":
        return _vector(name, word)
    if form == "vector_memory":
        return _vector_memory(name, word)
    return f"{name} {texts[form]()}".strip()


def listing(elf: Elf) -> Iterator[Line]:
    """Every instruction of the executable sections, in order."""
    exact = {s.address: s.name for s in elf.symbols.values() if s.kind in ("func", "none")}
    for section in elf.sections:
        if not section.executable:
            continue
        function = None
        for offset in range(0, len(section.data) - 3, 4):
            address = section.address + offset
            word = int.from_bytes(section.data[offset : offset + 4], "little")
            function = exact.get(address, function)
            text = instruction_text(word, address, exact.get) if word else ".word 0"
            yield Line(address, word, text, function)
