"""Registers given out and taken back, in straight code and on the circle of a modulo schedule."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.list_schedule import PAIRS, Schedule, Setting, schedule
from tilewright.targets.atlas.codegen.modulo_registers import assign, lifetimes
from tilewright.targets.atlas.codegen.tuning import TUNING, tuned
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.profile import Profile, load_profile

PROFILES = ("atlas-v0", "atlas-v1")


def tile(size: int = 2) -> Register:
    return Register(Kind.M, size)


# --- straight code ----------------------------------------------------------------------------


def random_code(profile: Profile, seed: int) -> Code:
    """Loads, products, sums and stores of tiles all over VMEM, with transfers between them."""
    choose = random.Random(seed)
    code = Code(profile)
    whole = [code.tile() for _ in range(3)]
    narrow = [code.half() for _ in range(3)]
    for register in (*whole, *narrow):
        for part in range(register.size):
            code.vload(register.part(part), 1024 * choose.randrange(500))
    for _ in range(choose.randrange(20, 120)):
        kind = choose.randrange(6)
        at = 1024 * choose.randrange(500)
        if kind == 0:
            whole.append(code.tile())
            code.emit("vadd.bf16", whole[-1], choose.choice(whole[:-1]), choose.choice(whole[:-1]))
        elif kind == 1:
            narrow.append(code.half())
            scale = code.scale(choose.randrange(100, 150))
            code.emit("vpack.bf16.fp8", narrow[-1], choose.choice(whole), scale)
        elif kind == 2:
            unit = choose.randrange(2)
            weight, total = code.weight(unit), code.accumulator(unit)
            code.emit(f"vmatpush.weight.mxu{unit}", weight, choose.choice(narrow))
            code.emit(f"vmatmul.mxu{unit}", total, choose.choice(narrow), weight)
            whole.append(code.tile())
            code.emit(f"vmatpop.bf16.acc.mxu{unit}", whole[-1], total)
        elif kind == 3:
            code.vstore(choose.choice(narrow), at)
        elif kind == 4:
            code.dma_load(at, 4096 * choose.randrange(1 << 16), 1024 * choose.randrange(1, 4))
        else:
            code.dma_store(4096 * choose.randrange(1 << 16), at, 1024)
    return code


def constants_are_there(result: Schedule, at_start: Constants) -> None:
    """Follow the scalar instructions: what an instruction reads as a constant is that number."""
    nodes = {tick: node for node, tick, _ in result.dispatched}
    x, e = dict(at_start.x), dict(at_start.e)
    ticks = [issue.tick for issue in result.issues]
    assert ticks == sorted(set(ticks))
    for issue in result.issues:
        operands = issue.instruction.operands
        if issue.tick not in nodes:
            name, (place, *rest) = issue.instruction.opcode.mnemonic, operands
            if name == "seli":
                e[place] = rest[0]
            elif name == "lui":
                x[place] = rest[0] << 12
            else:
                assert name == "addi" and place != 0
                x[place] = (x[rest[0]] + rest[1]) & 0xFFFFFFFF
            continue
        for value, place in zip(nodes[issue.tick].op.operands, operands, strict=True):
            if isinstance(value, Part) and value.register.constant is not None:
                held = x if value.register.kind is Kind.X else e
                assert held[place] == value.register.constant


def registers_are_apart(result: Schedule) -> None:
    """From its first access to the end of its last, a register is nobody else's."""
    spans: dict[Register, tuple[int, int]] = {}
    for node, tick, done in result.dispatched:
        for register, *_ in node.rows:
            first, last = spans.get(register, (tick, done))
            spans[register] = (min(first, tick), max(last, done))
    taken: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for register, span in spans.items():
        if register.kind is Kind.X:
            continue
        for place in range(result.places[register], result.places[register] + register.size):
            taken[register.kind, register.unit, place].append(span)
    for uses in taken.values():
        uses.sort()
        assert all(last <= first for (_, last), (first, _) in pairwise(uses))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(12))
def test_registers_and_constants_of_random_code(profile: str, seed: int) -> None:
    setting = Setting(idle=seed % 2 == 0)
    start = Constants(dict(setting.constants.x))
    result = schedule(random_code(load_profile(profile), seed), setting, spread=seed % 3)
    assert len(result.issues) >= len(result.dispatched) > 20
    registers_are_apart(result)
    constants_are_there(result, start)


