"""The text form: one `mnemonic key=value, key=value` per line.

    dma.load.ch<N> rd=4, rs1=1, rs2=7, size=0, channel=0
    vload vd=1, rs1=4, imm12=32

Four operand records say which keys exist; missing keys are zero, keys an instruction does
not use are ignored. Branch and jump offsets count instructions here, bytes in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

import numpy as np

from tilewright.errors import Location, TilewrightError, TilewrightErrors
from tilewright.targets.atlas.assembly.lexer import parse_integer, split_lines, strip_comment
from tilewright.targets.atlas.assembly.unit import (
    MAX_ERRORS,
    MAX_INSTRUCTIONS,
    check_operand,
    is_target,
)
from tilewright.targets.atlas.isa import (
    MAX_OPERANDS,
    OPCODES,
    RECORD_KEYS,
    Opcode,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

CHANNELS = 8
WORD = 4  # bytes of an instruction

# Every spelling of a mnemonic: (row, channel in the name or None).
_SPELLINGS: dict[str, tuple[Opcode, int | None]] = {}
for _row in OPCODES:
    if _row.has_channel:
        _SPELLINGS[f"{_row.mnemonic}.ch<n>"] = (_row, None)
        for _channel in range(CHANNELS):
            _SPELLINGS[f"{_row.mnemonic}.ch{_channel}"] = (_row, _channel)
    else:
        _SPELLINGS[_row.mnemonic] = (_row, None)

# Mnemonics of the Merlin compiler's abstract notation, which no machine executes.
_ABSTRACT = {
    "dma.load", "dma.store", "dma.wait", "dma.load.mxu0", "dma.load.mxu1",
    "matmul.mxu0", "matmul.mxu1", "vmul", "vexp", "vreduce.sum", "vrcp",
}  # fmt: skip


def find_row(mnemonic: str, place: Location) -> tuple[Opcode, int | None]:
    """The row a mnemonic of the text form names, and the channel if the name says one."""
    name = mnemonic.lower()
    found = _SPELLINGS.get(name)
    if found is not None:
        return found
    if name in _ABSTRACT:
        raise TilewrightError(
            "TW1023",
            f"{mnemonic!r} belongs to the compiler's abstract notation, which no machine executes",
            place,
            hint="print the program in its native form, with registers and channels assigned",
        )
    shown = mnemonic if len(mnemonic) <= 40 else mnemonic[:40] + "…"
    spellings = [s.replace("<n>", "<N>") for s in _SPELLINGS]
    close = get_close_matches(name[:40].replace("<n>", "<N>"), spellings, 1)
    hint = f"did you mean {close[0]}?" if close else "tilewright isa lists all instructions"
    raise TilewrightError("TW1001", f"there is no instruction {shown!r}", place, hint)


def spelling(row: Opcode) -> str:
    """How the text form names an instruction."""
    return f"{row.mnemonic}.ch<N>" if row.has_channel else row.mnemonic


# --- records --------------------------------------------------------------------------


def operands_of_record(
    row: Opcode, channel: int | None, values: Mapping[str, int], place: Location
) -> list[int]:
    """Operands of an instruction from the keys of its record."""
    keys = RECORD_KEYS[row.record]
    for key in values:
        if key not in keys:
            raise TilewrightError(
                "TW1021",
                f"{spelling(row)} has no key {key[:40]!r}",
                place,
                hint=f"the keys of its record are {', '.join(keys)}",
            )
    operands = []
    for operand in row.operands:
        value = values.get(operand.key, 0)
        if operand.key == "channel" and channel is not None:
            if "channel" in values and value != channel:
                raise TilewrightError(
                    "TW1024", f"the name says channel {channel}, the key says {value}", place
                )
            value = channel
        if is_target(row, operand):
            value *= WORD
        if operand.immediate is None:
            _check_register(row, operand.kind.value, operand.key, value, place)
        else:
            check_operand(row, operand, value, place)
        operands.append(value)
    return operands


def _check_register(row: Opcode, prefix: str, key: str, value: int, place: Location) -> None:
    last = {"x": 31, "e": 31, "m": 63, "w": 1, "acc": 1}[prefix]
    if not 0 <= value <= last:
        raise TilewrightError(
            "TW1005",
            f"there is no register {prefix}{value} for {key} of {row.mnemonic}",
            place,
            hint=f"registers are {prefix}0 to {prefix}{last}",
        )


def record_of(
    row: Opcode, operands: tuple[int, ...] | list[int], place: Location
) -> dict[str, int]:
    """Every key of the instruction's record with its value, in record order."""
    record = dict.fromkeys(RECORD_KEYS[row.record], 0)
    for operand, value in zip(row.operands, operands, strict=False):
        if is_target(row, operand):
            if value % WORD:
                raise TilewrightError(
                    "TW1025",
                    f"the offset {value} of {row.mnemonic} is not a whole number of instructions",
                    place,
                    hint="the text form counts instructions; use assembly or words",
                )
            value //= WORD
        record[operand.key] = value
    return record


