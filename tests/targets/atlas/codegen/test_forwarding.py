"""Tiles that stay in registers from one kernel to the next: only what memory would give back."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.codegen.forwarding import forwarded
from tilewright.targets.atlas.codegen.virtual import Code, Op, Register
from tilewright.targets.atlas.profile import load_profile

PLACE = 0x4000


class Kernels:
    """Instructions of several kernels, one after the other."""

    def __init__(self) -> None:
        self.code = Code(load_profile("atlas-v1"))
        self.owner: dict[Op, int] = {}
        self.kernel = 0

    def next(self) -> None:
        self._note()
        self.kernel += 1

    def _note(self) -> None:
        for op in self.code.ops:
            self.owner.setdefault(op, self.kernel)

    def stored(self, tile: Register, at: int = PLACE) -> None:
        for part in range(tile.size):
            self.code.vstore(tile.part(part), at + part * 1024)

    def loaded(self, tile: Register, at: int = PLACE) -> Register:
        for part in range(tile.size):
            self.code.vload(tile.part(part), at + part * 1024)
        return tile

    def made(self) -> Register:
        """A tile that some instruction has made."""
        tile = self.code.tile()
        self.code.emit("vexp.bf16", tile, self.loaded(self.code.tile(), 0))
        return tile

    def used(self, tile: Register) -> Op:
        result = self.code.tile()
        return self.code.emit("vtanh.bf16", result, tile)

    def forwarded(self, reach: int = 2) -> list[Op]:
        self._note()
        return [op for op, _ in forwarded(self.code.ops, self.owner, self.code.profile, reach)]


def _read(ops: list[Op]) -> Register:
    (last,) = (op for op in ops if op.opcode.mnemonic == "vtanh.bf16")
    return last.operands[1].register  # type: ignore[union-attr]


def _loads(ops: list[Op]) -> int:
    return sum(op.opcode.mnemonic == "vload" for op in ops)


def test_the_next_kernel_reads_the_register():
    k = Kernels()
    tile = k.made()
    k.stored(tile)
    k.next()
    k.used(k.loaded(k.code.tile()))
    ops = k.forwarded()
    assert _read(ops) is tile and _loads(ops) == 2
    assert sum(op.opcode.mnemonic == "vstore" for op in ops) == 2  # others may read the place


def test_from_kernel_to_kernel_it_is_the_first_register():
    k = Kernels()
    tile = k.made()
    k.stored(tile)
    k.next()
    between = k.loaded(k.code.tile())
    k.stored(between, 0x8000)
    k.next()
    k.used(k.loaded(k.code.tile(), 0x8000))
    assert _read(k.forwarded()) is tile


def _overwritten_by_a_store(k: Kernels, tile: Register) -> None:
    other = k.code.half()
    k.code.vload(other, 0)
    k.code.vstore(other, PLACE + 1024 + 32)  # not at the same place, but over its end


def _overwritten_by_a_transfer(k: Kernels, tile: Register) -> None:
    k.code.dma_load(PLACE + 992, 0, 32)


def _register_written_again(k: Kernels, tile: Register) -> None:
    k.code.emit("vexp.bf16", tile, k.loaded(k.code.tile(), 0))


def _two_tiles_in_one_place(k: Kernels, tile: Register) -> None:
    other = k.code.tile()
    k.code.emit("vexp.bf16", other, tile)
    k.code.vstore(other.part(1), PLACE + 1024)


@pytest.mark.parametrize(
    "change",
    [
        _overwritten_by_a_store,
        _overwritten_by_a_transfer,
        _register_written_again,
        _two_tiles_in_one_place,
    ],
)
def test_what_has_changed_is_loaded(change):
    k = Kernels()
    tile = k.made()
    k.stored(tile)
    k.next()
    change(k, tile)
    before = k.loaded(k.code.tile())
    k.used(before)
    assert _read(k.forwarded()) is before


def test_halves_from_other_places_are_loaded():
    k = Kernels()
    k.stored(k.made())
    k.next()
    tile = k.code.tile()
    k.code.vload(tile.part(0), PLACE + 1024)  # the right half on the left
    k.code.vload(tile.part(1), PLACE)
    k.used(tile)
    assert _read(k.forwarded()) is tile


@pytest.mark.parametrize(
    ("kernels", "reach", "stays"), [(0, 2, False), (2, 2, True), (3, 2, False)]
)
def test_not_within_a_kernel_and_not_for_long(kernels, reach, stays):
    k = Kernels()
    made = k.made()
    k.stored(made)
    for _ in range(kernels):
        k.next()
    k.used(k.loaded(k.code.tile()))
    assert (_read(k.forwarded(reach)) is made) == stays


def test_a_register_that_other_instructions_write_too_is_loaded():
    k = Kernels()
    k.stored(k.made())
    k.next()
    tile = k.loaded(k.code.tile())
    k.code.emit("vli.all", tile.part(1), 0)
    k.used(tile)
    assert _read(k.forwarded()) is tile
