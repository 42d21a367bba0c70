"""Tables and tiles of one number that kernels in one schedule share, where their rooms overlap."""

from __future__ import annotations

from tilewright.targets.atlas.codegen.join_routines import _Constants
from tilewright.targets.atlas.codegen.virtual import Code, Op, Register
from tilewright.targets.atlas.profile import load_profile


def _code() -> Code:
    return Code(load_profile("atlas-v1"))


def _table(code: Code, at: int) -> None:
    """A table that is made at a place and then read there."""
    half = code.half()
    code.emit("vli.all", half, 7)
    code.tables[at] = "table", 1024, [code.vstore(half, at)]


def _number(code: Code, at: int) -> Register:
    """A tile of one number: half of it filled, the other half by way of a place."""
    tile = code.tile()
    fill = code.emit("vli.all", tile.part(0), 9)
    code.fills[fill] = code.vstore(tile.part(0), at), code.vload(tile.part(1), at)
    return tile


def _loads(ops: list[Op]) -> dict[Register, list[int]]:
    """From where the parts of each register are loaded."""
    found: dict[Register, list[int]] = {}
    for op in ops:
        if op.opcode.mnemonic == "vload":
            found.setdefault(op.operands[0].register, []).append(op.ranges[0].start)  # type: ignore[union-attr]
    return found


def test_numbers_of_one_kernel_where_the_next_would_have_its_table():
    """Both are left out of the second kernel: its number is where its own table would be."""
    first, second = _code(), _code()
    _table(first, 0x400)
    _number(first, 0x6400)
    _table(second, 0x6400)
    table = second.half()
    second.vload(table, 0x6400)
    number = _number(second, 0x8000)
    constants = _Constants(False)
    constants.shared(first)
    loads = _loads(constants.shared(second))
    assert loads[table] == [0x400]
    assert loads[number] == [0x6400, 0x6400]


def test_a_table_that_the_next_kernel_writes_over_is_made_again():
    first, second = _code(), _code()
    _table(first, 0x400)
    second.dma_load(0x700, 0, 32)
    _table(second, 0x6400)
    table = second.half()
    second.vload(table, 0x6400)
    constants = _Constants(False)
    constants.shared(first)
    ops = constants.shared(second)
    assert _loads(ops)[table] == [0x6400]
    assert any(op.opcode.mnemonic == "vstore" for op in ops)


def test_a_number_that_is_written_over_between_both_halves():
    first, second = _code(), _code()
    _number(first, 0x400)
    tile = second.tile()
    fill = second.emit("vli.all", tile.part(0), 9)
    store = second.vstore(tile.part(0), 0x6400)
    second.dma_load(0x400, 0, 64)
    second.fills[fill] = store, second.vload(tile.part(1), 0x6400)
    constants = _Constants(False)
    constants.shared(first)
    names = [op.opcode.mnemonic for op in constants.shared(second)]
    assert names == ["vload", "vload", "dma.load"]
