"""The pages under docs/isa, generated from the table and the built-in profiles."""

from __future__ import annotations

from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL
from tilewright.targets.atlas.bitfields import FORMATS, immediates
from tilewright.targets.atlas.isa import OPCODES, RECORD_KEYS, Opcode
from tilewright.targets.atlas.isa_reference import (
    GROUPS,
    PARAMETER_MEANING,
    compare,
    describe,
    encoding_picture,
    group_of,
    operand_letter,
    parameters,
)
from tilewright.targets.atlas.profile import Profile, load_profile, profile_names

_NOTE = "<!-- Generated from the instruction table by `tilewright isa --write-docs docs/isa`. -->"


def pages() -> dict[str, str]:
    """File name -> content of every page."""
    profiles = [load_profile(name) for name in profile_names()]
    result = {"README.md": _index(profiles)}
    for group in GROUPS:
        result[f"{group}.md"] = _group_page(group, profiles)
    result["encodings.md"] = _encodings()
    result["profiles.md"] = _profiles(profiles)
    result["pseudo.md"] = _pseudo()
    return result


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", _NOTE, *parts]) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def timing_text(row: Opcode, profile: Profile) -> str:
    """Unit and ticks of an instruction on a profile."""
    if not profile.has(row):
        return "absent"
    timing = profile.timing_of(row)
    if row.timing == "dma_wait":
        return "decode"
    if row.timing == "dma_transfer":
        return "DMA, by bytes"
    text = f"{timing.unit} {timing.latency}"
    return text if timing.interval == timing.latency else f"{text} ({timing.interval})"


def _index(profiles: list[Profile]) -> str:
    count = len(OPCODES)
    rows = []
    for group, title in GROUPS.items():
        names = [row.mnemonic for row in OPCODES if group_of(row) == group]
        rows.append([f"[{title}]({group}.md)", str(len(names)), " ".join(f"`{n}`" for n in names)])
    return _page(
        "The Atlas instruction set",
        f"{count} instructions of 32 bits. DMA instructions name one of eight channels in their "
        "mnemonic. `tilewright isa NAME` prints an entry in the terminal.",
        _table(["page", "instructions", "names"], rows),
        "Also: [pseudo instructions](pseudo.md), [instruction words](encodings.md), "
        f"[profiles](profiles.md) ({', '.join(p.name for p in profiles)}).",
    )


def _group_page(group: str, profiles: list[Profile]) -> str:
    rows = [row for row in OPCODES if group_of(row) == group]
    head = ["instruction", *(profile.name for profile in profiles), "meaning"]
    overview = [
        [
            f"[`{row.syntax}`](#{_anchor(row)})",
            *(timing_text(row, p) for p in profiles),
            row.meaning,
        ]
        for row in rows
    ]
    parts = ["Unit and ticks on each profile:", _table(head, overview)]
    parts.extend(entry_text(row, profiles) for row in rows)
    return _page(GROUPS[group], *parts)


def _anchor(row: Opcode) -> str:
    return row.mnemonic.replace(".", "")


def entry_text(row: Opcode, profiles: list[Profile]) -> str:
    """One instruction as it stands on its page."""
    entry = describe(row, profiles[-1])
    lines = [f"## {row.mnemonic}", "", f"`{row.syntax}`: {row.meaning}.", ""]
    operands = []
    for operand in row.operands:
        low = operand.immediate.low if operand.immediate else 0
        spans = [profile.span(operand) for profile in profiles]
        what = operand.kind.value
        if operand.immediate is not None:
            step = f", multiples of {operand.immediate.step}" if operand.immediate.step > 1 else ""
            what = f"{low} to {operand.immediate.high}{step}"
        elif max(spans) > 1:
            shown = " or ".join(str(s) for s in dict.fromkeys(spans))
            what = f"m, {shown} registers"
        use = {"r": "read", "w": "written", "rw": "read and written", "": "number"}[operand.access]
        operands.append(
            [f"`{operand.key}`", what, use, f"`{operand.field}` ({operand_letter(operand)})"]
        )
    if operands:
        lines += [_table(["operand", "values", "use", "bit field"], operands), ""]
    sample = entry["example"]
    lines += [
        "```",
        f"{sample['assembly']}",
        f"{sample['text']}",
        f"{sample['word']}   {encoding_picture(row)}",
        "```",
    ]
    return "\n".join(lines)


