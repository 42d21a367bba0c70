"""Both machines on a sample of random programs; benchmarks/differential.py runs many more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from machine_cases import difference, minimise, random_case
from machine_programs import random_program

from tilewright.targets.atlas import machine as python_machine
from tilewright.targets.atlas import semantics
from tilewright.targets.atlas.native import NativeMachine

GROUPS, CASES = 12, 30


@pytest.mark.parametrize("group", range(GROUPS))
def test_machines_agree_on_random_programs(group: int) -> None:
    for seed in range(group * CASES, (group + 1) * CASES):
        assert difference(random_case(seed)) is None, f"seed {seed}"


def test_random_programs_reach_every_kind_of_end() -> None:
    """The sample would be worth little if all programs ended alike."""
    stops: Counter[str] = Counter()
    for seed in range(800):
        case = random_case(seed)
        machine = NativeMachine(case.profile, case.policy)
        machine.load(case.program)
        outcome = machine.run(max_cycles=5_000)
        stops[outcome.fault.kind if outcome.fault else outcome.reason] += 1
    assert {"end", "halt", "limit", "structural", "bank_conflict", "channel_busy"} <= set(stops)
    assert {"delay_slot", "pair_range", "bounds", "misaligned", "illegal"} <= set(stops)
    assert stops["end"] > 200


def test_random_programs_are_reproducible() -> None:
    profile = random_case(1).profile
    one, again, other = (random_program(seed, profile) for seed in (3, 3, 4))
    assert one.same_code(again) and one.data == again.data
    assert not one.same_code(other)


BROKEN_EFFECTS = ("addi", "vmatmul", "vload", "dma.load", "vadd.bf16", "seli")


@pytest.mark.parametrize("name", BROKEN_EFFECTS)
def test_a_wrong_effect_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(semantics.EFFECTS, name, lambda *_: None)
    assert any(difference(random_case(seed)) for seed in range(400))


def test_a_wrong_tick_is_noticed_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose channels clear one tick late: found, and shown by a few instructions."""
    original = python_machine.PythonMachine._accept_dma

    def late(self, op) -> None:
        original(self, op)
        self._channel_clear[op.operands[-1]] += 1

    monkeypatch.setattr(python_machine.PythonMachine, "_accept_dma", late)
    seeds = (seed for seed in range(60) if difference(random_case(seed)))
    case = replace(random_case(next(seeds)), stops=False)
    assert difference(case) is not None
    small = minimise(case)
    assert difference(small) is not None
    working = [i for i in small.program if i.opcode.mnemonic != "addi"]
    assert 1 <= len(working) <= 6
