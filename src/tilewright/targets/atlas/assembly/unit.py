"""One assembly file while it is being read, and its layout into a program at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembly.data import DataBuilder
from tilewright.targets.atlas.assembly.expression import Expression
from tilewright.targets.atlas.assembly.pseudo import Row, load_number, words_of_load
from tilewright.targets.atlas.assembly.symbols import Symbols
from tilewright.targets.atlas.encoding import operand_range
from tilewright.targets.atlas.isa import MAX_OPERANDS, OPCODES, Opcode, Operand
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

MAX_INSTRUCTIONS = 1 << 24
MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Fixup:
    """An operand whose value is known only when all labels are."""

    slot: int  # row it belongs to
    operand: int  # which of its operands
    expression: Expression
    line: int


@dataclass(frozen=True, slots=True)
class Load:
    """A `li` of a number that depends on labels, and so may take one word or two."""

    slot: int
    register: int
    expression: Expression
    line: int


@dataclass
class Unit:
    """Everything read so far. A slot is a row of `rows`; wide loads later become two rows."""

    profile: Profile
    source: str
    text: list[str]  # its lines
    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    fixups: list[Fixup] = field(default_factory=list)
    label_fixups: list[tuple[int, int, str, int]] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    errors: list[TilewrightError] = field(default_factory=list)
    symbols: Symbols = field(default_factory=Symbols)
    pending: list[str] = field(default_factory=list)  # labels that may turn out to name data
    data: DataBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.data = DataBuilder(self.profile)
        self.symbols.unit = self.profile.pc_step

    def place(self, line: int, column: int = 0) -> Location:
        return Location(self.source, line, column)

    def report(self, error: TilewrightError) -> bool:
        """Keep a mistake; True when there are so many that reading should stop."""
        self.errors.append(error)
        return len(self.errors) >= MAX_ERRORS

    def finish(self) -> Program:
        """The program; mistakes found here are added to `errors`."""
        data = []
        try:
            data = self.data.finish()
        except TilewrightError as error:
            self.report(error)
        wide = self._layout()
        addresses = self.symbols.addresses
        assert addresses is not None
        table = np.fromiter(chain.from_iterable(self.rows), np.int32, 5 * len(self.rows))
        table = table.reshape(-1, 1 + MAX_OPERANDS)
        lines = np.array(self.lines, np.int32)
        if wide:
            repeats = np.ones(len(self.rows), np.int64)
            repeats[sorted(wide)] = 2
            table, lines = np.repeat(table, repeats, axis=0), np.repeat(lines, repeats)
        for load in self.loads:
            self._fill_load(load, table, load.slot in wide)
        for slot, operand, name, line in self.label_fixups:
            symbol = self.symbols.table.get(name)
            if symbol is not None and symbol.kind == "code":
                own = addresses[slot]
                offset = 4 * (addresses[symbol.value] - own)
                if -4096 <= offset <= 4094:
                    table[own, 1 + operand] = offset
                    continue
            column = self.text[line - 1].rfind(name) + 1
            expression = Expression((("name", name, column),), column)
            self._fill(Fixup(slot, operand, expression, line), table)
            if len(self.errors) >= MAX_ERRORS:
                break
        for fixup in self.fixups:
            self._fill(fixup, table)
            if len(self.errors) >= MAX_ERRORS:
                break
        labels = {
            name: addresses[symbol.value]
            for name, symbol in self.symbols.table.items()
            if symbol.kind == "code"
        }
        operands = np.ascontiguousarray(table[:, 1:])
        return Program(table[:, 0].astype(np.uint8), operands, lines, self.source, labels, data)

    def _layout(self) -> set[int]:
        """Choose which loads take two words, and set the address of every slot.

        Loads start narrow and only grow, so this ends; a load that grew stays wide even
        if its final number would have fitted.
        """
        count = len(self.rows)
        wide: set[int] = set()
        addresses = list(range(count + 1))
        self.symbols.set_addresses(addresses)
        narrow = self.loads
        for attempt in range(8):
            grown = []
            for load in narrow:
                if attempt == 7 or self._needs_two(load):
                    grown.append(load.slot)
            if not grown:
                break
            wide.update(grown)
            narrow = [load for load in narrow if load.slot not in wide]
            sizes = np.ones(count + 1, np.int64)
            sizes[sorted(wide)] = 2
            addresses = (np.cumsum(sizes) - sizes).tolist()
            self.symbols.set_addresses(addresses)
        return wide

    def _needs_two(self, load: Load) -> bool:
        try:
            value = self.symbols.evaluate(load.expression, self.place(load.line), load.slot)
        except TilewrightError:
            return False  # reported when the load is filled
        return words_of_load(value.number) == 2

    def _fill_load(self, load: Load, table: np.ndarray, wide: bool) -> None:
        place = self.place(load.line, load.expression.column)
        try:
            value = self.symbols.evaluate(load.expression, self.place(load.line), load.slot)
            check_load(value.number, place)
        except TilewrightError as error:
            self.report(error)
            return
        assert self.symbols.addresses is not None
        at = self.symbols.addresses[load.slot]
        for offset, row in enumerate(load_number(load.register, value.number, wide)):
            table[at + offset] = row

    def _fill(self, fixup: Fixup, table: np.ndarray) -> None:
        assert self.symbols.addresses is not None
        own = self.symbols.addresses[fixup.slot]
        row = OPCODES[table[own, 0]]
        place = self.place(fixup.line, fixup.expression.column)
        try:
            number = self._operand_value(fixup, row, own)
            check_operand(row, row.operands[fixup.operand], number, place)
        except TilewrightError as error:
            self.report(error)
            return
        table[own, 1 + fixup.operand] = number

    def _operand_value(self, fixup: Fixup, row: Opcode, own: int) -> int:
        place = self.place(fixup.line)
        if not is_target(row, row.operands[fixup.operand]):
            return self.symbols.evaluate(fixup.expression, place, fixup.slot).number
        # Branch offsets count bytes on every profile, so addresses do here too.
        value = self.symbols.evaluate(fixup.expression, place, fixup.slot, unit=4)
        if value.weight not in (0, 1):
            raise TilewrightError(
                "TW1003",
                "a branch target is a label or a byte offset",
                self.place(fixup.line, fixup.expression.column),
                hint="this is neither an address in the code nor a distance",
            )
        return value.number - 4 * own if value.weight else value.number


def is_target(row: Opcode, operand: Operand) -> bool:
    """Whether an operand is an offset to a place in the code."""
    return (
        row.is_transfer
        and operand.immediate is not None
        and operand.immediate.name in ("branch13", "jump21")
    )


def check_load(value: int, place: Location) -> None:
    if not -(1 << 31) <= value < 1 << 32:
        raise TilewrightError(
            "TW1006", f"{value} does not fit into 32 bits", place, hint="li loads 32-bit numbers"
        )


def check_operand(row: Opcode, operand: Operand, value: int, place: Location) -> None:
    """Raise unless an instruction accepts a number."""
    low, high, step = operand_range(operand)
    if low <= value <= high and value % step == 0:
        return
    if low <= value <= high:
        raise TilewrightError(
            "TW1007",
            f"the offset {value} of {row.mnemonic} is odd",
            place,
            hint="instructions are 4 bytes each",
        )
    hint = None
    if is_target(row, operand):
        message = f"the target is {value} bytes away, {row.mnemonic} reaches {low} to {high}"
        if row.is_conditional:
            hint = "branch the other way around a jal to the target"
    else:
        message = f"{value} is out of range for {row.mnemonic}, which takes {low} to {high}"
        name = operand.immediate.name if operand.immediate else ""
        if name == "row12" and value < 0:
            hint = "tensor offsets count 32-byte rows and are not negative"
        elif name == "integer16":
            hint = "the number is an integer; only vli.all takes a bit pattern"
        elif row.mnemonic == "addi":
            hint = "li loads any 32-bit number"
        elif name == "shamt5":
            hint = "registers have 32 bits"
        elif name == "channel3":
            hint = "there are eight DMA channels"
        elif name == "delay12":
            hint = "use several delays for a longer wait"
    hint = hint or f"use a number from {low} to {high}, or put it into a register"
    raise TilewrightError("TW1006", message, place, hint)