# --- reading --------------------------------------------------------------------------


class _Pairs(dict[str, tuple[int, int, int]]):
    """Remembers what `key=value` means for an instruction: (bit of the key, operand, value).

    Keys the instruction ignores have operand MAX_OPERANDS, a place nobody reads.
    """

    def __init__(self, row: Opcode, channel: int | None) -> None:
        super().__init__()
        self.row = row
        self.channel = channel
        self.keys_ = RECORD_KEYS[row.record]
        self.slots = {operand.key: slot for slot, operand in enumerate(row.operands)}

    def __missing__(self, token: str) -> tuple[int, int, int]:
        key, _, text = token.partition("=")
        key = key.lower()
        value = parse_integer(text)
        if value is None or key not in self.keys_:
            raise KeyError(token)
        try:
            operands = operands_of_record(self.row, self.channel, {key: value}, _NOWHERE)
        except TilewrightError:
            raise KeyError(token) from None
        slot = self.slots.get(key, MAX_OPERANDS)
        entry = (
            1 << self.keys_.index(key),
            slot,
            operands[slot] if slot < MAX_OPERANDS else 0,
        )
        self[token] = entry
        return entry


_NOWHERE = Location("")


def parse_text_isa(text: str, profile: Profile | None = None, source: str = "<text>") -> Program:
    """The program of a text; all mistakes of the text are reported together.

    The form means the same on every profile.
    """
    del profile
    flat: list[int] = []  # opcode, operands and one ignored place per instruction
    lines: list[int] = []
    errors: list[TilewrightError] = []
    pairs: dict[str, tuple[_Pairs, list[int]]] = {}
    number = 0
    for line in split_lines(text, source):
        number += 1
        if "#" in line or "//" in line:
            line = strip_comment(line)
        parts = line.replace(",", " ").split()
        if not parts:
            continue
        try:
            known = pairs.get(parts[0])
            if known is None:
                row, channel = find_row(parts[0], _place(line, parts[0], source, number))
                first = [0] * MAX_OPERANDS
                if channel is not None:
                    first[len(row.operands) - 1] = channel
                known = (_Pairs(row, channel), [row.index, *first, 0])
                pairs[parts[0]] = known
            table, template = known
            values = template.copy()
            seen = 0
            try:
                for token in parts[1:]:
                    bit, slot, value = table[token]
                    if seen & bit:
                        raise KeyError(token)
                    seen |= bit
                    values[1 + slot] = value
            except KeyError:
                values = _read_carefully(line, table.row, table.channel, source, number)
            flat.extend(values)
            lines.append(number)
        except TilewrightError as error:
            errors.append(error)
            if len(errors) >= MAX_ERRORS:
                break
        if len(lines) > MAX_INSTRUCTIONS:
            place = Location(source, number)
            message = f"the program has more than {MAX_INSTRUCTIONS} instructions"
            raise TilewrightError("TW1015", message, place)
    if errors:
        stopped = len(errors) >= MAX_ERRORS
        raise errors[0] if len(errors) == 1 else TilewrightErrors(errors, stopped)
    width = MAX_OPERANDS + 2
    columns = np.fromiter(flat, np.int32, len(flat)).reshape(-1, width)
    operands = np.ascontiguousarray(columns[:, 1 : 1 + MAX_OPERANDS])
    return Program(columns[:, 0].astype(np.uint8), operands, np.array(lines, np.int32), source)