def _encodings() -> str:
    formats = []
    for name, pieces in FORMATS.items():
        shown = []
        for field, top, high, low in pieces:
            bottom = top - (high - low)
            bits = f"{high}..{low}" if high != low else str(high)
            part = ""
            if field == "imm":
                part = f"[{top}:{bottom}]" if top != bottom else f"[{top}]"
            shown.append(f"{field}{part} {bits}")
        formats.append([name, ", ".join(shown)])
    words = [[f"`{row.mnemonic}`", row.format, f"`{encoding_picture(row)}`"] for row in OPCODES]
    numbers = [
        [
            f"`{i.name}`",
            str(i.low),
            str(i.high),
            str(i.step),
            str(i.bits),
            "signed" if i.signed else "unsigned",
        ]
        for i in immediates.values()
    ]
    return _page(
        "Instruction words",
        "Field and word bits of each format, both ends included:",
        _table(["format", "fields"], formats),
        "Numbers the assembler accepts; the decoder reads them back as said last:",
        _table(["kind", "smallest", "largest", "step", "bits", "read as"], numbers),
        "Every word, bit 31 first: 0 and 1 are fixed, d a b are registers, e a scale register, "
        "i a number, c the channel, - must be zero.",
        _table(["instruction", "format", "word"], words),
    )


def _profiles(profiles: list[Profile]) -> str:
    tables = [parameters(profile) for profile in profiles]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    rows = [
        [f"`{key}`", *(_shown(table.get(key)) for table in tables), PARAMETER_MEANING[key]]
        for key in keys
        if key not in ("name", "description")
    ]
    parts = [
        "A machine is a profile: numbers and choices over one instruction table.",
        _table(["profile", "machine"], [[p.name, p.description] for p in profiles]),
        "A file of your own names a base, and what differs from it:",
        '```toml\nbase = "atlas-v1"\n\n[memory]\nvmem_bytes = 2_097_152\n\n[timing]\n'
        'matmul_mxu0 = ["MXU", 64]         # the unit, and the ticks an operation takes\n'
        'vector = ["VPU", 66, 16]          # the next one may start after 16 ticks\n```',
        "Every command takes it as `--profile my.toml`; assembler, lint, simulators, traces and "
        "this manual (`tilewright isa --profile my.toml`) follow it. A base may be another file. "
        "`tilewright isa --compare atlas-v1 my.toml` shows what changed.",
        "In the table, what stands before the dot is the table of the file and what stands "
        "behind it the key; in `[timing]`, MXU is the matrix unit the instruction names.",
        _table(["parameter", *(p.name for p in profiles), "meaning"], rows),
    ]
    if len(profiles) == 2:
        rows = [[f"`{k}`", *v] for k, v in compare(*profiles)["instructions"].items()]
        parts.append("## Instructions that differ")
        parts.append(_table(["instruction", *(p.name for p in profiles)], rows))
    return _page("Profiles", *parts)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pseudo() -> str:
    rows = [[f"`{p.syntax}`", f"`{p.expansion}`", p.meaning] for p in PSEUDO.values()]
    rows += [[f"`{syntax}`", "", meaning] for syntax, meaning in SPECIAL.values()]
    records = [[name, " ".join(f"`{k}`" for k in keys)] for name, keys in RECORD_KEYS.items()]
    return _page(
        "Pseudo instructions and text records",
        "Names the assembler turns into instructions of the table:",
        _table(["written", "becomes", "meaning"], rows),
        "A link names the first delay slot of its jump, so `ret` adds the delay slots. `call` and "
        "`ret` exist on profiles whose addresses count bytes.",
        "## Operand records of the text form",
        "Keys of `mnemonic key=value` lines, in the order they are printed:",
        _table(["record", "keys"], records),
    )
