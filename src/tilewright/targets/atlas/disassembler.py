"""A program as assembly text that assembles back to the same program."""

from __future__ import annotations

import numpy as np

from tilewright.targets.atlas.assembly.lexer import LABEL, REGISTERS
from tilewright.targets.atlas.assembly.unit import is_target
from tilewright.targets.atlas.encoding import encode
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode
from tilewright.targets.atlas.program import Data, Program
from tilewright.targets.riscv_registers import ABI_NAMES

_INDENT = "    "
_HEX = ("imm20", "pattern16", "csr12")  # numbers people read in hexadecimal
_ADDI = BY_MNEMONIC["addi"]


def disassemble(
    program: Program, addresses: bool = False, words: bool = False, abi: bool = False
) -> str:
    """Assembly text of a program.

    Branch targets get labels: the program's own names where it has some, else `L` and the
    index. `addresses` and `words` add comments, `abi` writes `a0` instead of `x10`.
    """
    count = len(program)
    names = _label_names(program)
    lines = np.empty(count, object)
    for index in np.unique(program.opcodes).tolist():
        where = np.flatnonzero(program.opcodes == index)
        lines[where] = _group(OPCODES[index], where, program, names, abi)
    nop = (program.opcodes == _ADDI.index) & ~program.operands.any(axis=1)
    lines[nop] = _INDENT + "nop"
    texts: list[str] = lines.tolist()
    if addresses or words:
        texts = _comments(texts, encode(program) if words else None, addresses)
    for at, labels in _labels_by_index(program, names).items():
        block = "".join(f"{name}:\n" for name in labels)
        if at < count:
            texts[at] = block + texts[at]
        else:
            texts.append(block.rstrip("\n"))
    texts.extend(_data(program.data))
    return "\n".join(texts) + "\n" if texts else ""


def _group(
    row: Opcode, where: np.ndarray, program: Program, names: dict[int, str], abi: bool
) -> list[str]:
    """The lines of all instructions of one kind."""
    columns = program.operands[where]
    shown: list[list[int] | list[str]] = []
    places: list[str] = []
    for slot, operand in enumerate(row.operands):
        column = columns[:, slot]
        if operand.kind is Kind.IMM:
            if is_target(row, operand):
                places.append("%s")
                shown.append(_targets(column, where, names))
            elif operand.immediate is not None and operand.immediate.name in _HEX:
                places.append("%s")
                shown.append([hex(v) if v >= 0 else str(v) for v in column.tolist()])
            else:
                places.append("%d")
                shown.append(column.tolist())
        elif abi and operand.kind is Kind.X:
            places.append("%s")
            shown.append([ABI_NAMES[v] for v in column.tolist()])
        else:
            places.append(operand.kind.value + "%d")
            shown.append(column.tolist())
    mnemonic = row.mnemonic
    if row.has_channel:
        # The channel is the last operand and part of the name.
        template = f"{mnemonic}.ch%d {', '.join(places[:-1])}".rstrip()
        shown = [shown[-1], *shown[:-1]]
    elif row.memory:
        data, offset, base = places
        template = f"{mnemonic} {data}, {offset}({base})"
    else:
        template = f"{mnemonic} {', '.join(places)}".rstrip()
    template = _INDENT + template
    if not shown:
        return [template] * len(where)
    return [template % values for values in zip(*shown, strict=True)]


def _target_indices(program: Program) -> dict[int, None]:
    """Indices that branches and jumps go to, inside the program or just behind it."""
    found = []
    for row in OPCODES:
        for slot, operand in enumerate(row.operands):
            if not is_target(row, operand):
                continue
            where = np.flatnonzero(program.opcodes == row.index)
            offsets = program.operands[where, slot].astype(np.int64)
            targets = where + offsets // 4
            good = (offsets % 4 == 0) & (targets >= 0) & (targets <= len(program))
            found.append(targets[good])
    if not found:
        return {}
    return dict.fromkeys(np.unique(np.concatenate(found)).tolist())


def _label_names(program: Program) -> dict[int, str]:
    """One name for every index that needs one or has one."""
    names: dict[int, str] = {}
    for name, index in program.labels.items():
        if _usable(name) and 0 <= index <= len(program):
            names.setdefault(index, name)
    taken = set(program.labels)
    for index in _target_indices(program):
        if index not in names:
            name = f"L{index}"
            while name in taken:
                name += "_"
            names[index] = name
    return names


def _usable(name: str) -> bool:
    return LABEL.fullmatch(name) is not None and name.lower() not in REGISTERS


def _labels_by_index(program: Program, names: dict[int, str]) -> dict[int, list[str]]:
    """All labels to print, by index."""
    labels = {index: [name] for index, name in sorted(names.items())}
    for name, index in program.labels.items():
        if index in labels and name not in labels[index] and _usable(name):
            labels[index].append(name)
    return labels


def _targets(column: np.ndarray, where: np.ndarray, names: dict[int, str]) -> list[str]:
    result = []
    for offset, index in zip(column.tolist(), where.tolist(), strict=True):
        target = index + offset // 4
        result.append(names[target] if offset % 4 == 0 and target in names else str(offset))
    return result


def _comments(texts: list[str], words: np.ndarray | None, addresses: bool) -> list[str]:
    """Lines with their address and word behind them."""
    width = min(max((len(text) for text in texts), default=0), 48)
    notes = [f"{4 * i:#06x}" for i in range(len(texts))] if addresses else [""] * len(texts)
    if words is not None:
        notes = [
            f"{note} {word:08x}".strip() for note, word in zip(notes, words.tolist(), strict=True)
        ]
    return [f"{text:<{width}}  # {note}" for text, note in zip(texts, notes, strict=True)]


def _data(data: list[Data]) -> list[str]:
    """Data directives, sixteen bytes a line; long runs of one value as one line."""
    lines = []
    for block in data:
        lines.append(f".{block.space} {block.address:#x}")
        content = np.frombuffer(block.bytes, np.uint8)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(content)) + 1, [len(content)]))
        long = np.flatnonzero(np.diff(starts) >= 32)
        at = 0
        for run in long.tolist():
            start, end = int(starts[run]), int(starts[run + 1])
            lines.extend(_byte_lines(block.bytes[at:start]))
            lines.append(f"{_INDENT}.fill {end - start}, {content[start]}")
            at = end
        lines.extend(_byte_lines(block.bytes[at:]))
    return lines


def _byte_lines(content: bytes) -> list[str]:
    return [
        f"{_INDENT}.byte {', '.join(map(str, content[at : at + 16]))}"
        for at in range(0, len(content), 16)
    ]