def test_later_code_finds_the_constants_of_earlier_code() -> None:
    setting = Setting()
    profile = load_profile("atlas-v1")
    for seed in range(3):
        start = Constants(dict(setting.constants.x), dict(setting.constants.e))
        constants_are_there(schedule(random_code(profile, seed), setting), start)
    assert len(setting.constants.x) > 8


def test_halves_share_a_pair() -> None:
    code = Code(load_profile("atlas-v1"))
    a, b, c = code.half(), code.half(), code.tile()
    for register in (a, b, c):
        for part in range(register.size):
            code.vload(register.part(part), 0)
    for register in (a, b, c):
        for part in range(register.size):
            code.vstore(register.part(part), 4096)
    places = schedule(code).places
    assert places[a] // 2 == places[b] // 2 != places[c] // 2 and places[c] % 2 == 0


def test_the_file_ends_after_its_pairs() -> None:
    for count, fits in ((PAIRS, True), (PAIRS + 1, False)):
        code = Code(load_profile("atlas-v1"))
        tiles = [code.tile() for _ in range(count)]
        for register in (*tiles, *tiles):
            store = register in tiles and len(code.ops) >= 2 * count
            for part in range(2):
                (code.vstore if store else code.vload)(register.part(part), 1024 * part)
        if fits:
            assert sorted(schedule(code).places.values()) == list(range(0, 64, 2))
        else:
            with pytest.raises(TilewrightError, match="more tensor registers"):
                schedule(code)


def test_carried_registers_are_never_given_out() -> None:
    code = Code(load_profile("atlas-v1"))
    held, a = tile(), code.tile()
    for part in range(2):
        code.vload(a.part(part), 1024 * part)
    code.emit("vadd.bf16", a, a, held)
    result = schedule(code, Setting(carried={held: 0}))
    assert result.places == {held: 0, a: 2}


# --- modulo placement -------------------------------------------------------------------------


def placed(spans: dict[Register, tuple[int, int]], interval: int) -> Any:
    """A placement in which each value is touched at the start and the end of its span."""
    at: dict[Any, int] = {}
    touches: dict[Register, list[Any]] = {}
    for register, (start, end) in spans.items():
        first, last = SimpleNamespace(latency=1), SimpleNamespace(latency=1)
        keys = [_Step(first), _Step(last)]
        at[keys[0]], at[keys[1]] = start, end - 1
        touches[register] = keys
    return SimpleNamespace(interval=interval, at=at, graph=SimpleNamespace(touches=touches))


class _Step:
    def __init__(self, row: Any) -> None:
        self.latency = row.latency


def test_values_that_never_overlap_share_a_register() -> None:
    a, b = tile(), tile()
    found = assign(placed({a: (0, 10), b: (10, 20)}, 20), {})
    assert lifetimes(placed({a: (0, 10)}, 20)) == {a: (0, 10)}
    assert found is not None and found[a] == found[b]


def test_a_value_that_wraps_around_meets_the_next_iteration() -> None:
    a, b = tile(), tile()
    found = assign(placed({a: (15, 25), b: (2, 6)}, 20), {})  # a is alive from 0 to 5 as well
    assert found is not None and found[a] != found[b]


def test_as_many_values_as_registers_and_not_one_more() -> None:
    full = {tile(): (0, 20) for _ in range(32)}
    found = assign(placed(full, 20), {})
    assert found is not None and sorted(found.values()) == list(range(0, 64, 2))
    assert assign(placed({**full, tile(1): (3, 4)}, 20), {}) is None
    assert assign(placed(full, 20), {tile(): 0}) is None


# --- tuning -----------------------------------------------------------------------------------


def test_settings_hold_for_a_block_and_go_back() -> None:
    before = TUNING.body_instructions
    with tuned(body_instructions=5):
        assert TUNING.body_instructions == 5
    assert TUNING.body_instructions == before
    for wrong in ({"no_such": 1}, {"body_instructions": -1}):
        with pytest.raises(TilewrightError, match="no setting"), tuned(**wrong):
            pass
    assert TUNING.body_instructions == before