def _place(line: str, word: str, source: str, number: int) -> Location:
    return Location(source, number, line.find(word) + 1)


def _read_carefully(
    line: str, row: Opcode, channel: int | None, source: str, number: int
) -> list[int]:
    """The row of a line, or an error that says what is wrong where.

    Spaces around = are allowed here.
    """
    values: dict[str, int] = {}
    start = line.find(line.split()[0]) + len(line.replace(",", " ").split()[0])
    place = Location(source, number, start + 1)
    # `rd = 4` and `rd=4` alike: the words of a line with its = signs set apart.
    words: list[tuple[str, int]] = []
    column = start
    for word in line[start:].replace(",", " ").replace("=", " = ").split():
        column = line.find(word, column)
        words.append((word, column + 1))
        column += len(word)
    at = 0
    while at < len(words):
        key, column = words[at]
        place = Location(source, number, column)
        key = key.lower()
        if at + 1 >= len(words) or words[at + 1][0] != "=" or not key.isidentifier():
            hint = (
                f"write {spelling(row)} key=value, … with keys {', '.join(RECORD_KEYS[row.record])}"
            )
            if at + 1 < len(words) and words[at + 1][0] != "=":
                hint += "; assembly files end in .S"
            raise TilewrightError("TW1020", f"expected key=value, not {key[:40]!r}", place, hint)
        if at + 2 >= len(words):
            raise TilewrightError("TW1020", f"the value of {key[:40]!r} is missing", place)
        text, value_column = words[at + 2]
        value = parse_integer(text)
        if value is None:
            where = Location(source, number, value_column)
            raise TilewrightError("TW1014", f"{text[:40]!r} is not an integer", where)
        if key in values:
            raise TilewrightError(
                "TW1022", f"the key {key!r} is given twice", place, "keep one of them"
            )
        values[key] = value
        operands_of_record(row, channel, {key: value}, place)
        at += 3
    operands = operands_of_record(row, channel, values, place)
    return [row.index, *operands, *[0] * (MAX_OPERANDS + 1 - len(operands))]


# --- printing -------------------------------------------------------------------------


def print_text_isa(program: Program) -> str:
    """The program in text form: every key of each record, in record order."""
    refuse_data(program, "the text form")

    def template(row: Opcode) -> tuple[str, str, str]:
        return f"{spelling(row)} ", "{key}={value}", ""

    return "".join(line + "\n" for line in render_records(program, template))


def refuse_data(program: Program, form: str) -> None:
    """Raise if the program brings data, which most forms cannot hold."""
    if program.data:
        raise TilewrightError(
            "TW1053",
            f"{form} cannot hold data to place in memory",
            Location(program.source),
            hint="write .S or .json instead",
        )


def render_records(program: Program, style: Callable[[Opcode], tuple[str, str, str]]) -> list[str]:
    """One line per instruction with its whole record.

    `style` gives the text before the keys, the pattern of one key, and the text behind.
    """
    lines = np.empty(len(program), object)
    for index in np.unique(program.opcodes).tolist():
        row = OPCODES[index]
        where = np.flatnonzero(program.opcodes == index)
        columns = program.operands[where]
        slots = {operand.key: slot for slot, operand in enumerate(row.operands)}
        for slot, operand in enumerate(row.operands):
            if is_target(row, operand):
                uneven = np.flatnonzero(columns[:, slot] % WORD)
                if len(uneven):
                    first = int(uneven[0])
                    place = program.location(int(where[first]))
                    record_of(row, columns[first].tolist(), place)
                columns[:, slot] //= WORD
        before, pattern, behind = (part.replace("%", "%%") for part in style(row))
        pieces, order = [], []
        for key in RECORD_KEYS[row.record]:
            value = "0"
            if key in slots:
                value = "%d"
                order.append(slots[key])
            pieces.append(pattern.replace("{key}", key).replace("{value}", value))
        template = before + ", ".join(pieces) + behind
        lines[where] = [template % tuple(values) for values in columns[:, order].tolist()]
    return lines.tolist()
